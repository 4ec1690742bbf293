"""Extents that a model leaves open: they keep their names, and are numbers only where that was asked for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import minnow
from minnow.errors import ModelError, UsageError

RNG = np.random.default_rng(7)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def value(name, shape, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def save(path: Path, nodes, inputs, outputs, initializers=(), opset=17) -> Path:
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, str(path))
    return path


@pytest.fixture(scope="module")
def network(tmp_path_factory) -> Path:
    """Convolution, pooling, flattening by computed shapes, a state: [N, 3, H, W] and [N, 8] -> [N, 8], [N, 8, H, W]."""
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["features"]),
        helper.make_node("GlobalAveragePool", ["features"], ["p"]),
        helper.make_node("Shape", ["p"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("Concat", ["n", "rest"], ["flat"], axis=0),
        helper.make_node("Reshape", ["p", "flat"], ["r"]),
        helper.make_node("Add", ["r", "state"], ["y"]),
    ]
    return save(
        tmp_path_factory.mktemp("open") / "network.onnx",
        nodes,
        [value("x", ["N", 3, "H", "W"]), value("state", ["N", 8])],
        [value("y", ["N", 8]), value("features", ["N", 8, "H", "W"])],
        [
            numpy_helper.from_array(normal(8, 3, 3, 3), "w"),
            numpy_helper.from_array(normal(8), "b"),
            numpy_helper.from_array(np.array([0]), "zero"),
            numpy_helper.from_array(np.array([8]), "rest"),
        ],
    )


def shapes(session: minnow.Session) -> dict[str, tuple]:
    return {info.name: info.shape for info in (*session.inputs, *session.outputs)}


def test_symbols_reach_the_session(network, tmp_path):
    minnow.convert(network, output=tmp_path / "m.mnn")
    session = minnow.load(tmp_path / "m.mnn")
    assert shapes(session) == {
        "x": ("N", 3, "H", "W"), "state": ("N", 8), "y": ("N", 8), "features": ("N", 8, "H", "W")
    }  # fmt: skip


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_all_sizes_run(network, level, tmp_path):
    minnow.convert(network, output=tmp_path / "m.mnn", optimize=level, verify=False)
    session = minnow.load(tmp_path / "m.mnn", threads=1)
    judge = onnxruntime.InferenceSession(str(network), providers=["CPUExecutionProvider"])
    for n, h, w in ((1, 1, 1), (2, 7, 5), (0, 7, 5), (1, 17, 1), (3, 1, 13), (1, 1, 1)):
        feed = {"x": normal(n, 3, h, w), "state": normal(n, 8)}
        for info, want in zip(judge.get_outputs(), judge.run(None, feed), strict=True):
            got = session.run(feed)[info.name]
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_one_symbol_is_one_size_in_all_inputs(network, tmp_path):
    minnow.convert(network, output=tmp_path / "m.mnn", verify=False)
    session = minnow.load(tmp_path / "m.mnn")
    with pytest.raises(UsageError, match=r"'state'.*N is 2 elsewhere"):
        session.run({"x": normal(2, 3, 4, 4), "state": normal(3, 8)})


def test_a_number_for_the_batch_leaves_the_rest_open(network, tmp_path):
    report = minnow.convert(network, output=tmp_path / "m.mnn", batch=4)
    assert report.verification.passed
    session = minnow.load(tmp_path / "m.mnn")
    assert shapes(session)["x"] == (4, 3, "H", "W")
    assert shapes(session)["state"] == (4, 8)
    assert shapes(session)["y"] == (4, 8)
    assert session.run({"x": normal(4, 3, 5, 6), "state": normal(4, 8)})["features"].shape == (4, 8, 5, 6)
    with pytest.raises(UsageError, match="'x'"):
        session.run({"x": normal(2, 3, 5, 6), "state": normal(4, 8)})


def test_a_symbol_that_becomes_a_number_does_so_everywhere(network, tmp_path):
    minnow.convert(network, output=tmp_path / "m.mnn", inputs={"x": (2, 3, "?", 9)})
    session = minnow.load(tmp_path / "m.mnn")
    assert shapes(session) == {"x": (2, 3, "H", 9), "state": (2, 8), "y": (2, 8), "features": (2, 8, "H", 9)}


@pytest.mark.parametrize(
    ("inputs", "batch", "says"),
    [
        ({"x": (2, 3, 4, 4), "state": (3, 8)}, None, "dimension N is given as 2 and as 3"),
        ({"x": (2, 3, 4, 4)}, 5, "dimension N is given as 2 and as 5"),
        ({"x": (2, 4, 4, 4)}, None, "input 'x' does not fit"),
        ({"z": (2,)}, None, "no input 'z'"),
    ],
)
def test_numbers_that_contradict_each_other(network, inputs, batch, says, tmp_path):
    with pytest.raises(UsageError, match=says):
        minnow.convert(network, output=tmp_path / "m.mnn", inputs=inputs, batch=batch)
    assert not (tmp_path / "m.mnn").exists()


def command(*args: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from minnow.cli import main; main()", *map(str, args)],
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_command_line(network, tmp_path):
    target = tmp_path / "m.mnn"
    done = command("convert", network, "-o", target, "--batch", 2)
    assert done.returncode == 0, done.stderr
    assert "N" not in str(shapes(minnow.load(target)))
    assert command("verify", network, target, "--batch", 2).returncode == 0
    assert command("convert", network, "-o", target, "--input", "x=?x3x8x?").returncode == 0
    assert shapes(minnow.load(target))["x"] == ("N", 3, 8, "W")
    shown = json.loads(command("inspect", target, "--format", "json").stdout)
    assert [i["shape"] for i in shown["inputs"]] == [["N", 3, 8, "W"], ["N", 8]]
    # A name that is given a number has it in the other inputs, too.
    assert command("run", target, "--input", "x=3x3x8x5").returncode == 0
    done = command("convert", network, "-o", tmp_path / "other.mnn", "--batch", "many")
    assert done.returncode == 2
    done = command("-f", "ONNX", "--modelFile", network, "--MNNModel", target, "--batch", 3)
    assert done.returncode == 0, done.stderr
    assert shapes(minnow.load(target))["x"] == (3, 3, "H", "W")


def test_shapes_that_hang_on_contents(tmp_path):
    """NonZero, Range and a loop whose number of rounds is an input, one behind the other."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["on"]),
            helper.make_node("Add", ["total", "found"], ["more"]),
            helper.make_node("ReduceSum", ["more"], ["row"], keepdims=0),
        ],
        "body",
        [
            value("i", [], TensorProto.INT64),
            value("go", [], TensorProto.BOOL),
            value("total", ["K"], TensorProto.INT64),
        ],
        [
            value("on", [], TensorProto.BOOL),
            value("more", ["K"], TensorProto.INT64),
            value("row", [], TensorProto.INT64),
        ],
    )
    nodes = [
        helper.make_node("NonZero", ["x"], ["places"]),
        helper.make_node("Reshape", ["places", "all"], ["found"]),
        helper.make_node("Shape", ["found"], ["k1"]),
        helper.make_node("Squeeze", ["k1"], ["k"]),
        helper.make_node("Range", ["zero", "k", "one"], ["counted"]),
        helper.make_node("Loop", ["rounds", "", "counted"], ["sum", "rows"], body=body),
    ]
    path = save(
        tmp_path / "m.onnx",
        nodes,
        [value("x", ["L"]), value("rounds", [], TensorProto.INT64)],
        [value("sum", ["K"], TensorProto.INT64), value("rows", ["R"], TensorProto.INT64)],
        [numpy_helper.from_array(np.array(v), n) for n, v in (("all", [-1]), ("zero", 0), ("one", 1))],
    )
    minnow.convert(path, output=tmp_path / "m.mnn")
    session = minnow.load(tmp_path / "m.mnn")
    assert [i.shape for i in session.outputs] == [("K",), ("R",)]
    judge = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for x in ([1, 0, 2, 0, 3], [0, 0], [], [4], [1, 1, 1]):
        for rounds in (0, 1, 3):
            feed = {"x": np.array(x, np.float32), "rounds": np.array(rounds)}
            for got, want in zip(session.run(feed).values(), judge.run(None, feed), strict=True):
                np.testing.assert_array_equal(got, want)


def test_what_does_not_fit_is_told_with_the_node(tmp_path):
    nodes = [helper.make_node("MatMul", ["x", "y"], ["z"], name="product")]
    path = save(tmp_path / "m.onnx", nodes, [value("x", ["A", "B"]), value("y", ["C", "D"])], [value("z", ["A", "D"])])
    minnow.convert(path, output=tmp_path / "m.mnn", verify=False)
    session = minnow.load(tmp_path / "m.mnn")
    assert session.run({"x": normal(2, 3), "y": normal(3, 0)})["z"].shape == (2, 0)
    with pytest.raises((ModelError, UsageError), match=r"[23]"):
        session.run({"x": normal(2, 3), "y": normal(2, 4)})
