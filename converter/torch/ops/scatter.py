"""Writing elements by index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minnow.converter.operand import dimensions, rank, turned, vector
from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.ops.index import (
    as_mask,
    front,
    in_place,
    inside,
    lifted,
    nonzero,
    only_mask,
    parsed,
    vectors,
)
from minnow.converter.torch.symbolic.dimension import axis_in
from minnow.converter.torch.symbolic.dtype import as_value
from minnow.converter.torch.symbolic.part import along, dim_of, sliced
from minnow.converter.torch.symbolic.tensor import Number
from minnow.converter.torch.symbolic.view import expand_like, flattened, reshape_like, together
from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import DType, Value
from minnow.schema.ir.type import same_dim
from minnow.schema.ops import Builder

REDUCTIONS = {"add": "add", "sum": "add", "multiply": "mul", "prod": "mul", "amax": "max", "amin": "min", "mean": "add"}


def spread(b: Builder, x: Value, parts: Sequence[int | Value]) -> Value:
    """x broadcast to a shape, of which some dimensions may be computed."""
    own = x.type.shape or ()
    if all(isinstance(p, int) for p in parts) and own == tuple(parts):
        return x
    made: Value = b.Expand(x, vector(b, parts))
    return made


# ---- places named by several index tensors


@torch.op("aten::index_put", "aten::_unsafe_index_put", "aten::_index_put_impl")
def _(b, self, indices, values, accumulate=False, unsafe=False):
    return put(b, self, indices, as_value(b, values, self.type.dtype), accumulate)


@torch.op("aten::_index_put_impl_")
def _(b, self, indices, values, accumulate=False, unsafe=False):
    return put(b, self, indices, as_value(b, values, self.type.dtype), accumulate)


def put(b: Builder, x: Value, indices: Sequence[Value | None], values: Value, accumulate: bool = False) -> Value:
    """x with `values`, broadcast, in place of x[indices], or added to it."""
    made: Value
    found = only_mask(indices)
    if found is not None and (even := _even(b, x, *found, values)) is not None:
        axis, mask = found
        behind = rank(x, "what is changed") - axis - rank(mask, "a mask")
        mask = as_mask(b, mask)
        if behind:
            mask = b.Unsqueeze(mask, axes=tuple(range(mask.type.rank or 0, (mask.type.rank or 0) + behind)))
        made = b.Where(mask, b.Add(x, even) if accumulate else even, x)
        return made
    index = parsed(b, x, indices)
    if not index.axes:
        whole = expand_like(b, values, x)
        return b.Add(x, whole) if accumulate else whole
    order = front(x, index.axes)
    places = vectors(b, index.places)
    wide = rank(places, "an index") - 1
    turned_x = turned(b, x, order)
    rest = dimensions(b, turned_x)[len(index.axes) :]
    shape = [*dimensions(b, places)[:-1], *rest]
    if index.together and index.axes[0]:
        back = in_place(index, wide, len(shape))
        values = spread(b, values, [shape[i] for i in back])
        values = turned(b, values, [back.index(i) for i in range(len(shape))])
    else:
        values = spread(b, values, shape)
    made = b.ScatterND(turned_x, places, values, reduction="add" if accumulate else "none")
    return turned(b, made, [order.index(i) for i in range(len(order))])


@torch.op("aten::_unsafe_masked_index_put_accumulate")
def _(b, self, mask, indices, values):
    kept = b.Where(as_mask(b, mask), as_value(b, values, self.type.dtype), np.zeros((), self.type.dtype.numpy))
    return put(b, self, inside(b, self, indices), kept, accumulate=True)


def _even(b: Builder, x: Value, axis: int, mask: Value, values: Value) -> Value | None:
    """The values if all places that the mask names get the same; None if each one gets its own."""
    behind = rank(x, "what is changed") - axis - rank(mask, "a mask")
    n = rank(values, "the values")
    if n <= behind:
        return values
    # Axes in front of the mask keep their place, that of the mask itself has to be one place.
    if axis == 0 and n == behind + 1 and dim_of(values, 0) == 1 and dim_of(mask, 0) != 0:
        return b.Squeeze(values, axes=(0,))
    return None


@torch.op("aten::put")
def _(b, self, index, source, accumulate=False):
    flat = b.ScatterElements(flattened(b, self), flattened(b, index), flattened(b, source),
                             reduction="add" if accumulate else "none")  # fmt: skip
    return reshape_like(b, flat, self)


# ---- places along one axis


def _scattered(
    b: Builder, x: Value, dim: int, index: Value, source: Any, reduce: str, include_self: bool = True
) -> Value:
    """x with elements of `source` combined into it, at the places that `index` names along an axis."""
    at = axis_in(dim, rank(x, "what is changed"))
    if index.type.count == 0:  # of any rank
        return x
    own, index = lifted(b, x), lifted(b, index)
    if isinstance(source, Value) and rank(source, "what is scattered"):
        for i in range(rank(index, "an index")):
            if not same_dim(dim_of(source, i), dim_of(index, i)):
                n = dim_of(index, i)
                end = b.Shape(index, start=i, end=i + 1) if not isinstance(n, int) else n
                source = sliced(b, source, i, 0, end if isinstance(end, int) else Number(end, end))
    else:
        source = as_value(b, source, x.type.dtype)
        source = spread(b, source, dimensions(b, index))
    made = combined(b, own, at, index, as_value(b, source, x.type.dtype), reduce, include_self)
    return b.Reshape(made, np.zeros(0, np.int64)) if x.type.rank == 0 else made


def combined(b: Builder, x: Value, at: int, index: Value, source: Value, reduce: str, include_self: bool) -> Value:
    """x, `index` and `source` are of one rank; what is not named stays."""
    made: Value
    if reduce and reduce not in REDUCTIONS:
        raise UnsupportedError(f"the reduction '{reduce}' is not supported")
    if not reduce:
        made = b.ScatterElements(x, index, source, axis=at)
        return made
    dtype = x.type.dtype
    kind = REDUCTIONS[reduce]
    start = x
    if not include_self:
        start = b.ScatterElements(x, index, _filled(b, index, _neutral(kind, dtype)), axis=at)
    made = b.ScatterElements(start, index, source, axis=at, reduction=kind)
    if reduce != "mean":
        return made
    counts = _filled(b, x, np.ones((), dtype.numpy))
    if not include_self:
        counts = b.ScatterElements(counts, index, _filled(b, index, np.zeros((), dtype.numpy)), axis=at)
    counts = b.ScatterElements(counts, index, _filled(b, index, np.ones((), dtype.numpy)), axis=at, reduction="add")
    mean: Value = b.Div(made, counts) if dtype.is_float else b.FloorDiv(made, counts)
    return mean


def _filled(b: Builder, like: Value, value: Any) -> Value:
    return spread(b, b.const(value), dimensions(b, like))


def _neutral(kind: str, dtype: DType) -> Any:
    """What changes nothing."""
    if kind in ("add", "mul"):
        return np.array(int(kind == "mul"), dtype.numpy)
    if dtype is DType.BOOL:
        return np.array(kind == "min")
    if dtype.is_float:
        return np.array(np.inf if kind == "min" else -np.inf).astype(dtype.numpy)
    limits: Any = np.iinfo(dtype.numpy)
    return np.array(limits.max if kind == "min" else limits.min, dtype.numpy)


@torch.op("aten::scatter")
def _(b, self, dim, index, src, reduce=""):
    return _scattered(b, self, dim, index, src, reduce)


@torch.op("aten::scatter.value", "aten::scatter.value_reduce")
def _(b, self, dim, index, value, reduce=""):
    return _scattered(b, self, dim, index, value, reduce)


@torch.op("aten::scatter_add")
def _(b, self, dim, index, src):
    return _scattered(b, self, dim, index, src, "sum")


@torch.op("aten::scatter_reduce")
def _(b, self, dim, index, src, reduce, include_self=True):
    return _scattered(b, self, dim, index, src, reduce, include_self)


def _rows(b: Builder, x: Value, at: int, index: Value, source: Value, reduction: str) -> Value:
    """x with slices of `source` combined into it, at the places along an axis that a vector names."""
    made: Value
    own, index, source = lifted(b, x), lifted(b, index), lifted(b, source)
    if at == 0:
        made = b.ScatterND(own, b.Unsqueeze(index, axes=(1,)), source, reduction=reduction)
    else:
        wide = spread(b, b.Reshape(index, np.array(along(own, at))), dimensions(b, source))
        made = b.ScatterElements(own, wide, source, axis=at, reduction=reduction)
    return b.Reshape(made, np.zeros(0, np.int64)) if x.type.rank == 0 else made


@torch.op("aten::index_add")
def _(b, self, dim, index, source, alpha=1):
    if alpha != 1 or isinstance(alpha, (bool, Number)):
        source = b.Mul(source, as_value(b, alpha, source.type.dtype))
    at = axis_in(dim, rank(self, "what is changed"))
    return _rows(b, self, at, index, as_value(b, source, self.type.dtype), "add")


@torch.op("aten::index_copy")
def _(b, self, dim, index, source):
    at = axis_in(dim, rank(self, "what is changed"))
    return _rows(b, self, at, index, as_value(b, source, self.type.dtype), "none")


@torch.op("aten::index_reduce")
def _(b, self, dim, index, source, reduce, include_self=True):
    at = axis_in(dim, rank(self, "what is changed"))
    own, source = lifted(b, self), lifted(b, as_value(b, source, self.type.dtype))
    wide = spread(b, b.Reshape(lifted(b, index), np.array(along(own, at))), dimensions(b, source))
    made = combined(b, own, at, wide, source, reduce, include_self)
    return b.Reshape(made, np.zeros(0, np.int64)) if self.type.rank == 0 else made


@torch.op("aten::index_fill")
def _(b, self, dim, index, value):
    at = axis_in(dim, rank(self, "what is changed"))
    own, index = lifted(b, self), lifted(b, index)
    n = dim_of(own, at)
    blank = b.const(np.zeros(n, bool)) if isinstance(n, int) else b.Fill(b.Shape(own, start=at, end=at + 1), False)
    named = b.ScatterElements(blank, index, _filled(b, index, np.array(True)))
    made = b.Where(b.Reshape(named, np.array(along(own, at))), _single(b, value, self.type.dtype), own)
    return b.Reshape(made, np.zeros(0, np.int64)) if self.type.rank == 0 else made


def _single(b: Builder, value: Any, dtype: DType) -> Value:
    """A number, or a tensor with one, as a scalar."""
    made = as_value(b, value, dtype)
    return made if made.type.rank == 0 else b.Reshape(made, np.zeros(0, np.int64))


# ---- places named by a mask


@torch.op("aten::masked_scatter")
def _(b, self, mask, source):
    x, m = together(b, [self, as_mask(b, mask)])
    places = nonzero(b, lifted(b, m))
    count = b.Shape(places, start=0, end=1)
    new = sliced(b, flattened(b, as_value(b, source, self.type.dtype)), 0, 0, Number(count, count))
    made = b.ScatterND(lifted(b, x), places, new)
    return b.Reshape(made, np.zeros(0, np.int64)) if x.type.rank == 0 else made
