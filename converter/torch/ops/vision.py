"""Operators of torchvision."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.converter.operand import regroup, static_dim
from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.program.script import Unusable
from minnow.converter.torch.symbolic.dimension import dimensions, known, size_of
from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder


@torch.op("torchvision::nms")
def _(b, dets, scores, iou_threshold):
    limit = np.float32(known(iou_threshold, "the threshold"))
    # PyTorch compares with the threshold in f64: the next f32 below is what no overlap lies between.
    limit = np.nextafter(limit, np.float32(-1)) if float(limit) > iou_threshold else limit
    rows = b.NonMaxSuppression(b.Unsqueeze(dets, axes=(0,)), b.Unsqueeze(scores, axes=(0, 1)), b.Size(scores), limit)
    return b.Gather(rows, np.array(2), axis=1)


def _aligned(
    b: Builder, x: Value, rois: Value, scale: float, height: int, width: int, ratio: int, aligned: bool
) -> Any:
    """rois[R, 5] hold the number of the image in front of the corners."""
    image, corners = b.Split(rois, axis=1, sizes=(1, 4), n_outputs=2)
    return b.RoiAlign(
        x, corners, b.Cast(b.Squeeze(image, axes=(1,)), to=DType.I64), spatial_scale=float(scale),
        output_height=height, output_width=width, sampling_ratio=max(ratio, 0),
        coordinate_mode="half_pixel" if aligned else "output_half_pixel",
    )  # fmt: skip


@torch.op("torchvision::roi_align")
def _(b, input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned):
    return _aligned(b, input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned)


@torch.op("torchvision::ps_roi_align")
def _(b, input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio):
    # Each bin has channels of its own: of every group of them, one is taken.
    bins = pooled_height * pooled_width
    y = _aligned(b, input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, True)
    channels = static_dim(input.type, 1, "the channels") // bins
    regions = size_of(b, rois, 0)
    own = b.Gather(regroup(b, y, dimensions(b, [regions, channels, bins * bins])), np.arange(bins) * (bins + 1), axis=2)
    return regroup(b, own, dimensions(b, [regions, channels, pooled_height, pooled_width])), Unusable(
        "the result 'channel_mapping' is not supported"
    )


@torch.op("torchvision::roi_pool")
def _(b, input, rois, spatial_scale, pooled_height, pooled_width):
    y = b.MaxRoiPool(input, rois, height=pooled_height, width=pooled_width, scale=float(spatial_scale))
    return y, Unusable("the second result of roi_pool (the indices of the largest elements) is not supported")


@torch.op("torchvision::ps_roi_pool")
def _(b, input, rois, spatial_scale, pooled_height, pooled_width):
    raise UnsupportedError("ps_roi_pool is not supported", hint="use ps_roi_align")


@torch.op("torchvision::deform_conv2d")
def _(b, input, weight, offset, mask, bias, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups,
      offset_groups, use_mask):  # fmt: skip
    return b.DeformConv(
        input, weight, offset, bias, mask if use_mask else None, strides=(stride_h, stride_w),
        pads=(pad_h, pad_w, pad_h, pad_w), dilations=(dilation_h, dilation_w), group=groups,
        offset_group=offset_groups,
    )  # fmt: skip
