"""Derivatives of activations. At a kink they have that of one of its sides."""

from __future__ import annotations

import math

from minnow.schema.ops import activation as ops


@ops.Relu.gradient
def _(g, x):
    return g.Where(g.y > 0.0, g.dy, 0.0)


@ops.LeakyRelu.gradient
def _(g, x, *, alpha):
    return g.Where(x >= 0.0, g.dy, g.dy * alpha)


@ops.PRelu.gradient
def _(g, x, slope):
    above = x >= 0.0
    return g.Where(above, g.dy, g.dy * slope), g.Where(above, 0.0, g.dy * x)


@ops.Clip.gradient
def _(g, x, *, min, max):
    if min > max:
        return None
    dy = g.dy
    if min > -math.inf:
        dy = g.Where(x >= min, dy, 0.0)
    return dy if max == math.inf else g.Where(x <= max, dy, 0.0)


@ops.Elu.gradient
def _(g, x, *, alpha):
    return g.Where(x >= 0.0, g.dy, g.dy * (g.y + alpha))


@ops.Selu.gradient
def _(g, x, *, alpha, gamma):
    return g.Where(x > 0.0, g.dy * gamma, g.dy * (g.y + alpha * gamma))


@ops.Celu.gradient
def _(g, x, *, alpha):
    below = x <= 0.0
    if alpha < 0:  # then both parts count on one side
        return g.dy * (g.Where(below, 0.0, 1.0 + g.zeros(x)) + g.Where(below, 0.0, g.Exp(x / alpha)))
    return g.Where(below, g.dy * g.Exp(x / alpha), g.dy)


@ops.ThresholdedRelu.gradient
def _(g, x, *, alpha):
    return g.Where(x > alpha, g.dy, 0.0)


@ops.Shrink.gradient
def _(g, x, *, bias, lambd):
    return g.Where(g.Or(x < -lambd, x > lambd), g.dy, 0.0)


@ops.HardSigmoid.gradient
def _(g, x, *, alpha, beta):
    return g.Where((g.y > 0.0) & (g.y < 1.0), g.dy * alpha, 0.0)


@ops.Sigmoid.gradient
def _(g, x):
    return g.dy * g.y * (1.0 - g.y)


@ops.HardSwish.gradient
def _(g, x):
    middle = g.dy * (x * (1 / 3) + 0.5)
    return g.Where(x >= 3.0, g.dy, g.Where(x > -3.0, middle, 0.0))


@ops.Silu.gradient
def _(g, x):
    s = g.Sigmoid(x)
    return g.dy * (s + g.y * (1.0 - s))


@ops.Gelu.gradient
def _(g, x, *, approximate):
    if approximate == "tanh":
        root = math.sqrt(2 / math.pi)
        square = g.Square(x)
        t = g.Tanh(x * (square * (0.044715 * root) + root))
        slope = (1.0 - g.Square(t)) * (square * (3 * 0.044715 * root) + root)
        return g.dy * ((t + 1.0) * 0.5 + x * slope * 0.5)
    below = g.Erfc(x * -math.sqrt(0.5)) * 0.5
    return g.dy * (below + x * g.Exp(g.Square(x) * -0.5) * (1 / math.sqrt(2 * math.pi)))


@ops.Softplus.gradient
def _(g, x):
    return g.dy * g.Sigmoid(x)


@ops.Softsign.gradient
def _(g, x):
    return g.dy / g.Square(g.Abs(x) + 1.0)


@ops.Mish.gradient
def _(g, x):
    t = g.Tanh(g.Softplus(x))
    return g.dy * (t + x * g.Sigmoid(x) * (1.0 - g.Square(t)))
