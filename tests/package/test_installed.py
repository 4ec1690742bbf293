"""The README's commands as who has just installed Minnow runs them: from the wheel, on a terminal, nothing beside it.

`./dev package` and `./dev wheels` run these tests.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from package_terminal import PROGRAMS, in_an_environment, on_terminal

ROOT = Path(__file__).parents[2]
STORIES = ROOT / "tests" / "models" / "stories260K.gguf"
PIPELINE = ROOT / "tests" / "diffusion" / "tiny"
DIGITS, IMAGES = ROOT / "examples" / "digits" / "digits.onnx", ROOT / "examples" / "digits" / "digits_test.npz"
pytestmark = in_an_environment


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the model that the README converts, and what it becomes."""
    folder = tmp_path_factory.mktemp("new")
    shutil.copy(DIGITS, folder / "digits.onnx")
    np.savez(folder / "two.npz", image=np.load(IMAGES)["images"][:2])
    (folder / "minnow.toml").write_text('[models.digits]\nsource = "digits.onnx"\n')
    shutil.copy(STORIES, folder / "stories.gguf")
    shutil.copytree(PIPELINE, folder / "pipeline")
    first = (
        ["digits.onnx", "-o", "digits.mnn"],
        ["ci", "--report", "json=report.json"],
        ["stories.gguf", "-o", "stories"],
        ["pipeline", "-o", "pictures"],
    )
    for arguments in first:
        code, shown = on_terminal(folder, "mnnconvert", *arguments)
        assert code == 0, shown
    return folder


def test_nothing_else_is_there() -> None:
    source = "import importlib.util as u; print([m for m in {} if u.find_spec(m)])"
    others = ["onnxruntime", "torch", "tensorflow", "cv2", "ai_edge_litert", "pytest", "pip", "scipy"]
    code, shown = on_terminal(ROOT.parent, "python", "-c", source.format(others))
    assert (code, shown.strip()) == (0, "[]")


COMMANDS = [
    ["--help"],
    ["--version"],
    ["digits.onnx", "-o", "again.mnn"],
    ["convert", "digits.onnx", "-o", "again.mnn", "--target", "minnow", "--check-each", "--stats"],
    ["convert", "digits.onnx", "-o", "again.mnn", "--explain", "fuse_conv_bn"],
    ["-f", "ONNX", "--modelFile", "digits.onnx", "--MNNModel", "again.mnn"],
    ["verify", "digits.onnx", "digits.mnn"],
    ["verify", "digits.onnx", "digits.mnn", "--data", "two.npz"],
    ["run", "digits.mnn"],
    ["run", "digits.mnn", "--data", "two.npz", "-o", "results.npz"],
    ["json", "digits.mnn", "-o", "digits.json"],
    ["inspect", "digits.mnn"],
    ["inspect", "digits.onnx", "digits.mnn"],
    ["inspect", "digits.mnn", "--svg", "digits.svg"],
    ["report", "digits.mnn", "digits.onnx", "-o", "digits.html", "--runs", "5"],
    ["check", "digits.onnx"],
    ["ops"],
    ["ops", "-f", "onnx"],
    ["ops", "-f", "torch"],
    ["ops", "--passes"],
    ["completion", "bash"],
    ["optimize", "digits.mnn", "-o", "small.mnn"],
    ["quantize", "digits.onnx", "-o", "few.mnn", "--weights", "int4"],
    ["benchmark", "digits.mnn", "--runs", "5"],
    ["benchmark", "digits.mnn", "--runs", "5", "--profile"],
    ["benchmark", "digits.mnn", "--compare-python", sys.executable, "--starts", "6", "--runs", "12"],
    ["debug", "bisect", "digits.onnx"],
    ["ci"],
    ["diff", "report.json", "report.json"],
    ["fleet", "minnow.toml", "--store", "store"],
    ["diffusion", "run", "pictures", "-p", "a red boat", "--steps", "2", "-o", "boat.png"],
    ["llm", "run", "stories", "-p", "Once upon a time", "--max-tokens", "8"],
]


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_command_works_on_a_terminal(folder: Path, arguments: list[str]) -> None:
    code, shown = on_terminal(folder, "mnnconvert", *arguments)
    assert code == 0, shown
    assert "Traceback" not in shown
    assert "bug in Minnow" not in shown
    assert shown.strip() or arguments[0] == "inspect"  # which says nothing when it has drawn


def test_the_manual_pages_are_installed() -> None:
    folder = PROGRAMS.parent / "share" / "man" / "man1"
    names = {path.name for path in (ROOT / "docs" / "man").glob("*.1")}
    assert names
    assert {path.name for path in folder.iterdir()} == names
    if shutil.which("man"):
        environment = {**os.environ, "PATH": f"{PROGRAMS}:{os.environ['PATH']}"}
        done = subprocess.run(["man", "-w", "mnnconvert"], capture_output=True, text=True, env=environment, check=True)
        assert Path(done.stdout.strip()) == folder / "mnnconvert.1"


def test_every_command_is_tried() -> None:
    _, shown = on_terminal(ROOT.parent, "mnnconvert", "--help")
    listed = shown.partition("Commands:\n")[2].partition("\n\n")[0]
    names = {line.split()[0] for line in listed.splitlines() if line.startswith("  ") and line[2] != " "}
    assert len(names) >= 9
    assert names <= {arguments[0] for arguments in COMMANDS}


def test_the_judge_is_named_where_the_source_runtime_is_missing(folder: Path) -> None:
    code, shown = on_terminal(folder, "mnnconvert", "verify", "digits.onnx", "digits.mnn")
    assert code == 0
    assert "onnxruntime is not installed" in shown
    assert "numpy" in shown


def test_errors_reach_the_terminal(folder: Path) -> None:
    (folder / "broken.onnx").write_bytes(b"no model")
    for arguments, want in ((["absent.onnx", "-o", "x.mnn"], {2, 6}), (["broken.onnx", "-o", "x.mnn"], {6})):
        code, shown = on_terminal(folder, "mnnconvert", *arguments)
        assert code in want, shown
        assert "Traceback" not in shown
        assert arguments[0] in shown


PROGRAM = """
import json, numpy as np, minnow
report = minnow.convert("digits.onnx", output="api.mnn", inputs={"image": (1, 1, 8, 8)})
session = minnow.load("api.mnn", threads=2)
images = np.load("two.npz")["image"][:1]
import onnx, minnow.backend
model = minnow.backend.prepare(onnx.load("digits.onnx"))
print(json.dumps([session.run({"image": images})["probability"].tolist(), np.asarray(model.run([images])[0]).tolist()]))
"""


def test_the_package_works_as_the_readme_shows(folder: Path) -> None:
    code, shown = on_terminal(folder, "python", "-c", PROGRAM)
    assert code == 0, shown
    ours, backend = json.loads(shown.strip().splitlines()[-1])
    np.testing.assert_allclose(ours, backend, atol=1e-5)
