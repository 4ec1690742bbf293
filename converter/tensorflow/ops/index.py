"""Gathering, scattering, and sums over segments."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minnow.converter.operand import bounded, constant, rank
from minnow.converter.tensorflow.frontend import frontend as tf
from minnow.converter.tensorflow.ops.movement import axis_operand, cast, wide
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder
from minnow.schema.registry.dimension import axis_of


@tf.op("Gather", "ResourceGather")
def _(b, x, indices, *, validate_indices=True, batch_dims=0):
    return gather(b, x, indices, batch_dims, batch_dims)


@tf.op("GatherV2")
def _(b, x, indices, axis, *, batch_dims=0):
    return gather(b, x, indices, axis_operand(axis), batch_dims)


def gather(b: Builder, x: Value, indices: Value, axis: int, batch_dims: int) -> Any:
    """The slices of x along an axis; the first `batch_dims` axes are common to x and the indices."""
    if batch_dims < 0:
        batch_dims += rank(indices, "the indices of Gather")
    if not batch_dims:
        return b.Gather(x, indices, axis=axis)
    n, k = rank(x, "the input of Gather"), rank(indices, "the indices of Gather") - batch_dims
    at = axis_of(axis, n)
    if batch_dims < 0 or k < 0 or batch_dims > at:
        raise ModelError(f"{batch_dims} common axes", why=f"the indices have {k + batch_dims}, and the axis is {at}")
    middle = range(batch_dims, at)
    rows = b.Transpose(x, perm=(*range(batch_dims), at, *middle, *range(at + 1, n))) if at != batch_dims else x
    y = b.GatherND(rows, b.Unsqueeze(indices, axes=(batch_dims + k,)), batch_dims=batch_dims)
    if at == batch_dims:
        return y
    # batch, indices, middle, rest -> batch, middle, indices, rest
    order = [*range(batch_dims), *range(batch_dims + k, k + at), *range(batch_dims, batch_dims + k)]
    return b.Transpose(y, perm=(*order, *range(k + at, n + k - 1)))


@tf.op("GatherNd", "ResourceGatherNd")
def _(b, x, indices, *, bad_indices_policy=""):
    return b.GatherND(x, indices)


@tf.op("ScatterNd")
def _(b, indices, updates, shape, *, bad_indices_policy=""):
    empty = b.Fill(shape, np.zeros((), updates.type.dtype.numpy))
    return b.ScatterND(empty, indices, updates, reduction="add")


# op list: parts of TensorFlow's names
SCATTERS = {"Update": "none", "Add": "add", "Sub": "add", "Max": "max", "Min": "min"}
"""The reduction of ScatterND by the last part of a scattering operator's name; of Sub the updates are negated."""


@tf.op(*(f"TensorScatter{kind}" for kind in SCATTERS))
def _(b, x, indices, updates, *, bad_indices_policy="", node):
    kind = node.op.removeprefix("TensorScatter")
    if kind == "Sub":
        updates = b.Neg(updates)
    if updates.type.shape == () and indices.type.rank is not None:
        updates = b.Expand(updates, b.Shape(indices, end=-1))
    return b.ScatterND(x, indices, updates, reduction=SCATTERS[kind])


@tf.op("ScatterNdNonAliasingAdd")
def _(b, x, indices, updates, *, bad_indices_policy=""):
    return b.ScatterND(x, indices, updates, reduction="add")


@tf.op("TensorStridedSliceUpdate")
def strided_slice_update(b, x, begin, end, strides, value, *, begin_mask=0, end_mask=0, ellipsis_mask=0,
                         new_axis_mask=0, shrink_axis_mask=0):  # fmt: skip
    from minnow.converter.decomposition.strided_slice import strided_slice

    places = b.Reshape(b.Range(np.array(0), b.Size(x), np.array(1)), b.Shape(x))
    masks = {"begin_mask": begin_mask, "end_mask": end_mask, "ellipsis_mask": ellipsis_mask,
             "new_axis_mask": new_axis_mask, "shrink_axis_mask": shrink_axis_mask}  # fmt: skip
    chosen = strided_slice(b, places, begin, end, strides, **masks)
    flat = b.Reshape(b.Expand(value, b.Shape(chosen)), np.array([-1]))
    y = b.ScatterElements(b.Reshape(x, np.array([-1])), b.Reshape(chosen, np.array([-1])), flat)
    return b.Reshape(y, b.Shape(x))


@tf.op("OneHot")
def _(b, indices, depth, on, off, *, axis=-1):
    count = wide(b, depth)
    places = wide(b, indices)
    # Numbers below 0 belong to no segment; they do not count from the end.
    places = b.Where(b.Less(places, 0), count, places)
    values = b.Concat(b.Reshape(off, np.array([1])), b.Reshape(on, np.array([1])), axis=0)
    return b.OneHot(places, count, values, axis=axis)


# ---- segments: rows of the same number are put together


def _start(dtype: DType, kind: str) -> Any:
    numpy: Any = dtype.numpy
    info: Any = np.finfo(numpy) if dtype.is_float else np.iinfo(numpy)
    return {"Sum": 0, "Mean": 0, "Prod": 1, "Max": info.min, "Min": info.max}[kind]


_ADDED = {"Sum": "add", "Mean": "add", "SqrtN": "add", "Prod": "mul", "Max": "max", "Min": "min"}


def segments(b: Builder, kind: str, x: Value, ids: Value, count: Value, empty: Any = None) -> Any:
    """Rows of x with the same of the `ids` put together, to count[1] rows; ids outside of these are left out.

    Args:
        kind: "Sum", "Mean", "SqrtN", "Prod", "Max" or "Min".
        empty: what a row is that nothing belongs to; None: what such a reduction starts with.
    """
    n, dtype = rank(ids, "the numbers of segments"), x.type.dtype
    ids = wide(b, ids)
    place = b.Where(b.Or(b.Less(ids, 0), b.GreaterOrEqual(ids, count)), count, ids)
    place = b.Unsqueeze(place, axes=(n,))
    shape = b.Concat(b.Add(count, 1), b.Shape(x, start=n), axis=0)
    start = _start(dtype, "Sum" if kind == "SqrtN" else kind)
    table = b.Fill(shape, np.array(start, dtype.numpy))
    y = b.Slice(b.ScatterND(table, place, x, reduction=_ADDED[kind]), np.array([0]), count, np.array([0]))
    if kind not in ("Mean", "SqrtN") and empty is None:
        return y
    ones = b.Fill(b.Shape(ids), np.array(1, np.int64))
    counts = b.ScatterND(b.Fill(b.Add(count, 1), np.array(0, np.int64)), place, ones, reduction="add")
    counts = b.Slice(counts, np.array([0]), count, np.array([0]))
    counts = b.Reshape(counts, b.Concat(count, b.Fill(b.Size(b.Shape(x, start=n)), np.array(1)), axis=0)
                       if x.type.rank is None else np.array([-1, *[1] * (x.type.rank - n)]))  # fmt: skip
    if kind in ("Mean", "SqrtN"):
        by = cast(b, b.Max(counts, 1), dtype)
        return b.Div(y, b.Sqrt(by) if kind == "SqrtN" else by)
    return b.Where(b.Equal(counts, 0), b.const(np.array(empty, dtype.numpy)), y)


def _last(b: Builder, ids: Value) -> Value:
    """How many segments sorted numbers make."""
    top = b.Slice(wide(b, ids), np.array([-1]), np.array([np.iinfo(np.int64).max]), np.array([0]))
    return b.Add(top, 1)


@tf.op("SegmentSum", "SegmentMean", "SegmentProd", "SegmentMax", "SegmentMin", "SegmentSumV2", "SegmentProdV2",
       "SegmentMaxV2", "SegmentMinV2")  # fmt: skip
def _(b, x, ids, count=None, *, node):
    kind = node.op.removeprefix("Segment").removesuffix("V2")
    if count is not None:
        return segments(b, kind, x, ids, b.Reshape(wide(b, count), np.array([1])))
    return segments(b, kind, x, ids, _last(b, ids), 0 if kind in ("Max", "Min") else None)


@tf.op("UnsortedSegmentSum", "UnsortedSegmentProd", "UnsortedSegmentMax", "UnsortedSegmentMin")
def _(b, x, ids, count, *, node):
    kind = node.op.removeprefix("UnsortedSegment")
    return segments(b, kind, x, ids, b.Reshape(wide(b, count), np.array([1])))


@tf.op("SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN", "SparseSegmentSumWithNumSegments",
       "SparseSegmentMeanWithNumSegments", "SparseSegmentSqrtNWithNumSegments")  # fmt: skip
def _(b, x, indices, ids, count=None, *, sparse_gradient=False, node):
    kind = node.op.removeprefix("SparseSegment").removesuffix("WithNumSegments")
    total = _last(b, ids) if count is None else b.Reshape(wide(b, count), np.array([1]))
    return segments(b, kind, b.Gather(x, indices), ids, total)


@tf.op("DynamicStitch", "ParallelDynamicStitch")
def _(b, *operands):
    half = len(operands) // 2
    places = [wide(b, v) for v in operands[:half]]
    flat = [b.Reshape(v, np.array([-1])) for v in places]
    rows = []
    for place, x in zip(places, operands[half:], strict=True):
        n = rank(place, "the indices of DynamicStitch")
        rows.append(b.Reshape(x, b.Concat(np.array([-1]), b.Shape(x, start=n), axis=0)))
    at = b.Concat(*flat, axis=0) if half > 1 else flat[0]
    data = b.Concat(*rows, axis=0) if half > 1 else rows[0]
    count = b.Reshape(b.Add(b.ReduceMax(at, keepdims=False), 1), np.array([1]))
    table = b.Fill(b.Concat(count, b.Shape(data, start=1), axis=0), np.zeros((), data.type.dtype.numpy))
    return b.ScatterND(table, b.Unsqueeze(at, axes=(1,)), data)


@tf.op("DynamicPartition")
def _(b, x, partitions, *, num_partitions):
    n = rank(partitions, "the partitions")
    if not 0 < num_partitions <= 1 << 12:
        raise UnsupportedError(f"DynamicPartition into {num_partitions} partitions is not supported")
    rows = x if n == 1 else b.Reshape(x, b.Concat(np.array([-1]), b.Shape(x, start=n), axis=0))
    flat = b.Reshape(partitions, np.array([-1]))
    return tuple(b.Compress(rows, b.Equal(flat, i), axis=0) for i in range(num_partitions))


@tf.op("SparseToDense")
def _(b, indices, shape, values, default, *, validate_indices=True):
    n = rank(indices, "the indices of SparseToDense")
    table = b.Fill(shape, default)
    places = indices if n == 2 else b.Reshape(indices, np.array([-1, 1]))
    if values.type.shape == ():
        values = b.Expand(values, b.Shape(places, start=0, end=1))
    return b.ScatterND(table, places, values)


# ---- matrices of diagonals: every element comes from a place that is known when the model is converted


def _diagonals(k: Value | None) -> tuple[int, int]:
    numbers = [0] if k is None else [int(v) for v in constant(k, "the diagonals").reshape(-1)]
    if not 0 <= numbers[-1] - numbers[0] <= 1 << 16:
        raise ModelError(f"the range of diagonals from {numbers[0]} to {numbers[-1]} is invalid")
    return numbers[0], numbers[-1]


def _places(rows: int, columns: int, low: int, high: int, align: str) -> dict[tuple[int, int], tuple[int, int]]:
    """(row, column) of a matrix -> (diagonal, place) in the packed diagonals, the uppermost one first."""
    out = {}
    longest = max((_length(rows, columns, d) for d in range(low, high + 1)), default=0)
    for d in range(low, high + 1):
        n = _length(rows, columns, d)
        right = align.startswith("RIGHT") if d > 0 else align.endswith("RIGHT")
        if d == 0:
            right = align in ("RIGHT_LEFT", "RIGHT_RIGHT") and n < longest
        shift = longest - n if right else 0
        for i in range(n):
            out[(i - min(d, 0), i + max(d, 0))] = (high - d, i + shift)
    return out


def _length(rows: int, columns: int, d: int) -> int:
    return max(min(rows + min(d, 0), columns - max(d, 0)), 0)


def _static(x: Value, axis: int, what: str) -> int:
    shape = x.type.shape
    dimension = shape[axis] if shape is not None and len(shape) >= -axis else None
    if not isinstance(dimension, int):
        raise UnsupportedError(f"{what} must have known dimensions", why=f"it is {x.type}")
    return dimension


def _picked(b: Builder, parts: list[Value], table: Any, lead: Any, tail: tuple[int, ...]) -> Any:
    """Elements of the flattened ends of the parts (and a last one, the padding) at the places of a table."""
    flat = b.Concat(*parts, axis=-1) if len(parts) > 1 else parts[0]
    y = b.Gather(flat, table.reshape(-1), axis=-1)
    return b.Reshape(y, np.array(tail) if lead is None else b.Concat(lead, np.array(tail), axis=0), allowzero=True)


def _flat(b: Builder, x: Value, drop: int) -> tuple[Value, Any]:
    """x with its last `drop` axes as one, and the dimensions in front of these."""
    n = rank(x, "a matrix")
    lead = b.Shape(x, start=0, end=n - drop) if n > drop else None
    tail = bounded(math.prod(_static(x, -1 - i, "a matrix") for i in range(drop)), "a matrix")
    shape = np.array([tail]) if lead is None else b.Concat(lead, np.array([tail]), axis=0)
    return b.Reshape(x, shape, allowzero=True), lead


def _padding(b: Builder, padding: Value | None, like: Value, lead: Any) -> Value:
    value = np.zeros((), like.type.dtype.numpy) if padding is None else padding
    return b.Fill(np.array([1]) if lead is None else b.Concat(lead, np.array([1]), axis=0), value)


@tf.op("MatrixDiagPart", "BatchMatrixDiagPart", "MatrixDiagPartV2", "MatrixDiagPartV3")
def _(b, x, k=None, padding=None, *, align="RIGHT_LEFT", node):
    align = "LEFT_LEFT" if node.op == "MatrixDiagPartV2" else align
    low, high = _diagonals(k)
    rows, columns = _static(x, -2, "a matrix"), _static(x, -1, "a matrix")
    bounded(rows * columns, "a matrix")
    longest = max(_length(rows, columns, d) for d in range(low, high + 1))
    table = np.full((high - low + 1, longest), rows * columns)
    for (i, j), at in _places(rows, columns, low, high, align).items():
        table[at] = i * columns + j
    flat, lead = _flat(b, x, 2)
    tail = (longest,) if low == high else table.shape
    return _picked(b, [flat, _padding(b, padding, x, lead)], table, lead, tail)


@tf.op("MatrixDiag", "BatchMatrixDiag", "MatrixDiagV2", "MatrixDiagV3")
def _(b, x, k=None, rows=None, columns=None, padding=None, *, align="RIGHT_LEFT", node):
    align = "LEFT_LEFT" if node.op == "MatrixDiagV2" else align
    low, high = _diagonals(k)
    longest = _static(x, -1, "the diagonals")
    asked = [-1 if v is None else axis_operand(v, "the dimensions of a matrix") for v in (rows, columns)]
    least = longest - min(high, 0), longest + max(low, 0)
    n, m = (max(a, 0) if a != -1 else -1 for a in asked)
    if n == -1 and m == -1:
        n = m = max(least)
    n, m = (least[0] if n == -1 else n), (least[1] if m == -1 else m)
    depth = high - low + 1
    bounded(n * m, "a matrix")
    table = np.full((n, m), depth * longest)
    for at, (d, i) in _places(n, m, low, high, align).items():
        table[at] = d * longest + i
    flat, lead = _flat(b, x, 1 if low == high else 2)
    return _picked(b, [flat, _padding(b, padding, x, lead)], table, lead, (n, m))


@tf.op("MatrixSetDiag", "BatchMatrixSetDiag", "MatrixSetDiagV2", "MatrixSetDiagV3")
def _(b, x, diagonal, k=None, *, align="RIGHT_LEFT", node):
    align = "LEFT_LEFT" if node.op == "MatrixSetDiagV2" else align
    low, high = _diagonals(k)
    rows, columns = _static(x, -2, "a matrix"), _static(x, -1, "a matrix")
    bounded(rows * columns, "a matrix")
    longest = max(_length(rows, columns, d) for d in range(low, high + 1))
    table = np.arange(rows * columns).reshape(rows, columns)
    for at, (d, i) in _places(rows, columns, low, high, align).items():
        table[at] = rows * columns + d * longest + i
    flat, lead = _flat(b, x, 2)
    return _picked(b, [flat, _flat(b, diagonal, 1 if low == high else 2)[0]], table, lead, (rows, columns))


def _fixed(x: Value) -> tuple[int, ...]:
    return tuple(_static(x, -1 - i, "the operand of a diagonal") for i in reversed(range(rank(x, "the operand"))))


@tf.op("Diag")
def _(b, x):
    shape = _fixed(x)
    n = math.prod(shape)
    bounded(n * n, "a matrix")
    table = np.where(np.eye(n, dtype=bool), np.arange(n), n)
    flat = b.Reshape(x, np.array([n]))
    return _picked(b, [flat, _padding(b, None, x, None)], table, None, (*shape, *shape))


@tf.op("DiagPart")
def _(b, x):
    shape = _fixed(x)
    half = shape[: len(shape) // 2]
    n = int(np.prod(half))
    return b.Reshape(b.Gather(b.Reshape(x, np.array([n * n])), np.arange(n) * (n + 1)), np.array(half))


@tf.op("MatrixBandPart", "BatchMatrixBandPart")
def _(b, x, lower, upper):
    low, high = axis_operand(lower, "the band"), axis_operand(upper, "the band")
    if low >= 0:
        x = b.Trilu(x, np.array(-low), upper=True)
    return b.Trilu(x, np.array(high), upper=False) if high >= 0 else x


@tf.op("MatrixInverse", "BatchMatrixInverse")
def _(b, x, *, adjoint=False):
    return _transposed(b, b.Inverse(x)) if adjoint else b.Inverse(x)


def _transposed(b: Builder, x: Value) -> Any:
    n = rank(x, "a matrix")
    return b.Transpose(x, perm=(*range(n - 2), n - 1, n - 2))


@tf.op("MatrixSolve", "BatchMatrixSolve")
def _(b, x, y, *, adjoint=False):
    return b.MatMul(b.Inverse(x), y, transpose_a=adjoint)


@tf.op("MatrixTriangularSolve", "BatchMatrixTriangularSolve")
def _(b, x, y, *, lower=True, adjoint=False):
    return b.MatMul(b.Inverse(b.Trilu(x, None, upper=not lower)), y, transpose_a=adjoint)


@tf.op("MatrixDeterminant", "BatchMatrixDeterminant")
def _(b, x):
    return b.Det(x)


@tf.op("Cross")
def _(b, x, y):
    order = [np.roll(np.arange(3), -i) for i in (1, 2)]
    (x1, x2), (y1, y2) = ([b.Gather(v, o, axis=-1) for o in order] for v in (x, y))
    return b.Sub(b.Mul(x1, y2), b.Mul(x2, y1))


@tf.op("Einsum")
def _(b, *xs, equation):
    from minnow.converter.decomposition.einsum import einsum

    return einsum(b, equation, xs)


@tf.op("LogMatrixDeterminant", outputs=("sign", "log_abs_determinant"))
def _(b, x):
    det = b.Det(x)
    return b.Sign(det), b.Log(b.Abs(det))
