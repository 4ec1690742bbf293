"""Comparisons, logic on bool, and the choice that goes with them."""

from __future__ import annotations

import numpy as np

from minnow.schema.ir import DType, Node
from minnow.schema.ops.special import Array
from minnow.schema.registry.dimension import broadcast_to
from minnow.schema.registry.encoding import BOOL, F32_I32, binary, simple, swapped, when
from minnow.schema.registry.op import COMPARE, ELEMENTWISE, Bool, Encoding, Float, Numeric, T, Trait, WireOp, fill, op
from minnow.schema.registry.sign import where_all
from minnow.schema.registry.symbolic import Polynomial, different, elementwise, equal, inverted, less

SYMMETRIC = COMPARE | {Trait.COMMUTATIVE}


def _equality(code: str) -> Encoding:
    """EQUAL and NOTEQUAL, where the format's runtime is right with them.

    It compares the bits of floats: 0 differs from -0, and NaN equals NaN. With a constant that is neither, this is no
    matter; other floats get the generic encoding, unless a pass has made two ordered comparisons of it.
    """
    form = binary(code, F32_I32 | BOOL)

    def encode(node: Node) -> WireOp | None:
        if node.input(0).type.dtype is DType.F32 and not any(_plain(v.array) for v in node.inputs if v is not None):
            return None
        return form.encode(node)

    return Encoding(encode, form.decode, form.types)


def _plain(numbers: Array | None) -> bool:
    return numbers is not None and bool(np.all((numbers != 0) & (numbers == numbers)))


@op(mnn=_equality("EQUAL"), traits=SYMMETRIC | {Trait.SAME_FOR_ZEROS})
def Equal(a: T, b: T):
    """a == b; NaN equals nothing."""
    return np.equal(a, b)


Equal.contents(elementwise(equal))


@op(mnn=_equality("NOTEQUAL"), traits=SYMMETRIC | {Trait.SAME_FOR_ZEROS})
def NotEqual(a: T, b: T):
    """a != b; true where one is NaN."""
    return np.not_equal(a, b)


NotEqual.contents(elementwise(different))


def _ordered(code: str) -> Encoding:
    """GREATER and its like, where the format's runtime is right with them.

    It orders negative floats the wrong way round when both operands are broadcast, [N,1] with [1,M]; with one of them
    in the shape of the result it does not. A pass may expand one.
    """

    def is_right(node: Node) -> bool:
        a, b = node.input(0).type, node.input(1).type
        return a.dtype is not DType.F32 or broadcast_to(a.shape, b.shape) or broadcast_to(b.shape, a.shape)

    return when(is_right, binary(code))


@op(mnn=_ordered("GREATER"), traits=COMPARE | {Trait.SAME_FOR_ZEROS})
def Greater(a: Numeric, b: Numeric):
    """a > b"""
    return np.greater(a, b)


Greater.contents(elementwise(lambda a, b: less(b, a)))


# LESS is wrong in other runtimes of the format where both floats are negative. It is read, never written.
@op(mnn=swapped(_ordered("GREATER"), binary("LESS")), traits=COMPARE | {Trait.SAME_FOR_ZEROS})
def Less(a: Numeric, b: Numeric):
    """a < b. In a file it stands as Greater(b, a)."""
    return np.less(a, b)


Less.contents(elementwise(less))


@op(mnn=_ordered("GREATER_EQUAL"), traits=COMPARE | {Trait.SAME_FOR_ZEROS})
def GreaterOrEqual(a: Numeric, b: Numeric):
    """a >= b"""
    return np.greater_equal(a, b)


GreaterOrEqual.contents(elementwise(lambda a, b: inverted(less(a, b))))


@op(mnn=_ordered("LESS_EQUAL"), traits=COMPARE | {Trait.SAME_FOR_ZEROS})
def LessOrEqual(a: Numeric, b: Numeric):
    """a <= b"""
    return np.less_equal(a, b)


LessOrEqual.contents(elementwise(lambda a, b: inverted(less(b, a))))


# The format's runtime knows bool as int32 that is 0 or 1, where a product is the conjunction.
@op(mnn=binary("MUL", BOOL), traits=SYMMETRIC)
def And(a: Bool, b: Bool):
    """True where both are."""
    return a & b


def _both(a: Polynomial | None, b: Polynomial | None) -> Polynomial | None:
    return Polynomial() if Polynomial() in (a, b) else None if a is None or b is None else a * b


And.contents(elementwise(_both, strict=False))


@op(mnn=binary("LOGICALOR", BOOL), traits=SYMMETRIC)
def Or(a: Bool, b: Bool):
    """True where one or both are."""
    return a | b


def _either(a: Polynomial | None, b: Polynomial | None) -> Polynomial | None:
    one = Polynomial.of(1)
    return one if one in (a, b) else None if a is None or b is None else a + b


Or.contents(elementwise(_either, strict=False))


@op(mnn=binary("LOGICALXOR", BOOL), traits=SYMMETRIC)
def Xor(a: Bool, b: Bool):
    """True where exactly one is."""
    return a ^ b


@op(traits=COMPARE | {Trait.INVOLUTION})
def Not(x: Bool):
    """True where x is false."""
    return ~x


Not.contents(elementwise(inverted))


@op(traits=COMPARE)
def IsNaN(x: Float):
    """True where x is not a number."""
    return np.isnan(x)


@op(traits=COMPARE)
def IsInf(x: Float, *, detect_negative: bool = True, detect_positive: bool = True):
    """True where x is infinite, of the signs that count."""
    return (np.isposinf(x) & detect_positive) | (np.isneginf(x) & detect_negative)


IsInf.vary(detect_negative=False)
IsInf.vary(detect_positive=False)


_SELECT = simple("Select")


@op(traits=ELEMENTWISE | {Trait.SIZE_MATH, Trait.TOTAL, Trait.NO_ROUNDING})
def Where(cond: Bool, a: T, b: T):
    """a where `cond` holds, b elsewhere."""
    return np.where(cond, a, b)


def _chosen(c: Polynomial | None, a: Polynomial | None, b: Polynomial | None) -> Polynomial | None:
    if c is None or c.integer is None:
        return a if a == b else None
    return a if c.integer else b


Where.contents(elementwise(_chosen, strict=False))
Where.sign(where_all(1, 2))


@Where.encode("Select")
def _(node: Node) -> WireOp | None:
    cond, a, b = (node.input(i).type for i in range(3))
    if a.dtype not in F32_I32 | BOOL:
        return None
    # The format's runtime reads past the end of `b` when that is broadcast, and `a` is not. A number is no matter.
    if b.count != 1 and not (broadcast_to(cond.shape, b.shape) and broadcast_to(a.shape, b.shape)):
        result = node.output.type.count
        if a.count is None or result is None or a.count == result:
            return None
    return _SELECT.encode(node)


@Where.decode
def _(wire: WireOp):
    return wire.inputs, {}


@Where.samples
def _(rng):
    shapes = [((), (), ()), ((0, 3), (1, 3), (1,)), ((7,), (7,), (7,)), ((2, 3, 5), (5,), ()), ((), (2, 3), (2, 3)),
              ((5,), (2, 3, 5), (3, 1)), ((4, 1, 6), (5, 1), (4, 1, 1)), ((1, 9, 3), (1, 9, 3), (1,))]  # fmt: skip
    for dtype in (DType.F32, DType.F64, DType.I32, DType.I64, DType.U8, DType.BOOL, DType.F16):
        for c, a, b in shapes:
            yield (fill(rng, c, DType.BOOL), fill(rng, a, dtype), fill(rng, b, dtype)), {}
    special = np.array([np.nan, np.inf, -np.inf, -0.0], np.float32)
    yield (np.array([True, False, True, False]), special, special[::-1].copy()), {}


MIRRORED = {
    **{a.name: b.name for a, b in ((Less, Greater), (LessOrEqual, GreaterOrEqual))},
    **{b.name: a.name for a, b in ((Less, Greater), (LessOrEqual, GreaterOrEqual))},
    **{op.name: op.name for op in (Equal, NotEqual)},
}
"""The comparison of b with a that says the same as one of a with b."""

OPPOSITE = {
    **{a.name: b.name for a, b in ((Equal, NotEqual), (Less, GreaterOrEqual), (LessOrEqual, Greater))},
    **{b.name: a.name for a, b in ((Equal, NotEqual), (Less, GreaterOrEqual), (LessOrEqual, Greater))},
}
"""The comparison that holds where this one does not; among floats with NaN only equality has one."""
