"""Derivatives of unary math."""

from __future__ import annotations

import math

from minnow.schema.ops import math_unary as ops


@ops.Abs.gradient
def _(g, x):
    return g.dy * g.Sign(x)


@ops.Neg.gradient
def _(g, x):
    return -g.dy


@ops.Floor.gradient
@ops.Ceil.gradient
@ops.Sign.gradient
def _(g, x):
    """Steps: flat wherever there is a derivative."""


@ops.Round.gradient
def _(g, x, *, halves):
    return None


@ops.Square.gradient
def _(g, x):
    return g.dy * x * 2.0


@ops.Sqrt.gradient
def _(g, x):
    return g.dy / (g.y * 2.0)


@ops.Rsqrt.gradient
def _(g, x):
    return g.dy * g.y / x * -0.5


@ops.Reciprocal.gradient
def _(g, x):
    return -(g.dy * g.Square(g.y))


@ops.Exp.gradient
def _(g, x):
    return g.dy * g.y


@ops.Expm1.gradient
def _(g, x):
    return g.dy * (g.y + 1.0)


@ops.Log.gradient
def _(g, x):
    return g.dy / x


@ops.Log1p.gradient
def _(g, x):
    return g.dy / (x + 1.0)


@ops.Sin.gradient
def _(g, x):
    return g.dy * g.Cos(x)


@ops.Cos.gradient
def _(g, x):
    return -(g.dy * g.Sin(x))


@ops.Tan.gradient
def _(g, x):
    return g.dy * (g.Square(g.y) + 1.0)


@ops.Asin.gradient
def _(g, x):
    return g.dy * g.Rsqrt(1.0 - g.Square(x))


@ops.Acos.gradient
def _(g, x):
    return -(g.dy * g.Rsqrt(1.0 - g.Square(x)))


@ops.Atan.gradient
def _(g, x):
    return g.dy / (g.Square(x) + 1.0)


@ops.Sinh.gradient
def _(g, x):
    return g.dy * g.Cosh(x)


@ops.Cosh.gradient
def _(g, x):
    return g.dy * g.Sinh(x)


@ops.Tanh.gradient
def _(g, x):
    return g.dy * (1.0 - g.Square(g.y))


@ops.Asinh.gradient
def _(g, x):
    return g.dy * g.Rsqrt(g.Square(x) + 1.0)


@ops.Acosh.gradient
def _(g, x):
    return g.dy * g.Rsqrt(g.Square(x) - 1.0)


@ops.Atanh.gradient
def _(g, x):
    return g.dy / (1.0 - g.Square(x))


def bell(g, x):
    """dy times the derivative of erf."""
    return g.dy * g.Exp(-g.Square(x)) * (2 / math.sqrt(math.pi))


@ops.Erf.gradient
def _(g, x):
    return bell(g, x)


@ops.Erfc.gradient
def _(g, x):
    return -bell(g, x)
