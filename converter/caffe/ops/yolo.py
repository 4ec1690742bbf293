"""Layers of the ports of YOLO to Caffe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minnow.converter.caffe.frontend import frontend
from minnow.converter.caffe.ops.detection import columns, rows_or_none
from minnow.converter.decomposition.detection import nudged
from minnow.converter.operand import bounded, static_dim
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder


@frontend.op("Reorg", param="reorg_param")
def _(b, x, *, stride=2, reverse=False):
    """Darknet's order of elements, which is not that of space to depth: it takes its dimensions for the result's."""
    c, h, w = (static_dim(x.type, axis, "the input of Reorg") for axis in (1, 2, 3))
    if reverse:
        raise UnsupportedError(
            "Reorg with reverse is not supported", why="forks compute different things under this name"
        )
    if stride < 1 or h % stride or w % stride or c % stride**2:
        raise ModelError(f"Reorg with stride {stride} does not fit {x.type}")
    parts = b.Reshape(x, np.array([-1, c * h // stride**2, stride, w, stride]))
    turned = b.Transpose(parts, perm=(0, 2, 4, 1, 3))
    return b.Reshape(turned, np.array([-1, c * stride**2, h // stride, w // stride]))


def _predicted(b: Builder, x: Value, classes: int, sizes: Sequence[tuple[float, float]]) -> tuple[Any, Any, Any]:
    """Boxes [M, 4] of x[1, boxes * (5 + classes), S, S] in parts of the image, chances of objects [M, 1], and classes.

    Args:
        sizes: width and height of the boxes of a cell, in parts of the image.
    """
    images, channels, height, width = (static_dim(x.type, axis, "what YOLO predicts") for axis in range(4))
    n = len(sizes)
    if images != 1:
        raise UnsupportedError(
            "detections for more than one image are not supported",
            why="the fork reports all of them as those of one image",
        )
    if height != width or channels != n * (5 + classes) or classes < 1:
        raise ModelError(f"the input {x.type} does not fit {n} boxes and {classes} classes per cell")
    every = b.Reshape(x, np.array([n, 5 + classes, height * width]))
    rows = b.Reshape(b.Transpose(every, perm=(0, 2, 1)), np.array([-1, 5 + classes]))
    y, x_ = np.divmod(np.arange(height * width), width)
    cells = np.tile(np.stack([x_, y], 1), (n, 1)).astype(np.float32)
    half = np.repeat(np.array(sizes, np.float32) / 2, height * width, axis=0)
    center = b.Mul(b.Add(b.Sigmoid(columns(b, rows, 0, 2)), cells), np.float32(1 / width))
    reach = b.Mul(b.Exp(columns(b, rows, 2, 4)), half)
    boxes = b.Concat(b.Sub(center, reach), b.Add(center, reach), axis=1)
    return boxes, b.Sigmoid(columns(b, rows, 4, 5)), columns(b, rows, 5, 5 + classes)


def _kept(b: Builder, boxes: Value, labels: Value, scores: Value, overlap: float, least: Any, image: Value) -> Any:
    """Rows (0, label, score, box), the best first, of what suppression across all classes leaves of M boxes."""
    count = bounded(static_dim(scores.type, 0, "the detections"), "the detections")
    rows = b.NonMaxSuppression(
        b.Unsqueeze(boxes, axes=(0,)),
        b.Unsqueeze(scores, axes=(0, 1)),
        np.array(count),
        nudged(overlap, -np.inf),
        least,
    )
    at = b.Gather(rows, np.array(2), axis=1)
    single = [b.Unsqueeze(b.Gather(v, at), axes=(1,)) for v in (labels, scores)]
    return rows_or_none(b, b.Concat(b.Mul(single[0], np.float32(0)), *single, b.Gather(boxes, at), axis=1), image)


def _pairs(biases: Sequence[float]) -> list[tuple[float, float]]:
    if not biases or len(biases) % 2:
        raise ModelError(f"there are {len(biases)} biases: they must be pairs of width and height")
    return list(zip(biases[::2], biases[1::2], strict=True))


@frontend.op("YoloDetectionOutput", param="yolo_detection_output_param")
def _(b, *xs, num_classes, num_box=5, coords=4, confidence_threshold=0.01, nms_threshold=0.45, biases=(), side=13,
      label_map_file=""):  # fmt: skip
    """YOLO 2: the likeliest class of each box; sizes are in cells."""
    sizes = _pairs(biases)[:num_box]
    if coords != 4 or len(sizes) != num_box:
        raise ModelError(f"{len(biases)} biases do not fit {num_box} boxes of {coords} coordinates")
    found = []
    for x in xs:
        cells = static_dim(x.type, 3, "what YOLO predicts")
        boxes, chance, classes = _predicted(b, x, num_classes, [(w / cells, h / cells) for w, h in sizes])
        likely = b.Softmax(classes, axis=1)
        label = b.Cast(b.Add(b.ArgMax(likely, axis=1, keepdims=False), np.array(1)), to=DType.F32)
        score = b.Squeeze(b.Mul(chance, b.ReduceMax(likely, axes=(1,))), axes=(1,))
        found.append((boxes, label, score))
    boxes, labels, scores = (
        b.Concat(*parts, axis=0) if len(xs) > 1 else parts[0] for parts in zip(*found, strict=True)
    )
    return _kept(b, boxes, labels, scores, nms_threshold, nudged(confidence_threshold, -np.inf), xs[0])


@frontend.op("Yolov3DetectionOutput", param="yolov3_detection_output_param")
def _(b, *xs, num_classes, num_box=3, confidence_threshold=0.01, nms_threshold=0.45, biases=(), anchors_scale=(),
      mask_group_num=2, mask=()):  # fmt: skip
    """YOLO 3: each box once per class; sizes are in elements of the image, each bottom has some of them."""
    every = _pairs(biases)
    if not xs or len(xs) != mask_group_num or len(anchors_scale) < len(xs) or any(m >= len(every) for m in mask):
        raise ModelError(
            f"the number of inputs ({len(xs)}) does not fit {mask_group_num} groups of the mask {mask}",
            why=f"there are {len(every)} sizes",
        )
    group = len(mask) // len(xs)
    if group < num_box:
        raise ModelError(f"{num_box} boxes per cell are asked for, but the mask has {group} sizes for each input")
    found = []
    for i, x in enumerate(xs):
        whole = static_dim(x.type, 3, "what YOLO predicts") * anchors_scale[i]
        sizes = [every[m] for m in mask[i * group : i * group + num_box]]
        boxes, chance, classes = _predicted(b, x, num_classes, [(w / whole, h / whole) for w, h in sizes])
        score = b.Mul(b.Sigmoid(classes), chance)
        each = b.Expand(b.Unsqueeze(boxes, axes=(1,)), np.array([1, num_classes, 1]))
        found.append((b.Reshape(each, np.array([-1, 4])), b.Reshape(score, np.array([-1]))))
    boxes, scores = (b.Concat(*parts, axis=0) if len(xs) > 1 else parts[0] for parts in zip(*found, strict=True))
    count = bounded(static_dim(scores.type, 0, "the detections"), "the detections")
    labels = b.const((np.arange(count) % num_classes + 1).astype(np.float32))
    return _kept(b, boxes, labels, scores, nms_threshold, np.float32(confidence_threshold), xs[0])
