"""Reductions, cumulative sums, searching and sorting."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.converter.operand import bounded, constant, ints, rank, static_dim
from minnow.converter.tensorflow.frontend import frontend as tf
from minnow.converter.tensorflow.ops.movement import axis_operand, cast
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder
from minnow.schema.registry.dimension import axis_of

_OPS = {"Sum": "ReduceSum", "Mean": "ReduceMean", "Max": "ReduceMax", "Min": "ReduceMin", "Prod": "ReduceProd",
        "All": "ReduceMin", "Any": "ReduceMax", "EuclideanNorm": "ReduceL2"}  # fmt: skip


def reduced(b: Builder, op: str, x: Value, axes: Value, keepdims: bool) -> Any:
    """A reduction over axes that are perhaps computed; over no axis, every element stands for itself."""
    if not axes.is_const:
        at = axes if axes.type.rank == 1 else b.Reshape(axes, np.array([-1]))
        return getattr(b, op)(x, at, keepdims=keepdims)
    chosen = ints(axes)
    if not chosen:
        return b.Abs(x) if op == "ReduceL2" else x
    return getattr(b, op)(x, axes=chosen, keepdims=keepdims)


@tf.op(*_OPS)
def _(b, x, axes, *, keep_dims=False, node):
    return reduced(b, _OPS[node.op], x, axes, keep_dims)


@tf.op("L2Loss")
def _(b, x):
    return b.Mul(b.ReduceSumSquare(x, keepdims=False), 0.5)


@tf.op("ArgMax", "ArgMin")
def _(b, x, axis, *, output_type=DType.I64, node):
    x = cast(b, x, DType.I32) if x.type.dtype is DType.BOOL else x
    return cast(b, getattr(b, node.op)(x, axis=axis_operand(axis), keepdims=False), output_type)


def _top(b: Builder, x: Value, k: Any, sorted: bool, index_type: DType) -> tuple[Value, Value]:
    values, places = b.TopK(x, k, axis=-1, sorted=sorted, n_outputs=2)
    return values, cast(b, places, index_type)


@tf.op("TopKV2", outputs=("values", "indices"))
def _(b, x, k, *, sorted=True, index_type=DType.I32):
    # Where not even the order matters, the sorted ones are as good as others.
    return _top(b, x, b.Reshape(cast(b, k, DType.I64), np.array([1])), True, index_type)


@tf.op("TopK", outputs=("values", "indices"))
def _(b, x, *, k, sorted=True):
    return _top(b, x, np.array([k]), True, DType.I32)


@tf.op("NthElement")
def _(b, x, n, *, reverse=False):
    k = b.Add(b.Reshape(cast(b, n, DType.I64), np.array([1])), 1)
    values, _ = b.TopK(x, k, axis=-1, largest=reverse, n_outputs=2)
    last = b.Slice(values, np.array([-1]), np.array([np.iinfo(np.int64).max]), np.array([rank(x, "x") - 1]))
    return b.Squeeze(last, axes=(-1,))


@tf.op("InTopK", "InTopKV2")
def _(b, predictions, targets, k_=None, *, k=None):
    places = b.Unsqueeze(cast(b, targets, DType.I64), axes=(1,))
    own = b.GatherElements(predictions, places, axis=1)
    better = b.ReduceSum(b.Cast(b.Greater(predictions, own), to=DType.I32), axes=(1,), keepdims=False)
    finite = b.Not(b.Or(b.IsNaN(own), b.IsInf(own)))
    few = b.Less(better, k) if k_ is None else b.Less(cast(b, better, k_.type.dtype), k_)
    return b.And(few, b.Squeeze(finite, axes=(1,)))


@tf.op("Cumsum")
def _(b, x, axis, *, exclusive=False, reverse=False):
    return b.CumSum(x, axis, exclusive=exclusive, reverse=reverse)


@tf.op("Cumprod")
def _(b, x, axis, *, exclusive=False, reverse=False):
    return b.CumProd(x, axis, exclusive=exclusive, reverse=reverse)


@tf.op("CumulativeLogsumexp")
def _(b, x, axis, *, exclusive=False, reverse=False):
    at = axis_operand(axis)
    top = b.ReduceMax(x, axes=(at,), keepdims=True)
    total = b.CumSum(b.Exp(b.Sub(x, top)), np.array(at), exclusive=exclusive, reverse=reverse)
    return b.Add(b.Log(total), top)


@tf.op("LowerBound", "UpperBound")
def _(b, ordered, values, *, out_type=DType.I32, node):
    compare = b.Less if node.op == "LowerBound" else b.LessOrEqual
    below = compare(b.Unsqueeze(ordered, axes=(1,)), b.Unsqueeze(values, axes=(2,)))
    return b.ReduceSum(b.Cast(below, to=out_type), axes=(2,), keepdims=False)


@tf.op("Bucketize")
def _(b, x, *, boundaries=()):
    edges = np.array(boundaries, np.float32)
    value = x if x.type.dtype.is_float else b.Cast(x, to=DType.F32)
    edges = edges.astype(value.type.dtype.numpy)
    reached = b.GreaterOrEqual(b.Unsqueeze(value, axes=(rank(x, "the input of Bucketize"),)), edges)
    return b.ReduceSum(b.Cast(reached, to=DType.I32), axes=(-1,), keepdims=False)


@tf.op("Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2", outputs=("y", "idx", "count"))
def _(b, x, axes=None, *, out_idx=DType.I32):
    axis = ints(axes, "the axis of Unique")[0] if axes is not None and ints(axes, "the axis of Unique") else None
    y, _, places, counts = b.Unique(x, axis=axis, sorted=False, n_outputs=4)
    return y, cast(b, places, out_idx), cast(b, counts, out_idx)


@tf.op("ListDiff", "SetDiff1d", outputs=("out", "idx"))
def _(b, x, y, *, out_idx=DType.I32):
    same = b.Equal(b.Unsqueeze(x, axes=(1,)), b.Unsqueeze(y, axes=(0,)))
    kept = b.Not(b.ReduceMax(same, axes=(1,), keepdims=False))
    places = b.Compress(b.Range(np.array(0), b.Size(x), np.array(1)), kept)
    return b.Compress(x, kept), cast(b, places, out_idx)


@tf.op("HistogramFixedWidth")
def _(b, values, limits, bins, *, dtype=DType.I32):
    low, high = b.Split(limits, axis=0, sizes=(1, 1), n_outputs=2)
    n = bounded(axis_operand(bins, "the number of bins"), "a histogram")
    flat = b.Reshape(values, np.array([-1]))
    place = b.Floor(b.Mul(b.Div(b.Sub(flat, low), b.Sub(high, low)), float(n)))
    place = b.Cast(b.Min(b.Max(place, 0.0), float(n - 1)), to=DType.I64)
    ones = b.Fill(b.Shape(place), np.ones((), dtype.numpy))
    return b.ScatterElements(b.const(np.zeros(n, dtype.numpy)), place, ones, reduction="add")


@tf.op("Bincount")
def _(b, x, size, weights):
    return _counted(b, b.Reshape(x, np.array([-1])), size, weights, False, weights.type.dtype)


@tf.op("DenseBincount")
def _(b, x, size, weights, *, binary_output=False):
    return _counted(b, x, size, weights, binary_output, weights.type.dtype)


def _counted(b: Builder, x: Value, size: Value, weights: Value, binary: bool, dtype: DType) -> Any:
    """How often each number below `size` is there, in each row; others are left out."""
    n = b.Reshape(cast(b, size, DType.I64), np.array([1]))
    axis = axis_of(-1, rank(x, "the input of Bincount"))
    flat = cast(b, x, DType.I64)
    inside = b.And(b.GreaterOrEqual(flat, 0), b.Less(flat, n))
    place = b.Where(inside, flat, n)
    each = b.Fill(b.Shape(x), np.ones((), dtype.numpy))
    if weights.type.count != 0 and not binary:
        each = b.Reshape(weights, b.Shape(x))
    lead = [b.Shape(x, start=0, end=axis)] if axis else []
    dimensions = b.Concat(*lead, b.Add(n, 1), axis=0) if lead else b.Add(n, 1)
    empty = b.Fill(dimensions, np.zeros((), dtype.numpy))
    total = b.ScatterElements(empty, place, each, axis=axis, reduction="none" if binary else "add")
    return b.Slice(total, np.array([0]), n, np.array([axis]))


@tf.op("Where")
def _(b, x):
    return b.ArgWhere(x)


@tf.op("Select")
def _(b, condition, x, y):
    if condition.type.rank == 1 and (x.type.rank or 0) > 1:
        condition = b.Reshape(condition, np.array([-1, *[1] * (x.type.rank - 1)]))
    return b.Where(condition, x, y)


@tf.op("SelectV2")
def _(b, condition, x, y):
    return b.Where(condition, x, y)


@tf.op("UnravelIndex")
def _(b, indices, dims):
    dimensions = constant(dims, "the dimensions of UnravelIndex").astype(np.int64)
    steps = np.append(np.cumprod(dimensions[::-1])[::-1][1:], 1)
    dtype = indices.type.dtype
    column = [-1, *[1] * rank(indices, "the indices")]
    flat = b.Unsqueeze(indices, axes=(0,))
    whole = b.Div(flat, steps.astype(dtype.numpy).reshape(column))
    return b.Mod(whole, dimensions.astype(dtype.numpy).reshape(column))


@tf.op("CTCGreedyDecoder",
       outputs=("decoded_indices", "decoded_values", "decoded_shape", "log_probability"))  # fmt: skip
def _(b, x, lengths, *, merge_repeated=False, blank_index=-1):
    """The best class at each time of x[T, B, classes], without blanks (and repetitions), as a sparse matrix."""
    classes = static_dim(x.type, 2, "the classes of a decoder")
    blank = blank_index % classes
    best = b.Transpose(b.ArgMax(x, axis=2, keepdims=False), perm=(1, 0))  # [B, T]
    times = b.Range(np.array(0), b.Squeeze(b.Shape(x, start=0, end=1), axes=(0,)), np.array(1))
    heard = b.Less(b.Unsqueeze(times, axes=(0,)), b.Unsqueeze(cast(b, lengths, DType.I64), axes=(1,)))
    kept = b.And(heard, b.NotEqual(best, blank))
    if merge_repeated:
        before = b.Slice(
            b.Pad(best, np.array([0, 0, 1, 0]), np.array(-1)), np.array([0]), np.array([-1]), np.array([1])
        )
        kept = b.And(kept, b.NotEqual(best, before))
    counted = b.CumSum(b.Cast(kept, to=DType.I64), np.array(1))
    at = b.ArgWhere(kept)
    place = b.Sub(b.GatherND(counted, at), 1)
    rows = b.Gather(at, np.array([0]), axis=1)
    widest = b.ReduceMax(b.Concat(b.Reshape(counted, np.array([-1])), np.array([0]), axis=0), keepdims=False)
    shape = b.Concat(b.Shape(best, start=0, end=1), b.Reshape(widest, np.array([1])), axis=0)
    top = b.Transpose(b.ReduceMax(x, axes=(2,), keepdims=False), perm=(1, 0))
    zero = b.const(np.zeros((), x.type.dtype.numpy))
    likely = b.Neg(b.ReduceSum(b.Where(heard, top, zero), axes=(1,), keepdims=True))
    return b.Concat(rows, b.Unsqueeze(place, axes=(1,)), axis=1), b.GatherND(best, at), shape, likely
