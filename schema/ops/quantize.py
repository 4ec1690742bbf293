"""Conversions between floats and small integers with a scale and a zero point."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, TensorType
from minnow.schema.ops.extent import agree, axis_of
from minnow.schema.ops.op import Arg, Float, fill, op
from minnow.schema.ops.special import Array

QUANTIZED = frozenset({DType.I8, DType.U8, DType.I16, DType.U16})
Quantized = Annotated[np.ndarray[Any, Any], QUANTIZED]
Accumulated = Annotated[np.ndarray[Any, Any], QUANTIZED | {DType.I32}]
Float32 = Annotated[np.ndarray[Any, Any], frozenset({DType.F32})]


def _limits(dtype: DType) -> Any:
    """The lowest and highest number of an integer type, as `min` and `max`."""
    numpy: Any = dtype.numpy
    return np.iinfo(numpy)


def _along(v: Array, axis: int, rank: int) -> Array:
    """One number for all, or one for each place along an axis."""
    if v.size == 1:
        return v.reshape(())
    shape = [1] * rank
    shape[axis_of(axis, rank)] = v.size
    return v.reshape(shape)


def _check(x: Arg, axis: int, *parameters: Arg | None) -> None:
    for v in parameters:
        if v is None or v.shape is None or v.shape in ((), (1,)):
            continue
        if len(v.shape) > 1:
            raise ModelError(f"scale and zero point of shape {v.shape}: one number, or one per place along an axis")
        if x.shape is not None:
            agree([x.shape[axis_of(axis, len(x.shape))], v.shape[0]], f"scale and zero point along axis {axis}")


@op()
def QuantizeLinear(x: Float, scale: Float, zero: Quantized | None = None, *, axis: int = 1, to: DType = DType.U8):
    """y = saturate(round(x / scale) + zero), halves to even; the quotient is rounded to the type of `x` first.

    `scale` and `zero` hold one number, or one for each place along `axis`. `zero` has the type `to`.
    """
    info = _limits(to)
    y = np.rint((x / _along(scale, axis, x.ndim)).astype(x.dtype)).astype(np.float64)
    if zero is not None:
        y = y + _along(zero, axis, x.ndim)
    return np.clip(y, info.min, info.max).astype(to.numpy)


@QuantizeLinear.shape
def _(x, scale, zero, *, axis, to):
    if to not in QUANTIZED or (zero is not None and zero.dtype is not to):
        raise ModelError(f"QuantizeLinear to {to} with a zero point of {zero.dtype if zero else to}")
    if x.dtype is not scale.dtype:
        raise ModelError(f"QuantizeLinear needs x and scale of one type, not {x.dtype} and {scale.dtype}")
    _check(x, axis, scale, zero)
    return x.type.with_dtype(to)


@op()
def DequantizeLinear(x: Accumulated, scale: Float, zero: Accumulated | None = None, *, axis: int = 1):
    """y = (x - zero) * scale, in the type of `scale`; one number each, or one for each place along `axis`."""
    v = x.astype(np.int64)
    if zero is not None:
        v = v - _along(zero, axis, x.ndim)
    return (v * _along(scale, axis, x.ndim).astype(np.float64)).astype(scale.dtype)


@DequantizeLinear.shape
def _(x, scale, zero, *, axis):
    if zero is not None and zero.dtype is not x.dtype:
        raise ModelError(f"DequantizeLinear needs a zero point of type {x.dtype}, not {zero.dtype}")
    _check(x, axis, scale, zero)
    return x.type.with_dtype(scale.dtype)


@op(outputs=3)
def DynamicQuantizeLinear(x: Float32):
    """x in u8, with the scale and zero point (u8) that fit its range, which is made to hold 0.

    scale = (max - min) / 255, or 1 for a range of nothing; zero = round(saturate(-min / scale)).
    """
    low = np.minimum(np.min(x, initial=np.float32(np.inf)), np.float32(0))
    high = np.maximum(np.max(x, initial=np.float32(-np.inf)), np.float32(0))
    scale = np.float32(1) if high == low else (high - low) / np.float32(255)
    zero = np.rint(np.clip(-low / scale, 0, 255))
    y = np.clip(np.rint(x / scale) + zero, 0, 255)
    return y.astype(np.uint8), np.float32(scale), zero.astype(np.uint8)


@DynamicQuantizeLinear.shape
def _(x):
    return x.type.with_dtype(DType.U8), TensorType(DType.F32, ()), TensorType(DType.U8, ())


@QuantizeLinear.samples
def _(rng):
    for to in sorted(QUANTIZED):
        info = _limits(to)
        scale = np.float32(8 / (info.max - info.min))
        zero = np.asarray((info.max + info.min) // 2 + 3).astype(to.numpy)
        yield (fill(rng, (2, 3, 5)) * 3, scale, zero), {"to": to}
        yield (fill(rng, (0, 3)), scale, zero), {"to": to}
    steps = np.abs(fill(rng, (3,))) * 0.1 + np.float32(0.01)
    zeros = np.array([-5, 0, 77], np.int8)
    yield (fill(rng, (2, 3, 5, 7)), steps, zeros), {"to": DType.I8}
    yield (fill(rng, (5, 3)), steps, zeros), {"axis": -1, "to": DType.I8}
    yield (fill(rng, (3, 17)), steps), {"axis": 0}
    yield (fill(rng, ()), np.float32(0.01)), {}
    ties = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 300, -300, 3e9, np.inf, -np.inf], np.float32)
    yield (ties, np.array([1], np.float32), np.array([3], np.int8)), {"to": DType.I8}


@DequantizeLinear.samples
def _(rng):
    for dtype in sorted(QUANTIZED):
        x = fill(rng, (2, 3, 5), dtype)
        yield (x, np.float32(0.03), np.asarray(7).astype(dtype.numpy)), {}
        yield (x, fill(rng, (3,)), np.array([0, 1, 9]).astype(dtype.numpy)), {}
        yield (x, fill(rng, (5,))), {"axis": -1}
    yield (rng.integers(-(2**31), 2**31, (3, 7)).astype(np.int32), fill(rng, (3,))), {"axis": 0}
    yield (fill(rng, (0, 3), DType.I8), fill(rng, (3,))), {}
    yield (fill(rng, (), DType.U8), np.float32(0.5), np.uint8(4)), {}


@DynamicQuantizeLinear.samples
def _(rng):
    for shape in (2, 3, 5), (17,), (), (1, 131):
        yield (shape,), {}, 3
        yield (np.abs(fill(rng, shape)),), {}, 3
        yield (-np.abs(fill(rng, shape)),), {}, 3
    yield (np.zeros((3,), np.float32),), {}, 3
    yield (np.array([0, 1, 2, 255, 127.5, 0.5], np.float32),), {}, 3
