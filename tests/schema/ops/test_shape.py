"""The numpy references of shape ops, and of tensors made from numbers, against ONNX, on all their samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx_oracle import Array, OnnxNode, Row, cases, compare, judgments, onnx_type


def same(name: str) -> Row:
    return lambda *operands, **attrs: OnnxNode(name, operands, {k: v for k, v in attrs.items() if v is not None})


def with_axes(name: str) -> Row:
    def row(x: Array, at: Array | None = None, *, axes: tuple[int, ...] | None) -> OnnxNode:
        return OnnxNode(name, (x, at if at is not None or axes is None else np.array(axes, np.int64)))

    return row


def eye(x: Array, *, to: Any, k: int) -> OnnxNode:
    dtype = {} if to is None else {"dtype": onnx_type(np.zeros(0, to.numpy))}
    return OnnxNode("EyeLike", (x,), {"k": k, **dtype})


def fill(shape: Array, value: Array) -> OnnxNode:
    from onnx import numpy_helper

    return OnnxNode("ConstantOfShape", (shape,), {"value": numpy_helper.from_array(value.reshape(1))})


TABLE: dict[str, Row] = {
    **{name: same(name) for name in ("Shape", "Size", "Flatten", "Expand", "Range", "OneHot", "Identity")},
    "Reshape": lambda x, shape, *, allowzero: OnnxNode("Reshape", (x, shape), {"allowzero": int(allowzero)}),
    "Squeeze": with_axes("Squeeze"),
    "Unsqueeze": with_axes("Unsqueeze"),
    "EyeLike": eye,
    "Fill": fill,
    "ConvertLayout": lambda x, *, to: [x],
}


@pytest.mark.parametrize(("op", "row", "samples"), cases(TABLE))
def test_reference(op, row, samples):
    for sample in samples:
        compare(op, row, sample, ask=judgments)
