"""An op of a user: converted by `--op-plugin`, run by a library in C that MINNOW_PLUGINS names."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from minnow.cli._app import run

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples/custom_op"
RUN = """
import sys, numpy as np, minnow
path, where = sys.argv[1:]
session = minnow.load(path, threads=1)
with np.load(where) as given:
    for n in (3, 5):
        got = session.run({"x": given["x"][:n], "y": given["y"]})["z"]
        want = 1 + ((given["x"][:n, None] - given["y"][None]) ** 2).sum(-1)
        np.testing.assert_allclose(got, want, 1e-5)
print("alike")
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    made = tmp_path_factory.mktemp("op") / "libdistance.so"
    flags = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-O2", "-shared", "-fPIC"]
    command = [compiler, *flags, f"-I{ROOT}/runtime/include", EXAMPLE / "distance.c", "-o", made, "-lm"]
    subprocess.run(command, check=True)
    return made


@pytest.fixture
def source(tmp_path: Path) -> Path:
    f32 = TensorProto.FLOAT
    nodes = [
        helper.make_node("Distance", ["x", "y"], ["d"], domain="com.example", squared=1),
        helper.make_node("Add", ["d", "one"], ["z"]),
    ]
    inputs = [helper.make_tensor_value_info(n, f32, s) for n, s in (("x", ["N", 4]), ("y", [2, "K"]))]
    one = onnx.numpy_helper.from_array(np.float32(1), "one")
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("z", f32, ["N", 2])], [one])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def execute(model: Path, folder: Path, plugins: str) -> subprocess.CompletedProcess[str]:
    rng = np.random.default_rng(0)
    np.savez(folder / "in.npz", x=rng.random((5, 4), np.float32), y=rng.random((2, 4), np.float32))
    command = [sys.executable, "-c", RUN, model, folder / "in.npz"]
    return subprocess.run(command, env={**os.environ, "MINNOW_PLUGINS": plugins}, capture_output=True, text=True,
                          check=False)  # fmt: skip


def test_the_example(source: Path, library: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "m.mnn"
    convert = ["convert", str(source), "-o", str(target), "--no-verify"]
    assert run([*convert, "--op-plugin", str(EXAMPLE / "distance.py"), "--strict-target"]) == 3
    assert "Distance has no form in the format: 1 node: d" in capsys.readouterr().err
    assert run([*convert, "--op-plugin", str(EXAMPLE / "distance.py")]) == 0
    done = execute(target, tmp_path, str(library))
    assert done.stdout == "alike\n", done.stderr
    done = execute(target, tmp_path, "")
    assert "Distance" in done.stderr
    assert "UnsupportedError" in done.stderr
    done = execute(target, tmp_path, str(source))
    assert "MINNOW_PLUGINS names a library that cannot be opened" in done.stderr


def test_a_conversion_is_verified_by_the_numbers_of_the_module(source: Path, library: Path, tmp_path: Path) -> None:
    arguments = ["convert", str(source), "-o", str(tmp_path / "m.mnn"), "--op-plugin", str(EXAMPLE / "distance.py")]
    command = [sys.executable, "-m", "minnow", *arguments, "--input", "y=2,4"]
    environment = {**os.environ, "MINNOW_PLUGINS": str(library)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "against numpy reference" in done.stdout
    assert "PASS  z" in done.stdout


def test_what_the_op_refuses_is_an_error(source: Path, library: Path, tmp_path: Path) -> None:
    target = tmp_path / "m.mnn"
    arguments = ["convert", str(source), "-o", str(target), "--no-verify"]
    assert run([*arguments, "--op-plugin", str(EXAMPLE / "distance.py")]) == 0
    program = (
        "import sys, numpy as np, minnow\n"
        "m = minnow.load(sys.argv[1], threads=1)\n"
        "m.run({'x': np.zeros((2, 4), np.float32), 'y': np.zeros((2, 3), np.float32)})\n"
    )
    environment = {**os.environ, "MINNOW_PLUGINS": str(library)}
    done = subprocess.run(
        [sys.executable, "-c", program, target], env=environment, capture_output=True, text=True, check=False
    )
    assert "Distance: the rows of the two matrices have different lengths" in done.stderr
    assert "ModelError" in done.stderr


def test_a_plugin_that_fails_is_an_error(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("1 / 0\n")
    for plugin, said in ((broken, "ZeroDivisionError"), (tmp_path / "none.py", "an op plugin is a Python file")):
        assert run(["convert", str(source), "-o", str(tmp_path / "m.mnn"), "--op-plugin", str(plugin)]) == 2
        assert said in capsys.readouterr().err
    assert not (tmp_path / "m.mnn").exists()
