"""Arithmetic of quantized networks on whole numbers only: fixed-point factors, and functions of few arguments."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, TensorType
from minnow.schema.ops.cast import converted
from minnow.schema.ops.special import Array
from minnow.schema.registry.op import ROUNDING, Arg, T, Trait, op
from minnow.schema.registry.symbolic import broadcast_first

RESULTS = frozenset({DType.I8, DType.U8, DType.I16, DType.U16, DType.I32})
Sum = Annotated[np.ndarray[Any, Any], frozenset({DType.I32, DType.I64})]
Int32 = Annotated[np.ndarray[Any, Any], frozenset({DType.I32})]
Narrow = Annotated[np.ndarray[Any, Any], frozenset({DType.I8, DType.U8, DType.I16, DType.U16})]


@op(traits=ROUNDING | {Trait.ELEMENTWISE, Trait.CHANNEL_OPERANDS})
def Requantize(x: Sum, multiplier: Int32, shift: Int32, *, zero: int = 0, to: DType, min: int, max: int):
    """y = clip(round(x * multiplier * 2**(shift - 31)) + zero, min, max), in steps that make each bit certain.

    `multiplier` and `shift` hold one number, or one for each place along an axis of x. For x of i32: x is shifted left
    by a positive `shift` (and wraps), the product rounds to its upper half (halves up), and that is divided by
    2**-shift for a negative one (halves away from zero). For x of i64, below 2**47: the multiplier rounds to 15 bits,
    and the product is divided by 2**(15 - shift), halves up, and cut to 32 bits. The sum with `zero` wraps in i32.
    """
    factor, shift = multiplier.astype(np.int64), shift.astype(np.int64)
    y = (_scaled_long if x.dtype == np.int64 else scaled)(x.astype(np.int64), factor, shift)
    return np.clip(wrapped(y + zero), min, max).astype(to.numpy)


Requantize.dimension(broadcast_first)


def _limits(dtype: DType) -> Any:
    numpy: Any = dtype.numpy
    return np.iinfo(numpy)


def wrapped(x: Array) -> Array:
    """The lower 32 bits, as i64 numbers."""
    return x.astype(np.int32).astype(np.int64)


def scaled(x: Array, multiplier: Any, shift: Any) -> Array:
    """x * multiplier * 2**(shift - 31) for 32-bit numbers in i64: rounds the upper half, then what is shifted out."""
    left, right = np.maximum(shift, 0), np.maximum(-np.asarray(shift), 0)
    product = wrapped(x << left) * multiplier
    # The one product that is too large has the greatest number for its result.
    return divided(np.minimum((product + (1 << 30)) >> 31, 2**31 - 1), right)


def divided(x: Array, exponent: Any) -> Array:
    """x / 2**exponent, halves away from zero."""
    mask = (np.int64(1) << exponent) - 1
    return np.asarray((x >> exponent) + ((x & mask) > (mask >> 1) + (x < 0)))


def _scaled_long(x: Array, multiplier: Array, shift: Array) -> Array:
    reduced = np.where(multiplier < 0x7FFF0000, (multiplier + (1 << 15)) >> 16, 0x7FFF)
    total = 15 - shift
    return wrapped((x * reduced + (np.int64(1) << (total - 1))) >> total)


@Requantize.shape
def _(x: Arg, multiplier: Arg, shift: Arg, *, zero: int, to: DType, min: int, max: int) -> TensorType:
    if to not in RESULTS:
        raise ModelError(f"Requantize cannot give {to}")
    limits = _limits(to)
    if not limits.min <= min <= max <= limits.max or not -(2**31) <= zero < 2**31:
        raise ModelError(f"Requantize to {to} cannot use min={min}, max={max}, zero={zero}")
    if multiplier.shape != shift.shape:
        raise ModelError(f"multipliers of shape {multiplier.shape} need shifts of the same shape, not {shift.shape}")
    if (factors := multiplier.shape) is not None and x.shape is not None:
        each = [i for i, d in enumerate(factors, len(x.shape) - len(factors)) if d != 1]
        if len(factors) > len(x.shape) or len(each) > 1 or any(
            isinstance(d := x.shape[i], int) and d != factors[i - len(x.shape)] for i in each
        ):  # fmt: skip
            raise ModelError(f"multipliers of shape {factors} cannot be broadcast to numbers of shape {x.shape}")
    allowed = (-31, 31) if x.dtype is DType.I32 else (-31, 14)
    if shift.value is not None and shift.value.size:
        least, most = int(shift.value.min()), int(shift.value.max())
        if least < allowed[0] or most > allowed[1]:
            raise ModelError(f"shifts from {least} to {most} are not within {allowed}")
    return x.type.with_dtype(to)


@op(traits=ROUNDING)
def LookUp(x: Narrow, table: T):
    """y = table[x - lowest], where `lowest` is the least number of x's type: any function of so few arguments.

    `table` has one element for each number that x can be: 256 for 8 bits, 65536 for 16.
    """
    return table[x.astype(np.int64) - np.iinfo(x.dtype).min]


@LookUp.shape
def _(x: Arg, table: Arg) -> TensorType:
    if table.shape not in (None, (1 << x.dtype.bits,), ("?",)):
        raise ModelError(f"a table for numbers of type {x.dtype} cannot have the shape {table.shape}")
    return x.type.with_dtype(table.dtype)


@Requantize.samples
def _(rng):
    def sums(shape, bits=31, dtype=np.int32):
        return rng.integers(-(2**bits), 2**bits, shape).astype(dtype)

    def factors(shape, low=-12, high=2):
        return rng.integers(2**30, 2**31, shape).astype(np.int32), rng.integers(low, high, shape).astype(np.int32)

    def case(x, factor, to=DType.I8, zero=0, min=None, max=None):
        info = _limits(to)
        limits = {"min": info.min if min is None else min, "max": info.max if max is None else max}
        return (x, *factor), {"to": to, "zero": zero, **limits}

    for shape in (), (0,), (1,), (17,), (2, 3, 5, 7), (1, 19, 3, 3), (3, 131):
        yield case(sums(shape, 15), factors(()), zero=-3)
    for to in sorted(RESULTS):
        yield case(sums((5, 33), 20), factors((), -7, -3), to=to, zero=7)
        yield case(sums((3, 67)), factors((), -31, 3), to=to)
    yield case(sums((2, 5, 7, 3), 16), factors((5, 1, 1)), to=DType.U8, zero=128, min=128, max=210)
    yield case(sums((2, 5, 1, 3), 16), factors((1, 5, 1, 1)), min=-128, max=0)
    yield case(sums((7, 35), 16), factors((35,)), zero=4)
    yield case(sums((3, 1, 33), 16), factors((1, 33)), zero=4)
    yield case(sums((4, 3, 6), 16), factors((4, 1, 1)))
    yield case(sums((1, 1), 16), factors((1, 1)))
    extremes = np.array([-(2**31), 2**31 - 1, -1, 0, 1, -(2**30), 2**30, 3, -3, 5, -5], np.int32)
    for factor in 2**31 - 1, 2**30, -(2**31), -(2**30) - 7:
        for shift in 0, 1, 5, -1, -2, -30, -31:
            yield case(extremes, (np.int32(factor), np.int32(shift)), DType.I32)
    ties = np.arange(-65, 66, dtype=np.int32)
    for shift in -1, -2, -4:
        yield case(ties, (np.int32(2**30), np.int32(shift)))
    for to in DType.I16, DType.I8, DType.I32:
        yield case(sums((3, 65), 40, np.int64), factors((), -31, -20), to=to)
        yield case(sums((3, 5, 11), 46, np.int64), factors((5, 1), -31, 7), to=to, zero=2)
        yield case(sums((2, 33), 24, np.int64), factors((33,), -16, -6), to=to)
    yield case(ties.astype(np.int64), (np.int32(2**31 - 1), np.int32(14)), DType.I32)


@LookUp.samples
def _(rng):
    for x in DType.I8, DType.U8, DType.I16, DType.U16:
        info = _limits(x)
        for y in (DType.I8, DType.U8, DType.I16, DType.I32, DType.I64, DType.F32, DType.BOOL, DType.F64):
            table = converted(rng.integers(-9999, 9999, 1 << x.bits), y)
            shapes: tuple[tuple[int, ...], ...] = ((2, 3, 5, 7), (131,)) if x.bits == 8 else ((3, 7),)
            for shape in shapes:
                yield (rng.integers(info.min, info.max + 1, shape).astype(x.numpy), table), {}
    bytes_ = np.arange(-128, 128).astype(np.int8)
    for size in (), (0, 3), (256,), (1, 1):
        yield (np.resize(bytes_, size), bytes_[::-1].copy()), {}
