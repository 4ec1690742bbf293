"""The numpy references of recurrent layers and of quantization against ONNX, on all their samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx_oracle import Array, OnnxNode, Row, cases, compare, onnx_type

from minnow.schema.ir import DType
from minnow.schema.ops import Sample, all_ops

NAMES = {
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "relu": "Relu",
    "softsign": "Softsign",
    "softplus": "Softplus",
    "leakyrelu": "LeakyRelu",
    "thresholdedrelu": "ThresholdedRelu",
    "elu": "Elu",
    "hardsigmoid": "HardSigmoid",
    "scaledtanh": "ScaledTanh",
    "affine": "Affine",
}


def bounded_cell(
    x: Array, w: Array, r: Array, b: Array, _: None, h: Array, c: Array, p: Array, clip: float
) -> list[Array]:
    """An LSTM whose cells are bounded, which ONNX has not: step by step by its equations, forward."""
    x, w, r, b, h, c, p = (v.astype(np.float64) for v in (x, w[0], r[0], b[0], h[0], c[0], p[0]))
    n, rows = r.shape[1], []

    def sigmoid(v: Array) -> Array:
        return np.asarray(1 / (1 + np.exp(-v)))

    for now in x:
        i, o, f, g = np.split(now @ w.T + h @ r.T + b[: 4 * n] + b[4 * n :], 4, axis=1)
        kept = sigmoid(f + p[2 * n :] * c) * c
        c = np.clip(kept + sigmoid(i + p[:n] * c) * np.tanh(g), -clip, clip)
        h = sigmoid(o + p[n : 2 * n] * c) * np.tanh(c)
        rows.append(h)
    return [v.astype(np.float32) for v in (np.stack(rows)[:, None], h[None], c[None])]


def layer(name: str, outputs: int) -> Row:
    def row(*inputs: Array | None, hidden: int, direction: str, clip: float, **attrs: Any) -> OnnxNode | list[Array]:
        x = inputs[0]
        assert x is not None
        if limit := attrs.pop("cell_clip", 0.0):
            return bounded_cell(*inputs, clip=limit)  # type: ignore[arg-type]
        if x.shape[0] == 0:  # onnxruntime crashes; over no time the states stay as they are
            return [np.zeros((0, 1, x.shape[1], hidden), x.dtype), *(s for s in inputs[5:] if s is not None)]
        given = {"hidden_size": hidden, "direction": direction, **({"clip": clip} if clip else {})}
        attrs.pop("cell_clip", None)
        for key, value in attrs.items():
            if key == "activations":
                value = [NAMES[n] for n in value]
            if value not in ((), []):
                given[key] = int(value) if isinstance(value, bool) else value
        return OnnxNode(name, inputs, given, outputs)

    return row


def quantize(x: Array, scale: Array, zero: Array | None = None, *, axis: int, to: DType, block_size: int,
             saturate: bool, precision: DType | None) -> OnnxNode:  # fmt: skip
    zero = np.zeros(scale.shape, to.numpy) if zero is None else zero
    if x.dtype == scale.dtype == np.float32 and not to.is_storage and precision is None:
        return OnnxNode("QuantizeLinear", (x, scale, zero), {"axis": axis, "block_size": block_size})
    attrs = {"axis": axis, "block_size": block_size, "saturate": int(saturate)}
    if precision is not None:
        attrs["precision"] = onnx_type(np.zeros(0, precision.numpy))
    return OnnxNode("QuantizeLinear", (x, scale, zero), attrs, opset=28, by_reference=True)


def dequantize(x: Array, scale: Array, zero: Array | None = None, *, axis: int, block_size: int,
               to: DType | None) -> OnnxNode | list[Array]:  # fmt: skip
    dtype = DType.of(x.dtype)
    if dtype.is_float and zero is not None and scale.size == 1:
        # By its definition: the reference leaves the zero point out.
        return [((x.astype(np.float32) - zero.astype(np.float32)) * scale.astype(np.float32)).astype(scale.dtype)]
    if not dtype.is_storage and not block_size and to is None:
        return OnnxNode("DequantizeLinear", (x, scale, zero)[: 2 + (zero is not None)], {"axis": axis})
    attrs = {"axis": axis, "block_size": block_size}
    if to is not None:
        attrs["output_dtype"] = onnx_type(np.zeros(0, to.numpy))
    return OnnxNode("DequantizeLinear", (x, scale, zero)[: 2 + (zero is not None)], attrs, opset=28, by_reference=True)


TABLE: dict[str, Row] = {
    "LSTM": layer("LSTM", 3),
    "GRU": layer("GRU", 2),
    "RNN": layer("RNN", 2),
    "QuantizeLinear": quantize,
    "DequantizeLinear": dequantize,
    "DynamicQuantizeLinear": lambda x, steps: OnnxNode("DynamicQuantizeLinear", (x,), outputs=3),
}


def is_onnx(sample: Sample) -> bool:
    """ONNX does not bound the cells of an LSTM: tests/converter/tflite/test_recurrent.py has LiteRT judge that.

    Nor does it choose scales as PyTorch does, which judges that in tests/converter.
    """
    return not sample.attrs.get("cell_clip") and not sample.attrs.get("steps")


@pytest.mark.parametrize(("op", "row", "samples"), cases(TABLE, is_onnx))
def test_reference(op, row, samples):
    for sample in samples:
        compare(op, row, sample, rtol=1e-5)


def test_every_op_is_judged():
    families = {"recurrent", "quantize"}
    assert {op.name for op in all_ops() if op.module.rpartition(".")[2] in families} == set(TABLE)
