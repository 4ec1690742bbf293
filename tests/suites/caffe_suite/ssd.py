"""The layers of SSD: prior boxes, and the choice of boxes behind them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .case import Given, case, f32, layer, opencv, torch, weight
from .judge import onnx_node

FEATURE, IMAGE = f32(1, 4, 3, 5), f32(1, 3, 60, 100)
PRIORS = {
    "plain": "min_size: 30",
    "max": "min_size: 30 max_size: 60",
    "ratio": "min_size: 30 aspect_ratio: 2",
    "ratio_flip": "min_size: 30 aspect_ratio: 2 flip: true",
    "ratio_no_flip": "min_size: 30 max_size: 60 aspect_ratio: 2 flip: false",
    "ratios": "min_size: 30 max_size: 60 aspect_ratio: 2 aspect_ratio: 3 flip: true",
    "ratio_twice": "min_size: 30 aspect_ratio: 2 aspect_ratio: 2 aspect_ratio: 1 flip: true",
    "ratio_below_1": "min_size: 30 aspect_ratio: 0.5 flip: true",
    "two_sizes": "min_size: 10 min_size: 20",
    "three_sizes": "min_size: 10 min_size: 16 min_size: 24 flip: false",
    "two_sizes_ratio": "min_size: 10 min_size: 20 aspect_ratio: 2",
    "two_max": "min_size: 10 min_size: 20 max_size: 20 max_size: 40 aspect_ratio: 2",
    "step": "min_size: 30 max_size: 60 step: 8",
    "step_hw": "min_size: 30 step_h: 8 step_w: 16",
    "offset": "min_size: 30 offset: 0",
    "offset_step": "min_size: 30 offset: 0.25 step: 16",
    "variance": "min_size: 30 variance: 0.2",
    "variances": "min_size: 30 max_size: 60 variance: 0.1 variance: 0.1 variance: 0.2 variance: 0.2",
    "all": "min_size: 30 max_size: 60 aspect_ratio: 2 aspect_ratio: 3 flip: true variance: 0.1 variance: 0.1"
    " variance: 0.2 variance: 0.2 step: 8 offset: 0.5",
}
for name, params in PRIORS.items():
    spread = "" if "variance" in params else "variance: 0.1"
    opencv(f"prior_box_{name}", FEATURE, IMAGE, layer("PriorBox", f"{params} {spread} clip: false", at="x y"))


def around(high: int, wide: int) -> Any:
    """Squares of 30 around the elements of FEATURE, the image being high x wide; OpenCV knows its own extents only."""

    def judge(x: Any, y: Any) -> Any:
        at = torch.stack(torch.meshgrid((torch.arange(5) + 0.5) / 5, (torch.arange(3) + 0.5) / 3, indexing="xy"), -1)
        half = torch.tensor([15 / wide, 15 / high])
        boxes = torch.cat([at - half, at + half], -1).reshape(-1)
        return torch.stack([boxes, torch.full_like(boxes, 0.1)])[None]

    return judge


case("prior_box_img_size", FEATURE, IMAGE, layer("PriorBox", "min_size: 30 img_size: 300", at="x y"))(around(300, 300))
case("prior_box_img_hw", FEATURE, IMAGE, layer("PriorBox", "min_size: 30 img_h: 200 img_w: 300", at="x y"))(
    around(200, 300)
)
opencv(
    "prior_box_clip",
    FEATURE,
    IMAGE,
    layer("PriorBox", "min_size: 50 max_size: 90 aspect_ratio: 2 clip: true variance: 0.1", at="x y"),
)
opencv(
    "prior_box_one_cell",
    f32(2, 8, 1, 1),
    IMAGE,
    layer("PriorBox", "min_size: 264 max_size: 315 clip: true variance: 0.1", at="x y"),
)
opencv(
    "prior_box_prime",
    f32(1, 2, 7, 11),
    f32(1, 3, 113, 97),
    layer("PriorBox", "min_size: 13 clip: false variance: 0.1", at="x y"),
)
opencv(
    "prior_box_concat",
    FEATURE,
    f32(1, 4, 2, 2),
    IMAGE,
    layer("PriorBox", "min_size: 10 clip: false variance: 0.1", at="x z", to="a"),
    layer("PriorBox", "min_size: 20 max_size: 30 clip: false variance: 0.1", at="y z", to="b"),
    layer("Concat", "axis: 2", at="a b"),
)
opencv(
    "prior_box_behind_layers",
    f32(1, 3, 32, 48),
    layer("Pooling", "kernel_size: 8 stride: 8", to="p"),
    layer("PriorBox", "min_size: 8 aspect_ratio: 2 clip: false variance: 0.1", at="p x"),
)


def priors(n: int, seed: int = 0) -> Given:
    """Boxes within the image, those behind overlapping with the first ones, and their variances."""
    rng = np.random.default_rng(seed)
    center, half = rng.uniform(0.2, 0.8, (n, 2)), rng.uniform(0.05, 0.2, (n, 2))
    center[n // 2 :] = center[: n - n // 2] + rng.uniform(-0.04, 0.04, (n - n // 2, 2))
    half[n // 2 :] = half[: n - n // 2] * rng.uniform(0.8, 1.2, (n - n // 2, 2))
    boxes = np.concatenate([center - half, center + half], 1).reshape(1, 1, -1)
    spread = np.tile([0.1, 0.1, 0.2, 0.2], n).reshape(1, 1, -1)
    array = np.concatenate([boxes, spread], 1).astype(np.float32)
    return Given(lambda rng: array, array.shape)


def scores(batch: int, n: int, classes: int) -> Given:
    """Confidences that all differ."""
    count = batch * n * classes
    return Given(
        lambda rng: ((rng.permutation(count) + 0.5) / count).reshape(batch, n * classes).astype(np.float32),
        (batch, n * classes),
    )


def detections(name: str, params: str, n: int = 12, classes: int = 3, batch: int = 1, locations: int = 1) -> None:
    """Boxes of corners are coded with small numbers, so that they stay boxes."""
    low = 0.3 if "CORNER" in params else 1.0
    opencv(
        f"detection_{name}",
        f32(batch, n * 4 * locations, low=-low, high=low),
        scores(batch, n, classes),
        priors(n),
        layer("DetectionOutput", f"num_classes: {classes} {params}", at="x y z"),
        rows=True,
    )


def with_(**changed: Any) -> str:
    """The usual parameters with others in them."""
    words = {
        "background_label_id": "0",
        "nms_param": "{ nms_threshold: 0.45 top_k: 400 }",
        "keep_top_k": "200",
        "confidence_threshold": "0.01",
        "code_type": "CENTER_SIZE",
        "share_location": "true",
    }
    return " ".join(f"{k} {v}" if v.startswith("{") else f"{k}: {v}" for k, v in (words | changed).items())


detections("usual", with_())
detections("many", with_(), n=60, classes=5)
detections("21_classes", with_(), n=20, classes=21)
detections("two_classes", with_(), classes=2)
detections("batch2", with_(), batch=2)
detections("batch3_keep", with_(keep_top_k="5"), batch=3, n=20)
for kind in ("CORNER", "CENTER_SIZE"):
    detections(f"code_{kind.lower()}", with_(code_type=kind))
detections("keep_5", with_(keep_top_k="5"), n=30)
detections("keep_1", with_(keep_top_k="1"), n=30)
detections("top_k_3", with_(nms_param="{ nms_threshold: 0.45 top_k: 3 }"), n=30)
detections("top_k_none", with_(nms_param="{ nms_threshold: 0.45 }"), n=30)
detections("nms_low", with_(nms_param="{ nms_threshold: 0.01 top_k: 400 }"), n=30)
detections("nms_1", with_(nms_param="{ nms_threshold: 1.0 top_k: 400 }"), n=30)
detections("confidence_half", with_(confidence_threshold="0.5"), n=30)
detections("confidence_high", with_(confidence_threshold="0.97"), n=30)
detections("background_last", with_(background_label_id="2"))
detections("own_locations", with_(share_location="false"), locations=3)
detections("own_locations_batch2", with_(share_location="false"), locations=3, batch=2, n=20)
detections(
    "own_locations_background_1",
    with_(share_location="false", background_label_id="1", keep_top_k="7"),
    locations=3,
    n=20,
)
detections("one_prior", with_(), n=1)
detections("prime", with_(keep_top_k="13", nms_param="{ nms_threshold: 0.3 top_k: 17 }"), n=97, classes=7)


def kept(boxes: Any, score: Any, overlap: float) -> Any:
    """The places of the boxes that suppression leaves, by onnxruntime."""
    limits = torch.tensor([len(score)]), torch.tensor([overlap])
    return onnx_node("NonMaxSuppression", [boxes[:, [1, 0, 3, 2]][None], score[None, None], *limits])[:, 2]


def found(
    code: str = "CENTER_SIZE",
    in_target: bool = False,
    overlap: float = 0.45,
    keep: int = 200,
    n: int = 12,
    labels: Any = (1, 2),
) -> Any:
    """A judge of three classes beside OpenCV, which lacks some options: torch, with the suppression of onnxruntime."""

    def judge(x: Any, y: Any, z: Any) -> Any:
        prior, spread, at = z[0, 0].reshape(n, 4), z[0, 1].reshape(n, 4), x.reshape(n, 4)
        at = at if in_target else at * spread
        extent = prior[:, 2:] - prior[:, :2]
        if code == "CENTER_SIZE":
            center = (prior[:, :2] + prior[:, 2:]) / 2 + at[:, :2] * extent
            boxes = torch.cat([center - extent * at[:, 2:].exp() / 2, center + extent * at[:, 2:].exp() / 2], 1)
        else:
            boxes = prior + at * (torch.cat([extent, extent], 1) if code == "CORNER_SIZE" else 1)
        rows = []
        for label in labels:
            score = y.reshape(n, 3)[:, label]
            rows += [
                [0.0, label, float(score[i]), *boxes[i].tolist()]
                for i in kept(boxes, score, overlap)
                if score[i] > 0.01
            ]
        best = sorted(rows, key=lambda r: -r[2])[:keep]
        return torch.tensor([r for r in rows if r in best])[None, None]

    return judge


def judged(name: str, judge: Any, n: int = 12, **changed: Any) -> None:
    parts = f32(1, 4 * n, low=-0.3, high=0.3), scores(1, n, 3), priors(n)
    case(
        f"detection_{name}",
        *parts,
        layer("DetectionOutput", f"num_classes: 3 {with_(**changed)}", at="x y z"),
        rows=True,
    )(judge)


judged("code_corner_size", found("CORNER_SIZE"), code_type="CORNER_SIZE")
judged(
    "code_corner_size_variance_in_target",
    found("CORNER_SIZE", True),
    code_type="CORNER_SIZE",
    variance_encoded_in_target="true",
)
judged("code_corner_variance_in_target", found("CORNER", True), code_type="CORNER", variance_encoded_in_target="true")
judged("code_center_size_variance_in_target", found(in_target=True), variance_encoded_in_target="true")
judged("background_none", found(labels=(0, 1, 2)), background_label_id="-1")
judged("keep_all", found(), keep_top_k="-1")
judged("keep_6", found(keep=6), keep_top_k="6")
judged("nms_0", found(overlap=0.0, n=30), n=30, nms_param="{ nms_threshold: 0.0 top_k: 400 }")
judged("nms_default", found(overlap=0.3, n=30), n=30, nms_param="{ top_k: 100 }")


def refined(x: Any, y: Any, z: Any, w: Any, v: Any) -> Any:
    """RefineDet's: a first guess moves the prior boxes; where it sees no object there is none."""
    prior, spread, at = z[0, 0].reshape(12, 4), z[0, 1].reshape(12, 4), v.reshape(12, 4)
    extent = prior[:, 2:] - prior[:, :2]
    center = (prior[:, :2] + prior[:, 2:]) / 2 + at[:, :2] * spread[:, :2] * extent
    half = (at[:, 2:] * spread[:, 2:]).exp() * extent / 2
    moved = torch.stack([torch.cat([center - half, center + half], 1).flatten(), z[0, 1]])[None]
    sure = (w.reshape(12, 2)[:, 1:] >= 0.4).float()
    return found()(x, (y.reshape(12, 3) * sure).reshape(1, -1), moved)


GUESS = (scores(1, 12, 2), f32(1, 48, low=-0.3, high=0.3))
case(
    "detection_refined",
    *(f32(1, 48, low=-0.3, high=0.3), scores(1, 12, 3), priors(12), *GUESS),
    layer("DetectionOutput", f"num_classes: 3 {with_()} objectness_score: 0.4", at="x y z w v"),
    rows=True,
)(refined)
case(
    "detection_nothing_found",
    f32(2, 48),
    f32(2, 36, low=0, high=0.5),
    priors(12),
    layer("DetectionOutput", f"num_classes: 3 {with_(confidence_threshold='0.9')}", at="x y z"),
)(lambda x, y, z: torch.tensor([[0.0] + [-1.0] * 6, [1.0] + [-1.0] * 6]).reshape(1, 1, 2, 7))

HEAD = [
    layer(
        "Convolution",
        "num_output: 8 kernel_size: 3 pad: 1",
        weight(8, 4, 3, 3, low=-0.1, high=0.1),
        weight(8),
        to="loc0",
    ),
    layer("Permute", "order: 0 order: 2 order: 3 order: 1", at="loc0", to="loc1"),
    layer("Flatten", "axis: 1", at="loc1", to="loc"),
    layer("Convolution", "num_output: 6 kernel_size: 3 pad: 1", weight(6, 4, 3, 3), weight(6), to="conf0"),
    layer("Permute", "order: 0 order: 2 order: 3 order: 1", at="conf0", to="conf1"),
    layer("Reshape", "reshape_param { shape { dim: 0 dim: -1 dim: 3 } }", at="conf1", to="conf2"),
    layer("Softmax", "axis: 2", at="conf2", to="conf3"),
    layer("Flatten", "axis: 1", at="conf3", to="conf"),
    layer(
        "PriorBox",
        "min_size: 20 max_size: 40 flip: true clip: false variance: 0.1 variance: 0.1 variance: 0.2 variance: 0.2",
        at="x y",
        to="prior",
    ),
    layer("DetectionOutput", f"num_classes: 3 {with_()}", at="loc conf prior"),
]
opencv("ssd_head", FEATURE, IMAGE, *HEAD, rows=True)
opencv(
    "ssd_head_l2_norm",
    FEATURE,
    layer("Normalize", "across_spatial: false channel_shared: false", weight(4, low=9, high=20), to="n"),
    layer("Permute", "order: 0 order: 2 order: 3 order: 1", at="n"),
)
