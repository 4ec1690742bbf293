"""Cumulative sums and the like along an axis, differences of neighbors, and integrals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minnow.converter.operand import rank, static_dim
from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.ops.elementwise import log_sum
from minnow.converter.torch.ops.reduce import summed
from minnow.converter.torch.symbolic.dimension import axis_in, known
from minnow.converter.torch.symbolic.dtype import as_value, floats, number, operands
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder

_END = np.iinfo(np.int64).max


def part(b: Builder, x: Value, axis: int, start: int, end: int | None = None) -> Value:
    """x[start:end] along an axis."""
    made: Value = b.Slice(x, np.array([start]), np.array([_END if end is None else end]), np.array([axis]))
    return made


def _running(op: str, name: str) -> None:
    @torch.op(f"aten::{name}")
    def _(b, self, dim, dtype=None):
        x = as_value(b, self, summed(self, dtype))
        n = rank(x, f"what {name} gets")
        return getattr(b, op)(x, np.array(axis_in(dim, n))) if n else x


_running("CumSum", "cumsum")
_running("CumProd", "cumprod")


def lowest(dtype: DType, mirrored: bool = False) -> Any:
    """The lowest number of a type, or the highest."""
    if dtype.is_float:
        return np.inf if mirrored else -np.inf
    limits = np.iinfo(str(dtype.numpy))
    return limits.max if mirrored else limits.min


Combine = Callable[[Builder, Sequence[Value], Sequence[Value]], Sequence[Value]]


def scan(b: Builder, xs: Sequence[Value], axis: int, combine: Combine) -> list[Value]:
    """The combination of all up to each element: spans of 1, 2, 4, ... elements are combined with those before them.

    Args:
        xs: tensors of one shape.
        combine: (builder, what is before, what is behind) -> both as one. It must be associative.
    """
    n = static_dim(xs[0].type, axis, "the axis of a running maximum")
    made = list(xs)
    span = 1
    while span < n:
        both = combine(b, [part(b, v, axis, 0, -span) for v in made], [part(b, v, axis, span) for v in made])
        made = [b.Concat(part(b, v, axis, 0, span), w, axis=axis) for v, w in zip(made, both, strict=True)]
        span *= 2
    return made


def _prefixes(b: Builder, x: Value, axis: int, beyond: float) -> Value:
    """Along axis + 1, all up to each element of the axis, and `beyond` after it: where the dimension is dynamic."""
    dimension = b.Shape(x, start=axis, end=axis + 1)
    places = b.Range(np.array(0), b.Squeeze(dimension, axes=(0,)), np.array(1))
    later = b.Less(b.Unsqueeze(places, axes=(1,)), b.Unsqueeze(places, axes=(0,)))
    after = (x.type.rank or 0) - axis - 1
    later = b.Unsqueeze(later, axes=tuple(range(2, 2 + after))) if after else later
    made: Value = b.Where(later, number(b, beyond, x), b.Unsqueeze(x, axes=(axis,)))
    return made


def _extreme(op: str, name: str) -> None:
    """The extreme so far and its last place; NaN once there has been one."""

    def combine(b: Builder, before: Sequence[Value], behind: Sequence[Value]) -> Sequence[Value]:
        (x, i), (y, j) = before, behind
        later = getattr(b, op)(y, x)
        if y.type.dtype.is_float:
            later = b.Or(later, b.IsNaN(y))
        return b.Where(later, y, x), b.Where(later, j, i)

    @torch.op(f"aten::{name}")
    def _(b, self, dim):
        n = rank(self, f"what {name} gets")
        if n == 0:
            return self, b.const(np.array(0))
        axis = axis_in(dim, n)
        x = b.Cast(self, to=DType.U8) if self.type.dtype is DType.BOOL else self
        dimension = (x.type.shape or ())[axis]
        if not isinstance(dimension, int):
            prefixes = _prefixes(b, x, axis, lowest(x.type.dtype, op == "LessOrEqual"))
            which = "Max" if op == "GreaterOrEqual" else "Min"
            values = getattr(b, f"Reduce{which}")(prefixes, axes=(axis + 1,), keepdims=False)
            places = getattr(b, f"Arg{which}")(prefixes, axis=axis + 1, keepdims=False, select_last_index=True)
            return as_value(b, values, self.type.dtype), places
        column = np.arange(dimension).reshape([-1 if a == axis else 1 for a in range(n)])
        values, places = scan(b, [x, b.Expand(column, b.Shape(x))], axis, combine)
        return as_value(b, values, self.type.dtype), places


_extreme("GreaterOrEqual", "cummax")
_extreme("LessOrEqual", "cummin")


@torch.op("aten::logcumsumexp")
def _(b, self, dim):
    (x,) = floats(b, self)
    if not x.type.rank:
        return x
    axis = axis_in(dim, x.type.rank)
    if not isinstance((x.type.shape or ())[axis], int):
        return b.ReduceLogSumExp(_prefixes(b, x, axis, -np.inf), axes=(axis + 1,), keepdims=False)
    return scan(b, [x], axis, lambda b, x, y: [log_sum(b, x[0], y[0])])[0]


# ---- differences, integrals


@torch.op("aten::diff")
def _(b, self, n=1, dim=-1, prepend=None, append=None):
    axis = axis_in(dim, rank(self, "what diff gets"))
    xs = [v for v in (prepend, self, append) if v is not None] if known(n, "n") else [self]
    x = b.Concat(*operands(b, *xs), axis=axis) if len(xs) > 1 else self
    for _ in range(known(n, "n")):
        after, before = part(b, x, axis, 1), part(b, x, axis, 0, -1)
        x = b.Xor(after, before) if x.type.dtype is DType.BOOL else b.Sub(after, before)
    return x


def _strips(b: Builder, y: Value, x: Value | None, dx: Any, dim: int) -> tuple[Value, int]:
    """The areas between neighbors, each twice, and their axis."""
    axis = axis_in(dim, rank(y, "what is integrated"))
    if x is None:
        (y,) = operands(b, y, dtype=floats(b, y)[0].type.dtype if isinstance(dx, float) else y.type.dtype)
        pairs = b.Add(part(b, y, axis, 1), part(b, y, axis, 0, -1))
        made: Value = b.Mul(pairs, as_value(b, dx, y.type.dtype)) if dx != 1 else pairs
        return made, axis
    y, x = operands(b, y, x)
    if x.type.rank == 1 and y.type.rank != 1:
        x = b.Reshape(x, np.array([-1 if a == axis else 1 for a in range(y.type.rank or 0)]))
    elif (x.type.rank or 0) < (y.type.rank or 0):
        x = b.Unsqueeze(x, axes=tuple(range((y.type.rank or 0) - (x.type.rank or 0))))
    widths = b.Sub(part(b, x, axis, 1), part(b, x, axis, 0, -1))
    made = b.Mul(widths, b.Add(part(b, y, axis, 1), part(b, y, axis, 0, -1)))
    return made, axis


def _total(b: Builder, strips: Value, axis: int, cumulative: bool) -> Value:
    (half,) = floats(b, strips)
    made: Value
    if cumulative:
        made = b.Mul(b.CumSum(half, np.array(axis)), 0.5)
    else:
        made = b.Mul(b.ReduceSum(half, axes=(axis,), keepdims=False), 0.5)
    return made


def _integral(cumulative: bool, *names: str) -> None:
    @torch.op(*(f"aten::{n}.dx" for n in names))
    def _(b, y, dx=1, dim=-1):
        return _total(b, *_strips(b, y, None, dx, dim), cumulative)

    @torch.op(*(f"aten::{n}.x" for n in names))
    def _(b, y, x, dim=-1):
        return _total(b, *_strips(b, y, x, 1, dim), cumulative)


_integral(False, "trapezoid", "trapz")
_integral(True, "cumulative_trapezoid")


@torch.op("aten::gradient")
def _(b, self, spacing=None, dim=None, edge_order=1):
    n = rank(self, "what gradient gets")
    axes = [axis_in(a, n) for a in (range(n) if dim is None else dim if isinstance(dim, list) else [dim])]
    spaces = spacing if isinstance(spacing, list) else [1 if spacing is None else spacing] * len(axes)
    (x,) = floats(b, self)
    return [_slope(b, x, s, a, known(edge_order, "edge_order")) for s, a in zip(spaces, axes, strict=True)]


@torch.op("aten::gradient.array")
def _(b, self, dim, edge_order=1):
    (x,) = floats(b, self)
    n = rank(self, "what gradient gets")
    return [_slope(b, x, 1, axis_in(a, n), known(edge_order, "edge_order")) for a in dim]


def _slope(b: Builder, x: Value, spacing: Any, axis: int, edge_order: int) -> Value:
    """Slopes along an axis: of the parabola through three neighbors, at the ends of it, too, or of the line."""
    along = [-1 if a == axis else 1 for a in range(x.type.rank or 0)]
    if isinstance(spacing, Value):
        place = b.Reshape(as_value(b, spacing, x.type.dtype), np.array(along))
        steps = b.Sub(part(b, place, axis, 1), part(b, place, axis, 0, -1))
    else:
        n = static_dim(x.type, axis, "the axis of a gradient")
        steps = b.const(np.full([n - 1 if a < 0 else a for a in along], known(spacing, "spacing"), x.type.dtype.numpy))
    left, right = part(b, steps, axis, 0, -1), part(b, steps, axis, 1)
    line = b.Div(b.Sub(part(b, x, axis, 1), part(b, x, axis, 0, -1)), steps)
    before, behind = part(b, line, axis, 0, -1), part(b, line, axis, 1)
    whole = b.Add(left, right)
    inner = b.Div(b.Add(b.Mul(before, right), b.Mul(behind, left)), whole)
    if edge_order == 1:
        first, last = part(b, line, axis, 0, 1), part(b, line, axis, -1)
    else:
        bend = b.Div(b.Sub(behind, before), whole)
        first = part(b, b.Sub(before, b.Mul(bend, left)), axis, 0, 1)
        last = part(b, b.Add(behind, b.Mul(bend, right)), axis, -1)
    made: Value = b.Concat(first, inner, last, axis=axis)
    return made
