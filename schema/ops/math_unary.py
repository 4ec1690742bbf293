"""Unary math, elementwise."""

from __future__ import annotations

from typing import Literal

import numpy as np

from minnow.schema.ir import Node
from minnow.schema.ops.special import erf, erfc, keep
from minnow.schema.registry.encoding import F32_I32, bound, unary
from minnow.schema.registry.op import ELEMENTWISE, Decoded, Float, Numeric, Trait, WireOp, op
from minnow.schema.registry.symbolic import Polynomial, elementwise


@op(
    mnn=unary("ABS", F32_I32, legacy="AbsVal"),
    traits=ELEMENTWISE
    | {
        Trait.SIZE_MATH,
        Trait.TOTAL,
        Trait.NO_SIGN_BIT,
        Trait.SAME_FOR_ZEROS,
        Trait.NO_ROUNDING,
        Trait.IDEMPOTENT,
    },
)
def Abs(x: Numeric):
    """y = |x|"""
    return np.abs(x)


Abs.contents(elementwise(lambda a: a if a.at_least(0) else None))


@op(mnn=unary("NEG", F32_I32), traits=ELEMENTWISE | {Trait.SIZE_MATH, Trait.TOTAL, Trait.NO_ROUNDING, Trait.INVOLUTION})
def Neg(x: Numeric):
    """y = -x"""
    return np.negative(x)


Neg.contents(elementwise(Polynomial.__neg__))


@op(mnn=unary("FLOOR"), traits=ELEMENTWISE | {Trait.IDEMPOTENT})
def Floor(x: Float):
    """Largest integer not above x."""
    return np.floor(x)


@op(mnn=unary("CEIL"), traits=ELEMENTWISE | {Trait.IDEMPOTENT})
def Ceil(x: Float):
    """Smallest integer not below x."""
    return np.ceil(x)


@op(traits=ELEMENTWISE | {Trait.IDEMPOTENT})
def Round(x: Float, *, halves: Literal["even", "away"] = "even"):
    """Nearest integer; halves go to the even one, or away from zero."""
    if halves == "even":
        return np.rint(x)
    return keep(lambda v: np.copysign(np.floor(np.abs(v) + 0.5), v), x)


Round.vary(halves="away")
_ROUND = unary("ROUND")


# The format's runtime knows halves away from zero only.
@Round.encode("UnaryOp")
def _(node: Node) -> WireOp | None:
    return _ROUND.encode(node) if bound(node)["halves"] == "away" else None


@Round.decode
def _(wire: WireOp) -> Decoded:
    return (wire.inputs, {"halves": "away"}) if _ROUND.decode(wire) else None


@op(mnn=unary("SIGN", F32_I32), traits=ELEMENTWISE | {Trait.NO_ROUNDING, Trait.IDEMPOTENT})
def Sign(x: Numeric):
    """-1, 0 or 1; NaN stays NaN."""
    return np.sign(x)


@op(mnn=unary("SQUARE", F32_I32), traits=ELEMENTWISE | {Trait.NO_SIGN_BIT, Trait.SAME_FOR_ZEROS})
def Square(x: Numeric):
    """y = x * x"""
    return x * x


@op(mnn=unary("SQRT"), traits=ELEMENTWISE | {Trait.NOT_BELOW_ZERO})
def Sqrt(x: Float):
    """Square root; NaN below zero."""
    return keep(np.sqrt, x)


@op(mnn=unary("RSQRT"), traits=ELEMENTWISE)
def Rsqrt(x: Float):
    """y = 1 / sqrt(x)"""
    return keep(lambda v: 1 / np.sqrt(v), x)


@op(mnn=unary("RECIPROCAL"), traits=ELEMENTWISE)
def Reciprocal(x: Float):
    """y = 1 / x"""
    return keep(lambda v: 1 / v, x)


@op(mnn=unary("EXP", legacy="Exp"), traits=ELEMENTWISE | {Trait.NO_SIGN_BIT, Trait.SAME_FOR_ZEROS})
def Exp(x: Float):
    """e to the power of x."""
    return keep(np.exp, x)


@op(mnn=unary("EXPM1"), traits=ELEMENTWISE)
def Expm1(x: Float):
    """exp(x) - 1, exact near zero."""
    return keep(np.expm1, x)


@op(mnn=unary("LOG", legacy="Log"), traits=ELEMENTWISE)
def Log(x: Float):
    """Natural logarithm."""
    return keep(np.log, x)


@op(mnn=unary("LOG1P"), traits=ELEMENTWISE)
def Log1p(x: Float):
    """log(1 + x), exact near zero."""
    return keep(np.log1p, x)


@op(mnn=unary("SIN"), traits=ELEMENTWISE)
def Sin(x: Float):
    """Sine of an angle in radians."""
    return keep(np.sin, x)


@op(mnn=unary("COS"), traits=ELEMENTWISE | {Trait.SAME_FOR_ZEROS})
def Cos(x: Float):
    """Cosine of an angle in radians."""
    return keep(np.cos, x)


@op(mnn=unary("TAN"), traits=ELEMENTWISE)
def Tan(x: Float):
    """Tangent of an angle in radians."""
    return keep(np.tan, x)


@op(mnn=unary("ASIN"), traits=ELEMENTWISE)
def Asin(x: Float):
    """Inverse sine, in radians; NaN outside [-1, 1]."""
    return keep(np.arcsin, x)


@op(mnn=unary("ACOS"), traits=ELEMENTWISE)
def Acos(x: Float):
    """Inverse cosine, in radians; NaN outside [-1, 1]."""
    return keep(np.arccos, x)


@op(mnn=unary("ATAN"), traits=ELEMENTWISE)
def Atan(x: Float):
    """Inverse tangent, in radians."""
    return keep(np.arctan, x)


@op(mnn=unary("SINH"), traits=ELEMENTWISE)
def Sinh(x: Float):
    """Hyperbolic sine."""
    return keep(np.sinh, x)


@op(mnn=unary("COSH"), traits=ELEMENTWISE)
def Cosh(x: Float):
    """Hyperbolic cosine."""
    return keep(np.cosh, x)


@op(mnn=unary("TANH", legacy="TanH"), traits=ELEMENTWISE)
def Tanh(x: Float):
    """Hyperbolic tangent."""
    return keep(np.tanh, x)


@op(mnn=unary("ASINH"), traits=ELEMENTWISE)
def Asinh(x: Float):
    """Inverse hyperbolic sine."""
    return keep(np.arcsinh, x)


@op(mnn=unary("ACOSH"), traits=ELEMENTWISE)
def Acosh(x: Float):
    """Inverse hyperbolic cosine; NaN below 1."""
    return keep(np.arccosh, x)


@op(mnn=unary("ATANH"), traits=ELEMENTWISE)
def Atanh(x: Float):
    """Inverse hyperbolic tangent."""
    return keep(np.arctanh, x)


@op(mnn=unary("ERF"), traits=ELEMENTWISE)
def Erf(x: Float):
    """Gauss error function."""
    return keep(erf, x)


@op(mnn=unary("ERFC"), traits=ELEMENTWISE)
def Erfc(x: Float):
    """1 - erf(x), exact for large x."""
    return keep(erfc, x)
