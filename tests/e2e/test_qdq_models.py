"""Networks between QuantizeLinear and DequantizeLinear: integers all the way, and onnxruntime's numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import minnow
from minnow.converter import read
from minnow.optimizer.pipeline import count_nodes, optimize
from minnow.schema.mnn import encode

onnxruntime = pytest.importorskip("onnxruntime")


def _network() -> onnx.ModelProto:
    """Convolutions, one of them depthwise, with a residual, a concatenation, a sigmoid, and a matrix product."""
    rng = np.random.default_rng(1)

    def weights(name: str, *shape: int) -> Any:
        return numpy_helper.from_array(
            (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32), name
        )

    conv = {"pads": [1, 1, 1, 1]}
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], **conv, strides=[2, 2]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], **conv, group=12),
        helper.make_node("Relu", ["c2"], ["r2"]),
        helper.make_node("Conv", ["r2", "w3", "b3"], ["c3"]),
        helper.make_node("Add", ["r1", "c3"], ["sum"]),
        helper.make_node("MaxPool", ["sum"], ["pool"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Sigmoid", ["pool"], ["gate"]),
        helper.make_node("Concat", ["pool", "gate"], ["both"], axis=1),
        helper.make_node("Flatten", ["both"], ["flat"]),
        helper.make_node("MatMul", ["flat", "w4"], ["y"]),
    ]
    tensors = [weights("w1", 12, 3, 3, 3), weights("b1", 12), weights("w2", 12, 1, 3, 3), weights("w3", 12, 12, 1, 1),
               weights("b3", 12), weights("w4", 24 * 16, 10)]  # fmt: skip
    ends = [
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s)] for n, s in (("x", [1, 3, 16, 16]), ("y", [1, 10]))
    ]
    graph = helper.make_graph(nodes, "g", *ends, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("each", [True, False])
def test_no_float_stands_between_layers(tmp_path: Path, each: bool, signed: bool) -> None:
    quantization = pytest.importorskip("onnxruntime.quantization")
    source, made = tmp_path / "float.onnx", tmp_path / "qdq.onnx"
    onnx.save(_network(), source)
    images = np.random.default_rng(2).standard_normal((4, 1, 3, 16, 16)).astype(np.float32)
    feeds = iter([{"x": v} for v in images])

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc, name-defined]
        def get_next(self) -> Any:
            return next(feeds, None)

    kind = quantization.QuantType.QInt8 if signed else quantization.QuantType.QUInt8
    quantization.quantize_static(source, made, Reader(), per_channel=each, activation_type=kind,
                                 weight_type=quantization.QuantType.QInt8)  # fmt: skip
    model = read(made)
    optimize(model)
    counts = count_nodes(model.graph)
    assert counts["QuantizedConv"] == 3
    assert counts["QuantizedMatMul"] == counts["QuantizedSum"] == 1
    assert counts["QuantizeLinear"] == counts["DequantizeLinear"] == 1
    assert not counts.keys() & {"Conv", "Linear", "MatMul", "Relu", "Sigmoid", "Add"}

    session = minnow.load(encode(model), threads=2)
    reference = onnxruntime.InferenceSession(made, providers=["CPUExecutionProvider"])
    last = next(n for n in onnx.load(made).graph.node if n.op_type == "DequantizeLinear" and "y" in n.output)
    step = next(float(numpy_helper.to_array(t)) for t in onnx.load(made).graph.initializer if t.name == last.input[1])
    for image in images:
        (want,) = reference.run(None, {"x": image})
        # A number on the way that lies between two may have become either.
        assert np.abs(session.run({"x": image})["y"] - want).max() <= 2.01 * step
