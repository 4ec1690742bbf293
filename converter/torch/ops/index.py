"""Indexing: reading elements by numbers, masks and index tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from minnow.converter.operand import bounded, rank, static_dim, turned
from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.symbolic.dimension import axis_in, known
from minnow.converter.torch.symbolic.dtype import as_value, operands
from minnow.converter.torch.symbolic.part import sliced
from minnow.converter.torch.symbolic.view import at_least, flattened, reshape, together
from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, Value
from minnow.schema.ir.type import same_dim
from minnow.schema.ops import Builder

MASKS = (DType.BOOL, DType.U8)


def as_mask(b: Builder, x: Value) -> Value:
    """True where x is not 0."""
    return x if x.type.dtype is DType.BOOL else b.Cast(x, to=DType.BOOL)


def nonzero(b: Builder, x: Value) -> Value:
    """The places of what is not 0, one in each row."""
    made: Value = b.ArgWhere(x)
    return made


def columns(b: Builder, x: Value) -> list[Value]:
    """The places of what is not 0, a vector for each axis."""
    n = rank(x, "a mask")
    places = nonzero(b, x)
    if n == 1:
        return [b.Squeeze(places, axes=(1,))]
    return [b.Gather(places, np.array(i), axis=1) for i in range(n)]


@dataclass
class Index:
    """What indexing names.

    Attributes:
        axes: the axes of the operand that are named, and for each the places along it.
        together: the axes stand next to one another, and so does what takes their place; else it comes first.
    """

    axes: list[int]
    places: list[Value]
    together: bool


def parsed(b: Builder, x: Value, indices: Sequence[Value | None]) -> Index:
    """Indices, one for each axis; None names all of it. Masks stand for the places where they are true."""
    axes: list[int] = []
    places: list[Value] = []
    axis = 0
    for index in indices:
        if index is None:
            axis += 1
            continue
        found = columns(b, index) if index.type.dtype in MASKS else [index]
        axes += range(axis, axis + len(found))
        places += found
        axis += len(found)
    if axis > rank(x, "what is indexed"):
        raise ModelError(f"there are {axis} indices for a tensor of the type {x.type}")
    return Index(axes, places, all(j == i + 1 for i, j in pairwise(axes)))


def only_mask(indices: Sequence[Value | None]) -> tuple[int, Value] | None:
    """The axis and mask where nothing else is in the index."""
    given = [(i, v) for i, v in enumerate(indices) if v is not None]
    return given[0] if len(given) == 1 and given[0][1].type.dtype in MASKS and given[0][1].type.rank else None


def vectors(b: Builder, places: Sequence[Value]) -> Value:
    """Places along several axes, broadcast, as vectors in a last axis."""
    longs = [p if p.type.dtype is DType.I64 else b.Cast(p, to=DType.I64) for p in places]
    shape = longs[0].type.shape
    if any(p.type.shape is None or len(p.type.shape) != len(shape or ()) or
           not all(map(same_dim, p.type.shape, shape or ())) for p in longs):  # fmt: skip
        longs = together(b, longs)
    n = rank(longs[0], "an index")
    parts = [b.Unsqueeze(p, axes=(n,)) for p in longs]
    made: Value = b.Concat(*parts, axis=n) if len(parts) > 1 else parts[0]
    return made


def front(x: Value, axes: Sequence[int]) -> list[int]:
    """The order of the axes of x with these in front."""
    return [*axes, *(i for i in range(rank(x, "what is indexed")) if i not in axes)]


def indexed(b: Builder, x: Value, indices: Sequence[Value | None]) -> Value:
    """x[indices] with the rules of PyTorch for where the axes of the result are."""
    made: Value
    if (mask := only_mask(indices)) is not None:
        return _masked(b, x, *mask)
    index = parsed(b, x, indices)
    if not index.axes:
        return x
    if len(index.axes) == 1:
        made = b.Gather(x, index.places[0], axis=index.axes[0])
        return made
    if (flat := _flat_places(index, x)) is not None:
        # Constant places along neighboring axes are places along one axis.
        shape = x.type.static_shape
        first, last = index.axes[0], index.axes[-1]
        count = int(np.prod(shape[first : last + 1]))
        one = reshape(b, x, [*shape[:first], count, *shape[last + 1 :]])
        made = b.Gather(one, flat, axis=first)
        return made
    places = vectors(b, index.places)
    made = b.GatherND(turned(b, x, front(x, index.axes)), places)
    if not index.together or index.axes[0] == 0:
        return made
    return turned(b, made, in_place(index, rank(places, "an index") - 1, rank(made, "a result")))


def in_place(index: Index, wide: int, n: int) -> list[int]:
    """The order that brings the first `wide` axes of a result to where the indexed axes were."""
    before = index.axes[0]
    return [*range(wide, wide + before), *range(wide), *range(wide + before, n)]


def _flat_places(index: Index, x: Value) -> Any:
    if not index.together or not x.type.is_static or any(p.data is None for p in index.places):
        return None
    shape = x.type.static_shape
    flat: Any = 0
    for axis, p in zip(index.axes, index.places, strict=True):
        n = shape[axis]
        numbers = p.data.numpy().astype(np.int64) if p.data is not None else np.zeros(0)
        if np.any((numbers < -n) | (numbers >= n)):
            raise ModelError(f"an index is out of range for axis {axis} of {x.type}")
        flat = flat * n + np.where(numbers < 0, numbers + n, numbers)
    return flat


def _masked(b: Builder, x: Value, axis: int, mask: Value) -> Value:
    """The slices of x where a mask over some of its axes is true."""
    n = rank(mask, "a mask")
    made: Value
    if n == 1:
        made = b.Compress(x, as_mask(b, mask), axis=axis)
        return made
    flat = flattened(b, x, axis, axis + n - 1)
    made = b.Compress(flat, flattened(b, as_mask(b, mask)), axis=axis)
    return made


@torch.op("aten::index", "aten::_unsafe_index")
def _(b, self, indices):
    return indexed(b, self, indices)


def inside(b: Builder, x: Value, indices: Sequence[Value | None]) -> list[Value | None]:
    """The indices, the nearest place for those beyond an end."""
    return [None if v is None else b.Min(b.Max(v, 0), static_dim(x.type, i, "what is indexed") - 1)
            for i, v in enumerate(indices)]  # fmt: skip


@torch.op("aten::_unsafe_masked_index")
def _(b, self, mask, indices, fill):
    return b.Where(as_mask(b, mask), indexed(b, self, inside(b, self, indices)), as_value(b, fill, self.type.dtype))


def lifted(b: Builder, x: Value) -> Value:
    """A scalar as a vector of one element."""
    return at_least(b, x, 1)


@torch.op("aten::index_select", moves=True)
def _(b, self, dim, index):
    made = b.Gather(lifted(b, self), lifted(b, index), axis=axis_in(dim, rank(self, "what is indexed")))
    return b.Reshape(made, np.zeros(0, np.int64)) if self.type.rank == 0 else made


@torch.op("aten::gather")
def _(b, self, dim, index, sparse_grad=False):
    at = axis_in(dim, rank(self, "what is gathered from"))
    if index.type.count == 0:  # of any rank
        return b.const(np.zeros(index.type.static_shape, self.type.dtype.numpy))
    made = b.GatherElements(lifted(b, self), lifted(b, index), axis=at)
    return b.Reshape(made, np.zeros(0, np.int64)) if index.type.rank == 0 else made


@torch.op("aten::take")
def _(b, self, index):
    return b.Gather(flattened(b, self), index)


@torch.op("aten::take_along_dim")
def _(b, self, indices, dim=None):
    if dim is None:
        return b.Gather(flattened(b, self), flattened(b, indices))
    n = rank(self, "what is gathered from")
    at = axis_in(dim, n)
    if rank(indices, "the indices") != n:
        raise ModelError(f"the indices {indices.type} do not fit {self.type}")
    return b.GatherElements(_spread(b, self, indices, at), _spread(b, indices, self, at), axis=at)


def _spread(b: Builder, x: Value, like: Value, at: int) -> Value:
    """x broadcast to the shape of another operand, but for one axis."""
    sizes = [1 if i == at else d for i, d in enumerate(like.type.shape or ())]
    if all(isinstance(d, int) for d in sizes):
        own = x.type.shape or ()
        grows = any(d != 1 and own[i] != d for i, d in enumerate(sizes))
        return b.Expand(x, np.array(sizes)) if grows else x
    if all(i == at or same_dim(d, e) for i, (d, e) in enumerate(zip(x.type.shape or (), sizes, strict=True))):
        return x
    parts = [b.const(np.array([1])) if i == at else b.Shape(like, start=i, end=i + 1) for i in range(len(sizes))]
    made: Value = b.Expand(x, b.Concat(*parts, axis=0))
    return made


@torch.op("aten::masked_select")
def _(b, self, mask):
    x, m = together(b, [self, as_mask(b, mask)])
    return b.Compress(flattened(b, x), flattened(b, m), axis=0)


@torch.op("aten::nonzero", "aten::argwhere")
def _(b, self):
    return nonzero(b, self)


@torch.op("aten::nonzero_numpy")
def _(b, self):
    return columns(b, lifted(b, self))


@torch.op("aten::nonzero_static")
def _(b, self, size, fill_value=-1):
    size = known(size, "the number of places")
    n = rank(self, "an operand")
    bounded(size * n, "the result of nonzero_static")
    filler = b.const(np.full((size, n), fill_value, np.int64))
    return sliced(b, b.Concat(nonzero(b, self), filler, axis=0), 0, 0, size)


# ---- places among sorted numbers


def places_among(b: Builder, bounds: Value, x: Any, right: bool, out_int32: bool, sorter: Value | None = None) -> Value:
    """How many of the sorted numbers in the last axis of `bounds` come before each x; with `right`, or are equal."""
    is_number = not isinstance(x, Value)
    if sorter is not None:
        bounds = b.GatherElements(bounds, sorter, axis=-1)
    bounds, x = operands(b, bounds, x)
    if is_number and x.type.rank:
        x = b.Reshape(x, np.zeros(0, np.int64))
    n = rank(x, "what is searched for")
    if rank(bounds, "the bounds") > 1:
        bounds = b.Unsqueeze(bounds, axes=(n - 1,))
    # NaN comes behind all numbers.
    wide = b.Unsqueeze(x, axes=(n,))
    behind = b.Not(b.Greater(bounds, wide) if right else b.GreaterOrEqual(bounds, wide))
    to = DType.I32 if out_int32 else DType.I64
    made: Value = b.ReduceSum(b.Cast(behind, to=to), axes=(n,), keepdims=False)
    return made


@torch.op("aten::searchsorted")
def _(b, sorted_sequence, self, out_int32=False, right=False, side=None, sorter=None):
    return places_among(b, sorted_sequence, self, side == "right" if side else right, out_int32, sorter)


@torch.op("aten::bucketize")
def _(b, self, boundaries, out_int32=False, right=False):
    return places_among(b, boundaries, self, right, out_int32)
