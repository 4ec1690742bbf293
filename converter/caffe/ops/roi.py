"""Regions of feature maps, and Faster R-CNN's proposals of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from minnow.converter.caffe.frontend import Layer, frontend
from minnow.converter.caffe.ops.detection import columns
from minnow.converter.operand import bounded, static_dim
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import DType, Value
from minnow.schema.limit import add_bytes
from minnow.schema.ops import Builder


def _regions(b: Builder, rois: Value) -> Any:
    """Rows (image, x1, y1, x2, y2), which may have further axes of size 1."""
    return rois if rois.type.rank == 2 else b.Reshape(rois, np.array([-1, 5]))


@frontend.op("ROIPooling", param="roi_pooling_param")
def _(b, x, rois, *, pooled_h=0, pooled_w=0, spatial_scale=1.0):
    return b.MaxRoiPool(x, _regions(b, rois), height=pooled_h, width=pooled_w, scale=spatial_scale)


@frontend.op("ROIAlign", param="roi_align_param")
def _(b, x, rois, *, pooled_h=0, pooled_w=0, spatial_scale=1.0, sampling_ratio=None):
    if sampling_ratio is None:
        raise UnsupportedError(
            "ROIAlign without a sampling_ratio is not supported",
            why="forks of Caffe compute different things under this name",
            hint="set sampling_ratio: the rule is Detectron's then",
        )
    regions = _regions(b, rois)
    image = b.Cast(b.Squeeze(columns(b, regions, 0, 1), axes=(1,)), to=DType.I64)
    return b.RoiAlign(
        x, columns(b, regions, 1, 5), image, output_height=pooled_h, output_width=pooled_w,
        sampling_ratio=sampling_ratio, spatial_scale=spatial_scale, coordinate_mode="output_half_pixel",
    )  # fmt: skip


def _bins(b: Builder, first: Value, last: Value, n: int, size: int, scale: float) -> tuple[Value, Value]:
    """Which elements of an axis belong to each of n bins of the regions, 1 or 0 as [R, n, size]; and how many."""
    add_bytes(8 * (n + size), b.origin)
    half_up = {"halves": "away"}
    start = b.Mul(b.Round(first, **half_up), np.float32(scale))
    end = b.Mul(b.Add(b.Round(last, **half_up), np.float32(1)), np.float32(scale))
    step = b.Div(b.Max(b.Sub(end, start), np.float32(0.1)), np.float32(n))
    number = np.arange(n, dtype=np.float32)
    low, high = (b.Add(b.Mul(step, b.const(k)), start) for k in (number, number + 1))
    element = np.arange(size, dtype=np.float32)

    def bounds(v: Value) -> Any:
        return b.Unsqueeze(v, axes=(2,))

    inside = b.And(
        b.GreaterOrEqual(b.const(element), bounds(b.Floor(low))), b.Less(b.const(element), bounds(b.Ceil(high)))
    )
    mask = b.Cast(inside, to=DType.F32)
    return mask, b.ReduceSum(mask, axes=(2,))


@frontend.op("PSROIPooling", param="psroi_pooling_param")
def _(b, x, rois, *, spatial_scale, output_dim, group_size):
    """Means over bins of regions, each bin of an output from a channel of its own: sums by products with masks."""
    g = group_size
    images, channels, height, width = (static_dim(x.type, axis, "the input of PSROIPooling") for axis in range(4))
    if g < 1 or output_dim < 1 or channels != output_dim * g * g:
        raise ModelError(f"{channels} channels do not fit {output_dim} outputs in {g} x {g} bins")
    add_bytes(8 * images, b.origin)
    regions = _regions(b, rois)
    image, x1, y1, x2, y2 = (columns(b, regions, i, i + 1) for i in range(5))
    rows, high = _bins(b, y1, y2, g, height, spatial_scale)
    cells, wide = _bins(b, x1, x2, g, width, spatial_scale)
    # Elements of other images than the region's do not count: [R, g, images * height].
    own = b.Cast(b.Equal(image, b.const(np.arange(images, dtype=np.float32))), to=DType.F32)
    lines = b.Mul(b.Unsqueeze(own, axes=(1, 3)), b.Unsqueeze(rows, axes=(2,)))
    lines = b.Reshape(lines, np.array([-1, g, images * height]))
    # x as [row of bins, column of bins, output * image * height, width]
    parts = b.Transpose(b.Reshape(x, np.array([images, output_dim, g, g, height, width])), perm=(2, 3, 1, 0, 4, 5))
    parts = b.Reshape(parts, np.array([g, g, output_dim * images * height, width]))
    sums = b.MatMul(parts, b.Transpose(cells, perm=(1, 2, 0)))
    sums = b.Reshape(sums, np.array([g, g, output_dim, images * height, -1]))
    sums = b.Mul(sums, b.Unsqueeze(b.Transpose(lines, perm=(1, 2, 0)), axes=(1, 2)))
    total = b.Transpose(b.ReduceSum(sums, axes=(3,), keepdims=False), perm=(3, 2, 0, 1))
    area = b.Unsqueeze(b.Mul(high, b.Transpose(wide, perm=(0, 2, 1))), axes=(1,))
    return b.Div(total, b.Max(area, np.float32(1)))


def anchors(base: float, ratios: Sequence[float], scales: Sequence[float]) -> np.ndarray[Any, Any]:
    """Boxes (x1, y1, x2, y2) around the middle of a square, of each ratio at each scale: [ratios * scales, 4]."""
    if base <= 0 or min(*ratios, *scales, 1) <= 0:
        raise ModelError(f"the anchors are invalid: base size {base}, ratios {tuple(ratios)}, scales {tuple(scales)}")
    found = []
    middle = (base - 1) / 2
    for ratio in ratios:
        width = np.floor(np.sqrt(base * base / ratio) + 0.5)
        height = np.floor(width * ratio + 0.5)
        for scale in scales:
            w, h = (width * scale - 1) / 2, (height * scale - 1) / 2
            found.append((middle - w, middle - h, middle + w, middle + h))
    return np.array(found, np.float32)


def proposals(
    b: Builder, scores: Value, deltas: Value, info: Value, *, stride: int, boxes: np.ndarray[Any, Any], least: float,
    before: int, after: int, overlap: float,
) -> tuple[Any, Any]:  # fmt: skip
    """Regions [R, 5] of one image that may hold objects, the best ones first, and their scores [R, 1].

    Args:
        scores: [1, 2 * anchors, H, W], the second half for objects; deltas: [1, 4 * anchors, H, W].
        info: height, width and scale of the image.
        least: sides shorter than that, times the scale, are no objects.
        before, after: how many go into suppression, and how many come out of it.
    """
    images, _, height, width = (static_dim(scores.type, axis, "the scores of proposals") for axis in range(4))
    n = len(boxes)
    if images != 1:
        raise UnsupportedError("proposals for more than one image are not supported")
    if scores.type.shape is not None and scores.type.shape[1] != 2 * n:
        raise ModelError(f"the scores {scores.type} do not fit {n} anchors")
    total = bounded(height * width * n, "the anchors")
    y, x = np.meshgrid(np.arange(height) * stride, np.arange(width) * stride, indexing="ij")
    every = (np.stack([x, y, x, y], -1)[:, :, None, :] + boxes).reshape(total, 4).astype(np.float32)
    size = every[:, 2:] - every[:, :2] + 1
    middle = every[:, :2] + size / 2

    def listed(v: Value, parts: int) -> Any:
        turned = b.Transpose(b.Reshape(v, np.array([-1, parts, height, width])), perm=(2, 3, 0, 1))
        return b.Reshape(turned, np.array([-1, parts]))

    objects = b.Slice(scores, np.array([n]), np.array([2 * n]), np.array([1]))
    score = b.Squeeze(listed(objects, 1), axes=(1,))
    delta = listed(deltas, 4)
    center = b.Add(b.Mul(columns(b, delta, 0, 2), b.const(size)), b.const(middle))
    half = b.Mul(b.Mul(b.Exp(columns(b, delta, 2, 4)), b.const(size)), np.float32(0.5))
    numbers = b.Reshape(info, np.array([-1]))
    sizes = b.Gather(numbers, np.array([1, 0]))
    end = b.Sub(sizes, np.float32(1))
    low, high = (b.Max(b.Min(v, end), np.float32(0)) for v in (b.Sub(center, half), b.Add(center, half)))
    beyond = b.Add(high, np.float32(1))
    shortest = b.ReduceMin(b.Sub(beyond, low), axes=(1,), keepdims=False)
    large = b.GreaterOrEqual(shortest, b.Mul(b.Gather(numbers, np.array(2)), np.float32(least)))
    lowest = np.float32(np.finfo(np.float32).min)
    score = b.Where(large, score, b.const(lowest))
    k = total if before <= 0 else min(before, total)
    best, at = b.TopK(score, np.array([k]), axis=-1)
    # Both ends belong to a box: its sides are 1 longer.
    whole = b.Gather(b.Concat(low, beyond, axis=1), at)
    most = k if after <= 0 else min(after, k)
    rows = b.NonMaxSuppression(
        b.Unsqueeze(whole, axes=(0,)), b.Reshape(best, np.array([1, 1, k])), np.array(most), np.float32(overlap), lowest
    )
    kept = b.Gather(at, b.Gather(rows, np.array(2), axis=1))
    regions = b.Gather(b.Concat(low, high, axis=1), kept)
    image = b.Mul(columns(b, regions, 0, 1), np.float32(0))
    return b.Concat(image, regions, axis=1), b.Unsqueeze(b.Gather(score, kept), axes=(1,))


@frontend.op("Proposal", param="proposal_param")
def _(b, scores, deltas, info, *, node: Layer, feat_stride=16, base_size=16, min_size=16, ratio=(), scale=(),
      pre_nms_topn=6000, post_nms_topn=300, nms_thresh=0.7):  # fmt: skip
    boxes = anchors(base_size, ratio or (0.5, 1, 2), scale or (8, 16, 32))
    found = proposals(b, scores, deltas, info, stride=feat_stride, boxes=boxes, least=min_size, before=pre_nms_topn,
                      after=post_nms_topn, overlap=nms_thresh)  # fmt: skip
    return found[: node.n_outputs]


@frontend.op("Python", param="python_param")
def _(b, *xs, node: Layer, module="", layer="", param_str=""):
    """The one class that deployed nets are known to hold: py-faster-rcnn's proposals, with its settings for a test."""
    if (module, layer) != ("rpn.proposal_layer", "ProposalLayer") or len(xs) != 3:
        raise UnsupportedError(
            "Python",
            why=f"its code is the class {module}.{layer} outside of the file",
            hint="replace it by layers, or end the net before it: `--outputs`",
        )
    settings = dict(re.findall(r"['\"](\w+)['\"]\s*:\s*(\[[^\]]*\]|\([^)]*\)|[\d.]+)", param_str))
    if unknown := set(settings) - {"feat_stride", "scales", "ratios"}:
        raise UnsupportedError(f"the setting '{sorted(unknown)[0]}' of {layer} is not supported")
    chosen = {k: ast.literal_eval(v) for k, v in settings.items()}
    boxes = anchors(16, chosen.get("ratios", (0.5, 1, 2)), chosen.get("scales", (8, 16, 32)))
    found = proposals(b, *xs, stride=chosen.get("feat_stride", 16), boxes=boxes, least=16, before=6000, after=300,
                      overlap=0.7)  # fmt: skip
    return found[: node.n_outputs]
