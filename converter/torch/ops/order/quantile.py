"""Order statistics: medians, quantiles, the k-th value, the mode."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.converter.operand import rank
from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.ops.elementwise import between
from minnow.converter.torch.symbolic.dimension import axis_in, known, size_of, vector_of
from minnow.converter.torch.symbolic.dtype import as_value, number, operands
from minnow.converter.torch.symbolic.tensor import Number
from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder


def _lined(b: Builder, x: Value, dim: int | None) -> tuple[Value, int]:
    """x and the axis to search; without one it is flattened. A scalar is a line of 1."""
    if dim is None or not rank(x, "what is searched"):
        return b.Reshape(x, np.array([-1])), 0
    return x, axis_in(dim, x.type.rank or 0)


def _kept(b: Builder, made: Value, x: Value, axis: int, keepdim: Any) -> Value:
    """A result with a dimension of 1 along the axis, as it is asked for."""
    if x.type.rank and keepdim:
        return made
    squeezed: Value = b.Squeeze(made, axes=(axis,))
    return squeezed


def _smallest(b: Builder, x: Value, axis: int, k: Any) -> tuple[Value, Value]:
    """The k smallest along an axis in order, NaN behind all others, and where they are."""
    count = vector_of(b, [k])
    made: tuple[Value, Value] = b.TopK(x, count, axis=axis, largest=False)
    return made


def _nth(b: Builder, x: Value, axis: int, k: Any) -> tuple[Value, Value]:
    """The element at place k (from 0) of the sorted ones, and where it was; the axis is kept."""
    count = b.Add(as_value(b, k, DType.I64), np.int64(1)) if isinstance(k, Number) else k + 1
    values, places = _smallest(b, x, axis, Number(count) if isinstance(count, Value) else count)
    last = (np.array([-1]), np.array([np.iinfo(np.int64).max]), np.array([axis]))
    return b.Slice(values, *last), b.Slice(places, *last)


def _middle(b: Builder, x: Value, axis: int) -> Any:
    n = size_of(b, x, axis)
    if isinstance(n, Number):
        return Number(b.Div(b.Sub(n.value, np.int64(1)), np.int64(2)))
    return (n - 1) // 2


def _median(b: Builder, self: Value, dim: int | None) -> tuple[Value, Value, int]:
    """The lower one of the two in the middle, NaN where there is one, and its place."""
    x, axis = _lined(b, self, dim)
    value, place = _nth(b, x, axis, _middle(b, x, axis))
    if x.type.dtype.is_float:
        bad = b.IsNaN(x)
        spoiled = b.ReduceMax(bad, axes=(axis,))
        value = b.Where(spoiled, number(b, np.nan, x), value)
        place = b.Where(spoiled, b.ArgMax(b.Cast(bad, to=DType.U8), axis=axis), place)
    return value, place, axis


def _nanmedian(b: Builder, self: Value, dim: int | None) -> tuple[Value, Value, int]:
    """The lower one of the two in the middle of those that are not NaN."""
    if not self.type.dtype.is_float:
        return _median(b, self, dim)
    x, axis = _lined(b, self, dim)
    good = b.Not(b.IsNaN(x))
    values, places = _smallest(b, b.Where(good, x, number(b, np.inf, x)), axis, size_of(b, x, axis))
    count = b.ReduceSum(b.Cast(good, to=DType.I64), axes=(axis,))
    at = b.Div(b.Sub(b.Max(count, np.int64(1)), np.int64(1)), np.int64(2))
    value = b.Where(b.Equal(count, np.int64(0)), number(b, np.nan, x), b.GatherElements(values, at, axis=axis))
    return value, b.GatherElements(places, at, axis=axis), axis


def _medians(name: str, function: Any) -> None:
    @torch.op(f"aten::{name}")
    def _(b, self):
        return b.Squeeze(function(b, self, None)[0], axes=(0,))

    @torch.op(f"aten::{name}.dim")
    def _(b, self, dim, keepdim=False):
        value, place, axis = function(b, self, dim)
        return _kept(b, value, self, axis, keepdim), _kept(b, place, self, axis, keepdim)


_medians("median", _median)
_medians("nanmedian", _nanmedian)


@torch.op("aten::kthvalue")
def _(b, self, k, dim=-1, keepdim=False):
    x, axis = _lined(b, self, dim)
    value, place = _nth(b, x, axis, known(k, "k") - 1)
    return _kept(b, value, self, axis, keepdim), _kept(b, place, self, axis, keepdim)


@torch.op("aten::mode")
def _(b, self, dim=-1, keepdim=False):
    x, axis = _lined(b, self, dim)
    same = b.Equal(b.Unsqueeze(x, axes=(axis,)), b.Unsqueeze(x, axes=(axis + 1,)))
    often = b.ReduceSum(b.Cast(same, to=DType.I64), axes=(axis,), keepdims=False)
    candidate = b.Equal(often, b.ReduceMax(often, axes=(axis,)))
    kind = DType.U8 if x.type.dtype is DType.BOOL else x.type.dtype
    highest = np.inf if kind.is_float else np.iinfo(str(kind.numpy)).max
    number = as_value(b, x, kind)
    value = b.ReduceMin(b.Where(candidate, number, as_value(b, highest, kind)), axes=(axis,))
    place = b.ArgMax(b.Cast(b.Equal(number, value), to=DType.U8), axis=axis, select_last_index=True)
    return (
        _kept(b, as_value(b, value, x.type.dtype), self, axis, keepdim),
        _kept(b, place, self, axis, keepdim),
    )


# ---- quantiles


def _quantile(b: Builder, self: Value, q: Any, dim: Any, keepdim: Any, how: str, skip: bool) -> Value:
    """Between the two elements around place q * (n - 1) of the sorted ones; q may be a vector, which comes first."""
    n = rank(self, "what is searched")
    x, axis = _lined(b, self, dim)
    x = _last(b, x, axis)
    qs = as_value(b, q, x.type.dtype)
    several = qs.type.rank == 1
    bad = b.IsNaN(x)
    ordered, _ = _smallest(b, b.Where(bad, number(b, np.inf, x), x), -1, size_of(b, x, -1))
    if skip:
        count = b.ReduceSum(b.Cast(b.Not(bad), to=x.type.dtype), axes=(-1,))
        spoiled = b.Equal(count, 0.0)
    else:
        count = as_value(b, size_of(b, x, -1), x.type.dtype)
        spoiled = b.ReduceMax(bad, axes=(-1,))
    places = b.Mul(b.Max(b.Sub(count, 1.0), 0.0), b.Reshape(qs, np.array([-1])))
    lead = b.Shape(x, start=0, end=-1)
    width = b.Shape(b.Reshape(qs, np.array([-1])))
    places = b.Expand(places, b.Concat(lead, width, axis=0))

    def at(place: Value) -> Any:
        return b.GatherElements(ordered, b.Cast(place, to=DType.I64), axis=-1)

    if how in ("lower", "higher", "nearest"):
        made = at({"lower": b.Floor, "higher": b.Ceil, "nearest": b.Round}[how](places))
    elif how in ("linear", "midpoint"):
        low = b.Floor(places)
        part = b.Sub(places, low) if how == "linear" else number(b, 0.5, x)
        made = between(b, at(low), at(b.Ceil(places)), part)
    else:
        raise UnsupportedError(f"the interpolation '{how}' of quantiles")
    made = b.Where(spoiled, number(b, np.nan, x), made)
    return _quantile_shape(b, made, n, axis, dim, bool(keepdim), several)


def _last(b: Builder, x: Value, axis: int) -> Value:
    """The axis moved to the end."""
    n = x.type.rank or 0
    perm = (*(a for a in range(n) if a != axis), axis)
    made: Value = x if perm == tuple(range(n)) else b.Transpose(x, perm=perm)
    return made


def _quantile_shape(b: Builder, made: Value, n: int, axis: int, dim: int | None, keepdim: bool, several: bool) -> Value:
    """From [others..., q] to [q, others...], with dimensions of 1 where they are kept; without q if it is only one."""
    m = made.type.rank or 0
    if m > 1:
        made = b.Transpose(made, perm=(m - 1, *range(m - 1)))
    if keepdim and n:
        made = b.Unsqueeze(made, axes=tuple(range(1, n + 1)) if dim is None else (axis + 1,))
    result: Value = made if several else b.Squeeze(made, axes=(0,))
    return result


@torch.op("aten::quantile")
def _(b, self, q, dim=None, keepdim=False, interpolation="linear"):
    return _quantile(b, self, q, dim, keepdim, interpolation, skip=False)


@torch.op("aten::nanquantile")
def _(b, self, q, dim=None, keepdim=False, interpolation="linear"):
    return _quantile(b, self, q, dim, keepdim, interpolation, skip=True)


# ---- members


@torch.op("aten::isin")
def _(b, elements, test_elements, assume_unique=False, invert=False):
    x, tests = operands(b, elements, test_elements)
    n = x.type.rank or 0
    same = b.Equal(b.Unsqueeze(x, axes=(n,)), b.Reshape(tests, np.array([-1])))
    found = b.ReduceMax(same, axes=(n,), keepdims=False)
    return b.Not(found) if invert else found
