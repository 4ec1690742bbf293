"""Non-maximum suppression and detection postprocessing."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.converter.decomposition.detection import Anchors, detections, softly_suppressed
from minnow.converter.operand import bounded, constant, static_dim
from minnow.converter.tensorflow.frontend import frontend as tf
from minnow.converter.tensorflow.ops.crop import few
from minnow.converter.tensorflow.ops.movement import axis_operand, cast, wide
from minnow.schema.ir import DType, Graph, TensorType, Value
from minnow.schema.ops import Builder


def _chosen(b: Builder, boxes: Value, scores: Value, most: Any, iou: Any, least: Any = None) -> Any:
    """Numbers of the boxes[N, 4] that stay, as i64[n]."""
    f32 = [v if v is None or not isinstance(v, Value) else cast(b, v, DType.F32) for v in (iou, least)]
    rows = b.NonMaxSuppression(
        b.Unsqueeze(cast(b, boxes, DType.F32), axes=(0,)), b.Unsqueeze(cast(b, scores, DType.F32), axes=(0, 1)),
        wide(b, most), *f32,
    )  # fmt: skip
    return b.Gather(rows, np.array(2), axis=1)


def _filled(b: Builder, x: Value, most: Value, pad: bool) -> Any:
    """The vector x made as long as `most` says with zeros, if asked for."""
    if not pad:
        return x
    missing = b.Sub(b.Reshape(wide(b, most), np.array([1])), b.Shape(x))
    y = b.Pad(x, b.Concat(np.array([0]), missing, axis=0))
    return b.Reshape(y, b.Reshape(wide(b, most), np.array([1])), allowzero=True)


def _count(b: Builder, x: Value) -> Any:
    return b.Cast(b.Size(x), to=DType.I32)


@tf.op("NonMaxSuppression")
def _(b, boxes, scores, most, *, iou_threshold=0.5):
    return b.Cast(_chosen(b, boxes, scores, most, np.array(iou_threshold, np.float32)), to=DType.I32)


@tf.op("NonMaxSuppressionV2", "NonMaxSuppressionV3")
def _(b, boxes, scores, most, iou, least=None):
    return b.Cast(_chosen(b, boxes, scores, most, iou, least), to=DType.I32)


@tf.op("NonMaxSuppressionV4", outputs=("selected_indices", "valid_outputs"))
def _(b, boxes, scores, most, iou, least, *, pad_to_max_output_size=False):
    chosen = b.Cast(_chosen(b, boxes, scores, most, iou, least), to=DType.I32)
    return _filled(b, chosen, most, pad_to_max_output_size), _count(b, chosen)


@tf.op("NonMaxSuppressionV5", outputs=("selected_indices", "selected_scores", "valid_outputs"))
def _(b, boxes, scores, most, iou, least, sigma, *, pad_to_max_output_size=False):
    softness = float(constant(sigma, "the sigma of soft suppression").reshape(()))
    if softness > 0:
        bound = b.const(np.array(2, np.float32))  # however much they overlap, scores only become lower
        chosen, kept = softly_suppressed(b, boxes, scores, most, bound, least, softness)
    else:
        chosen = _chosen(b, boxes, scores, most, iou, least)
        kept = b.Gather(scores, chosen)
    pad = pad_to_max_output_size
    return (
        _filled(b, b.Cast(chosen, to=DType.I32), most, pad),
        _filled(b, kept, most, pad),
        _count(b, chosen),
    )


@tf.op("NonMaxSuppressionWithOverlaps")
def _(b, overlaps, scores, most, overlap, least):
    """The best one is taken, and what overlaps with it goes, round after round."""
    body = Graph("suppression")
    body.add_param(TensorType(DType.I64, ()), "round")
    body.add_param(TensorType(DType.BOOL, ()), "cond")
    k = Builder(body, origin=b.origin)
    now = body.add_param(scores.type, "scores")
    rows, limit = (body.add_param(v.type, n) for v, n in ((overlaps, "overlaps"), (overlap, "limit")))
    gone = k.const(np.array(-np.inf, np.float32))
    best = k.ArgMax(now, axis=0, keepdims=False)
    is_best = k.Equal(k.Range(np.array(0), k.Size(now), np.array(1)), best)
    after = k.Where(k.Or(is_best, k.Greater(k.Gather(rows, best, axis=1), limit)), gone, now)
    body.outputs = [k.Greater(k.ReduceMax(after, axes=(0,), keepdims=False), gone), after, best]
    none = b.const(np.array(-np.inf, np.float32))
    start = b.Where(b.Greater(scores, least), scores, none)
    some = b.Greater(b.ReduceMax(start, axes=(0,), keepdims=False), none)
    _, places = b.Loop(wide(b, most), some, start, overlaps, overlap, body=body, num_carried=1, n_outputs=2)
    return b.Cast(places, to=DType.I32)


@tf.op("CombinedNonMaxSuppression",
       outputs=("nmsed_boxes", "nmsed_scores", "nmsed_classes", "valid_detections"))  # fmt: skip
def _(b, boxes, scores, each, total, iou, least, *, pad_per_class=False, clip_boxes=True):
    batch, shared = (
        few(static_dim(boxes.type, 0, "the batch"), "a batch"),
        static_dim(boxes.type, 2, "the classes of boxes") == 1,
    )
    classes, most = static_dim(scores.type, 2, "the classes"), axis_operand(total, "the number of boxes")
    bounded(most, "the result")
    if pad_per_class:
        most = min(most, axis_operand(each, "the number of boxes") * classes)
    results: list[list[Any]] = [[], [], [], []]
    for i in range(batch):
        box, score = (b.Gather(v, np.array(i)) for v in (boxes, scores))  # [N, 1 or C, 4], [N, C]
        by_class = b.Transpose(score, perm=(1, 0))
        corners = b.Transpose(box, perm=(1, 0, 2))
        if shared:
            rows = b.NonMaxSuppression(corners, b.Unsqueeze(by_class, axes=(0,)), wide(b, each), iou, least)
        else:
            rows = b.NonMaxSuppression(corners, b.Unsqueeze(by_class, axes=(1,)), wide(b, each), iou, least)
        kind = b.Gather(rows, np.array(1 if shared else 0), axis=1)
        number = b.Gather(rows, np.array(2), axis=1)
        points = b.GatherND(by_class, b.Concat(*(b.Unsqueeze(v, axes=(1,)) for v in (kind, number)), axis=1))
        k = b.Min(b.Shape(points), np.array([most]))
        best, order = b.TopK(points, k, axis=0, n_outputs=2)
        kind, number = b.Gather(kind, order), b.Gather(number, order)
        owner = b.Mul(kind, 0) if shared else kind
        found = b.GatherND(corners, b.Concat(*(b.Unsqueeze(v, axes=(1,)) for v in (owner, number)), axis=1))
        if clip_boxes:
            found = b.Clip(found, min=0.0, max=1.0)
        missing = b.Sub(np.array([most]), k)
        ends = b.Concat(np.array([0]), missing, axis=0)
        parts = (
            b.Reshape(b.Pad(found, b.Concat(ends, np.array([0, 0]), axis=0)), np.array([1, most, 4])),
            b.Reshape(b.Pad(best, ends), np.array([1, most])),
            b.Reshape(b.Pad(b.Cast(kind, to=DType.F32), ends), np.array([1, most])),
            b.Cast(k, to=DType.I32),
        )
        for result, part in zip(results, parts, strict=True):
            result.append(part)
    return tuple(b.Concat(*r, axis=0) if len(r) > 1 else r[0] for r in results)


@tf.op("TFLite_Detection_PostProcess")
def _(b, encodings, scores, anchors, *, max_detections, max_classes_per_detection, num_classes, nms_score_threshold,
      nms_iou_threshold, y_scale, x_scale, h_scale, w_scale, detections_per_class=100, use_regular_nms=False,
      _output_quantized=False, _output_types=(), _support_output_type_float_in_quantized_op=False):  # fmt: skip
    options = Anchors(max_detections, max_classes_per_detection, num_classes, nms_score_threshold, nms_iou_threshold,
                      y_scale, x_scale, h_scale, w_scale, detections_per_class, use_regular_nms)  # fmt: skip
    return detections(b, encodings, scores, anchors, options)
