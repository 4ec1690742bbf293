"""Ops that select elements by what they hold: the shape of the result is known only after they have run."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.schema.errors import ModelError
from minnow.schema.ir import UNKNOWN, DType, Node, TensorType
from minnow.schema.registry.dimension import agree, axis_of, need_rank
from minnow.schema.registry.op import Arg, Bool, Computed, Decoded, Float, Sizes, T, Trait, WireOp, op
from minnow.schema.registry.sign import is_nonnegative

Array = np.ndarray[Any, Any]
DATA_DEPENDENT = frozenset({Trait.DATA_DEPENDENT})


@op(traits=DATA_DEPENDENT | {Trait.NONNEGATIVE})
def NonZero(x: Computed):
    """The places of the elements that are not 0, as int64[rank, n] in row-major order."""
    return np.ascontiguousarray(np.argwhere(x).T).astype(np.int64)


@op(traits=DATA_DEPENDENT | {Trait.NONNEGATIVE})
def ArgWhere(x: Computed):
    """The places of the elements that are not 0, as int64[n, rank] in row-major order."""
    return np.argwhere(x).astype(np.int64)


@op(traits=DATA_DEPENDENT | {Trait.MOVEMENT})
def Compress(x: T, cond: Bool, *, axis: int | None = None):
    """The slices along an axis (None: elements of the flattened x) where `cond` is true; it may be shorter."""
    return np.compress(cond, x, axis)


@op(traits=DATA_DEPENDENT, outputs=4)
def Unique(x: Computed, *, axis: int | None = None, sorted: bool = True):
    """The different slices along an axis (None: elements of the flattened x), sorted or in order of first appearance.

    Returns the slices and, as int64 vectors: the first place of each in x, for each slice of x its place among the
    different ones, and how often each appears.
    """
    values, first, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=axis)
    inverse = inverse.reshape(-1)
    if not sorted:
        order = np.argsort(first, kind="stable")
        values = np.take(values, order, 0 if axis is None else axis)
        first, counts = first[order], counts[order]
        inverse = np.argsort(order)[inverse] if len(order) else inverse
    return values, first.astype(np.int64), inverse.astype(np.int64), counts.astype(np.int64)


@op(traits=DATA_DEPENDENT)
def NonMaxSuppression(
    boxes: Float,
    scores: Float,
    max_out: Sizes | None = None,
    iou: Float | None = None,
    score: Float | None = None,
    *,
    center_point_box: int = 0,
):
    """Boxes of high score that do not overlap much, best first, as int64 rows (batch, class, box).

    boxes[B, N, 4] are corners (y1, x1, y2, x2) in any order, or (x center, y center, width, height) with
    `center_point_box`; scores is [B, C, N]. Scalars: at most `max_out` boxes per batch and class (default 0), boxes
    with more than `iou` (default 0) overlap with a chosen one are dropped, and those not above `score` if it is given.
    """
    limit = 0 if max_out is None else int(np.reshape(max_out, ()))
    overlap = np.float32(0 if iou is None else np.reshape(iou, ()))
    rows = []
    for b, c in np.ndindex(*scores.shape[:2]):
        box, value = _corners(boxes[b], center_point_box), scores[b, c]
        order = np.argsort(-value, kind="stable")
        if score is not None:
            order = order[value[order] > np.reshape(score, ())]
        chosen: list[int] = []
        for i in order:
            if len(chosen) == limit:
                break
            if not np.any(_overlap(box[i], box[chosen]) > overlap):
                chosen.append(int(i))
        rows += [(b, c, i) for i in chosen]
    return np.array(rows, np.int64).reshape(-1, 3)


def _corners(boxes: Array, center_point_box: int) -> Array:
    """(y low, x low, y high, x high) of each box."""
    if center_point_box:
        x, y, w, h = boxes.T
        return np.stack([y - h / 2, x - w / 2, y + h / 2, x + w / 2], 1)
    return np.concatenate([np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])], 1)


def _overlap(box: Array, others: Array) -> Array:
    """Intersection over union of a box with others; boxes without area overlap nothing."""
    common = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    inner = np.prod(np.maximum(common, 0), 1)
    areas = np.prod(others[:, 2:] - others[:, :2], 1)
    area = np.prod(box[2:] - box[:2])
    return np.where((areas > 0) & (area > 0), inner / (area + areas - inner), 0)


# ---- types -------------------------------------------------------------------------------------------------------


@NonZero.shape
def _(x: Arg) -> TensorType:
    return TensorType(DType.I64, (UNKNOWN if x.shape is None else len(x.shape), UNKNOWN))


@ArgWhere.shape
def _(x: Arg) -> TensorType:
    return TensorType(DType.I64, (UNKNOWN, UNKNOWN if x.shape is None else len(x.shape)))


@Compress.shape
def _(x: Arg, cond: Arg, axis: int | None) -> TensorType:
    need_rank(cond, 1, "cond")
    kept = UNKNOWN if cond.value is None else int(np.count_nonzero(cond.value))
    if axis is None:
        return TensorType(x.dtype, (kept,))
    if x.shape is None:
        return TensorType(x.dtype)
    at = axis_of(axis, len(x.shape))
    known, dim = (cond.shape or (UNKNOWN,))[0], x.shape[at]
    if isinstance(known, int) and isinstance(dim, int) and known > dim:
        raise ModelError(f"cond has {known} elements, axis {axis} of {x.type} has {dim}")
    return TensorType(x.dtype, (*x.shape[:at], kept, *x.shape[at + 1 :]))


@Unique.shape
def _(x: Arg, axis: int | None, sorted: bool) -> tuple[TensorType, ...]:
    vector = TensorType(DType.I64, (UNKNOWN,))
    inverse = vector
    if axis is None:
        count = x.type.count
        inverse = TensorType(DType.I64, (UNKNOWN if count is None else count,))
        return TensorType(x.dtype, (UNKNOWN,)), vector, inverse, vector
    if x.shape is None:
        return TensorType(x.dtype), vector, vector, vector
    at = axis_of(axis, len(x.shape))
    inverse = TensorType(DType.I64, (x.shape[at],))
    return TensorType(x.dtype, (*x.shape[:at], UNKNOWN, *x.shape[at + 1 :])), vector, inverse, vector


@NonMaxSuppression.shape
def _(
    boxes: Arg, scores: Arg, max_out: Arg | None, iou: Arg | None, score: Arg | None, center_point_box: int
) -> TensorType:
    if center_point_box not in (0, 1):
        raise ModelError(f"center_point_box is {center_point_box}, not 0 or 1")
    need_rank(boxes, 3, "boxes")
    need_rank(scores, 3, "scores")
    for what, arg in (("max_out", max_out), ("iou", iou), ("score", score)):
        if arg is not None and arg.type.count not in (1, None):
            raise ModelError(f"{what} is {arg.type}, not one number")
    if boxes.shape is not None:
        agree([boxes.shape[2], 4], "the last axis of boxes")
        if scores.shape is not None:
            agree([boxes.shape[0], scores.shape[0]], "the batches of boxes and scores")
            agree([boxes.shape[1], scores.shape[2]], "the numbers of boxes and scores")
    return TensorType(DType.I64, (UNKNOWN, 3))


# ---- encoding ----------------------------------------------------------------------------------------------------


@ArgWhere.encode("Where")
def _(node: Node) -> WireOp | None:
    # Runtimes ask for elements above 0.
    if not node.input(0).type.dtype.is_int and node.input(0).type.dtype is not DType.BOOL:
        return None
    if not is_nonnegative(node.input(0)):
        return None
    # Without a table, even an empty one, they make as many rows as the operand has elements.
    return WireOp("Where", "Extra", {}, node.inputs)


@ArgWhere.decode
def _(wire: WireOp) -> Decoded:
    return wire.inputs, {}


# ---- samples -----------------------------------------------------------------------------------------------------


def _sparse(rng):
    for shape in ((7,), (3, 5), (2, 3, 17), (0, 3), ()):
        x = np.asarray(rng.standard_normal(shape)).astype(np.float32)
        yield (np.where(x > 0, x, np.float32(0)),), {}
    yield (np.array([[True, False], [False, True]]),), {}
    yield (np.array([0, -3, 0, 5], np.int32),), {}
    yield (np.zeros((2, 3), np.float32),), {}


for _op in (NonZero, ArgWhere):
    _op.samples(_sparse)


@Compress.samples
def _(rng):
    yield ((3, 5), np.array([True, False, True])), {"axis": 0}
    yield ((3, 5), np.array([False, True])), {"axis": 1}
    yield ((3, 5), np.array([False, True, True])), {"axis": -1}
    yield ((2, 3), np.array([False, True, False, True, True])), {}
    yield ((2, 3), np.array([False, False])), {"axis": 0}
    yield (np.arange(17, dtype=np.int64), np.arange(17) % 3 == 0), {"axis": 0}


@Unique.samples
def _(rng):
    for sorted in (True, False):
        yield (np.array([2, 1, 1, 3, 4, 3], np.float32),), {"sorted": sorted}, 4
        yield (np.array([[1, 0, 0], [1, 0, 0], [2, 3, 4]], np.float32),), {"axis": 0, "sorted": sorted}, 4
        yield (np.array([[2, 0, 2], [1, 0, 1]], np.int64),), {"axis": -1, "sorted": sorted}, 4
        yield (rng.integers(0, 5, (3, 7)),), {"sorted": sorted}, 4
    yield (np.array([5, 5, 5], np.int64),), {}, 1
    yield (np.zeros(0, np.float32),), {}, 4


@NonMaxSuppression.samples
def _(rng):
    corners = np.array([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [0, 10.1, 1, 11.1],
                        [0, 100, 1, 101]], np.float32)[None]  # fmt: skip
    scores = np.array([0.9, 0.75, 0.6, 0.95, 0.5, 0.3], np.float32)[None, None]

    def limits(n, overlap, least):
        return np.array([n], np.int64), np.array([overlap], np.float32), np.array([least], np.float32)

    yield (corners, scores, *limits(3, 0.5, 0)), {}
    yield (corners[..., [2, 3, 0, 1]], scores, *limits(3, 0.5, 0.4)), {}
    yield (corners, scores, *limits(30, 0.5, 0)[:2]), {}
    yield (corners, scores, limits(2, 0, 0)[0]), {}
    yield (corners, scores), {}
    center = rng.uniform(0, 1, (2, 13, 4)).astype(np.float32)
    yield (center, rng.uniform(0, 1, (2, 3, 13)).astype(np.float32), *limits(4, 0.3, 0.2)), {"center_point_box": 1}
    yield (np.repeat(corners[:, :1], 5, 1), np.full((1, 1, 5), 0.9, np.float32), *limits(3, 0.5, 0)), {}
    yield (corners, np.repeat(scores, 2, 1), *(v.reshape(()) for v in limits(3, 0.5, 0))), {}
