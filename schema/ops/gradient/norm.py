"""Derivatives of normalizations."""

from __future__ import annotations

from minnow.schema.ops import norm
from minnow.schema.registry.dimension import axis_of


def _channels(g, v, x):
    """A vector along axis 1 of x."""
    return g.reshaped(v, *((1, -1) if x.rank > 1 else (-1,)), *(1,) * max(x.rank - 2, 0))


def _per_channel(g, x, like):
    """The sum of x over all axes but the channels', as a vector."""
    if x.rank < 2:
        return g.like(g.total(x, range(x.rank)), like)
    return g.total(x, [i for i in range(x.rank) if i != 1], keepdims=False)


@norm.BatchNorm.gradient
def _(g, x, scale, bias, mean, var, *, epsilon):
    inverse = g.Rsqrt(var + epsilon)
    centered = x - _channels(g, mean, x)
    by_bias = _per_channel(g, g.dy, bias)
    moved = _per_channel(g, g.dy * centered, scale)
    slope = scale * inverse
    by_var = moved * slope * g.Square(inverse) * -0.5
    return g.dy * _channels(g, slope, x), moved * inverse, by_bias, -(by_bias * slope), by_var


@norm.Scale.gradient
def _(g, x, scale, bias):
    by_scale = _per_channel(g, g.dy * x, scale)
    return g.dy * _channels(g, scale, x), by_scale, _per_channel(g, g.dy, bias)


def _normalized(g, x, dy, axes, epsilon, centered=True):
    """x normalized over axes, and the gradient of x given that of the result."""
    d = x - g.mean(x, axes) if centered else x
    inverse = g.Rsqrt(g.mean(g.Square(d), axes) + epsilon)
    normal = d * inverse
    along = dy - normal * g.mean(dy * normal, axes)
    if centered:
        along = along - g.mean(dy, axes)
    return normal, along * inverse


@norm.LayerNorm.gradient
def _(g, x, scale, bias, *, axis, epsilon):
    axes = range(axis_of(axis, x.rank), x.rank)
    normal, by_x = _normalized(g, x, g.dy if scale is None else g.dy * scale, axes, epsilon)
    return by_x, None if scale is None else g.dy * normal, None if bias is None else g.dy


@norm.RMSNorm.gradient
def _(g, x, scale, *, axis, epsilon):
    axes = range(axis_of(axis, x.rank), x.rank)
    normal, by_x = _normalized(g, x, g.dy if scale is None else g.dy * scale, axes, epsilon, centered=False)
    return by_x, None if scale is None else g.dy * normal


@norm.InstanceNorm.gradient
def _(g, x, scale, bias, *, epsilon):
    normal, by_x = _normalized(g, x, g.dy * _channels(g, scale, x), range(2, x.rank), epsilon)
    return by_x, _per_channel(g, g.dy * normal, scale), _per_channel(g, g.dy, bias)


@norm.GroupNorm.gradient
def _(g, x, scale, bias, *, num_groups, epsilon):
    n, c, *sizes = x.shape
    grouped = (n, num_groups, c // num_groups, *sizes)
    dy = g.dy if scale is None else g.dy * _channels(g, scale, x)
    axes = range(2, len(grouped))
    normal, by_x = _normalized(g, g.reshaped(x, *grouped), g.reshaped(dy, *grouped), axes, epsilon)
    by_scale = None if scale is None else _per_channel(g, g.dy * g.like(normal, x), scale)
    return g.like(by_x, x), by_scale, None if bias is None else _per_channel(g, g.dy, bias)


@norm.LRN.gradient
def _(g, x, *, size, alpha, beta, bias):
    before = (size - 1) // 2

    def summed(v, first):
        """The sums over windows of channels, the first of which begins `first` channels in front."""
        pads = [0] * (2 * v.rank)
        pads[2:4] = [first, size - 1 - first]
        wide, channels = g.Pad(v, g.ints(*pads)), v.shape[1]
        parts = [g.Slice(wide, g.ints(i), g.ints(i + channels), g.ints(1)) for i in range(size)]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total

    base = summed(g.Square(x), before) * (alpha / size) + bias
    power = g.dy * g.Pow(base, -beta)
    # A channel is in the windows of those whose own windows reach it: the mirror image.
    shared = summed(power * x / base, size - 1 - before)
    return power - x * shared * (2 * alpha * beta / size)
