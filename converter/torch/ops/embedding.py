"""Embeddings, embedding bags and one-hot vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.converter.operand import count, rank, static_dim
from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.program.script import Unusable
from minnow.converter.torch.symbolic.dimension import known, scalar, size_of, vector_of
from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder


@torch.op("aten::embedding")
def _(b, weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    return b.Gather(weight, indices)


@torch.op("aten::embedding_renorm_")
def _(b, self, indices, max_norm, norm_type):
    if norm_type not in (1.0, 2.0):
        raise UnsupportedError(f"embedding_renorm with the norm {norm_type} is not supported")
    flat = b.Reshape(indices, np.array([-1]))
    rows = b.Gather(self, flat)
    norms = (b.ReduceL1 if norm_type == 1 else b.ReduceL2)(rows, axes=(1,))
    most, one = (b.const(np.array(v, self.type.dtype.numpy)) for v in (max_norm, 1))
    factors = b.Where(b.Greater(norms, most), b.Div(most, b.Add(norms, 1e-7)), one)
    return b.ScatterND(self, b.Unsqueeze(flat, axes=(1,)), b.Mul(rows, factors))


@torch.op("aten::one_hot")
def _(b, self, num_classes=-1):
    values = b.const(np.array([0, 1], np.int64))
    if known(num_classes, "the number of classes") >= 0:
        return b.OneHot(self, np.array(num_classes, np.int64), values)
    if count(self) == 0:
        raise UnsupportedError(
            "one_hot of an empty tensor is not supported", why="the number of classes is not known then"
        )
    return b.OneHot(self, b.Add(b.ReduceMax(self, keepdims=False), 1), values)


def _bag(b: Builder, weight: Value, indices: Value, offsets: Value, mode: int, factors: Value | None,
         include_last: bool, padding_idx: int | None) -> tuple[Any, ...]:  # fmt: skip
    """Sums (mode 0), means (1) or largest elements (2) of the rows that each bag names, by where the bags start."""
    if rank(indices, "the indices") != 1:
        raise UnsupportedError("embedding_bag is supported for vectors of indices only")
    indices, offsets = (v if v.type.dtype is DType.I64 else b.Cast(v, to=DType.I64) for v in (indices, offsets))
    if include_last:
        offsets = b.Slice(offsets, np.array([0]), np.array([-1]))
    bags = size_of(b, offsets, 0)
    places = b.Range(np.array(0), scalar(b, size_of(b, indices, 0)), np.array(1))
    starts = b.LessOrEqual(b.Unsqueeze(offsets, axes=(0,)), b.Unsqueeze(places, axes=(1,)))
    bag = b.Sub(b.ReduceSum(b.Cast(starts, to=DType.I64), axes=(1,), keepdims=False), 1)
    at, dtype = b.Unsqueeze(bag, axes=(1,)), weight.type.dtype.numpy
    rows = b.Gather(weight, indices)
    rows = rows if factors is None else b.Mul(rows, b.Unsqueeze(factors, axes=(1,)))
    ones = b.Expand(np.array(1, np.int64), b.Shape(indices))
    if padding_idx is not None and padding_idx >= 0:
        counts_in = b.NotEqual(indices, padding_idx)
        rows = b.Where(b.Unsqueeze(counts_in, axes=(1,)), rows, b.const(np.array(-np.inf if mode == 2 else 0, dtype)))
        ones = b.Cast(counts_in, to=DType.I64)
    held = b.ScatterND(b.Fill(vector_of(b, [bags]), np.zeros((), np.int64)), at, ones, reduction="add")
    start = b.Fill(vector_of(b, [bags, size_of(b, weight, 1)]), np.array(-np.inf if mode == 2 else 0, dtype))
    y = b.ScatterND(start, at, rows, reduction="max" if mode == 2 else "add")
    column = b.Unsqueeze(held, axes=(1,))
    if mode == 1:
        y = b.Div(y, b.Cast(b.Max(column, 1), to=weight.type.dtype))
    if mode == 2:
        y = b.Where(b.Equal(column, 0), b.const(np.zeros((), dtype)), y)
    # The rest is for gradients, and has dimensions that depend on how PyTorch computes the sums.
    return y, *(
        Unusable(f"the result '{what}' of embedding_bag is not supported")
        for what in ("offset2bag", "bag_size", "max_indices")
    )


@torch.op("aten::_embedding_bag", "aten::_embedding_bag_forward_only")
def _(b, weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False, per_sample_weights=None,
      include_last_offset=False, padding_idx=-1):  # fmt: skip
    return _bag(b, weight, indices, offsets, mode, per_sample_weights, include_last_offset, padding_idx)


@torch.op("aten::embedding_bag")
def _(b, weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False, per_sample_weights=None,
      include_last_offset=False, padding_idx=None):  # fmt: skip
    row = None if padding_idx is None else padding_idx % static_dim(weight.type, 0, "the table")
    return _bag(b, weight, indices, offsets, mode, per_sample_weights, include_last_offset, row)
