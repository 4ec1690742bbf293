"""The numpy references of convolutions against ONNX, on all their samples; types with symbols, and encodings."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from onnx_oracle import Array, OnnxNode, Row, cases, compare, finished, judged, judgments


def conv(
    x: Array, w: Array, bias: Array | None = None, residual: Array | None = None, *, activation: str,
    alpha: float | None, beta: float | None, auto_pad: str, **attrs: Any,
) -> OnnxNode:  # fmt: skip
    if auto_pad:
        attrs = {**attrs, "auto_pad": auto_pad}
        del attrs["pads"]
    # ONNX wants one type; f16 weights beside f32 inputs are our way to store them.
    after = partial(rest, residual, activation, alpha, beta)
    return OnnxNode("Conv", (x, w.astype(x.dtype), bias), attrs, after=after)


def conv_transpose(
    x: Array, w: Array, bias: Array | None = None, residual: Array | None = None, *, activation: str,
    alpha: float | None, beta: float | None, **attrs: Any,
) -> OnnxNode | list[Array]:  # fmt: skip
    group = attrs["group"]
    if group > 1 and x.dtype == np.float64:
        # The reference is right for the first group only, and onnxruntime does not know doubles.
        parts = zip(*(np.split(v, group, axis) for v, axis in ((x, 1), (w, 0))), strict=True)
        ones = [judged(OnnxNode("ConvTranspose", part, {**attrs, "group": 1}))[0] for part in parts]
        y = np.concatenate(ones, 1) if bias is None else np.concatenate(ones, 1) + bias.reshape(-1, 1, 1)
        return [finished(y, residual, activation, alpha, beta)]
    after = partial(rest, residual, activation, alpha, beta)
    return OnnxNode("ConvTranspose", (x, w, bias), attrs, after=after, by_onnxruntime=group > 1)


def rest(
    residual: Array | None, activation: str, alpha: float | None, beta: float | None, results: list[Array]
) -> list[Array]:
    return [finished(r, residual, activation, alpha, beta) for r in results]


def conv_integer(*operands: Array | None, auto_pad: str, **attrs: Any) -> OnnxNode:
    if auto_pad:
        attrs = {**attrs, "auto_pad": auto_pad}
        del attrs["pads"]
    x, w, x_zero, w_zero = (*operands, None, None)[:4]
    assert x is not None
    assert w is not None
    if w.size:
        # onnxruntime takes one zero point, and saturates on some processors; the reference spreads several zero points
        # over two spatial axes: ask for floats, which are exact at this size.
        zeros = np.asarray(0 if w_zero is None else w_zero).reshape(-1, *(1,) * (w.ndim - 1))
        floats = [x - np.float64(0 if x_zero is None else x_zero), w - np.float64(zeros)]
        return OnnxNode("Conv", [f.astype(np.float32) for f in floats], attrs, after=lambda r: [r[0].astype(np.int32)])
    # Sums of nothing are whatever was in memory to onnxruntime.
    return OnnxNode("ConvInteger", operands, attrs, opset=10, by_reference=True)


def deform_conv(*operands: Array | None, **attrs: Any) -> OnnxNode:
    # The reference divides by the extent less one, and adds up without an end.
    return OnnxNode("DeformConv", operands, attrs, opset=19, by_onnxruntime=True)


def col2im(x: Array, image: Array, block: Array, **attrs: Any) -> OnnxNode:
    # onnxruntime knows f32 only; the reference takes no batch without an element.
    given = {k: v for k, v in attrs.items() if v}
    return OnnxNode("Col2Im", (x, image, block), given, opset=18, by_onnxruntime=not x.size)


TABLE: dict[str, Row] = {
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "ConvInteger": conv_integer,
    "DeformConv": deform_conv,
    "Col2Im": col2im,
}


@pytest.mark.parametrize(("op", "row", "samples"), cases(TABLE))
def test_reference(op, row, samples):
    for sample in samples:
        compare(op, row, sample, rtol=2e-5, ask=judgments)
