"""Binary math, elementwise with numpy broadcasting. Both operands have one type; integers wrap around."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args, get_type_hints

import numpy as np

from minnow.schema.ir import DType, Node
from minnow.schema.ops.special import Array, keep
from minnow.schema.registry.encoding import F32, I32, binary, bound
from minnow.schema.registry.op import ELEMENTWISE, Decoded, Float, Int, Numeric, Trait, WireOp, fill, get, op
from minnow.schema.registry.sign import where_all, where_any
from minnow.schema.registry.symbolic import Polynomial, elementwise, greatest, least

COMMUTATIVE = ELEMENTWISE | {Trait.COMMUTATIVE}


@op(mnn=binary("ADD", eltwise="SUM"), traits=COMMUTATIVE | {Trait.SIZE_MATH, Trait.TOTAL})
def Add(a: Numeric, b: Numeric):
    """y = a + b"""
    return a + b


Add.contents(elementwise(Polynomial.__add__))
Add.sign(where_all())


@op(mnn=binary("SUB", eltwise="SUB"), traits=ELEMENTWISE | {Trait.SIZE_MATH, Trait.TOTAL})
def Sub(a: Numeric, b: Numeric):
    """y = a - b"""
    return a - b


Sub.contents(elementwise(Polynomial.__sub__))


# Other runtimes of the format multiply int32 by way of float: exact up to 2^24, and there is no other form.
@op(mnn=binary("MUL", eltwise="PROD"), traits=COMMUTATIVE | {Trait.SIZE_MATH, Trait.TOTAL})
def Mul(a: Numeric, b: Numeric):
    """y = a * b"""
    return a * b


Mul.contents(elementwise(Polynomial.__mul__))
Mul.sign(where_all())


@op(mnn=binary("REALDIV", aliases=("DIV",)), traits=ELEMENTWISE | {Trait.SIZE_MATH})
def Div(a: Numeric, b: Numeric):
    """y = a / b; integers truncate toward zero, wrap around, and give 0 where they are divided by 0."""
    if a.dtype.kind not in "iu":
        return a / b
    quotient = a // b
    return quotient + ((quotient < 0) & (quotient * b != a)).astype(a.dtype)


def _quotient(a: Polynomial, b: Polynomial) -> Polynomial | None:
    if a.integer is not None and b.integer:
        return Polynomial.of(abs(a.integer) // abs(b.integer) * (1 if (a.integer < 0) == (b.integer < 0) else -1))
    return a.divided(b) if b.terms else None


Div.contents(elementwise(_quotient))


@op(mnn=binary("FLOORDIV"), traits=ELEMENTWISE | {Trait.SIZE_MATH})
def FloorDiv(a: Numeric, b: Numeric):
    """The largest integer not above a / b, the quotient being rounded to the type first.

    Integers are divided exactly, wrap around, and give 0 where they are divided by 0.
    """
    return a // b if a.dtype.kind in "iu" else np.floor(a / b)


FloorDiv.contents(elementwise(lambda a, b: _quotient(a, b) if a.at_least(0) and b.at_least(1) else a.divided(b)))


@op(mnn=binary("POW", F32), traits=ELEMENTWISE)
def Pow(a: Numeric, b: Numeric):
    """a to the power of b; integers wrap around, and to a negative power give 0 unless |a| is 1."""
    if a.dtype.kind not in "iu":
        return keep(np.power, a, b)
    unit = np.where(a == 1, 1, np.where((a == -1 if a.dtype.kind == "i" else False), 1 - 2 * (b & 1), 0))
    return np.where(b < 0, unit.astype(a.dtype), np.power(a, np.maximum(b, 0)))


# Other runtimes of the format give the second operand where one is NaN.
@op(
    mnn=binary("MAXIMUM", aliases=("MAX_TEMP",), eltwise="MAXIMUM"),
    traits=COMMUTATIVE | {Trait.SIZE_MATH, Trait.TOTAL, Trait.NO_ROUNDING},
)
def Max(a: Numeric, b: Numeric):
    """The larger one; NaN where one of them is."""
    return np.maximum(a, b)


Max.contents(elementwise(greatest))
Max.sign(where_any)


@op(
    mnn=binary("MINIMUM", aliases=("MIN_TEMP",)), traits=COMMUTATIVE | {Trait.SIZE_MATH, Trait.TOTAL, Trait.NO_ROUNDING}
)
def Min(a: Numeric, b: Numeric):
    """The smaller one; NaN where one of them is."""
    return np.minimum(a, b)


Min.contents(elementwise(least))
Min.sign(where_all())


@op(mnn=binary("ATAN2", F32), traits=ELEMENTWISE)
def Atan2(a: Float, b: Float):
    """Angle of the point (x=b, y=a), in radians from -pi to pi."""
    return keep(np.arctan2, a, b)


@op(mnn=binary("SquaredDifference"), traits=COMMUTATIVE)
def SquaredDifference(a: Numeric, b: Numeric):
    """y = (a - b)^2"""
    return (a - b) * (a - b)


@op(traits=ELEMENTWISE | {Trait.SIZE_MATH})
def Mod(a: Numeric, b: Numeric, *, fmod: bool = False):
    """Remainder of a / b: with the sign of b, or with that of a (as C's fmod and % have it) when `fmod` is set.

    Of integers divided by 0 it is 0.
    """
    if a.dtype.kind in "iu":
        return np.fmod(a, b) if fmod else np.mod(a, b)
    return keep(np.fmod if fmod else np.mod, a, b)


def _remainder(a: Polynomial, b: Polynomial) -> Polynomial | None:
    if a.integer is not None and b.integer is not None and b.integer > 0 <= a.integer:
        return Polynomial.of(a.integer % b.integer)
    exact = a.divided(b) if b.terms else None
    return Polynomial() if exact is not None else None


Mod.contents(elementwise(_remainder))


@Mod.sign
def _(known, *, fmod=False):
    return known[1] and not fmod


# The codes change places with the type: for floats MOD is C's fmod, for integers it has the sign of the divisor.
_MOD = {
    (DType.F32, True): binary("MOD", F32),
    (DType.F32, False): binary("FLOORMOD", F32),
    (DType.I32, True): binary("FLOORMOD", I32),
    (DType.I32, False): binary("MOD", I32),
}


@Mod.encode("BinaryOp")
def _(node: Node) -> WireOp | None:
    encoding = _MOD.get((node.input(0).type.dtype, bound(node)["fmod"]))
    return None if encoding is None else encoding.encode(node)


@Mod.decode
def _(wire: WireOp) -> Decoded:
    found = next((fmod for (_, fmod), encoding in _MOD.items() if encoding.decode(wire)), None)
    return None if found is None else (wire.inputs, {"fmod": found})


def _nonzero(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    numbers = fill(rng, shape, dtype)
    return np.where(numbers == 0, numbers.dtype.type(3), numbers)


def _dividing(rng):
    """Samples without an integer division by zero."""
    shapes = ((), ()), ((0, 3), (1, 3)), ((2, 3, 5), (5,)), ((4, 1, 6), (5, 1)), ((17, 3), (17, 3)), ((1,), (3, 1))
    for dtype in (DType.F32, DType.F64, DType.I32, DType.I64, DType.U8, DType.I8):
        for s, t in shapes:
            yield (fill(rng, s, dtype), _nonzero(rng, t, dtype)), {}
    signs = np.array([[7], [-7], [0], [6]]), np.array([[2, -2, 3, -3, 7, 100]])
    yield tuple(v.astype(np.int32) for v in signs), {}
    yield tuple(v.astype(np.float32) for v in signs), {}
    special = np.array([0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan], np.float32)
    yield (special[:, None], special[None]), {}


Div.samples(_dividing)
FloorDiv.samples(_dividing)


@Mod.samples
def _(rng):
    for operands, _ in _dividing(rng):
        yield operands, {}
        yield operands, {"fmod": True}


@Pow.samples
def _(rng):
    for s, t in ((), ()), ((0, 3), (1, 3)), ((2, 3, 5), (5,)), ((4, 1, 6), (5, 1)), ((2, 17, 3), ()), ((1,), (3, 1)):
        base = np.abs(fill(rng, s)) + np.float32(0.1)
        yield (base, fill(rng, t)), {}
        yield (fill(rng, s), np.round(fill(rng, t) * 2)), {}
        yield (base.astype(np.float64), fill(rng, t, DType.F64)), {}
        yield (fill(rng, s, DType.I32), np.abs(fill(rng, t, DType.I32)) % 5), {}
        yield (fill(rng, s, DType.I64), np.abs(fill(rng, t, DType.I64))), {}
    signs = np.array([[1, -1, 0, 2, -3]], np.int32), np.array([[0], [1], [2], [5]], np.int32)
    yield signs, {}
    special = np.array([0.0, -0.0, 1, -1, 0.5, -2, 3, np.inf, -np.inf, np.nan], np.float32)
    yield (special[:, None], special[None]), {}


@op(traits=ELEMENTWISE)
def BinaryRelu(a: Float, b: Float, *, op: Literal["Add", "Sub", "Mul", "Div", "Max", "Min"] = "Add"):
    """y = max(a op b, 0) with another op of this kind. NaN stays NaN."""
    y = get(op).reference(a, b)
    return np.maximum(y, np.zeros((), y.dtype))


RECTIFIED: tuple[str, ...] = get_args(get_type_hints(BinaryRelu.reference)["op"])
for _name in RECTIFIED[1:]:
    BinaryRelu.vary(op=_name)


@BinaryRelu.encode("BinaryOp")
def _(node: Node) -> WireOp | None:
    if node.input(0).type.dtype is not DType.F32:
        return None
    encoding = get(bound(node)["op"]).mnn
    wire = None if encoding is None else encoding.encode(node)
    return None if wire is None else replace(wire, main={**(wire.main or {}), "activationType": 1})


@BinaryRelu.decode
def _(wire: WireOp) -> Decoded:
    if wire.field("activationType", 0) != 1 or wire.inputs[0] is None or wire.inputs[0].type.dtype is not DType.F32:
        return None
    plain = replace(wire, main={**(wire.main or {}), "activationType": 0})
    for name in RECTIFIED:
        encoding = get(name).mnn
        if encoding is not None and encoding.decode(plain):
            return wire.inputs, {"op": name}
    return None


@op(mnn=binary("BITWISE_AND", I32), traits=COMMUTATIVE)
def BitwiseAnd(a: Int, b: Int):
    """Bits set in both."""
    return a & b


@op(mnn=binary("BITWISE_OR", I32), traits=COMMUTATIVE)
def BitwiseOr(a: Int, b: Int):
    """Bits set in one or both."""
    return a | b


@op(mnn=binary("BITWISE_XOR", I32), traits=COMMUTATIVE)
def BitwiseXor(a: Int, b: Int):
    """Bits set in exactly one."""
    return a ^ b


@op(traits=ELEMENTWISE | {Trait.INVOLUTION})
def BitwiseNot(x: Int):
    """All bits flipped."""
    return ~x


@op(traits=ELEMENTWISE)
def BitShift(a: Int, b: Int, *, direction: Literal["LEFT", "RIGHT"]):
    """`a` shifted by `b` bits, from 0 to the width less 1; to the right signed numbers keep their sign."""
    return np.left_shift(a, b) if direction == "LEFT" else np.right_shift(a, b)


_SHIFT = {"LEFT": binary("LEFTSHIFT", I32), "RIGHT": binary("RIGHTSHIFT", I32)}


@BitShift.encode("BinaryOp")
def _(node: Node) -> WireOp | None:
    return _SHIFT[bound(node)["direction"]].encode(node)


@BitShift.decode
def _(wire: WireOp) -> Decoded:
    way = next((k for k, encoding in _SHIFT.items() if encoding.decode(wire)), None)
    return None if way is None else (wire.inputs, {"direction": way})


@BitShift.samples
def _(rng):
    for dtype in (DType.U8, DType.U16, DType.U32, DType.U64, DType.I32, DType.I64):
        for s, t in ((), ()), ((0, 3), (1, 3)), ((2, 3, 5), (5,)), ((4, 1, 6), (5, 1)), ((17,), (17,)):
            by = (np.abs(fill(rng, t, DType.I32)) % 8).astype(dtype.numpy)
            for direction in ("LEFT", "RIGHT"):
                yield (fill(rng, s, dtype), by), {"direction": direction}
