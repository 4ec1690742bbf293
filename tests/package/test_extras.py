"""A plain `pip install` and a model of each format: what works without more, and what is said about the rest.

Each file was written by the library that defines its format.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from package_terminal import in_an_environment, on_terminal

ROOT = Path(__file__).parents[2]
WORKER = Path(__file__).with_name("formats_worker.py")
pytestmark = in_an_environment


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model in each format. Several environments are tested one after the other: the files are kept."""
    kept = ROOT / "build" / "formats"
    kept.mkdir(parents=True, exist_ok=True)
    with (kept / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = kept / "done"
        if not done.exists() or done.read_text() != WORKER.read_text():
            shutil.rmtree(kept / "files", ignore_errors=True)
            (kept / "files").mkdir()
            environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests/converter/caffe")}
            command = [sys.executable, WORKER, kept / "files"]
            made = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            assert made.returncode == 0, made.stderr[-4000:]
            done.write_text(WORKER.read_text())
    copy = tmp_path_factory.mktemp("formats") / "files"
    shutil.copytree(kept / "files", copy)
    shutil.copy(ROOT / "examples/digits/digits.onnx", copy)
    return copy


@pytest.mark.parametrize(
    ("model", "runtime", "extra"),
    [
        ("archive.pt2", "PyTorch", "torch"),
        ("digits.onnx", "onnxruntime", "verify"),
        ("frozen.pb", "tensorflow", "tensorflow"),
        ("net.prototxt", "OpenCV", "verify"),
        ("network.tflite", "LiteRT", "verify"),
        ("saved_model", "tensorflow", "tensorflow"),
    ],
)
def test_a_format_is_read_without_its_library(folder: Path, model: str, runtime: str, extra: str) -> None:
    output = f"{model}.mnn"
    code, shown = on_terminal(folder, "mnnconvert", model, "-o", output)
    assert code == 0, shown
    assert "PASS" in shown
    assert f"{runtime} is not installed (pip install 'minnow[{extra}]'): compared with the numpy" in " ".join(
        shown.split()
    )
    assert (folder / output).exists()


@pytest.mark.parametrize("command", ["convert", "check", "inspect"])
@pytest.mark.parametrize(
    ("model", "extra", "exit_code"),
    [("script.pt", "torch", 2), ("network.keras", "tensorflow", 3), ("network.h5", "tensorflow", 3)],
)
def test_a_format_that_needs_its_library_says_so(
    folder: Path, command: str, model: str, extra: str, exit_code: int
) -> None:
    output = ["-o", "no.mnn"] if command == "convert" else []
    code, shown = on_terminal(folder, "mnnconvert", command, model, *output)
    assert "Traceback" not in shown
    assert "not installed" in shown
    assert f"pip install 'minnow[{extra}]'" in shown
    assert code == exit_code
    assert not (folder / "no.mnn").exists()


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["convert", "digits.onnx", "-o", "no.mnn", "--data", "photo.png"], "verify"),
        (["verify", "digits.onnx", "good.mnn", "--data", "photo.png"], "verify"),
        (["benchmark", "good.mnn", "--source", "digits.onnx", "--against", "onnxruntime"], "verify"),
        (["benchmark", "good.mnn", "--source", "digits.onnx", "--against", "openvino"], "peers"),
        (["benchmark", "good.mnn", "--source", "network.tflite", "--against", "litert"], "verify"),
        (["benchmark", "good.mnn", "--against", "mnn"], "peers"),
        (["benchmark", "good.mnn", "--against", "ncnn"], "peers"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_an_option_that_needs_more_says_what(folder: Path, arguments: list[str], extra: str) -> None:
    if not (folder / "good.mnn").exists():
        code, shown = on_terminal(folder, "mnnconvert", "digits.onnx", "-o", "good.mnn", "--no-verify")
        assert code == 0, shown
    code, shown = on_terminal(folder, "mnnconvert", *arguments)
    assert "Traceback" not in shown
    assert f"pip install 'minnow[{extra}]'" in " ".join(shown.split())
    assert code == 2
    assert not (folder / "no.mnn").exists()
