"""`mnnconvert convert --prepack`: the file beside the model, and what happens to it when something goes wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import minnow

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"
COMMAND = [sys.executable, "-c", "from minnow.cli import main; main()"]


def run(*args: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *map(str, args)], capture_output=True, text=True, check=False)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A layer of open size: what it packs is not known before it runs."""
    w = np.random.default_rng(0).normal(size=(40, 30)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 40])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 30])],
        [numpy_helper.from_array(w, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    return path


@pytest.mark.sampled(3)
@pytest.mark.parametrize("verify", [(), ("--no-verify",), ("--side-file",)])
def test_writes_what_load_maps(tmp_path, source, verify):
    for model in (DIGITS, source):
        out = tmp_path / "out.mnn"
        done = run("convert", model, "-o", out, "--prepack", *verify)
        assert done.returncode == 0, done.stderr
        assert "out.mnn.packed" in done.stdout
        session = minnow.load(out)
        (info,) = session.inputs
        session.run({info.name: np.zeros([d if isinstance(d, int) else 3 for d in info.shape], info.dtype)})
        assert session.stats["packed_bytes"] == 0
        assert session.stats["mapped_bytes"] > 0
    expected = {"m.onnx", "out.mnn", "out.mnn.packed"}
    assert expected <= {p.name for p in tmp_path.iterdir()} <= expected | {"out.mnn.weight"}


def test_the_model_itself_is_the_same(tmp_path, source):
    for name, options in (("a.mnn", ()), ("b.mnn", ("--prepack",))):
        assert run("convert", source, "-o", tmp_path / name, *options).returncode == 0
    assert (tmp_path / "a.mnn").read_bytes() == (tmp_path / "b.mnn").read_bytes()


def test_leaves_nothing_where_it_cannot_be_written(tmp_path, source):
    (tmp_path / "out.mnn.packed").mkdir()
    done = run("convert", source, "-o", tmp_path / "out.mnn", "--prepack")
    assert done.returncode == 8, done.stderr
    assert "cannot write the output" in done.stderr
    assert {p.name for p in tmp_path.iterdir()} == {"m.onnx", "out.mnn.packed"}
