"""Normalization, and factors and offsets per channel."""

from __future__ import annotations

import numpy as np

from minnow.converter.caffe.frontend import Layer, frontend
from minnow.converter.caffe.ops.pooling import pooled
from minnow.converter.caffe.shape import axis_of, merged
from minnow.converter.operand import constant, dimensions, regroup, reshaped
from minnow.schema.errors import ModelError
from minnow.schema.ir import Value
from minnow.schema.ops import Builder


def moments(b: Builder, x: Value, axes: tuple[int, ...]) -> tuple[Value, Value]:
    """What is left of x without its mean over the axes, and its variance."""
    centered = b.Sub(x, b.ReduceMean(x, axes=axes))
    return centered, b.ReduceMean(b.Square(centered), axes=axes)


@frontend.op("BatchNorm")
def _(b, x, *, node: Layer, use_global_stats=True, moving_average_fraction=0.999, eps=1e-5):
    if not use_global_stats:
        rank = axis_of(x, -1) + 1
        centered, variance = moments(b, x, tuple(i for i in range(rank) if i != 1))
        return b.Div(centered, b.Sqrt(b.Add(variance, np.float32(eps))))
    means, variances, count = (constant(node.weight(i)).reshape(-1) for i in range(3))
    if means.size != variances.size or count.size != 1:
        raise ModelError(f"BatchNorm has {means.size} means, {variances.size} variances and {count.size} scale factors")
    # The sums of a training, and how much has been summed up.
    factor = np.float32(0 if count[0] == 0 else 1 / count[0])
    ones = np.ones_like(means)
    return b.BatchNorm(x, ones, 0 * ones, means * factor, variances * factor, epsilon=eps)


def aligned(b: Builder, x: Value, y: Value, axis: int) -> Value:
    """y so that its first axis stands at `axis` of x, and is broadcast over those behind its last one."""
    at = axis_of(x, axis) if axis < 0 else axis
    behind = (x.type.rank or 0) - at - (y.type.rank or 0)
    if x.type.rank is None or y.type.rank is None or (behind < 0 and y.type.rank):
        raise ModelError(f"{y.type} does not fit {x.type} from axis {at} on")
    if behind <= 0 or not y.type.rank:
        return y
    if y.data is not None:
        return reshaped(b, y, (*y.type.static_shape, *(1,) * behind))
    return regroup(b, y, [*dimensions(b, y, "a factor"), *(1,) * behind])


def _own(b: Builder, x: Value, blob: Value, axis: int, num_axes: int) -> Value:
    """A learned operand: `num_axes` 0 makes it one number. Old files write every blob with four axes."""
    dims = blob.type.static_shape
    wanted = num_axes if num_axes >= 0 else (x.type.rank or 0) - axis_of(x, axis)
    if len(dims) == 4 > wanted and all(d == 1 for d in dims[: 4 - wanted]):
        return reshaped(b, blob, dims[4 - wanted :])
    return reshaped(b, blob, ()) if num_axes == 0 and blob.type.count == 1 else blob


@frontend.op("Scale")
def _(b, x, factor=None, *, node: Layer, axis=1, num_axes=1, bias_term=False):
    own = factor is None
    scale = _own(b, x, node.weight(0), axis, num_axes) if own else factor
    bias = _own(b, x, node.weight(int(own)), axis, num_axes) if bias_term else None
    if scale.is_const and scale.type.rank == 1 and (x.type.rank is None or axis_of(x, axis) == 1):
        zeros = np.zeros(scale.type.static_shape, np.float32)
        return b.Scale(x, scale, zeros if bias is None else bias)
    y = b.Mul(x, aligned(b, x, scale, axis))
    return y if bias is None else b.Add(y, aligned(b, x, bias, axis))


@frontend.op("Bias")
def _(b, x, offset=None, *, node: Layer, axis=1, num_axes=1):
    return b.Add(x, aligned(b, x, _own(b, x, node.weight(0), axis, num_axes) if offset is None else offset, axis))


@frontend.op("LRN")
def _(b, x, *, local_size=5, alpha=1.0, beta=0.75, norm_region="ACROSS_CHANNELS", k=1.0):
    if local_size % 2 == 0:
        raise ModelError(f"LRN over {local_size} elements is invalid", why="local_size must be odd")
    if norm_region == "ACROSS_CHANNELS":
        return b.LRN(x, size=local_size, alpha=alpha, beta=beta, bias=k)
    half = local_size // 2
    mean = pooled(b, b.Square(x), "AVE", kernel=(local_size,) * 2, strides=(1, 1), pads=(half,) * 4)
    # Caffe adds 1 here, whatever k is.
    power = b.Pow(b.Add(b.Mul(mean, np.float32(alpha)), np.float32(1)), np.float32(-beta))
    return b.Mul(x, power)


@frontend.op("MVN")
def _(b, x, *, normalize_variance=True, across_channels=False, eps=1e-9):
    n = axis_of(x, -1) + 1
    if n < 2:
        raise ModelError(f"MVN does not take {x.type}: it needs images")
    sizes = dimensions(b, x, "the input")
    first = 1 if across_channels else 2
    flat = merged(b, x, first, n)
    centered, variance = moments(b, flat, (first,))
    if normalize_variance:
        centered = b.Div(centered, b.Add(b.Sqrt(variance), np.float32(eps)))
    return regroup(b, centered, sizes)
