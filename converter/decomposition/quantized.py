"""Quantized layers: an exact integer product in i32, then a scale, and rounding."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder


def output_scale(b: Builder, x: Value, w: Value, y: Value) -> Value:
    """The factor from the product of two quantized tensors to a quantized result."""
    x, w, y = (v if v.type.dtype is DType.F32 else b.Cast(v, to=DType.F32) for v in (x, w, y))
    made: Value = b.Div(b.Mul(x, w), y)
    return made


def requantized(
    b: Builder, total: Value, scale: Value, zero: Value | None, like: DType, axis: int = 1, relu: bool = False
) -> Value:
    """round(total * scale) + zero, halves to even, saturated in the type of `zero` (`like` where there is none).

    Args:
        relu: what is below `zero` becomes `zero`.
    """
    product = b.Mul(b.Cast(total, to=DType.F32), scale)
    # Where `zero` is the least number of its type, saturation does it.
    least = (
        zero is not None
        and zero.data is not None
        and np.all(zero.data.numpy() == np.iinfo(str(zero.type.dtype.numpy)).min)
    )
    if relu and not least:
        product = b.Relu(product)
    one: Any = np.float32(1)
    if zero is not None and zero.type.shape not in ((), (1,)):
        if zero.type.rank != 1:
            raise UnsupportedError(f"a zero point of the type {zero.type} is not supported for a result")
        one = b.Fill(b.Shape(zero), np.ones(1, np.float32))
    made: Value = b.QuantizeLinear(product, one, zero, axis=axis, to=like if zero is None else zero.type.dtype)
    return made
