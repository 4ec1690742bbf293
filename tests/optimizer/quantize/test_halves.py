"""Models that compute in float16 are calibrated as such that compute in float32."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import minnow
from minnow.schema.mnn import read_file

from .test_integers import conv


@pytest.mark.parametrize("target", ["minnow", "mnn"])
def test_layers_of_halves_become_integers(target: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    v, w = rng.normal(size=(8, 4, 3, 3)), rng.normal(size=(6, 8, 1, 1))
    b = rng.normal(size=8)
    half = {n: a.astype(np.float16) for n, a in {"v": v, "w": w, "b": b}.items()}
    nodes = [
        helper.make_node("Conv", ["x", "v", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Conv", ["r", "w"], ["k"]),
        helper.make_node("Cast", ["k"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["f"], ["y"], to=TensorProto.FLOAT16),
    ]
    shape = [1, 4, 8, 8]
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT16, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT16, None)],
        [numpy_helper.from_array(a, n) for n, a in half.items()],
    )  # fmt: skip
    source = tmp_path / "n.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), source)
    data = [rng.normal(size=shape).astype(np.float16) for _ in range(6)]
    out = tmp_path / "n.mnn"
    report = minnow.quantize(source, calibration=data, output=out, target=target, measure=False)
    assert report.quantization is not None
    assert {row.kind for row in report.quantization.calibrated} == {"int8"}
    assert [n.op for n in read_file(out).graph].count("QuantizedConv") == 2
    x = data[0].astype(np.float64)
    v, w, b = (half[n].astype(np.float64) for n in "vwb")
    want = conv(np.maximum(conv(x, v, b), 0), w, np.zeros(6))
    session = minnow.load(out)
    info = session.inputs[0]
    got = session.run({"x": data[0].astype(info.dtype)})["y"]
    assert np.square(got.astype(np.float64) - want).sum() < 1e-3 * np.square(want).sum()
