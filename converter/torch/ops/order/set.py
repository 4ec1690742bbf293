"""Unique elements or slices, and their counts."""

from __future__ import annotations

import numpy as np

from minnow.converter.operand import rank
from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.symbolic.dimension import axis_in, size_of, vector_of
from minnow.converter.torch.symbolic.part import sliced
from minnow.converter.torch.symbolic.view import flattened, reshape_like
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder

_NONE = np.zeros(0, np.int64)


def unique(b: Builder, x: Value, axis: int | None, inverse: bool, counts: bool) -> tuple[Value, ...]:
    """The different elements, or slices along an axis, in order; of each one of x its place, and numbers of them."""
    if axis is not None:
        axis = axis_in(axis, rank(x, "an operand"))
    values, _, places, numbers = b.Unique(x, axis=axis)
    if inverse and axis is None:
        places = reshape_like(b, places, x)
    return values, places if inverse else b.const(_NONE), numbers if counts else b.const(_NONE)


@torch.op("aten::_unique")
def _(b, self, sorted=True, return_inverse=False):
    return unique(b, self, None, return_inverse, False)[:2]


@torch.op("aten::_unique2")
def _(b, self, sorted=True, return_inverse=False, return_counts=False):
    return unique(b, self, None, return_inverse, return_counts)


@torch.op("aten::unique_dim")
def _(b, self, dim, sorted=True, return_inverse=False, return_counts=False):
    return unique(b, self, dim, return_inverse, return_counts)


def consecutive(b: Builder, x: Value, dim: int | None, inverse: bool, counts: bool) -> tuple[Value, ...]:
    """As `unique`, but only neighbors are compared."""
    flat = flattened(b, x) if dim is None else x
    at = axis_in(dim or 0, rank(flat, "an operand"))
    if 0 in (flat.type.shape or ()):
        return flat, b.const(np.zeros(x.type.static_shape if dim is None else 0, np.int64)), b.const(_NONE)
    differs = b.NotEqual(sliced(b, flat, at, 1), sliced(b, flat, at, 0, -1))
    others = tuple(i for i in range(rank(flat, "an operand")) if i != at)
    if others:
        differs = b.ReduceMax(differs, axes=others, keepdims=False)
    new = b.Concat(np.array([True]), differs, axis=0)
    values = b.Compress(flat, new, axis=at)
    places = b.Sub(b.CumSum(b.Cast(new, to=DType.I64), np.array(0)), 1) if inverse else b.const(_NONE)
    if inverse and dim is None:
        places = reshape_like(b, places, x)
    numbers = b.const(_NONE)
    if counts:
        starts = b.Squeeze(b.ArgWhere(new), axes=(1,))
        ends = b.Concat(sliced(b, starts, 0, 1), vector_of(b, [size_of(b, flat, at)]), axis=0)
        numbers = b.Sub(ends, starts)
    return values, places, numbers


@torch.op("aten::unique_consecutive")
def _(b, self, return_inverse=False, return_counts=False, dim=None):
    return consecutive(b, self, dim, return_inverse, return_counts)


@torch.op("aten::unique_dim_consecutive")
def _(b, self, dim, return_inverse=False, return_counts=False):
    return consecutive(b, self, dim, return_inverse, return_counts)
