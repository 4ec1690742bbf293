"""Contrib operators that move, pick or make tensors: older forms of ONNX's own, and those of image and text models."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from minnow.converter.onnx.contrib.attention import split_heads
from minnow.converter.onnx.contrib.domain import alias, contrib, dimension, listed, positions, standard
from minnow.converter.operand import ints, static_dim
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder

alias("Trilu", "GatherND", "GridSample")

_SCALAR = np.zeros(0, np.int64)


@contrib("ExpandDims")
def _(b, x, axis):
    return b.Unsqueeze(x, axes=ints(axis, "the axis of ExpandDims"))


@contrib("Range")
def _(b, start, limit, delta=None):
    start, limit = b.Reshape(start, _SCALAR), b.Reshape(limit, _SCALAR)
    step = np.ones((), start.type.dtype.numpy) if delta is None else b.Reshape(delta, _SCALAR)
    return b.Range(start, limit, step)


@contrib("Pad")
def _(b, x, pads, value=None, *, mode="constant", node):
    if pads.data is not None:
        flat = b.const(pads.data.numpy().reshape(-1))
    else:
        flat = b.Reshape(pads, np.array([-1]))
    return standard(b, node, "Pad", x, flat, value, version=11, mode=mode)


@contrib("Unique")
def _(b, x):
    y, _, places, counts = b.Unique(x, sorted=False, n_outputs=4)
    return y, places, counts


@contrib("TorchEmbedding")
def _(b, table, indices, padding=None, by_frequency=None):
    return b.Gather(table, indices)


@contrib("Inverse")
def _(b, x):
    return b.Inverse(x)


@contrib("CDist")
def _(b, x, y, *, metric="sqeuclidean"):
    if metric not in ("euclidean", "sqeuclidean"):
        raise UnsupportedError(
            f"CDist with the metric '{metric}' is not supported",
            hint="use euclidean or sqeuclidean",
        )
    rows, columns = (b.ReduceSumSquare(v, axes=(1,)) for v in (x, y))
    cross = b.Mul(b.MatMul(x, y, transpose_b=True), -2.0)
    # What cancels out may fall below zero by rounding.
    square = b.Relu(b.Add(b.Add(cross, rows), b.Transpose(columns, perm=(1, 0))))
    return b.Sqrt(square) if metric == "euclidean" else square


@contrib("IsAllFinite")
def _(b, *xs, isinf_only=0, isnan_only=0):
    if isinf_only and isnan_only:
        raise ModelError("IsAllFinite has both isinf_only and isnan_only, of which at most one may be set")

    def bad(x: Value) -> Value:
        """How many elements are not what they should be, capped to 0 or 1, as a scalar."""
        kinds = [b.IsInf(x)] * (not isnan_only) + [b.IsNaN(x)] * (not isinf_only)
        return b.ReduceSum(b.Cast(reduce(b.Or, kinds), to=DType.I32), keepdims=False)

    return b.Equal(reduce(b.Add, [bad(x) for x in xs]), 0)


def _complex(conjugate: bool) -> Any:
    def translate(b: Builder, x: Value, y: Value) -> Value:
        (xr, xi), (yr, yi) = (b.Split(v, axis=-1, sizes=(1, 1), n_outputs=2) for v in (x, y))
        yi = b.Neg(yi) if conjugate else yi
        real, imaginary = b.Sub(b.Mul(xr, yr), b.Mul(xi, yi)), b.Add(b.Mul(xr, yi), b.Mul(xi, yr))
        return b.Concat(real, imaginary, axis=-1)

    return translate


contrib("ComplexMul")(_complex(False))
contrib("ComplexMulConj")(_complex(True))


def _check_transform(normalized: int, onesided: int, signal_ndim: int) -> None:
    if normalized or not onesided or signal_ndim != 1:
        raise UnsupportedError(
            "Rfft and Irfft are supported only as one-sided transforms of one axis that are not normalized",
            why=f"normalized is {normalized}, onesided {onesided}, signal_ndim {signal_ndim}",
        )


@contrib("Rfft")
def _(b, x, *, normalized=0, onesided=1, signal_ndim=1):
    _check_transform(normalized, onesided, signal_ndim)
    return b.DFT(b.Unsqueeze(x, axes=(-1,)), None, np.array(-2), onesided=True)


@contrib("Irfft")
def _(b, x, *, normalized=0, onesided=1, signal_ndim):
    _check_transform(normalized, onesided, signal_ndim)
    return b.Squeeze(b.DFT(x, None, np.array(-2), inverse=True, onesided=True), axes=(-1,))


@contrib("NGramRepeatBlock")
def _(b, ids, scores, *, ngram_size):
    if ngram_size < 1:
        raise ModelError(f"ngram_size is {ngram_size}, but must be at least 1")
    length, axis = dimension(b, ids, 1), np.array([1])
    starts = b.Max(b.Sub(length, np.int64(ngram_size - 1)), np.int64(0))  # how many n-grams there are
    banned: Any = None
    for k in range(ngram_size - 1):
        # The k-th token of each n-gram, and that of the one that would be completed next.
        each = b.Slice(ids, np.array([k]), listed(b, b.Add(starts, np.int64(k))), axis)
        own = b.Slice(ids, listed(b, b.Add(starts, np.int64(k))), listed(b, b.Add(starts, np.int64(k + 1))), axis)
        same = b.Equal(each, own)
        banned = same if banned is None else b.And(banned, same)
    last = b.Slice(ids, np.array([ngram_size - 1]), np.array([np.iinfo(np.int64).max]), axis)
    dtype = scores.type.dtype.numpy
    low, high = np.array(-np.inf, dtype), np.array(np.inf, dtype)
    updates = b.Fill(b.Shape(last), low) if banned is None else b.Where(banned, low, high)
    return b.ScatterElements(scores, last, updates, axis=1, reduction="min")


@contrib("CropAndResize")
def _(b, x, boxes, batch_indices, crop_size, *, extrapolation_value=0.0, mode="bilinear"):
    if mode not in ("bilinear", "nearest"):
        raise ModelError(f"CropAndResize has the unknown mode '{mode}'")
    image = b.Transpose(x, perm=(0, 2, 3, 1))
    corners = b.Split(boxes, axis=1, sizes=(1, 1, 1, 1), n_outputs=4)
    sizes = b.Split(b.Cast(crop_size, to=DType.I64), axis=0, sizes=(1, 1), n_outputs=2)
    grid, inside = [], []
    for i in (0, 1):
        first, last, count = corners[i], corners[i + 2], b.Reshape(sizes[i], _SCALAR)
        top = b.Sub(b.Cast(_value(b, dimension(b, x, 2 + i)), to=x.type.dtype), 1.0)
        steps = b.Cast(b.Sub(count, np.int64(1)), to=x.type.dtype)
        stride = b.Div(b.Mul(b.Sub(last, first), top), b.Max(steps, 1.0))
        place = b.Cast(b.Unsqueeze(positions(b, count), axes=(0,)), to=x.type.dtype)
        along = b.Add(b.Mul(first, top), b.Mul(place, stride))
        middle = b.Add(b.Mul(b.Mul(b.Add(first, last), top), 0.5), b.Mul(place, 0.0))
        at = b.Where(b.Equal(steps, 0.0), middle, along)  # one row alone stands in the middle of the box
        at = b.Unsqueeze(at, axes=(2,) if i == 0 else (1,))
        inside.append(b.And(b.GreaterOrEqual(at, 0.0), b.LessOrEqual(at, top)))
        grid.append(b.Min(b.Max(at, 0.0), top))
    batch = b.Unsqueeze(b.Cast(batch_indices, to=DType.I64), axes=(1, 2))
    whole = b.Add(b.Mul(grid[0], 0.0), b.Mul(grid[1], 0.0))
    shape = b.Shape(whole)

    def picked(y: Value, x: Value) -> Value:
        parts = [b.Expand(v if v.type.dtype is DType.I64 else b.Cast(v, to=DType.I64), shape) for v in (batch, y, x)]
        return b.GatherND(image, b.Concat(*(b.Unsqueeze(p, axes=(3,)) for p in parts), axis=3))

    if mode == "nearest":
        y = picked(*(b.Round(g, halves="away") for g in grid))
    else:
        (up, left), (down, right) = map(b.Floor, grid), map(b.Ceil, grid)
        tall, wide = (b.Unsqueeze(b.Sub(g, low), axes=(3,)) for g, low in zip(grid, (up, left), strict=True))
        rows = [b.Add(first, b.Mul(b.Sub(second, first), wide))
                for first, second in ((picked(v, left), picked(v, right)) for v in (up, down))]  # fmt: skip
        y = b.Add(rows[0], b.Mul(b.Sub(rows[1], rows[0]), tall))
    outside = np.array(extrapolation_value, x.type.dtype.numpy)
    y = b.Where(b.Unsqueeze(b.And(*inside), axes=(3,)), y, outside)
    return b.Transpose(y, perm=(0, 3, 1, 2))


def _value(b: Builder, number: Any) -> Value:
    return number if isinstance(number, Value) else b.const(number)


@contrib("GatedRelativePositionBias")
def _(b, query, query_bias, positions_bias, w, bias, scale, offsets=None, *, num_heads):
    if offsets is not None:
        raise UnsupportedError(
            "GatedRelativePositionBias of packed batches is not supported", hint="leave out token_offset"
        )
    heads = split_heads(b, b.Add(query, query_bias), num_heads)
    half = static_dim(w.type, 1, "the weights of GatedRelativePositionBias") // 2
    gates = b.Reshape(b.Add(b.MatMul(heads, w), bias), np.array([0, 0, 0, 2, half]))
    gates = b.Sigmoid(b.ReduceSum(gates, axes=(4,), keepdims=False))
    first, second = b.Split(gates, axis=3, sizes=(1, 1), n_outputs=2)
    return b.Mul(b.Add(b.Mul(first, b.Sub(b.Mul(second, scale), 1.0)), 2.0), positions_bias)
