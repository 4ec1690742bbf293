"""Detections of the ports of YOLO, by torch, with the suppression of onnxruntime."""

from __future__ import annotations

from typing import Any

from .case import case, f32, layer, torch
from .ssd import kept

BIASES = [1.0, 1.5, 2.0, 1.2, 3.0, 2.5]


def predicted(x: Any, n: int, classes: int, biases: list[float], unit: float) -> tuple[Any, Any, Any]:
    """Boxes, chances and classes of every cell's n boxes; `unit` is what a bias counts in, in parts of the image."""
    side = x.shape[3]
    t = x[0].reshape(n, 5 + classes, side, side)
    column, row = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="xy")
    size = torch.tensor(biases).reshape(n, 2, 1, 1) * unit
    center = (t[:, :2].sigmoid() + torch.stack([column, row])) / side
    half = t[:, 2:4].exp() * size / 2
    boxes = torch.cat([center - half, center + half], 1).permute(0, 2, 3, 1).reshape(-1, 4)
    return boxes, t[:, 4].sigmoid().reshape(-1, 1), t[:, 5:].permute(0, 2, 3, 1).reshape(-1, classes)


def chosen(boxes: Any, labels: Any, score: Any, least: float, overlap: float) -> Any:
    """Rows of the boxes that are left, the best first."""
    sure = score > least
    boxes, labels, score = boxes[sure], labels[sure], score[sure]
    if not len(score):
        return torch.tensor([[[[0.0] + [-1.0] * 6]]])
    at = kept(boxes, score, overlap)
    rows = [torch.zeros(len(at), 1), labels[at, None].float(), score[at, None], boxes[at]]
    return torch.cat(rows, 1)[None, None]


def second(*xs: Any, least: float = 0.1, overlap: float = 0.45, n: int = 3, classes: int = 4) -> Any:
    parts = []
    for x in xs:
        boxes, chance, raw = predicted(x, n, classes, BIASES[: 2 * n], 1 / x.shape[3])
        best = raw.softmax(1).max(1)
        parts.append((boxes, best.indices + 1, best.values * chance[:, 0]))
    return chosen(*(torch.cat(p) for p in zip(*parts, strict=True)), least, overlap)


def third(*xs: Any, least: float = 0.1, overlap: float = 0.45, n: int = 2, classes: int = 3) -> Any:
    parts = []
    for i, x in enumerate(xs):
        biases = [8 * v for v in BIASES[2 * i : 2 * i + 2 * n]]
        boxes, chance, raw = predicted(x, n, classes, biases, 1 / (x.shape[3] * (8 >> i)))
        label = torch.arange(1, classes + 1).repeat(len(boxes))
        parts.append((boxes.repeat_interleave(classes, 0), label, (raw.sigmoid() * chance).flatten()))
    return chosen(*(torch.cat(p) for p in zip(*parts, strict=True)), least, overlap)


SIZES = " ".join(f"biases: {v}" for v in BIASES)
TWO = f"num_classes: 4 num_box: 3 nms_threshold: 0.45 confidence_threshold: 0.1 {SIZES}"
case("yolo2", f32(1, 27, 5, 5), layer("YoloDetectionOutput", TWO))(second)
case("yolo2_two_bottoms", f32(1, 27, 4, 4), f32(1, 27, 7, 7), layer("YoloDetectionOutput", TWO, at="x y"))(second)
case("yolo2_default", f32(1, 27, 5, 5), layer("YoloDetectionOutput", f"num_classes: 4 num_box: 3 {SIZES}"))(
    lambda x: second(x, least=0.01)
)
case(
    "yolo2_nothing_found",
    f32(1, 27, 3, 3, low=-9, high=-8),
    layer("YoloDetectionOutput", f"num_classes: 4 num_box: 3 confidence_threshold: 0.9 {SIZES}"),
)(lambda x: second(x, least=0.9))
LARGE = " ".join(f"biases: {8 * v}" for v in BIASES)
THREE = f"num_classes: 3 num_box: 2 nms_threshold: 0.45 confidence_threshold: 0.1 {LARGE}"
case(
    "yolo3",
    f32(1, 16, 5, 5),
    layer("Yolov3DetectionOutput", f"{THREE} mask_group_num: 1 mask: 0 mask: 1 anchors_scale: 8"),
)(third)
case(
    "yolo3_two_bottoms",
    f32(1, 16, 4, 4),
    f32(1, 16, 8, 8),
    layer(
        "Yolov3DetectionOutput",
        f"{THREE} mask_group_num: 2 mask: 0 mask: 1 mask: 1 mask: 2 anchors_scale: 8 anchors_scale: 4",
        at="x y",
    ),
)(third)
