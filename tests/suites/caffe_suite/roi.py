"""Regions of feature maps, and where they come from."""

from __future__ import annotations

from typing import Any

from .case import Given, case, f32, layer, opencv, torch, value, weight
from .judge import onnx_node

BOXES = value(
    [[0, 1, 2, 9, 12], [0, 0, 0, 15, 15], [0, 3.4, 4.6, 3.4, 4.6], [0, 7, 1, 30, 5], [0, 5.5, 6.5, 11.2, 14.9]]
)
"""Rows of image, x1, y1, x2, y2: inside, the whole, a point, across the border, and broken numbers."""


def roi_pool(name: str, height: int, width: int, scale: float, x: Given, boxes: Given) -> None:
    params = f"pooled_h: {height} pooled_w: {width} spatial_scale: {scale}"
    case(f"roi_pool_{name}", x, boxes, layer("ROIPooling", params, at="x y"))(
        lambda x, y: onnx_node("MaxRoiPool", [x, y], pooled_shape=[height, width], spatial_scale=scale)
    )


X = f32(1, 3, 16, 16)
roi_pool("6x6", 6, 6, 1.0, X, BOXES)
roi_pool("2x3", 2, 3, 1.0, X, BOXES)
roi_pool("1x1", 1, 1, 1.0, X, BOXES)
roi_pool("half_scale", 3, 3, 0.5, f32(1, 3, 8, 8), BOXES)
roi_pool(
    "sixteenth",
    7,
    7,
    0.0625,
    f32(1, 5, 9, 11),
    value([[0, 10, 20, 100, 120], [0, 0, 0, 175, 143], [0, 33, 44, 60, 66]]),
)
roi_pool("batch2", 3, 3, 1.0, f32(2, 3, 16, 16), value([[0, 1, 2, 9, 12], [1, 1, 2, 9, 12], [1, 0, 0, 3, 3]]))
opencv(
    "roi_pool_by_opencv",
    X,
    value([[0, 1, 2, 9, 12], [0, 0, 0, 15, 15], [0, 4, 5, 4, 5]]),
    layer("ROIPooling", "pooled_h: 3 pooled_w: 3 spatial_scale: 1", at="x y"),
)
opencv(
    "roi_pool_four_axes",
    X,
    value([[[[0]], [[1]], [[2]], [[9]], [[12]]], [[[0]], [[0]], [[0]], [[15]], [[15]]]]),
    layer("ROIPooling", "pooled_h: 3 pooled_w: 2 spatial_scale: 1", at="x y"),
)


def psroi(name: str, params: str, x: Given, boxes: Given) -> None:
    opencv(f"psroi_pool_{name}", x, boxes, layer("PSROIPooling", params, at="x y"))


psroi("3x3", "output_dim: 2 group_size: 3 spatial_scale: 1", f32(1, 18, 16, 16), BOXES)
psroi("7x7", "output_dim: 3 group_size: 7 spatial_scale: 0.5", f32(1, 147, 8, 8), BOXES)
psroi("1x1", "output_dim: 4 group_size: 1 spatial_scale: 1", f32(1, 4, 16, 16), BOXES)
psroi(
    "sixteenth",
    "output_dim: 2 group_size: 3 spatial_scale: 0.0625",
    f32(1, 18, 9, 11),
    value([[0, 10, 20, 100, 120], [0, 0, 0, 175, 143], [0, 33, 44, 60, 66]]),
)
psroi(
    "batch2",
    "output_dim: 2 group_size: 2 spatial_scale: 1",
    f32(2, 8, 7, 9),
    value([[0, 1, 2, 5, 6], [1, 1, 2, 5, 6], [1, 0, 0, 8, 6]]),
)
psroi(
    "outside",
    "output_dim: 2 group_size: 2 spatial_scale: 1",
    f32(1, 8, 7, 9),
    value([[0, -5, -4, 3, 3], [0, 8, 6, 20, 20], [0, 30, 30, 40, 40]]),
)


def smallest(x: Any, y: Any, z: Any) -> Any:
    """Proposals around one square anchor of 16, without those that have a side below 20 at the scale of the image."""
    grid = torch.stack(torch.meshgrid(torch.arange(7.0), torch.arange(6.0), indexing="xy"), -1).reshape(-1, 2) * 16
    d = y[0].permute(1, 2, 0).reshape(-1, 4)
    center, half = grid + 8 + 16 * d[:, :2], 8 * d[:, 2:].exp()
    end = z[0, [1, 0]] - 1
    low, high = (center - half).clamp(min=0).minimum(end), (center + half).clamp(min=0).minimum(end)
    large = ((high - low + 1) >= 10 * z[0, 2]).all(1)
    boxes, score = torch.cat([low, high], 1)[large], x[0, 1].flatten()[large]
    whole = torch.cat([boxes[:, :2], boxes[:, 2:] + 1], 1)
    limits = torch.tensor([9]), torch.tensor([0.7])
    kept = onnx_node("NonMaxSuppression", [whole[None], score[None, None], *limits])[:, 2]
    return torch.cat([torch.zeros(len(kept), 1), boxes[kept]], 1)


def image(height: float, width: float, scale: float = 1.0) -> Given:
    return value([[height, width, scale]])


def scored(anchors: int, h: int, w: int) -> Given:
    """Scores that all differ."""
    shape = (1, 2 * anchors, h, w)
    count = 2 * anchors * h * w
    return Given(lambda rng: ((rng.permutation(count) + 0.5) / count).reshape(shape).astype("float32"), shape)


def proposals(
    name: str, params: str, anchors: int, size: tuple[int, int] = (6, 7), low: float = 0.6, to: str = "out"
) -> None:
    h, w = size
    opencv(
        f"proposal_{name}",
        scored(anchors, h, w),
        f32(1, 4 * anchors, h, w, low=-low, high=low),
        image(16 * h, 16 * w),
        layer("Proposal", params, at="x y z", to=to),
    )


ANCHORS = "feat_stride: 16 base_size: 16 min_size: 1 ratio: 0.5 ratio: 1 ratio: 2 scale: 8 scale: 16 scale: 32"
FEW = "feat_stride: 16 base_size: 16 min_size: 1 ratio: 0.5 ratio: 1 ratio: 2 scale: 1 scale: 2"
proposals("few", f"{FEW} pre_nms_topn: 60 post_nms_topn: 10 nms_thresh: 0.7", 6)
proposals("all", f"{FEW} pre_nms_topn: 6000 post_nms_topn: 20 nms_thresh: 0.5", 6)
proposals("scores", f"{FEW} pre_nms_topn: 60 post_nms_topn: 10 nms_thresh: 0.7", 6, to="out score")
proposals(
    "one_ratio",
    "feat_stride: 16 base_size: 16 min_size: 1 ratio: 1 scale: 1 scale: 2 scale: 3"
    " pre_nms_topn: 40 post_nms_topn: 8 nms_thresh: 0.7",
    3,
)
proposals(
    "usual",
    f"{ANCHORS} pre_nms_topn: 200 post_nms_topn: 20 nms_thresh: 0.7",
    9,
    (14, 15),
)
case(
    "proposal_min_size",
    f32(1, 2, 6, 7, low=0, high=1),
    f32(1, 4, 6, 7, low=-0.6, high=0.6),
    image(96, 112, 2.0),
    layer("Proposal", "min_size: 10 ratio: 1 scale: 1 post_nms_topn: 9", at="x y z"),
)(smallest)
USUAL = f"{ANCHORS} pre_nms_topn: 6000 post_nms_topn: 300 nms_thresh: 0.7"
DEFAULT = [scored(9, 36, 40), f32(1, 36, 36, 40, low=-0.15, high=0.15), image(576, 640)]
opencv("proposal_default", *DEFAULT, layer("Proposal", at="x y z"), instead=(layer("Proposal", USUAL, at="x y z"),))
for module, text in (("rpn.proposal_layer", "'feat_stride': 16"), ("rpn.proposal_layer", "")):
    opencv(
        f"proposal_python_{len(text)}",
        *DEFAULT,
        layer("Python", f'module: "{module}" layer: "ProposalLayer" param_str: "{text}"', at="x y z"),
        instead=(layer("Proposal", USUAL, at="x y z"),),
    )


def aligned(name: str, height: int, width: int, scale: float, x: Given, boxes: Given, ratio: int) -> None:
    params = f"pooled_h: {height} pooled_w: {width} spatial_scale: {scale} sampling_ratio: {ratio}"

    def judge(x: Any, y: Any) -> Any:
        how = {"output_height": height, "output_width": width, "spatial_scale": scale, "sampling_ratio": ratio}
        return onnx_node(
            "RoiAlign",
            [x, y[:, 1:], y[:, 0].long()],
            mode="avg",
            coordinate_transformation_mode="output_half_pixel",
            **how,
        )

    case(f"roi_align_{name}", x, boxes, layer("ROIAlign", params, at="x y"))(judge)


aligned("2x2", 2, 2, 1.0, X, BOXES, 2)
aligned("7x7", 7, 7, 0.5, f32(1, 3, 8, 8), BOXES, 1)
aligned("3x5_own_samples", 3, 5, 1.0, f32(2, 3, 16, 16), value([[0, 1, 2, 9, 12], [1, 1.5, 2.5, 9, 12]]), 0)


RPN = [
    layer(
        "Convolution",
        "num_output: 8 kernel_size: 16 stride: 16",
        weight(8, 3, 16, 16, low=-0.1, high=0.1),
        weight(8),
        to="map",
    ),
    layer("ReLU", at="map", to="map"),
    layer("Convolution", "num_output: 12 kernel_size: 1", weight(12, 8, 1, 1), weight(12), at="map", to="score"),
    layer(
        "Convolution",
        "num_output: 24 kernel_size: 1",
        weight(24, 8, 1, 1, low=-0.1, high=0.1),
        weight(24, low=-0.1, high=0.1),
        at="map",
        to="delta",
    ),
    layer("Reshape", "reshape_param { shape { dim: 0 dim: 2 dim: -1 dim: 0 } }", at="score", to="two"),
    layer("Softmax", at="two", to="chance"),
    layer("Reshape", "reshape_param { shape { dim: 0 dim: 12 dim: -1 dim: 0 } }", at="chance", to="chances"),
    layer("Proposal", f"{FEW} pre_nms_topn: 200 post_nms_topn: 7 nms_thresh: 0.7", at="chances delta y", to="rois"),
]
opencv(
    "faster_rcnn", f32(1, 3, 112, 128), image(112, 128), *RPN,
    layer("ROIPooling", "pooled_h: 3 pooled_w: 3 spatial_scale: 0.0625", at="map rois", to="pooled"),
    layer("InnerProduct", "num_output: 10", weight(10, 72), weight(10), at="pooled", to="inner"),
    layer("ReLU", at="inner", to="inner"), layer("Dropout", at="inner", to="inner"),
    layer("InnerProduct", "num_output: 4", weight(4, 10), weight(4), at="inner", to="class"),
    layer("InnerProduct", "num_output: 16", weight(16, 10), weight(16), at="inner", to="box"),
    layer("Softmax", at="class", to="prob"),
)  # fmt: skip
opencv(
    "rfcn", f32(1, 3, 112, 128), image(112, 128), *RPN,
    layer("Convolution", "num_output: 36 kernel_size: 1", weight(36, 8, 1, 1), weight(36), at="map", to="sensitive"),
    layer("PSROIPooling", "output_dim: 4 group_size: 3 spatial_scale: 0.0625", at="sensitive rois", to="pooled"),
    layer("Pooling", "pool: AVE kernel_size: 3 stride: 3", at="pooled", to="mean"),
    layer("Softmax", at="mean", to="prob"), layer("Reshape", "reshape_param { shape { dim: -1 dim: 4 } }", at="prob"),
)  # fmt: skip
