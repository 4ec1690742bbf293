"""The last step of detectors: boxes from what the model gives."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.converter.decomposition.detection import Anchors, detections
from minnow.expr.argument import flag, floats, integer, number
from minnow.expr.evaluation import evaluate
from minnow.expr.file import vars_of
from minnow.expr.names import named
from minnow.expr.setting import SETTINGS
from minnow.expr.var import Var, as_var
from minnow.schema.errors import UsageError
from minnow.schema.ir import Graph
from minnow.schema.ops import Builder

_F32 = np.dtype(np.float32)


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
    """The detections of an image, best first.

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
        Boxes [1, m, 4] as (y1, x1, y2, x2), classes and scores [1, m], and the number of boxes [1]; zeros behind the
        last one. m is max_detections, times the classes of a box unless `use_regular_nms`.

    Raises:
        UsageError: the operands do not fit.
        ModelError: a number means nothing.
    """
    operands = [as_var(v)._cast(_F32) for v in (encode_boxes, class_predictions, anchors)]
    encoded, scores, anchor = (v.shape for v in operands)
    n = anchor[0] if anchor else 0
    if anchor != [n, 4] or encoded != [1, n, 4] or len(scores) != 3 or scores[:2] != [1, n]:
        raise UsageError(
            f"encoded boxes, scores and anchors have the shapes {encoded}, {scores}, {anchor}",
            hint="[1, n, 4], [1, n, c], [n, 4]",
        )
    y, x, h, w = floats(centersize_encoding, "centersize_encoding", 4).tolist()
    options = Anchors(
        max_detections=integer(max_detections, "max_detections"),
        max_classes_per_detection=integer(max_class_per_detection, "max_class_per_detection"),
        num_classes=integer(num_classes, "num_classes"),
        nms_score_threshold=number(nms_threshold, "nms_threshold"),
        nms_iou_threshold=number(iou_threshold, "iou_threshold"),
        y_scale=y,
        x_scale=x,
        h_scale=h,
        w_scale=w,
        detections_per_class=integer(detections_per_class, "detections_per_class"),
        use_regular_nms=flag(use_regular_nms, "use_regular_nms"),
    )
    graph = Graph("detections")
    params = [graph.add_param(v._type(), "") for v in operands]
    graph.outputs = list(detections(Builder(graph), params[0], params[1], params[2], options))
    table = vars_of(graph, operands)
    made = [table[v] for v in graph.outputs]
    if SETTINGS.lazy or not all(v._is_known() for v in operands):
        return made
    evaluate(made)
    return [Var._of(v._value()) for v in made]
