"""The numpy references of normalization and matrix products against ONNX, on all their samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx_oracle import Array, OnnxNode, Row, cases, compare, finished

from minnow.schema.ops import all_ops


def ones_for_none(x: Array, scale: Array | None, axis: int) -> Array:
    return np.ones(x.shape[axis % x.ndim :], x.dtype) if scale is None else scale


def layer_norm(
    x: Array, scale: Array | None = None, bias: Array | None = None, *, axis: int, epsilon: float
) -> OnnxNode:
    scale = ones_for_none(x, scale, axis)
    return OnnxNode("LayerNormalization", (x, scale, bias), {"axis": axis, "epsilon": epsilon})


def rms_norm(x: Array, scale: Array | None = None, *, axis: int, epsilon: float) -> OnnxNode:
    scale = ones_for_none(x, scale, axis)
    return OnnxNode("RMSNormalization", (x, scale), {"axis": axis, "epsilon": epsilon}, opset=23)


def mat_mul(a: Array, b: Array, *, transpose_a: bool, transpose_b: bool) -> OnnxNode:
    a = np.ascontiguousarray(np.swapaxes(a, -1, -2)) if transpose_a and a.ndim > 1 else a
    b = np.ascontiguousarray(np.swapaxes(b, -1, -2)) if transpose_b and b.ndim > 1 else b
    return OnnxNode("MatMul", (a, b))


def linear(x: Array, w: Array, bias: Array | None = None, residual: Array | None = None, **epilogue: Any) -> OnnxNode:
    """Gemm, on all leading axes as one."""
    rows = x.reshape(int(np.prod(x.shape[:-1])), x.shape[-1])
    shape = (*x.shape[:-1], w.shape[0])
    return OnnxNode(
        "Gemm",
        (rows, w, bias),
        {"transB": 1},
        after=lambda r: [finished(r[0].astype(x.dtype).reshape(shape), residual, **epilogue)],
    )


def det(x: Array) -> OnnxNode | list[Array]:
    if x.size == 0:  # the reference cannot
        return [np.zeros(x.shape[:-2], x.dtype)]
    return OnnxNode("Det", (x,))


def scale(x: Array, scale: Array, bias: Array) -> OnnxNode:
    c = scale.size
    operands = (x, scale, bias, np.zeros(c, x.dtype), np.ones(c, x.dtype))
    return OnnxNode("BatchNormalization", operands, {"epsilon": 0.0})


def group_norm(x: Array, scale: Array | None, bias: Array | None, **attrs: Any) -> OnnxNode | list[Array]:
    if x.size == 0:  # both judges fail
        return [x]
    scale = np.ones(x.shape[1], x.dtype) if scale is None else scale
    bias = np.zeros(x.shape[1], x.dtype) if bias is None else bias
    return OnnxNode("GroupNormalization", (x, scale, bias), attrs)


def lrn(x: Array, *, size: int, alpha: float, beta: float, bias: float) -> OnnxNode | list[Array]:
    """onnxruntime wants odd windows and rank 4; the reference walks over as many channels as there are images."""
    if size % 2 == 0:
        out = np.empty_like(x)
        for c in range(x.shape[1]):
            window = x[:, max(0, c - (size - 1) // 2) : c + size // 2 + 1]
            out[:, c] = x[:, c] / (bias + alpha / size * np.square(window).sum(1)) ** beta
        return [out]
    attrs = {"size": size, "alpha": alpha, "beta": beta, "bias": bias}
    blown_up = x.reshape(*x.shape, *(1,) * (4 - x.ndim))
    return OnnxNode("LRN", (blown_up,), attrs, after=lambda r: [r[0].reshape(x.shape)])


def mat_mul_integer(a: Array, b: Array, a_zero: Array | None = None, b_zero: Array | None = None) -> OnnxNode:
    # onnxruntime saturates on some processors, and takes one zero point only; the reference takes a column of them.
    if a_zero is not None and a_zero.size > 1:
        a_zero = a_zero[:, None]
    return OnnxNode("MatMulInteger", (a, b, a_zero, b_zero), by_reference=True)


TABLE: dict[str, Row] = {
    "BatchNorm": lambda *inputs, epsilon: OnnxNode("BatchNormalization", inputs, {"epsilon": epsilon}),
    "Scale": scale,
    "LayerNorm": layer_norm,
    "RMSNorm": rms_norm,
    "InstanceNorm": lambda *inputs, epsilon: OnnxNode("InstanceNormalization", inputs, {"epsilon": epsilon}),
    "GroupNorm": group_norm,
    "LRN": lrn,
    "MatMul": mat_mul,
    "Linear": linear,
    "MatMulInteger": mat_mul_integer,
    "Det": det,
}


@pytest.mark.parametrize(("op", "row", "samples"), cases(TABLE))
def test_reference(op, row, samples):
    for sample in samples:
        compare(op, row, sample, rtol=2e-5)


def test_every_op_is_judged():
    assert {op.name for op in all_ops() if op.module.rpartition(".")[2] in ("norm", "matmul")} == set(TABLE)
