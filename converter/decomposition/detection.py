"""Detection postprocessing: decoding of boxes, non-maximum suppression, and its soft form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from minnow.converter.operand import constant, static_dim
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import DType, Graph, TensorType, Value
from minnow.schema.ops import Builder

_SCALAR = np.zeros(0, np.int64)


def nudged(value: Value | float, toward: float) -> Any:
    """A threshold moved by one unit in the last place: "at least" as "more than"."""
    if isinstance(value, Value):
        return np.nextafter(np.float32(constant(value, "a threshold").reshape(())), np.float32(toward))
    return np.nextafter(np.float32(value), np.float32(toward))


def padded(b: Builder, rows: Value, count: int | Value) -> tuple[Value, Value]:
    """A vector of dynamic length as one of `count`, 0 behind its end; and its length, i32."""
    zero = np.array(0, rows.type.dtype.numpy)
    more = b.Fill(np.array([count]) if isinstance(count, int) else b.Reshape(count, np.array([1])), zero)
    whole = b.Concat(rows, more, axis=0)
    ends = np.array([count]) if isinstance(count, int) else b.Reshape(count, np.array([1]))
    valid = b.Cast(b.Reshape(b.Shape(rows), _SCALAR), to=DType.I32)
    return b.Slice(whole, np.array([0]), ends, np.array([0])), valid


def softly_suppressed(
    b: Builder, boxes: Value, scores: Value, limit: Value, iou: Value, score: Value, sigma: float
) -> tuple[Value, Value]:
    """Places of the boxes that stay, best first, and their scores: each one chosen lowers those that overlap with it.

    A score is multiplied by exp(-overlap^2 / (2 sigma)); what overlaps by `iou` or more goes, as does what is not above
    `score`.
    """
    body = Graph("suppression")
    body.add_param(TensorType(DType.I64, ()), "round")
    body.add_param(TensorType(DType.BOOL, ()), "cond")
    k = Builder(body, origin=b.origin)
    now = body.add_param(scores.type, "scores")
    image, most, least = (body.add_param(v.type, n) for v, n in ((boxes, "boxes"), (iou, "iou"), (score, "score")))
    gone = k.const(np.float32(-np.inf))
    best = k.ArgMax(now, axis=0, keepdims=False)
    overlap = _overlaps(k, image, k.Unsqueeze(k.Gather(image, best), axes=(0,)))
    lowered = k.Mul(now, k.Exp(k.Mul(k.Square(overlap), np.float32(-0.5 / sigma))))
    is_best = k.Equal(k.Range(np.array(0), k.Size(now), np.array(1)), best)
    drop = k.Or(k.Or(is_best, k.GreaterOrEqual(overlap, most)), k.LessOrEqual(lowered, least))
    after = k.Where(drop, gone, lowered)
    body.outputs = [_any(k, after), after, best, k.Gather(now, best)]
    start = b.Where(b.Greater(scores, score), scores, b.const(np.float32(-np.inf)))
    rounds = b.Reshape(b.Cast(limit, to=DType.I64), _SCALAR)
    _, places, values = b.Loop(rounds, _any(b, start), start, boxes, iou, score, body=body, num_carried=1, n_outputs=3)
    return places, values


def _any(b: Builder, scores: Value) -> Any:
    """There is a box left."""
    most = b.ReduceMax(scores, axes=(0,), keepdims=False)
    return b.Greater(most, b.const(np.float32(-np.inf)))


def _overlaps(b: Builder, boxes: Value, other: Value) -> Any:
    """Intersection over union of boxes [N, 4], corners in any order, with one [1, 4]: [N], 0 for what has no area."""

    def corners(v: Value) -> tuple[Value, Value]:
        one, two = (b.Slice(v, np.array([i]), np.array([i + 2]), np.array([1])) for i in (0, 2))
        return b.Min(one, two), b.Max(one, two)

    def area(low: Value, high: Value) -> Any:
        return b.ReduceProd(b.Max(b.Sub(high, low), np.float32(0)), axes=(1,), keepdims=False)

    (low, high), (other_low, other_high) = corners(boxes), corners(other)
    shared = area(b.Max(low, other_low), b.Min(high, other_high))
    first, second = area(low, high), area(other_low, other_high)
    flat = b.Or(b.LessOrEqual(first, np.float32(0)), b.LessOrEqual(second, np.float32(0)))
    return b.Where(flat, b.const(np.float32(0)), b.Div(shared, b.Sub(b.Add(first, second), shared)))


@dataclass(frozen=True)
class Anchors:
    """Options of TFLite_Detection_PostProcess."""

    max_detections: int
    max_classes_per_detection: int
    num_classes: int
    nms_score_threshold: float
    nms_iou_threshold: float
    y_scale: float
    x_scale: float
    h_scale: float
    w_scale: float
    detections_per_class: int = 100
    use_regular_nms: bool = False

    def check(self) -> None:
        """Raises ModelError for numbers that mean nothing."""
        for name in ("max_detections", "max_classes_per_detection", "num_classes", "detections_per_class"):
            if not 0 < getattr(self, name) < 1 << 24:
                raise ModelError(f"{name} is {getattr(self, name)}, which is invalid")
        if not all(s > 0 for s in (self.y_scale, self.x_scale, self.h_scale, self.w_scale)):
            raise ModelError("the scales of the boxes must be positive")


def detections(b: Builder, encodings: Value, scores: Value, anchors: Value, options: Anchors) -> tuple[Value, ...]:
    """What TFLite_Detection_PostProcess gives: boxes [1, n, 4], classes and scores [1, n], and how many there are.

    Args:
        encodings: boxes [1, N, 4] relative to the anchors [N, 4].
        scores: [1, N, classes], the first one perhaps of the background.
    """
    options.check()
    if encodings.type.shape is not None and encodings.type.shape[0] != 1:
        raise UnsupportedError("TFLite_Detection_PostProcess for more than one image is not supported")
    boxes = _boxes(b, b.Squeeze(encodings, axes=(0,)), anchors, options)
    scores = b.Squeeze(scores, axes=(0,))
    with_background = static_dim(scores.type, 1, "the classes")
    offset = with_background - options.num_classes
    if offset not in (0, 1):
        raise ModelError(f"{with_background} scores do not fit {options.num_classes} classes")
    if offset:
        scores = b.Slice(scores, np.array([1]), np.array([with_background]), np.array([1]))
    return (_by_class if options.use_regular_nms else _by_best_class)(b, boxes, scores, options)


def _boxes(b: Builder, encodings: Value, anchors: Value, o: Anchors) -> Any:
    """Corners (y1, x1, y2, x2) of boxes that are given relative to anchors (y, x, height, width)."""

    def column(v: Value, first: int) -> Any:
        return b.Slice(v, np.array([first]), np.array([first + 2]), np.array([1]))

    scales = np.array([o.y_scale, o.x_scale, o.h_scale, o.w_scale], np.float32)
    center = b.Add(b.Mul(b.Div(column(encodings, 0), scales[:2]), column(anchors, 2)), column(anchors, 0))
    half = b.Mul(b.Mul(b.Exp(b.Div(column(encodings, 2), scales[2:])), column(anchors, 2)), np.float32(0.5))
    return b.Concat(b.Sub(center, half), b.Add(center, half), axis=1)


def _kept(b: Builder, boxes: Value, scores: Value, limit: int, o: Anchors) -> Any:
    """Rows (0, class, box) of what suppression leaves; scores[classes, boxes]."""
    return b.NonMaxSuppression(
        b.Unsqueeze(boxes, axes=(0,)), b.Unsqueeze(scores, axes=(0,)), np.array(limit),
        np.float32(o.nms_iou_threshold), nudged(o.nms_score_threshold, -np.inf),
    )  # fmt: skip


def _by_best_class(b: Builder, boxes: Value, scores: Value, o: Anchors) -> tuple[Value, ...]:
    """Suppression over the best score of each box, whatever its class; then the best classes of what is left."""
    per_box = min(o.max_classes_per_detection, o.num_classes)
    best, classes = b.TopK(scores, np.array([per_box]), axis=1)
    top = b.Slice(best, np.array([0]), np.array([1]), np.array([1]))
    rows = _kept(b, boxes, b.Transpose(top, perm=(1, 0)), o.max_detections, o)
    places, valid = padded(b, b.Gather(rows, np.array(2), axis=1), o.max_detections)
    there = b.Less(b.const(np.arange(o.max_detections)), b.Cast(valid, to=DType.I64))
    zero, n = b.const(np.float32(0)), o.max_detections * per_box

    def picked(v: Value) -> Any:
        return b.Where(b.Unsqueeze(there, axes=(1,)), b.Gather(v, places), zero)

    each = b.Expand(b.Unsqueeze(picked(boxes), axes=(1,)), np.array([o.max_detections, per_box, 4]))
    return (
        b.Reshape(each, np.array([1, n, 4])),
        b.Reshape(picked(b.Cast(classes, to=DType.F32)), np.array([1, n])),
        b.Reshape(picked(best), np.array([1, n])),
        b.Reshape(b.Cast(valid, to=DType.F32), np.array([1])),
    )


def _by_class(b: Builder, boxes: Value, scores: Value, o: Anchors) -> tuple[Value, ...]:
    """Suppression within each class, then the best of all of them."""
    flat = b.Transpose(scores, perm=(1, 0))
    rows = _kept(b, boxes, flat, o.detections_per_class, o)
    pairs = b.Slice(rows, np.array([1]), np.array([3]), np.array([1]))
    # Rows that lose to every other one make up for what there may be too few of.
    extra = np.zeros((o.max_detections, 2), np.int64)
    found = b.Concat(b.GatherND(flat, pairs), np.full(o.max_detections, -np.inf, np.float32), axis=0)
    value, at = b.TopK(found, np.array([o.max_detections]), axis=0)
    chosen = b.Gather(b.Concat(pairs, extra, axis=0), at)
    there = b.Greater(value, b.const(np.float32(-np.inf)))
    zero = b.const(np.float32(0))
    classes, places = (b.Gather(chosen, np.array(k), axis=1) for k in (0, 1))
    n = o.max_detections
    count = b.ReduceSum(b.Cast(there, to=DType.F32), axes=(0,))
    return (
        b.Reshape(b.Where(b.Unsqueeze(there, axes=(1,)), b.Gather(boxes, places), zero), np.array([1, n, 4])),
        b.Reshape(b.Where(there, b.Cast(classes, to=DType.F32), zero), np.array([1, n])),
        b.Reshape(b.Where(there, value, zero), np.array([1, n])),
        b.Reshape(count, np.array([1])),
    )
