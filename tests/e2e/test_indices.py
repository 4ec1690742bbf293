"""Indices that only a run shows: those from the end count, those beyond either end are errors."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import minnow
from minnow.errors import UsageError


@pytest.mark.parametrize("extent", [4, "N"])
@pytest.mark.parametrize(("index", "fits"), [(-4, True), (3, True), (-5, False), (4, False), (-(2**31), False)])
def test_gather(index, fits, extent, tmp_path):
    nodes = [helper.make_node("Gather", ["x", "i"], ["y"], axis=0)]
    info = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [extent, 3]),
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
