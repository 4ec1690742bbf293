"""Indices that only a run shows: those from the end count, those beyond either end are errors."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import minnow
from minnow.errors import UsageError


@pytest.mark.parametrize("dimension", [4, "N"])
@pytest.mark.parametrize(("index", "fits"), [(-4, True), (3, True), (-5, False), (4, False), (-(2**31), False)])
def test_gather(index, fits, dimension, tmp_path):
    nodes = [helper.make_node("Gather", ["x", "i"], ["y"], axis=0)]
    info = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [dimension, 3]),
        helper.make_tensor_value_info("i", TensorProto.INT64, ["M"]),
    ]
    graph = helper.make_graph(nodes, "g", info, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    minnow.convert(path, verify=False)
    session = minnow.load(tmp_path / "m.mnn")
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    feed = {"x": x, "i": np.array([0, index])}
    if fits:
        np.testing.assert_array_equal(session.run(feed)["y"], x[[0, index]])
    else:
        with pytest.raises(UsageError, match="outside"):
            session.run(feed)


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("far", [2**31 - 1, 2**31, 2**40, 2**63 - 1, -(2**31), -(2**40), -(2**63)])
@pytest.mark.parametrize("chosen", [True, False])
def test_bounds_far_outside_mean_the_end(far, chosen, level, tmp_path):
    """A bound that is computed from a number beyond 32 bits."""
    nodes = [
        helper.make_node("Where", ["c", "far", "e"], ["end"]),
        helper.make_node("Slice", ["x", "zero", "end"], ["y"]),
    ]
    inputs = [("x", TensorProto.FLOAT, [10]), ("c", TensorProto.BOOL, [1]), ("e", TensorProto.INT64, [1])]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(*i) for i in inputs],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array([n], np.int64), name) for name, n in (("far", far), ("zero", 0))],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "m.onnx")
    minnow.convert(tmp_path / "m.onnx", output=tmp_path / "m.mnn", optimize=level, verify=False)
    feeds = {"x": np.arange(10, dtype=np.float32), "c": np.array([chosen]), "e": np.array([3])}
    (want,) = onnxruntime.InferenceSession(tmp_path / "m.onnx").run(None, feeds)
    np.testing.assert_array_equal(minnow.load(tmp_path / "m.mnn").run(feeds)["y"], want)
