"""The numpy references of pooling against ONNX, on all their samples."""

from __future__ import annotations

from typing import Any

import pytest
from onnx_oracle import Array, OnnxNode, Row, cases, compare, judgments

from minnow.schema.ops import window


def pool(name: str, **more: Any) -> Row:
    def row(x: Array, *, kernel: Any, auto_pad: str, **attrs: Any) -> OnnxNode:
        if auto_pad:
            attrs = {**attrs, "auto_pad": auto_pad}
            del attrs["pads"]
        # The reference counts indices from the start of each channel in some cases, and finds other extents for
        # SAME_LOWER than ceil(size / stride). Its LpPool scales a window that `ceil_mode` lets reach beyond the input
        # up to a full one, where the standard has a plain sum, and its means of windows larger than the input take in
        # what is not there.
        larger = any(k > d for k, d in zip(window.spread(kernel, attrs["dilations"]), x.shape[2:], strict=True))
        wrong = name == "MaxPool" or (attrs["ceil_mode"] and (name == "LpPool" or larger))
        attrs = {k: int(v) if isinstance(v, bool) else v for k, v in attrs.items()}
        return OnnxNode(name, (x,), {"kernel_shape": kernel, **attrs}, by_onnxruntime=wrong, **more)

    return row


def whole(name: str, **more: Any) -> Row:
    # Of other than two spatial axes the reference's GlobalMaxPool keeps too many or too few.
    def row(x: Array, **attrs: Any) -> OnnxNode:
        return OnnxNode(name, (x,), attrs, by_onnxruntime=name == "GlobalMaxPool" and x.ndim != 4, **more)

    return row


TABLE: dict[str, Row] = {
    "MaxPool": pool("MaxPool", outputs=2),
    "AveragePool": pool("AveragePool"),
    "LpPool": pool("LpPool"),
    "GlobalAveragePool": whole("GlobalAveragePool"),
    "GlobalMaxPool": whole("GlobalMaxPool"),
    # onnxruntime has no version 22 of it yet, which differs from the one before in its types only.
    "GlobalLpPool": whole("GlobalLpPool", opset=21),
}


@pytest.mark.parametrize(("op", "row", "samples"), cases(TABLE))
def test_reference(op, row, samples):
    for sample in samples:
        compare(op, row, sample, rtol=1e-5, ask=judgments)
