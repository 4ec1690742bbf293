"""The README's commands as who has just installed Minnow runs them: from the wheel, on a terminal, nothing beside it.

MINNOW_PACKAGE is the folder of programs of an environment that has the wheel and what a plain `pip install` brings with
it. `./dev package` makes it and runs these tests.
"""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
DIGITS, IMAGES = ROOT / "examples" / "digits" / "digits.onnx", ROOT / "examples" / "digits" / "digits_test.npz"
PROGRAMS = Path(os.environ.get("MINNOW_PACKAGE", ""))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("MINNOW_PACKAGE" not in os.environ, reason="`./dev package` makes the environment"),
]


def on_terminal(folder: Path, program: str, *arguments: str | Path) -> tuple[int, str]:
    """The exit code of a program of the environment, and all that it shows on a terminal of its own."""
    outer, inner = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40", "PATH": str(PROGRAMS)}
    environment = {k: v for k, v in environment.items() if not k.startswith(("PYTHON", "PYTEST", "CI", "NO_COLOR"))}
    command = [str(PROGRAMS / program), *map(str, arguments)]
    process = subprocess.Popen(command, cwd=folder, env=environment, stdin=inner, stdout=inner, stderr=inner)
    os.close(inner)
    shown = bytearray()
    while True:
        try:
            part = os.read(outer, 65536)
        except OSError:  # how Linux says that nobody has the other end open any more
            break
        if not part:
            break
        shown += part
    os.close(outer)
    return process.wait(timeout=60), shown.decode(errors="replace").replace("\r\n", "\n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the model that the README converts, and what it becomes."""
    folder = tmp_path_factory.mktemp("new")
    shutil.copy(DIGITS, folder / "digits.onnx")
    np.savez(folder / "two.npz", image=np.load(IMAGES)["images"][:2])
    code, shown = on_terminal(folder, "mnnconvert", "digits.onnx", "-o", "digits.mnn")
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
    ["inspect", "digits.mnn"],
    ["inspect", "digits.onnx", "digits.mnn"],
    ["inspect", "digits.mnn", "--svg", "digits.svg"],
    ["check", "digits.onnx"],
    ["ops"],
    ["ops", "-f", "onnx"],
    ["ops", "-f", "torch"],
    ["ops", "--passes"],
    ["completion", "bash"],
    ["optimize", "digits.mnn", "-o", "small.mnn"],
    ["benchmark", "digits.mnn", "--runs", "5"],
    ["benchmark", "digits.mnn", "--runs", "5", "--profile"],
    ["benchmark", "digits.mnn", "--compare-python", sys.executable, "--starts", "6", "--runs", "12"],
    ["debug", "bisect", "digits.onnx"],
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


@pytest.mark.parametrize(
    ("name", "content", "package"),
    [
        ("module.pt", {"archive/data.pkl": b"", "archive/constants.pkl": b"", "archive/code/a.py": b""}, "torch"),
        ("model.keras", {"config.json": b"{}", "metadata.json": b"{}", "model.weights.h5": b""}, "tensorflow"),
    ],
)
def test_a_format_that_needs_more_says_what_to_install(
    folder: Path, name: str, content: dict[str, bytes], package: str
) -> None:
    with zipfile.ZipFile(folder / name, "w") as file:
        for path, data in content.items():
            file.writestr(path, data)
    code, shown = on_terminal(folder, "mnnconvert", name, "-o", "no.mnn")
    assert code in (2, 3), shown
    assert "Traceback" not in shown
    assert f"minnow[{package}]" in shown
    assert not (folder / "no.mnn").exists()


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
