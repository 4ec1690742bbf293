"""The numpy references of convolutions against ONNX, on all their samples; types with symbols, and encodings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx_oracle import Array, OnnxNode, Row, cases, compare, judgments


def activated(activation: str) -> Any:
    if not activation:
        return lambda results: results
    return lambda results: [np.clip(r, 0, 6 if activation == "relu6" else None) for r in results]


def conv(x: Array, w: Array, bias: Array | None = None, *, activation: str, auto_pad: str, **attrs: Any) -> OnnxNode:
    if auto_pad:
        attrs = {**attrs, "auto_pad": auto_pad}
        del attrs["pads"]
    # ONNX wants one type; f16 weights beside f32 inputs are our way to store them.
    return OnnxNode("Conv", (x, w.astype(x.dtype), bias), attrs, after=activated(activation))


def conv_transpose(x: Array, w: Array, bias: Array | None = None, *, activation: str, **attrs: Any) -> OnnxNode:
    # The reference is right for the first group only.
    grouped = attrs["group"] > 1
    return OnnxNode("ConvTranspose", (x, w, bias), attrs, after=activated(activation), by_onnxruntime=grouped)


TABLE: dict[str, Row] = {"Conv": conv, "ConvTranspose": conv_transpose}


@pytest.mark.parametrize(("op", "row", "sample"), cases(TABLE))
def test_reference(op, row, sample):
    compare(op, row, sample, rtol=2e-5, ask=judgments)
