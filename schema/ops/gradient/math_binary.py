"""Derivatives of binary math. Where the operands are broadcast, the sums over the repeated axes are taken later."""

from __future__ import annotations

from minnow.schema.ops import math_binary as ops
from minnow.schema.registry.op import get


@ops.Add.gradient
def _(g, a, b):
    return g.dy, g.dy


@ops.Sub.gradient
def _(g, a, b):
    return g.dy, -g.dy


@ops.Mul.gradient
def _(g, a, b):
    return g.dy * b, g.dy * a


@ops.Div.gradient
def _(g, a, b):
    by_a = g.dy / b
    return by_a, -(by_a * g.y)


@ops.FloorDiv.gradient
def _(g, a, b):
    return None, None


@ops.Pow.gradient
def _(g, a, b):
    # x^0 is 1 for all x, and 0^y is 0 for all y > 0: neither has a slope, whatever the formula gives.
    by_a = g.Where(g.Equal(b, g.zeros(b)), 0.0, g.dy * b * g.Pow(a, b - 1.0))
    none = g.Equal(a, g.zeros(a)) & (b >= 0.0)
    return by_a, g.Where(none, 0.0, g.dy * g.y * g.Log(a))


def chosen(g, first, a, b):
    """dy for the operand that was taken; halves for both where they are equal."""
    half = g.Where(g.Equal(a, b), g.dy * 0.5, 0.0)
    return g.Where(first, g.dy, half), g.Where(first, 0.0, g.dy - half)


@ops.Max.gradient
def _(g, a, b):
    return chosen(g, a > b, a, b)


@ops.Min.gradient
def _(g, a, b):
    return chosen(g, a < b, a, b)


@ops.Atan2.gradient
def _(g, a, b):
    scaled = g.dy / (g.Square(a) + g.Square(b))
    return scaled * b, -(scaled * a)


@ops.SquaredDifference.gradient
def _(g, a, b):
    by_a = g.dy * (a - b) * 2.0
    return by_a, -by_a


@ops.Mod.gradient
def _(g, a, b, *, fmod):
    # a - b * q, q being a whole number.
    quotient = (a - g.y) / b
    return g.dy, -(g.dy * g.Round(quotient))


@ops.BinaryRelu.gradient
def _(g, a, b, *, op):
    return g.through(lambda a, b: g.Relu(getattr(g, get(op).name)(a, b)), a, b)
