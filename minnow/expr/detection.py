"""The last step of detectors: boxes from what the model gives."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.expr.argument import flag, floats, integer, number
from minnow.expr.dtype import Array
from minnow.expr.names import named
from minnow.expr.var import Var, as_var
from minnow.schema.errors import UsageError


@named("expr", like="tensorflow.lite TFLite_Detection_PostProcess")
def detection_post_process(
    encode_boxes: Any,
    class_predictions: Any,
    anchors: Any,
    num_classes: Any,
    max_detections: Any,
    max_class_per_detection: Any,
    detections_per_class: Any,
    nms_threshold: Any,
    iou_threshold: Any,
    use_regular_nms: Any,
    centersize_encoding: Any,
) -> list[Var]:
    """The detections of an image, best first, computed at once.

    Args:
        encode_boxes: [1, n, 4], (y, x, height, width) relative to the anchors.
        class_predictions: [1, n, classes], with or without a class for the background before the others.
        anchors: [n, 4], (y center, x center, height, width).
        num_classes: number of classes without the background.
        max_detections: the most detections.
        max_class_per_detection: the most classes of a box, unless `use_regular_nms`.
        detections_per_class: the most boxes of a class, with `use_regular_nms`.
        nms_threshold: the least score.
        iou_threshold: boxes that overlap a better one by more are dropped.
        use_regular_nms: drop boxes class by class; otherwise by the best class of each box.
        centersize_encoding: four numbers by which the encoding is divided.

    Returns:
        Boxes [1, max_detections, 4] as (y1, x1, y2, x2), classes and scores [1, max_detections], and their number [1];
        zeros behind the last one.
    """
    encoded, scores, anchor = (
        np.asarray(as_var(v)._shown(), np.float32) for v in (encode_boxes, class_predictions, anchors)
    )
    classes, most = integer(num_classes, "num_classes", 1), integer(max_detections, "max_detections", 0)
    n = len(anchor)
    if encoded.shape != (1, n, 4) or anchor.shape != (n, 4) or scores.shape[:2] != (1, n) or scores.ndim != 3:
        shapes = ", ".join(str(list(a.shape)) for a in (encoded, scores, anchor))
        raise UsageError(
            f"encoded boxes, scores and anchors have the shapes {shapes}", hint="[1, n, 4], [1, n, c], [n, 4]"
        )
    background = scores.shape[2] - classes
    if background not in (0, 1):
        raise UsageError(f"there are scores of {scores.shape[2]} classes for {classes} classes")
    boxes = _decoded(encoded[0], anchor, floats(centersize_encoding, "centersize_encoding", 4))
    own = scores[0, :, background:]
    least, overlap = number(nms_threshold, "nms_threshold"), number(iou_threshold, "iou_threshold")
    rows: list[tuple[float, int, int]] = []
    if flag(use_regular_nms, "use_regular_nms"):
        limit = integer(detections_per_class, "detections_per_class", 0)
        for c in range(classes):
            rows += [(float(own[i, c]), i, c) for i in _kept(boxes, own[:, c], least, overlap, limit)]
        rows = sorted(rows, key=lambda row: -row[0])[:most]
    else:
        per_box = min(integer(max_class_per_detection, "max_class_per_detection", 1), classes)
        for i in _kept(boxes, own.max(axis=1) if n else np.zeros(0, np.float32), least, overlap, most):
            rows += [(float(own[i, c]), i, int(c)) for c in np.argsort(-own[i], kind="stable")[:per_box]]
        rows = rows[:most]
    found = np.zeros((1, most, 4), np.float32), np.zeros((1, most), np.float32), np.zeros((1, most), np.float32)
    for k, (score, i, c) in enumerate(rows):
        found[0][0, k], found[1][0, k], found[2][0, k] = boxes[i], c, score
    return [*(Var._of(a) for a in found), Var._of(np.array([len(rows)], np.float32))]


def _decoded(encoded: Array, anchor: Array, scale: Array) -> Array:
    part = encoded / scale
    with np.errstate(over="ignore", invalid="ignore"):
        center = part[:, :2] * anchor[:, 2:] + anchor[:, :2]
        half = np.exp(part[:, 2:]) * anchor[:, 2:] * np.float32(0.5)
        return np.concatenate([center - half, center + half], axis=1)


def _kept(boxes: Array, scores: Array, least: float, overlap: float, most: int) -> list[int]:
    """The boxes of at least a score, best first, without those that overlap a better one."""
    order = [int(i) for i in np.argsort(-scores, kind="stable") if scores[i] >= least]
    area = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1) if len(boxes) else np.zeros(0)
    kept: list[int] = []
    for i in order:
        if len(kept) == most:
            break
        common = [
            float(
                np.prod(np.maximum(np.minimum(boxes[i, 2:], boxes[k, 2:]) - np.maximum(boxes[i, :2], boxes[k, :2]), 0))
            )
            for k in kept
        ]
        if all(c <= overlap * max(float(area[i] + area[k]) - c, 1e-12) for c, k in zip(common, kept, strict=True)):
            kept.append(i)
    return kept
