"""Conversions between floats and small integers with a scale and a zero point."""

from __future__ import annotations

from typing import Annotated, Any

import ml_dtypes
import numpy as np

from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, TensorType
from minnow.schema.ops.cast import converted
from minnow.schema.ops.special import Array
from minnow.schema.registry.dimension import agree, axis_of
from minnow.schema.registry.op import EXACT_TYPES, FLOATS, ROUNDING, Arg, fill, op

QUANTIZED = frozenset({DType.I8, DType.U8, DType.I16, DType.U16}) | {
    t for t in DType if t.is_storage and t is not DType.F8E8M0
}
ACCUMULATED = QUANTIZED | {DType.I32}
SCALES = FLOATS | {DType.F8E8M0}
Number = Annotated[np.ndarray[Any, Any], FLOATS | {DType.I32}]
Step = Annotated[np.ndarray[Any, Any], SCALES | {DType.I32}]
Scale = Annotated[np.ndarray[Any, Any], SCALES]
Quantized = Annotated[np.ndarray[Any, Any], QUANTIZED]
Accumulated = Annotated[np.ndarray[Any, Any], ACCUMULATED]
Float32 = Annotated[np.ndarray[Any, Any], frozenset({DType.F32})]


def _limits(dtype: DType) -> Any:
    """The lowest and highest number of an integer type, as `min` and `max`."""
    numpy: Any = dtype.numpy
    return ml_dtypes.iinfo(numpy)


def _along(v: Array, axis: int, block_size: int, x: Array) -> Array:
    """One number for all, or one for each place along an axis, or one for each block of places."""
    if v.size == 1:
        return v.reshape(())
    axis = axis_of(axis, x.ndim)
    if block_size:
        return np.repeat(v, block_size, axis).take(np.arange(x.shape[axis]), axis)
    shape = [1] * x.ndim
    shape[axis] = v.size
    return v.reshape(shape)


def _check(x: Arg, axis: int, block_size: int, scale: Arg, zero: Arg | None) -> None:
    if block_size < 0:
        raise ModelError(f"block_size is {block_size}, it must not be negative")
    shapes = {v.shape for v in (scale, zero) if v is not None and v.shape is not None}
    # One number is a scalar, or a vector of one, as a dynamic dimension may be.
    if len({len(s) for s in shapes}) > 1 and any(
        len(s) > 1 or (s and isinstance(s[0], int) and s[0] > 1) for s in shapes
    ):
        raise ModelError("scale and zero point have different shapes", why=" and ".join(map(str, shapes)))
    for v in (scale, zero):
        if v is None or v.shape is None or x.shape is None or all(d == 1 for d in v.shape):
            continue
        if len(v.shape) == 1 and not isinstance(v.shape[0], int) and not -len(x.shape) <= axis < len(x.shape):
            continue  # it can only be one number
        at = axis_of(axis, len(x.shape))
        if block_size:
            if len(v.shape) != len(x.shape):
                raise ModelError(f"scales per block of shape {v.shape} do not fit an input of shape {x.shape}")
            for i, (blocks, dim) in enumerate(zip(v.shape, x.shape, strict=True)):
                if i == at and isinstance(dim, int):
                    dim = -(-dim // block_size)
                if i != at or isinstance(dim, int):
                    agree([dim, blocks], f"blocks along axis {i}")
        elif len(v.shape) > 1:
            raise ModelError(f"scale and zero point of shape {v.shape}: one number, or one per place along an axis")
        else:
            agree([x.shape[at], v.shape[0]], f"scale and zero point along axis {axis}")


def _division(x: DType, scale: DType, precision: DType | None) -> DType:
    """The type that x / scale is computed in: the wider one, f64 where an integer takes part."""
    if precision is not None:
        return precision
    types = {x, scale} - {DType.F8E8M0}
    if types & {DType.I32, DType.F64}:
        return DType.F64
    return types.pop() if len(types) == 1 else DType.F32


@op(traits=ROUNDING)
def QuantizeLinear(x: Number, scale: Step, zero: Quantized | None = None, *, axis: int = 1, to: DType = DType.U8,
                   block_size: int = 0, saturate: bool = True, precision: DType | None = None):  # fmt: skip
    """y = saturate(round(x / scale) + zero), halves to even; floats are rounded once, after the addition.

    `scale` and `zero` hold one number, or one for each place along `axis`, or with a `block_size` one for each block of
    so many places along it. `zero` has the type `to`. The quotient is of the type `precision`, by default the wider one
    of `x` and `scale`. Without `saturate` floats beyond the range become infinity or NaN, as in Cast.
    """
    kind = _division(DType.of(x.dtype), DType.of(scale.dtype), precision)
    y = converted(x, kind) / converted(_along(scale, axis, block_size, x), kind)
    shift = 0 if zero is None else converted(_along(zero, axis, block_size, x), DType.F32)
    if to.is_float:
        return converted(converted(np.asarray(y), DType.F32) + shift, to, saturate)
    info = _limits(to)
    y = np.rint(y.astype(np.float64)) + shift
    return converted(np.clip(y, info.min, info.max).astype(np.int32), to)


@QuantizeLinear.shape
def _(x, scale, zero, *, axis, to, block_size, saturate, precision):
    if to not in QUANTIZED or (zero is not None and zero.dtype is not to):
        raise ModelError(f"QuantizeLinear cannot give {to} with a zero point of type {zero.dtype if zero else to}")
    if precision is not None and precision not in FLOATS:
        raise ModelError(f"QuantizeLinear cannot compute with the precision {precision}")
    _check(x, axis, block_size, scale, zero)
    return x.type.with_dtype(to)


@op(traits=EXACT_TYPES)
def DequantizeLinear(x: Accumulated, scale: Scale, zero: Accumulated | None = None, *, axis: int = 1,
                     block_size: int = 0, to: DType | None = None):  # fmt: skip
    """y = (x - zero) * scale, as `to`, by default the type of `scale`.

    `scale` and `zero` hold one number, or one for each place along `axis`, or with a `block_size` one for each block of
    so many places along it.
    """
    to = DType.of(scale.dtype) if to is None else to
    kind = DType.F64 if DType.I32 in (DType.of(x.dtype), to) or to is DType.F64 else DType.F32
    v = converted(x, kind)
    if zero is not None:
        v = v - converted(_along(zero, axis, block_size, x), kind)
    return converted(v * converted(_along(scale, axis, block_size, x), kind), to)


@DequantizeLinear.shape
def _(x, scale, zero, *, axis, block_size, to):
    if zero is not None and zero.dtype is not x.dtype:
        raise ModelError(f"DequantizeLinear needs a zero point of type {x.dtype}, not {zero.dtype}")
    to = scale.dtype if to is None else to
    if to not in FLOATS:
        raise ModelError(f"DequantizeLinear cannot give {to}")
    _check(x, axis, block_size, scale, zero)
    return x.type.with_dtype(to)


@op(outputs=3, traits=ROUNDING)
def DynamicQuantizeLinear(x: Float32, *, steps: int = 0):
    """x in u8, with the scale and zero point (u8) that fit its range, which is made to hold 0.

    scale = (max - min) / 255, or 1 for a range of nothing; zero = round(saturate(-min / scale)). With `steps`, as
    PyTorch chooses them: the scale is (max - min) / steps, computed in f64, or 0.1 where its reciprocal is not finite;
    zero = round(-min / scale), of at most so many steps.
    """
    low = np.minimum(np.min(x, initial=np.float32(np.inf)), np.float32(0))
    high = np.maximum(np.max(x, initial=np.float32(-np.inf)), np.float32(0))
    if steps:
        scale = np.float32((np.float64(high) - np.float64(low)) / steps)
        if scale == 0 or np.isinf(np.float32(1) / scale):
            scale = np.float32(0.1)
        zero = np.clip(np.rint(-np.float64(low) / np.float64(scale)), 0, steps)
    else:
        scale = np.float32(1) if high == low else (high - low) / np.float32(255)
        zero = np.rint(np.clip(-low / scale, 0, 255))
    y = np.clip(np.rint(x / scale) + zero, 0, 255)
    return y.astype(np.uint8), np.float32(scale), zero.astype(np.uint8)


@DynamicQuantizeLinear.shape
def _(x, *, steps):
    if not 0 <= steps <= 255:
        raise ModelError(f"steps is {steps}")
    return x.type.with_dtype(DType.U8), TensorType(DType.F32, ()), TensorType(DType.U8, ())


@QuantizeLinear.samples
def _(rng):
    for to in sorted(QUANTIZED):
        if to.is_float:
            continue
        info = _limits(to)
        scale = np.float32(8 / (info.max - info.min))
        zero = np.asarray((info.max + info.min) // 2 + 1).astype(to.numpy)
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
    for to in sorted(QUANTIZED):
        x = fill(rng, (2, 7, 3)) * np.float32(40)
        yield (x, np.abs(fill(rng, (2, 4, 3))) + 1), {"to": to, "axis": 1, "block_size": 2}
        yield (x, np.abs(fill(rng, (2, 7, 1))) + 1), {"to": to, "axis": -1, "block_size": 3}
        if not to.is_float:
            yield (
                (x, np.ones((2, 7, 2), np.float32), np.ones((2, 7, 2), to.numpy)),
                {"to": to, "axis": 2, "block_size": 2},
            )
            continue
        for dtype in (DType.F32, DType.F16, DType.BF16):
            wide = (fill(rng, (3, 17)) * 1000).astype(dtype.numpy)
            for saturate in (True, False):
                yield (wide, np.asarray(0.75, dtype.numpy)), {"to": to, "saturate": saturate}
        # ONNX asks that the zero point of floats of 8 bits be 0.
        yield (ties, np.float32(1), np.asarray(0 if to.bits == 8 else 1, to.numpy)), {"to": to}
    halves = fill(rng, (5, 33), DType.F16)
    yield (halves, np.float32(0.037), np.int8(3)), {"to": DType.I8}
    yield (halves, np.float16(0.037), np.int8(3)), {"to": DType.I8}
    yield (halves.astype(np.float32), np.float16(0.037), np.int8(3)), {"to": DType.I8, "precision": DType.F16}
    yield (halves, np.float16(0.037), np.int8(3)), {"to": DType.I8, "precision": DType.F32}
    yield (halves, np.asarray(0.0625, DType.F8E8M0.numpy)), {"to": DType.U8}
    integers = rng.integers(-1000, 1000, (3, 11)).astype(np.int32)
    yield (integers, np.float32(7)), {"to": DType.I8}
    yield (integers, np.int32(6), np.int8(1)), {"to": DType.I8}
    yield (fill(rng, (3, 1)), np.ones((1,), np.float32)), {"axis": 1}
    yield (fill(rng, (0, 4)), np.ones((0, 2), np.float32)), {"axis": 1, "block_size": 2}
    yield (fill(rng, (2, 1100)) * 9, np.abs(fill(rng, (2, 2))) + 0.1), {"axis": 1, "block_size": 600}


@DequantizeLinear.samples
def _(rng):
    for dtype in sorted(QUANTIZED):
        x = converted(rng.integers(0, 2 ** min(dtype.bits, 8), (2, 3, 5)).astype(np.uint8), DType.U8)
        x = x.view(dtype.numpy) if dtype.is_storage else fill(rng, (2, 3, 5), dtype)
        yield (x, np.float32(0.03), converted(np.asarray(7), dtype)), {}
        yield (x, fill(rng, (3,)), converted(np.array([0, 1, 9]) * dtype.is_int, dtype)), {}
        yield (x, fill(rng, (5,))), {"axis": -1}
        yield (x, fill(rng, (2, 2, 5)), converted(np.ones((2, 2, 5)) * dtype.is_int, dtype)), {"block_size": 2}
        yield (x, fill(rng, (2, 3, 2))), {"axis": 2, "block_size": 3}
        yield (x, fill(rng, (), DType.F16)), {}
        yield (x, fill(rng, (), DType.BF16)), {"to": DType.F32}
        yield (x, fill(rng, ())), {"to": DType.F16}
        yield (x, np.asarray(0.25, DType.F8E8M0.numpy)), {"to": DType.F32}
    yield (rng.integers(-(2**31), 2**31, (3, 7)).astype(np.int32), fill(rng, (3,))), {"axis": 0}
    yield (fill(rng, (0, 3), DType.I8), fill(rng, (3,))), {}
    yield (fill(rng, (), DType.U8), np.float32(0.5), np.uint8(4)), {}


@DynamicQuantizeLinear.samples
def _(rng):
    for steps in 127, 255, 1:
        yield ((2, 3, 5),), {"steps": steps}, 3
        yield (np.zeros((3,), np.float32),), {"steps": steps}, 3
        yield (np.full((3,), 1e-40, np.float32),), {"steps": steps}, 3
    for shape in (2, 3, 5), (17,), (), (1, 131):
        yield (shape,), {}, 3
        yield (np.abs(fill(rng, shape)),), {}, 3
        yield (-np.abs(fill(rng, shape)),), {}, 3
    yield (np.zeros((3,), np.float32),), {}, 3
    yield (np.array([0, 1, 2, 255, 127.5, 0.5], np.float32),), {}, 3
