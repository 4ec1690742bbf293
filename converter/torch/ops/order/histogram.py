"""Counting: bincount and histograms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minnow.converter.operand import bounded, rank, static_dim
from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.ops.create import filled
from minnow.converter.torch.ops.elementwise import between
from minnow.converter.torch.symbolic.dimension import known
from minnow.converter.torch.symbolic.dtype import as_value, number, operands
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder

FLAT = np.array([-1])


def _counted(b: Builder, places: Value, inside: Value, n: int, weights: Any) -> Value:
    """The sum of the weights of what is at each of n places; what is outside is left out."""
    places = b.Where(inside, places, np.array(n))
    empty = b.const(np.zeros(bounded(n, "a histogram") + 1, weights.type.dtype.numpy))
    made: Value = b.Slice(b.ScatterElements(empty, places, weights, reduction="add"), np.array([0]), np.array([n]))
    return made


def _limits(b: Builder, x: Value, low: Any, high: Any, margin: float) -> tuple[Value, Value]:
    """The limits of a histogram as one number each: those of x where both are the same, `margin` off if these are."""
    if low != high:
        return number(b, low, x), number(b, high, x)
    if x.type.count == 0:
        return number(b, low - 1 if low else 0, x), number(b, high + 1 if high else 1, x)
    first, last = (getattr(b, op)(x, keepdims=False) for op in ("ReduceMin", "ReduceMax"))
    apart = b.Mul(b.Cast(b.Equal(first, last), to=x.type.dtype), margin)
    return b.Sub(first, apart), b.Add(last, apart)


@torch.op("aten::histc")
def _(b, self, bins=100, min=0, max=0):
    n = bounded(known(bins, "the number of bins"), "a histogram")
    x = b.Reshape(self, FLAT)
    low, high = known([min, max], "the limits of a histogram")
    first, last = _limits(b, x, low, high, 1.0)
    inside = b.And(b.GreaterOrEqual(x, first), b.LessOrEqual(x, last))
    place = b.Floor(b.Div(b.Mul(b.Sub(x, first), float(n)), b.Sub(last, first)))
    place = b.Where(inside, b.Min(place, float(n - 1)), number(b, 0, x))
    return _counted(b, b.Cast(place, to=DType.I64), inside, n, b.Fill(b.Shape(x), number(b, 1, x)))


@torch.op("aten::bincount")
def _(b, self, weights=None, minlength=0):
    x = as_value(b, self, DType.I64)
    most = b.Add(b.ReduceMax(x), np.array(1)) if x.type.count != 0 else np.zeros(1, np.int64)
    size = b.Max(most, np.array([known(minlength, "minlength")]))
    if weights is None:
        weights = filled(b, [static_dim(x.type, 0, "what is counted")], 1, DType.I64)
    elif weights.type.dtype is not DType.F32:
        weights = as_value(b, weights, DType.F64)
    return b.ScatterElements(b.Fill(size, number(b, 0, weights)), x, weights, reduction="add")


# ---- between edges, in several dimensions


def _edges(b: Builder, x: Value, n: int, low: Any, high: Any) -> Value:
    """n + 1 edges in even distances."""
    first, last = _limits(b, x, low, high, 0.5)
    return between(b, first, last, b.const(np.linspace(0, 1, bounded(n, "a histogram") + 1).astype(x.type.dtype.numpy)))


def _histogram(
    b: Builder, columns: Sequence[Value], edges: Sequence[Value], weight: Value | None, density: bool
) -> Value:
    """The weights of points in the boxes between edges: a box holds its lower edges, the last ones the upper, too.

    Args:
        columns: the coordinates of the points, a vector per dimension.
        edges: of each dimension, in order.
    """
    sizes = [static_dim(e.type, 0, "the edges of a histogram") - 1 for e in edges]
    places: Any = np.array(0)
    inside: Any = None
    for x, edge, n in zip(columns, edges, sizes, strict=True):
        reached = b.GreaterOrEqual(b.Unsqueeze(x, axes=(1,)), edge)
        place = b.Sub(b.ReduceSum(b.Cast(reached, to=DType.I64), axes=(1,), keepdims=False), np.array(1))
        first, last = (b.Slice(edge, np.array([i]), np.array([i + 1])) for i in (0, n))
        here = b.And(b.GreaterOrEqual(x, first), b.LessOrEqual(x, last))
        place = b.Min(b.Max(place, np.array(0)), np.array(n - 1))
        places = place if inside is None else b.Add(b.Mul(places, np.array(n)), place)
        inside = here if inside is None else b.And(inside, here)
    like = columns[0]
    each = b.Fill(b.Shape(like), number(b, 1, like)) if weight is None else as_value(b, weight, like.type.dtype)
    total: Value = b.Reshape(_counted(b, places, inside, int(np.prod(sizes)), each), np.array(sizes))
    if density:
        total = b.Div(total, b.ReduceSum(total, keepdims=False))
        for axis, (edge, n) in enumerate(zip(edges, sizes, strict=True)):
            width = b.Sub(b.Slice(edge, np.array([1]), np.array([n + 1])), b.Slice(edge, np.array([0]), np.array([n])))
            total = b.Div(total, b.Reshape(width, np.array([-1 if a == axis else 1 for a in range(len(edges))])))
    return total


@torch.op("aten::histogram.bin_ct")
def _(b, self, bins=100, range=None, weight=None, density=False):
    x = b.Reshape(self, FLAT)
    edges = _edges(b, x, known(bins, "the number of bins"), *(range or (0, 0)))
    return _histogram(b, [x], [edges], None if weight is None else b.Reshape(weight, FLAT), density), edges


@torch.op("aten::histogram.bins_tensor")
def _(b, self, bins, weight=None, density=False):
    x, edges = operands(b, b.Reshape(self, FLAT), bins)
    return _histogram(b, [x], [edges], None if weight is None else b.Reshape(weight, FLAT), density), edges


def _columns(b: Builder, x: Value) -> list[Value]:
    """The coordinates of points x[..., dimensions]."""
    n = static_dim(x.type, rank(x, "points") - 1, "the dimensions of a histogram")
    parts = b.Split(b.Reshape(x, np.array([-1, n])), axis=1, sizes=(1,) * n, n_outputs=n)
    return [b.Reshape(part, FLAT) for part in parts]


@torch.op("aten::histogramdd", "aten::histogramdd.int_bins")
def _(b, self, bins, range=None, weight=None, density=False):
    columns = _columns(b, self)
    counts = [bins] * len(columns) if isinstance(bins, int) else known(bins, "the numbers of bins")
    limits = list(zip(range[::2], range[1::2], strict=True)) if range else [(0, 0)] * len(columns)
    edges = [_edges(b, x, n, *limit) for x, n, limit in zip(columns, counts, limits, strict=True)]
    return _histogram(b, columns, edges, None if weight is None else b.Reshape(weight, FLAT), density), edges


@torch.op("aten::histogramdd.TensorList_bins")
def _(b, self, bins, range=None, weight=None, density=False):
    columns = _columns(b, self)
    edges = [as_value(b, e, self.type.dtype) for e in bins]
    return _histogram(b, columns, edges, None if weight is None else b.Reshape(weight, FLAT), density), edges
