"""Layers that move elements, and elementwise combinations of whole tensors."""

from __future__ import annotations

import math

import numpy as np

from minnow.converter.caffe.frontend import Layer, frontend
from minnow.converter.caffe.shape import axis_of, merged
from minnow.converter.operand import bounded, dimensions, regroup, reshaped, static_dim, vector
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import DType


@frontend.op("Split")
def _(b, x, *, node: Layer):
    return (x,) * node.n_outputs


@frontend.op("Concat")
def _(b, *xs, axis=None, concat_dim=None):
    if axis is not None and concat_dim is not None:
        raise ModelError("axis and concat_dim mean the same: only one may be given")
    at = axis_of(xs[0], concat_dim if concat_dim is not None else 1 if axis is None else axis)
    return b.Concat(*xs, axis=at) if len(xs) > 1 else b.Identity(xs[0])


@frontend.op("Slice")
def _(b, x, *, node: Layer, axis=None, slice_dim=None, slice_point=()):
    at = axis_of(x, slice_dim if slice_dim is not None else 1 if axis is None else axis)
    n = node.n_outputs
    if n == 1 and not slice_point:
        return b.Identity(x)
    total = static_dim(x.type, at, "what is sliced")
    if slice_point and len(slice_point) != n - 1:
        raise ModelError(f"{n} outputs need {n - 1} slice points, but there are {len(slice_point)}")
    if not slice_point and total % n:
        raise ModelError(f"{total} elements cannot be cut into {n} equal parts")
    points = [0, *(slice_point or range(total // n, total, total // n)), total]
    sizes = tuple(int(d) for d in np.diff(points))
    if min(sizes) <= 0:
        raise ModelError(f"the slice points {slice_point} do not cut {total} elements into nonempty parts")
    return b.Split(x, axis=at, sizes=sizes, n_outputs=n)


@frontend.op("Flatten")
def _(b, x, *, axis=1, end_axis=-1):
    first, last = axis_of(x, axis), axis_of(x, end_axis)
    if last < first:
        raise ModelError(f"Flatten ends at axis {last}, before its first axis {first}")
    return merged(b, x, first, last + 1) if last > first else b.Identity(x)


@frontend.op("Reshape")
def _(b, x, *, shape=None, axis=0, num_axes=-1):
    first = axis_of(x, axis, 1)
    sizes = dimensions(b, x, "the input")
    end = len(sizes) if num_axes == -1 else first + num_axes
    if num_axes < -1 or end > len(sizes):
        raise ModelError(
            f"num_axes is {num_axes}, which does not fit", why=f"the input has {len(sizes)} axes, and axis is {first}"
        )
    wanted = [] if shape is None else [int(d) for d in shape.dim]
    if min(wanted, default=0) < -1 or wanted.count(-1) > 1 or len(wanted) > 32:
        raise ModelError(f"the shape {wanted} is invalid")
    if any(d == 0 and first + i >= len(sizes) for i, d in enumerate(wanted)):
        raise ModelError(f"the shape {wanted} copies an axis (0) that the input does not have")
    middle = [sizes[first + i] if d == 0 else d for i, d in enumerate(wanted)]
    parts = [*sizes[:first], *middle, *sizes[end:]]
    if -1 not in wanted or all(isinstance(p, int) for p in parts):
        return regroup(b, x, parts) if -1 not in wanted else b.Reshape(x, np.array(parts, np.int64), allowzero=False)
    return b.Reshape(x, vector(b, parts))


@frontend.op("Permute")
def _(b, x, *, order=()):
    """Axes that the order leaves out follow behind, in theirs."""
    n = axis_of(x, -1) + 1
    perm = (*order, *(i for i in range(n) if i not in order))
    if sorted(perm) != [*range(n)]:
        raise ModelError(f"{order} is not an order of {n} axes")
    return b.Transpose(x, perm=perm)


@frontend.op("Tile")
def _(b, x, *, axis=1, tiles):
    at = axis_of(x, axis)
    if tiles < 1:
        raise ModelError(f"tiles is {tiles}, but must be at least 1")
    if x.type.count is not None:
        bounded(x.type.count * tiles, "the result")
    return b.Tile(x, np.array([tiles if i == at else 1 for i in range(axis_of(x, -1) + 1)]))


@frontend.op("Crop")
def _(b, x, reference, *, axis=2, offset=()):
    at = axis_of(x, axis)
    n = axis_of(x, -1) + 1
    if len(offset) not in (0, 1, n - at):
        raise ModelError(f"{len(offset)} offsets do not fit {n - at} axes")
    starts = list(offset) * (n - at) if len(offset) == 1 else list(offset) or [0] * (n - at)
    wanted = dimensions(b, reference, "the reference")[at:]
    for i, (start, size) in enumerate(zip(starts, wanted, strict=True)):
        have = x.type.shape[at + i]
        if isinstance(size, int) and isinstance(have, int) and start + size > have:
            raise ModelError(f"Crop takes {size} elements from {start} on, but axis {at + i} has {have}")
    ends = [
        start + d if isinstance(d, int) else b.Add(d, np.array(start)) for start, d in zip(starts, wanted, strict=True)
    ]
    return b.Slice(x, np.array(starts, np.int64), vector(b, ends), np.arange(at, n))


@frontend.op("BatchReindex")
def _(b, x, rows):
    return b.Gather(x, b.Cast(rows, to=DType.I32))


@frontend.op("Eltwise")
def _(b, first, second, *rest, operation="SUM", coeff=()):
    xs = [first, second, *rest]
    if coeff and (operation != "SUM" or len(coeff) != len(xs)):
        raise ModelError(f"{len(coeff)} coefficients do not fit {operation} of {len(xs)} inputs")
    if len({x.type.shape for x in xs if x.type.is_static}) > 1:
        raise ModelError(f"the inputs have different shapes: {', '.join(str(x.type) for x in xs)}")
    factors = list(coeff) or [1.0] * len(xs)
    y = xs[0] if factors[0] == 1 else b.Mul(xs[0], np.float32(factors[0]))
    for x, factor in zip(xs[1:], factors[1:], strict=True):
        if operation == "SUM" and factor == -1:
            y = b.Sub(y, x)
        else:
            join = {"SUM": b.Add, "PROD": b.Mul, "MAX": b.Max}[operation]
            y = join(y, x if factor == 1 else b.Mul(x, np.float32(factor)))
    return y


@frontend.op("Reduction")
def _(b, x, *, operation="SUM", axis=0, coeff=1.0):
    at = axis_of(x, axis)
    axes = tuple(range(at, x.type.rank))
    op = {"SUM": b.ReduceSum, "ASUM": b.ReduceL1, "SUMSQ": b.ReduceSumSquare, "MEAN": b.ReduceMean}[operation]
    y = op(x, axes=axes, keepdims=False)
    return b.Mul(y, np.float32(coeff)) if coeff != 1 else y


@frontend.op("Softmax")
def _(b, x, *, axis=1):
    return b.Softmax(x, axis=axis_of(x, axis) if x.type.rank is not None else axis)


@frontend.op("ArgMax")
def _(b, x, *, out_max_val=False, top_k=1, axis=None):
    """Of equal elements the last one comes first. Without an axis, all behind the first one count as one."""
    sizes = dimensions(b, x, "the input")
    at = 1 if axis is None else axis_of(x, axis)
    flat = merged(b, x, 1, len(sizes)) if axis is None else x
    total = static_dim(flat.type, at, "what is searched")
    if not 1 <= top_k <= total:
        raise ModelError(f"top_k is {top_k}, but there are {total} elements")
    if top_k == 1:
        values = b.ReduceMax(flat, axes=(at,)) if out_max_val else flat
        places = b.Cast(b.ArgMax(flat, axis=at, select_last_index=True), to=DType.F32)
    else:
        values, found = b.TopK(b.Reverse(flat, axes=(at,)), np.array([top_k]), axis=at)
        places = b.Cast(b.Sub(np.array(total - 1), found), to=DType.F32)
    if axis is not None:
        return values if out_max_val else places
    parts = [b.Unsqueeze(v, np.array([1])) for v in ((places, values) if out_max_val else (places,))]
    y = b.Concat(*parts, axis=1) if out_max_val else parts[0]
    return regroup(b, y, [sizes[0], 2 if out_max_val else 1, top_k, *(1,) * max(len(sizes) - 3, 0)])


@frontend.op("DummyData")
def _(b, *, node: Layer, data_filler=(), shape=(), num=(), channels=(), height=(), width=()):
    """Constants; by a filler of another kind, random numbers."""
    if any(f.type not in ("", "constant") for f in data_filler):
        raise UnsupportedError("DummyData with random numbers is not supported", hint="make it an Input layer")
    shapes = [tuple(s.dim) for s in shape] or list(zip(num, channels, height, width, strict=True))
    values = [f.value for f in data_filler] or [0.0]
    n = node.n_outputs
    if {len(shapes), len(values)} - {1, n} or any(d < 0 for s in shapes for d in s):
        raise ModelError(f"{len(shapes)} shapes and {len(values)} fillers do not fit {n} outputs")
    for s in shapes:
        bounded(math.prod(s), "a constant")
    each = zip(*(v * n if len(v) < n else v for v in (shapes, values)), strict=True)
    return tuple(b.const(np.full(shape, value, np.float32)) for shape, value in each)


@frontend.op("Parameter")
def _(b, *, node: Layer, shape=None):
    blob = node.weight(0)
    return blob if shape is None else reshaped(b, blob, tuple(shape.dim))
