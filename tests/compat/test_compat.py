"""The name MNN in programs that are run with Minnow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
import MNN
import MNN.numpy as np
import MNN.expr as F
from MNN import nn
import minnow

assert MNN.expr is F is minnow.expr and MNN.nn is nn is minnow.nn and MNN.numpy is np
assert F.__name__ == "minnow.expr" and F.__spec__.name == "minnow.expr"
assert MNN.Interpreter is minnow.Interpreter and MNN.Session is not minnow.Session
assert MNN.Halide_Type_Float.dtype == "float32" and MNN.CV_Filter_BICUBIC == 2
assert {"Interpreter", "Tensor", "nn", "CV_Wrap_ZERO"} <= set(dir(MNN))
try:
    import MNN.tools
except ModuleNotFoundError as error:
    assert "no counterpart of MNN.tools" in str(error)
try:
    MNN.nope
except AttributeError as error:
    assert "'nope'" in str(error)
print(__name__, sys.argv[1:])
"""


def run(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, cwd=folder, check=False)


def test_a_script_runs_with_minnow(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import beside\n" + PROGRAM)
    (tmp_path / "beside.py").write_text("import MNN\nassert MNN.version() == '3.6.1'\n")
    done = run("-m", "minnow.compat", "script.py", "--flag", "x", folder=tmp_path)
    assert done.stderr == ""
    assert done.stdout == "__main__ ['--flag', 'x']\n"


def test_install_gives_the_name(tmp_path: Path) -> None:
    source = "import minnow.compat\nminnow.compat.install()\nminnow.compat.install()\n" + PROGRAM
    assert run("-c", source, folder=tmp_path).stderr == ""


def test_an_imported_mnn_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "MNN.py").write_text("")
    done = run("-c", "import MNN, minnow.compat\nminnow.compat.install()", folder=tmp_path)
    assert "MNN has been imported already" in done.stderr
    shadowed = run("-c", "import minnow.compat\nminnow.compat.install()\nimport MNN\nMNN.nn", folder=tmp_path)
    assert shadowed.returncode == 0


@pytest.mark.parametrize(("words", "code"), [(["--help"], 0), ([], 2), (["missing.py"], 2)])
def test_the_command_says_how_it_is_used(words: list[str], code: int, tmp_path: Path) -> None:
    done = run("-m", "minnow.compat", *words, folder=tmp_path)
    assert done.returncode == code
    assert "python -m minnow.compat SCRIPT" in done.stdout + done.stderr


def test_the_exit_code_and_errors_of_a_script_are_its_own(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import sys\nsys.exit(7)\n")
    assert run("-m", "minnow.compat", "script.py", folder=tmp_path).returncode == 7
    (tmp_path / "script.py").write_text("import MNN\nMNN.Interpreter('missing.mnn')\n")
    done = run("-m", "minnow.compat", "script.py", folder=tmp_path)
    assert done.returncode == 1
    assert "FormatError" in done.stderr
