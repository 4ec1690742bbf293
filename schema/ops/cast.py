"""Changes of element type, and none at all."""

from __future__ import annotations

from typing import Literal

import ml_dtypes
import numpy as np

from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, Node, TensorType
from minnow.schema.ops.special import Array
from minnow.schema.registry.encoding import FROM_WIRE_DTYPE, WIRE_DTYPES, bound, dtype_of
from minnow.schema.registry.op import ELEMENTWISE, EXACT_TYPES, VIEW, Arg, Decoded, Float, T, Trait, WireOp, fill, op
from minnow.schema.registry.sign import where_all
from minnow.schema.registry.symbolic import Polynomial, contents, different

# What the format's runtime converts between; it knows bool as int32 that is 0 or 1.
_FROM = frozenset({DType.F32, DType.I32, DType.U8, DType.I8, DType.BOOL})
# What it has instead of the wider types.
_NARROWED = {
    DType.F64: DType.F32,
    DType.F16: DType.F32,
    DType.BF16: DType.F32,
    DType.I64: DType.I32,
    DType.I16: DType.I32,
    DType.U16: DType.I32,
}


@op(traits=ELEMENTWISE)
def Cast(x: T, *, to: DType, saturate: bool = True, round_mode: Literal["up", "down", "nearest"] = "up"):
    """x as another type. Floats become integers by truncation, integers wrap around, everything but 0 is true.

    A float beyond the integer's range gives anything, as in C. Floats of 8 bits and less are rounded from f32: with
    `saturate` a number beyond the range becomes the greatest one, without it infinity or NaN, as the type has it.
    Powers of two (f8e8m0) are rounded as `round_mode` says: "up", "down" or "nearest", ties up; without `saturate` 0
    is NaN there. Negative numbers are NaN always.
    """
    return converted(x, to, saturate, round_mode)


Cast.sign(where_all())


@Cast.contents
def _(node, memo):
    x = contents(node.input(0), memo)
    if x is None or node.attrs["to"] is not DType.BOOL:
        return x
    return [None if e is None else different(e, Polynomial()) for e in x]


def converted(x: Array, to: DType, saturate: bool = True, round_mode: str = "up") -> Array:
    """What Cast computes; also for types that numpy itself does not convert."""
    source = DType.of(x.dtype)
    if source.is_storage and source is not to:
        x = x.astype(np.float32 if source.is_float else np.int32)
    if not to.is_storage or source is to:
        return x.astype(to.numpy)
    if not to.is_float:
        # By way of a type that numpy wraps around to.
        return (x if source.is_int else x.astype(np.int32)).astype(np.uint8).astype(to.numpy)
    x = x.astype(np.float32)
    if to is DType.F8E8M0:
        return _power_of_two(x, saturate, round_mode)
    if saturate:
        most = np.float32(ml_dtypes.finfo(to.numpy).max)
        x = np.clip(x, -most, most)
    return x.astype(to.numpy)


def _power_of_two(x: Array, saturate: bool, round_mode: str) -> Array:
    """The exponents of f32 numbers, rounded; they are what f8e8m0 stores."""
    fraction, exponent = np.frexp(x)
    up = {"up": fraction > 0.5, "down": False, "nearest": fraction >= 0.75}[round_mode]
    code = exponent + up + 126
    small, great = x < np.ldexp(np.float32(1), -127), (code > 254) | np.isinf(x)
    code = np.where(small, 0 if saturate else 255, np.where(great, 254 if saturate else 255, code))
    return np.where(np.isnan(x) | (x < 0), 255, code).astype(np.uint8).view(DType.F8E8M0.numpy)


@Cast.shape
def _(x, *, to, saturate, round_mode):
    return x.type.with_dtype(to)


@Cast.encode("Cast")
def _(node: Node) -> WireOp | None:
    source, to = node.input(0).type.dtype, bound(node)["to"]
    # What is i64 by definition, shapes and indices, is i32 in the file already.
    if (source not in _FROM or to not in _FROM) and (source, to) != (DType.I64, DType.I32):
        return None
    if (source, to) == (DType.U8, DType.I8):
        return None  # the one pair that the runtime does not have
    # To bool the runtime looks at the bits of floats, so that -0 is true, and leaves bytes as they are.
    if to is DType.BOOL and source not in (DType.I32, DType.BOOL):
        return None
    return WireOp("Cast", "CastParam", {"srcT": WIRE_DTYPES[source], "dstT": WIRE_DTYPES[to]}, node.inputs)


@Cast.decode
def _(wire: WireOp) -> Decoded:
    to = FROM_WIRE_DTYPE.get(wire.field("dstT", "DT_INVALID"))
    if to is None or _rounding(wire) is not None:
        return None
    return wire.inputs, {"to": _NARROWED.get(to, to)}


@Cast.samples
def _(rng):
    for source in DType:
        for to in DType:
            if source.is_storage and to.is_storage and source is not DType.F8E5M2 and to is not DType.I4:
                continue  # pairs enough
            numbers = np.abs(fill(rng, (3, 7), DType.F64)) * 9
            yield (numbers.astype(source.numpy),), {"to": to}
    for shape in (), (0,), (2, 3, 5, 7), (1, 19, 3, 3):
        yield (fill(rng, shape),), {"to": DType.F16}
        yield (fill(rng, shape, DType.I64),), {"to": DType.F32}
    signs = np.array([-2.7, -0.5, -0.0, 0, 0.5, 2.7, 100.9], np.float32)
    yield (signs,), {"to": DType.I32}
    yield (signs,), {"to": DType.I64}
    yield (signs,), {"to": DType.I8}
    yield (np.array([0.0, -0.0, np.nan, np.inf, 1e-40], np.float32),), {"to": DType.BOOL}
    yield (np.array([1e-8, 6e-8, 65520, -70000, np.nan, np.inf, 2049, 2051], np.float32),), {"to": DType.F16}
    yield (np.array([1e-40, 3e38, np.inf, np.nan, 1.00390625, 1.01171875], np.float32),), {"to": DType.BF16}
    yield (np.array([-1, 255, 256, 2**31, 2**32 + 7, -(2**40)], np.int64),), {"to": DType.I32}
    yield (np.array([-1, 255, 256, 300], np.int32),), {"to": DType.U8}
    yield (np.array([2**24 + 1, -(2**31)], np.int32),), {"to": DType.F32}
    codes = np.arange(256, dtype=np.uint8)
    ties = np.concatenate([fill(rng, (64,)) * 4**k for k in range(-12, 12)])
    limits = [0.0, -0.0, np.nan, np.inf, -np.inf, 1e-45, 5.9e-39, 1.2e-38, 1.7e38, 2.6e38, 3.4e38, 1e9, -1e9]
    for to in DType:
        if not to.is_storage:
            continue
        numbers = (codes if to.bits == 8 else codes[: 2**to.bits]).view(to.numpy)
        yield (numbers,), {"to": DType.F32}
        yield (numbers,), {"to": DType.F16}
        yield (np.arange(-300, 300, dtype=np.int64),), {"to": to}
        if to.is_float:
            # Every number, and what lies in the middle between it and the next.
            exact = np.unique(numbers.astype(np.float32))
            exact = np.concatenate([exact, (exact[1:] + exact[:-1]) / 2, ties, np.array(limits, np.float32)])
            for saturate in (True, False):
                yield (exact,), {"to": to, "saturate": saturate}
    for round_mode in ("down", "nearest"):
        for saturate in (True, False):
            yield (exact,), {"to": DType.F8E8M0, "saturate": saturate, "round_mode": round_mode}


@op(traits=ELEMENTWISE | EXACT_TYPES)
def BitCast(x: T, *, to: DType):
    """The bits of x, taken for another type of as many bits."""
    return x.view(to.numpy)


@BitCast.shape
def _(x, *, to):
    if x.dtype.bits != to.bits:
        raise ModelError(f"BitCast needs types of one size: {x.dtype} has {x.dtype.bits} bits, {to} has {to.bits}")
    return x.type.with_dtype(to)


@BitCast.samples
def _(rng):
    for source in DType:
        for to in DType:
            if source.bits == to.bits and source is not DType.BOOL and to is not DType.BOOL:
                bits = rng.integers(0, 2**source.bits, (3, 7), np.uint64)
                yield (bits.astype(f"u{source.size}").view(source.numpy),), {"to": to}
    yield (np.array([True, False]),), {"to": DType.U8}
    yield (np.array([1, 0], np.uint8),), {"to": DType.BOOL}
    for shape in (), (0,), (1, 19, 3, 3):
        yield (fill(rng, shape),), {"to": DType.I32}


@op(traits=ELEMENTWISE | EXACT_TYPES)
def RoundTo(x: Float, *, to: DType):
    """The nearest number that a narrower float type has, in the type of x: infinity where it is beyond all of them."""
    return x.astype(to.numpy).astype(x.dtype)


@RoundTo.shape
def _(x, *, to):
    if to not in (DType.F16, DType.BF16):
        raise ModelError(f"RoundTo cannot round to {to}", why="it rounds to f16 or bf16")
    return x.type


# The format's runtime does not look at srcT: there it is a cast of floats to floats, and the numbers keep all bits.
@RoundTo.encode("Cast")
def _(node: Node) -> WireOp | None:
    if node.input(0).type.dtype is not DType.F32:
        return None
    main = {"srcT": WIRE_DTYPES[node.attrs["to"]], "dstT": WIRE_DTYPES[DType.F32]}
    return WireOp("Cast", "CastParam", main, node.inputs)


@RoundTo.decode
def _rounding(wire: WireOp) -> Decoded:
    source = FROM_WIRE_DTYPE.get(wire.field("srcT", "DT_INVALID"))
    if source not in (DType.F16, DType.BF16) or wire.field("dstT", "DT_INVALID") != WIRE_DTYPES[DType.F32]:
        return None
    return (wire.inputs, {"to": source}) if dtype_of(wire) is DType.F32 else None


@RoundTo.samples
def _(rng):
    special = np.array([0.1, 2049, 2051, 65519, 65520, -7e4, 1e-8, 6e-8, -0.0, np.inf, -np.inf, np.nan], np.float32)
    for to in (DType.F16, DType.BF16):
        yield (special,), {"to": to}
        for shape in (), (0,), (7,), (2, 19, 3, 5):
            yield (fill(rng, shape) * 100,), {"to": to}
        yield (fill(rng, (5, 3), DType.F64),), {"to": to}
        yield (fill(rng, (5, 3), to),), {"to": to}


@op(traits=ELEMENTWISE | VIEW | {Trait.HOLDERS})
def Identity(x: T):
    """y = x"""
    return x


@Identity.shape
def _(x: Arg) -> TensorType:
    return x.type


# Dropout drops nothing outside of training.
@Identity.encode("Identity", "Dropout", "Copy")
def _(node: Node) -> WireOp | None:
    return WireOp("Identity", inputs=node.inputs)


@Identity.decode
def _(wire: WireOp) -> Decoded:
    return (wire.inputs, {}) if len(wire.inputs) == wire.n_outputs == 1 else None
