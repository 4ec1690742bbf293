"""Pairwise distances and cosine similarity."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.converter.operand import rank, static_dim
from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.symbolic.dimension import axis_in
from minnow.converter.torch.symbolic.dtype import float_type, operands
from minnow.schema.ir import Value
from minnow.schema.ops import Builder


def p_norm(b: Builder, x: Value, p: float, axes: tuple[int, ...] | None = None, keepdims: bool = False) -> Any:
    """(sum of |x|^p)^(1/p); of infinity the largest element, of 0 how many are not 0."""
    where = {"axes": axes, "keepdims": keepdims}
    if p == 0:
        return b.ReduceSum(b.Cast(b.NotEqual(x, 0.0), to=x.type.dtype), **where)
    if p in (1, 2):
        return (b.ReduceL1 if p == 1 else b.ReduceL2)(x, **where)
    if np.isinf(p):
        return (b.ReduceMax if p > 0 else b.ReduceMin)(b.Abs(x), **where)
    return b.Pow(b.ReduceSum(b.Pow(b.Abs(x), float(p)), **where), float(1 / p))


def pairwise_distance(b: Builder, x: Value, y: Value, p: float, eps: float, keepdim: bool = False) -> Any:
    """The norms of x - y + eps over the last axis."""
    x, y = operands(b, x, y, dtype=float_type(x, y))
    return p_norm(b, b.Add(b.Sub(x, y), float(eps)), p, (-1,), keepdim)


@torch.op("aten::pairwise_distance")
def _(b, x1, x2, p=2.0, eps=1e-6, keepdim=False):
    return pairwise_distance(b, x1, x2, p, eps, keepdim)


@torch.op("aten::cdist", "aten::_cdist_forward")
def _(b, x1, x2, p=2.0, compute_mode=None):
    return _distances(b, x1, x2, p)


@torch.op("aten::_euclidean_dist")
def _(b, x1, x2):
    return _distances(b, x1, x2, 2.0)


def _distances(b: Builder, x: Value, y: Value, p: float) -> Any:
    x, y = operands(b, x, y)
    return p_norm(b, b.Sub(b.Unsqueeze(x, axes=(-2,)), b.Unsqueeze(y, axes=(-3,))), p, (-1,))


@torch.op("aten::pdist", "aten::_pdist_forward")
def _(b, self, p=2.0):
    one, two = np.triu_indices(static_dim(self.type, 0, "the number of vectors"), 1)
    return p_norm(b, b.Sub(b.Gather(self, one), b.Gather(self, two)), p, (-1,))


@torch.op("aten::cosine_similarity")
def _(b, x1, x2, dim=1, eps=1e-8):
    x, y = operands(b, x1, x2)
    n = max(rank(x, "the first vectors"), rank(y, "the second vectors"))
    axes = (axis_in(dim, n) - n,) if n else None
    if axes and not _same_dimension(x, y, axes[0]):  # what is repeated along the vectors counts as often
        x, y = b.Expand(x, b.Shape(y)), b.Expand(y, b.Shape(x))
    unit = (b.Div(v, b.Max(b.ReduceL2(v, axes=axes), float(eps))) for v in (x, y))
    return b.ReduceSum(b.Mul(*unit), axes=axes, keepdims=False)


def _same_dimension(x: Value, y: Value, axis: int) -> bool:
    one, two = ((v.type.shape or ())[axis:][:1] for v in (x, y))
    return one == two and one != ()
