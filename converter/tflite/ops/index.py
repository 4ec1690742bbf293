"""Gathering and scattering of elements by index, and tensors that are created."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.converter.operand import bounded, constant, dimensions, rank, regroup, static_dim, vector
from minnow.converter.tflite.frontend import frontend as tflite
from minnow.converter.tflite.ops.movement import wide
from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder


@tflite.op("GATHER", moves=True)
def _(b, x, indices, *, axis=0, batch_dims=0):
    n = rank(x, "the input of GATHER")
    at = axis % n if n else 0
    m = rank(indices, "the indices of GATHER")
    k = batch_dims + m if batch_dims < 0 else batch_dims
    if not 0 <= k <= min(n, m):
        raise ModelError(f"GATHER with {batch_dims} batch axes, where the indices have {m} axes, and the input {n}")
    index = wide(b, indices)
    return b.Gather(x, index, axis=at) if not k else gather_of_batch(b, x, index, at, k)


def gather_of_batch(b: Builder, x: Value, indices: Value, axis: int, batch: int) -> Value:
    """Slices of x along an axis that the indices name, the first `batch` axes being common to both."""
    dims, tail = dimensions(b, x), dimensions(b, indices)[batch:]
    if axis < batch:
        raise ModelError(f"GATHER along axis {axis}, which is one of {batch} batch axes")
    # The axis goes behind the batch axes, and what stood between them is moved behind it.
    n = len(dims)
    between = list(range(batch, axis))
    y = b.Transpose(x, perm=(*range(batch), axis, *between, *range(axis + 1, n))) if between else x
    places = b.Unsqueeze(indices, axes=(indices.type.rank,))
    y = b.GatherND(y, places, batch_dims=batch)
    if between:
        m = len(tail)
        at = [*range(batch), *range(batch + m, batch + m + len(between)), *range(batch, batch + m)]
        y = b.Transpose(y, perm=(*at, *range(len(at), batch + m + n - batch - 1)))
    return y


@tflite.op("GATHER_ND", moves=True)
def _(b, x, indices):
    return b.GatherND(x, wide(b, indices))


@tflite.op("SCATTER_ND", moves=True)
def _(b, indices, updates, shape):
    empty = b.Fill(wide(b, shape), np.array(0, updates.type.dtype.numpy))
    if updates.type.dtype is DType.BOOL:
        return b.ScatterND(empty, wide(b, indices), updates)
    return b.ScatterND(empty, wide(b, indices), updates, reduction="add")


@tflite.op("DYNAMIC_UPDATE_SLICE", moves=True)
def _(b, x, update, starts):
    n = rank(x, "the input of DYNAMIC_UPDATE_SLICE")
    room = b.Sub(b.Shape(x), b.Shape(update))
    at = b.Max(b.Min(wide(b, starts), room), 0)
    y = x
    # One index per element along each axis; of axes that are replaced as a whole there is none.
    dims, parts = x.type.shape or (), update.type.shape or ()
    axes = [i for i in range(n) if not (isinstance(dims[i], int) and dims[i] == parts[i])]
    if not axes:
        return b.Identity(update)
    places = []
    for k, axis in enumerate(axes):
        start = b.Gather(at, np.array(axis))
        size = b.Gather(b.Shape(update), np.array(axis))
        row = b.Add(b.Range(np.array(0), size, np.array(1)), start)
        places.append(b.Reshape(row, np.array([-1 if i == k else 1 for i in range(len(axes))])))
    grid = b.Concat(*(b.Shape(update, start=a, end=a + 1) for a in axes), axis=0)
    index = b.Concat(*(b.Unsqueeze(b.Expand(p, grid), axes=(len(axes),)) for p in places), axis=len(axes))
    rest = [i for i in range(n) if i not in axes]
    perm = (*axes, *rest)
    back = tuple(perm.index(i) for i in range(n))
    y = b.ScatterND(b.Transpose(x, perm=perm), index, b.Transpose(update, perm=perm))
    return b.Transpose(y, perm=back)


@tflite.op("EMBEDDING_LOOKUP")
def _(b, ids, table):
    return b.Gather(table, wide(b, ids))


@tflite.op("HASHTABLE_LOOKUP")
def _(b, wanted, keys, values):
    found = b.Equal(b.Unsqueeze(wanted, axes=(1,)), keys)
    hit = b.ReduceMax(found, axes=(1,), keepdims=False)
    rows = b.Gather(values, b.ArgMax(b.Cast(found, to=DType.I32), axis=1, keepdims=False))
    wider = b.Reshape(hit, np.array([-1, *[1] * (rank(values, "the values") - 1)]))
    return b.Where(wider, rows, b.const(np.array(0, values.type.dtype.numpy))), b.Cast(hit, to=DType.U8)


@tflite.op("ONE_HOT", raw=True)
def _(b, indices, depth, on, off, *, axis=-1):
    values = b.Concat(*(b.Reshape(v, np.array([1])) for v in (off, on)), axis=0)
    # A negative index is none at all here.
    index = wide(b, indices)
    index = b.Where(b.Less(index, 0), b.const(np.array(np.iinfo(np.int32).max)), index)
    return b.OneHot(index, b.Reshape(wide(b, depth), np.zeros(0, np.int64)), values, axis=axis)


@tflite.op("FILL", moves=True)
def _(b, shape, value):
    return b.Fill(wide(b, shape), b.Reshape(value, np.zeros(0, np.int64)))


@tflite.op("ZEROS_LIKE")
def _(b, x):
    return b.Fill(b.Shape(x), np.array(0, x.type.dtype.numpy))


@tflite.op("RANGE")
def _(b, start, limit, delta):
    scalar = np.zeros(0, np.int64)
    return b.Range(*(b.Reshape(v, scalar) for v in (start, limit, delta)))


@tflite.op("SELECT", moves=True)
def _(b, cond, x, y):
    n, m = rank(x, "the input of SELECT"), rank(cond, "the condition of SELECT")
    if m == 1 and n > 1:
        cond = b.Reshape(cond, np.array([-1, *[1] * (n - 1)]))
    return b.Where(cond, x, y)


@tflite.op("SELECT_V2", moves=True)
def _(b, cond, x, y):
    return b.Where(cond, x, y)


@tflite.op("WHERE")
def _(b, cond):
    return b.ArgWhere(cond)


@tflite.op("UNIQUE")
def _(b, x, *, idx_out_type=None, node):
    values, _, inverse, _ = b.Unique(x, sorted=False, n_outputs=4)
    return values, b.Cast(inverse, to=node.type_out(1).dtype)


@tflite.op("BUCKETIZE")
def _(b, x, *, boundaries=()):
    edges = np.array(boundaries, np.float32)
    if not len(edges):
        return b.Fill(b.Shape(x), np.array(0, np.int32))
    wider = x if x.type.dtype is DType.F32 else b.Cast(x, to=DType.F32)
    beyond = b.GreaterOrEqual(b.Unsqueeze(wider, axes=(rank(x, "the input of BUCKETIZE"),)), edges)
    return b.ReduceSum(b.Cast(beyond, to=DType.I32), axes=(-1,), keepdims=False)


def _places(b: Builder, x: Value, axis: int) -> Value:
    """0, 1, 2, ... along an axis of x, counted from the end."""
    n = rank(x, "the matrix") + axis
    return b.Range(np.array(0), b.Reshape(b.Shape(x, start=n, end=n + 1), np.zeros(0, np.int64)), np.array(1))


@tflite.op("MATRIX_DIAG")
def _(b, x):
    if isinstance((x.type.shape or ("?",))[-1], int):
        bounded(static_dim(x.type, -1, "the diagonal") ** 2, "a matrix")
    at = _places(b, x, -1)
    spread = b.Unsqueeze(x, axes=(rank(x, "the diagonal"),))
    return b.Where(b.Equal(b.Unsqueeze(at, axes=(1,)), at), spread, b.const(np.array(0, x.type.dtype.numpy)))


@tflite.op("MATRIX_SET_DIAG", moves=True)
def _(b, x, diagonal):
    rows, columns = _places(b, x, -2), _places(b, x, -1)
    # Rows below the diagonal take any number: none of it is used.
    least = b.Sub(b.Size(_places(b, diagonal, -1)), 1)
    spread = b.Gather(diagonal, b.Min(rows, least), axis=rank(diagonal, "the diagonal") - 1)
    return b.Where(b.Equal(b.Unsqueeze(rows, axes=(1,)), columns), b.Unsqueeze(spread, axes=(x.type.rank - 1,)), x)


@tflite.op("SPARSE_TO_DENSE", moves=True)
def _(b, indices, shape, values, default, *, validate_indices=False):
    m = rank(indices, "the indices of SPARSE_TO_DENSE")
    index = wide(b, indices)
    if m < 2:
        index = b.Reshape(index, np.array([-1, 1]))
    dense = b.Fill(wide(b, shape), b.Reshape(default, np.zeros(0, np.int64)))
    rows = b.Shape(index, start=0, end=1)
    return b.ScatterND(dense, index, b.Expand(values, rows))


@tflite.op("DENSIFY", moves=True)
def _(b, x):
    return x  # the reader has made it dense


@tflite.op("SEGMENT_SUM")
def _(b, x, segments):
    if segments.data is None:
        number = b.Add(b.Gather(wide(b, segments), np.array([-1])), 1)
        return _segments(b, x, wide(b, segments), number, "add", 0)
    ids = constant(segments).astype(np.int64).reshape(-1)
    return _segments(b, x, b.const(ids), int(ids[-1]) + 1 if len(ids) else 0, "add", 0)


def _segments(b: Builder, x: Value, ids: Value, n: int | Value, reduction: str, start: Any) -> Value:
    """Rows of x combined by segment; those of a negative segment are left out."""
    r = rank(ids, "the segments")
    dims = dimensions(b, x)
    y = regroup(b, x, [_product(b, dims[:r]), *dims[r:]]) if r != 1 else x
    flat = b.Reshape(ids, np.array([-1]))
    # One row more than asked for takes what is left out.
    count = n if isinstance(n, int) else b.Reshape(n, np.array([1]))
    more = count + 1 if isinstance(count, int) else b.Add(count, 1)
    at = b.Where(
        b.Less(flat, 0), b.const(np.array(n)) if isinstance(n, int) else b.Reshape(count, np.zeros(0, np.int64)), flat
    )
    out = b.Fill(vector(b, [more, *dims[r:]]), np.array(start, x.type.dtype.numpy))
    made = b.ScatterND(out, b.Unsqueeze(at, axes=(1,)), y, reduction=reduction)
    ends = np.array([count]) if isinstance(count, int) else count
    return b.Slice(made, np.array([0]), ends, np.array([0]))


def _product(b: Builder, parts: list[int | Value]) -> int | Value:
    if all(isinstance(p, int) for p in parts):
        return int(np.prod([p for p in parts if isinstance(p, int)]))
    whole = b.const(np.array([1]))
    for p in parts:
        whole = b.Mul(whole, np.array([p]) if isinstance(p, int) else p)
    return whole


def _unsorted(name: str, reduction: str, start: Any) -> None:
    @tflite.op(name)
    def _(b, x, segments, number):
        n: int | Value = wide(b, number)
        if number.data is not None:
            n = int(constant(number).reshape(-1)[0])
        info = np.finfo if x.type.dtype.is_float else np.iinfo
        first = start if isinstance(start, int) else getattr(info(x.type.dtype.numpy), start)
        return _segments(b, x, wide(b, segments), n, reduction, first)


_unsorted("UNSORTED_SEGMENT_SUM", "add", 0)
_unsorted("UNSORTED_SEGMENT_PROD", "mul", 1)
_unsorted("UNSORTED_SEGMENT_MAX", "max", "min")
_unsorted("UNSORTED_SEGMENT_MIN", "min", "max")
