"""Non-maximum suppression and detection postprocessing."""

from __future__ import annotations

import numpy as np

from minnow.converter.decomposition.detection import Anchors, detections, nudged, padded, softly_suppressed
from minnow.converter.operand import constant
from minnow.converter.tflite.frontend import frontend as tflite
from minnow.converter.tflite.ops.custom import options_of
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder

_SCALAR = np.zeros(0, np.int64)


def _count(b: Builder, limit: Value) -> int | Value:
    return int(constant(limit).reshape(())) if limit.data is not None else b.Cast(limit, to=DType.I64)


def _suppressed(b: Builder, boxes: Value, scores: Value, limit: Value, iou: Value, score: Value) -> Value:
    """Places of the boxes that stay, best first."""
    if iou.data is not None:
        iou = b.const(nudged(iou, -np.inf))  # an overlap of just as much is too much here
    most, iou, score = (b.Reshape(v, _SCALAR) for v in (b.Cast(limit, to=DType.I64), iou, score))
    rows = b.NonMaxSuppression(b.Unsqueeze(boxes, axes=(0,)), b.Unsqueeze(scores, axes=(0, 1)), most, iou, score)
    return b.Gather(rows, np.array(2), axis=1)


@tflite.op("NON_MAX_SUPPRESSION_V4")
def _(b, boxes, scores, limit, iou, score):
    places, valid = padded(b, _suppressed(b, boxes, scores, limit, iou, score), _count(b, limit))
    return b.Cast(places, to=DType.I32), valid


@tflite.op("NON_MAX_SUPPRESSION_V5")
def _(b, boxes, scores, limit, iou, score, sigma):
    softness = float(constant(sigma, "the sigma of NON_MAX_SUPPRESSION_V5").reshape(()))
    if softness > 0:
        found, values = softly_suppressed(b, boxes, scores, limit, iou, score, softness)
    else:
        found = _suppressed(b, boxes, scores, limit, iou, score)
        values = b.Gather(scores, found)
    count = _count(b, limit)
    places, valid = padded(b, found, count)
    chosen, _ = padded(b, values, count)
    return b.Cast(places, to=DType.I32), chosen, valid


@tflite.op("TFLite_Detection_PostProcess")
def _(b, encodings, scores, anchors, *, node):
    known = options_of(node)
    options = Anchors(**{k: v for k, v in known.items() if k in Anchors.__dataclass_fields__})
    return detections(b, encodings, scores, anchors, options)
