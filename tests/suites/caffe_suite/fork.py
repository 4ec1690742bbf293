"""Layers of forks: resampling, YOLO's and C3D's."""

from __future__ import annotations

from typing import Any

from .case import F, Given, case, distinct, f32, layer, opencv, weight

X = f32(2, 3, 5, 7)


def interp(name: str, params: str, size: tuple[int, int], x: Given = X, crop: tuple[int, int] = (0, 0)) -> None:
    def judge(x: Any) -> Any:
        first, last = crop
        x = x[:, :, -first or None : last or None, -first or None : last or None]
        return F.interpolate(x, size, mode="bilinear", align_corners=True)

    case(f"interp_{name}", x, layer("Interp", params))(judge)


interp("size", "height: 9 width: 13", (9, 13))
interp("size_smaller", "height: 3 width: 4", (3, 4))
interp("size_same", "height: 5 width: 7", (5, 7))
interp("size_1", "height: 1 width: 1", (1, 1))
interp("of_one_pixel", "height: 6 width: 5", (6, 5), f32(1, 4, 1, 1))
interp("one_axis", "height: 5 width: 14", (5, 14))
interp("zoom2", "zoom_factor: 2", (9, 13))
interp("zoom3", "zoom_factor: 3", (13, 19))
interp("zoom8", "zoom_factor: 8", (33, 49))
interp("shrink2", "shrink_factor: 2", (3, 4))
interp("shrink3", "shrink_factor: 3", (2, 3))
interp("shrink_and_zoom", "shrink_factor: 2 zoom_factor: 4", (9, 13))
interp("size_before_both_factors", "height: 4 width: 6 shrink_factor: 2 zoom_factor: 4", (4, 6))
interp("factor_before_size", "height: 4 width: 6 zoom_factor: 2", (9, 13))
interp("crop", "height: 9 width: 13 pad_beg: -1 pad_end: -1", (9, 13), crop=(-1, -1))
interp("crop_begin", "zoom_factor: 2 pad_beg: -1", (7, 11), crop=(-1, 0))
interp("crop_end", "zoom_factor: 2 pad_end: -2", (5, 9), crop=(0, -2))
case("interp_like", X, f32(2, 1, 11, 9), layer("Interp", at="x y"))(
    lambda x, y: F.interpolate(x, (11, 9), mode="bilinear", align_corners=True)
)
opencv("interp_by_opencv", X, layer("Interp", "height: 9 width: 13"))

for factor in (2, 3):
    case(f"upsample_{factor}", X, layer("Upsample", f"scale: {factor}"))(
        lambda x, f=factor: F.interpolate(x, scale_factor=f)
    )
case("upsample_default", X, layer("Upsample"))(lambda x: F.interpolate(x, scale_factor=2))


def unpooled(x: Any, kernel: int = 2, **how: Any) -> Any:
    y, at = F.max_pool2d(x, kernel, return_indices=True, ceil_mode=True)
    return F.max_unpool2d(y, at, kernel, **how)


POOL = layer("Pooling", "pool: MAX kernel_size: 2 stride: 2", to="p mask")
case("upsample_mask", distinct(2, 3, 6, 8), POOL, layer("Upsample", "scale: 2", at="p mask"))(unpooled)
case("upsample_mask_sizes", distinct(2, 3, 6, 8), POOL, layer("Upsample", "upsample_h: 6 upsample_w: 8", at="p mask"))(
    unpooled
)
case("upsample_mask_odd", distinct(1, 3, 7, 5), POOL, layer("Upsample", "upsample_h: 7 upsample_w: 5", at="p mask"))(
    lambda x: unpooled(x, output_size=(7, 5))
)
case(
    "upsample_mask_odd_padding", distinct(1, 3, 7, 8), POOL, layer("Upsample", "scale: 2 pad_out_h: true", at="p mask")
)(lambda x: unpooled(x, output_size=(7, 8)))
case(
    "upsample_mask_conv",
    distinct(1, 3, 8, 8),
    POOL,
    layer("Convolution", "num_output: 3 kernel_size: 3 pad: 1", weight(3, 3, 3, 3), weight(3), at="p", to="c"),
    layer("Upsample", "scale_h: 2 scale_w: 2", at="c mask"),
)(
    lambda x, w, b: (lambda y, at: F.max_unpool2d(F.conv2d(y, w, b, padding=1), at, 2))(
        *F.max_pool2d(x, 2, return_indices=True)
    )
)

opencv("reorg_stated", f32(1, 4, 6, 8), layer("Reorg", "reorg_param { stride: 2 }"))
opencv("reorg_default", f32(1, 8, 4, 6), layer("Reorg"))
opencv("reorg_yolo", f32(1, 64, 26, 26), layer("Reorg", "reorg_param { stride: 2 }"))

case(
    "conv3d",
    f32(1, 2, 5, 7, 6),
    layer(
        "Convolution3D",
        "num_output: 4 kernel_size: 3 kernel_depth: 3 pad: 1 temporal_pad: 1",
        weight(4, 2, 3, 3, 3),
        weight(4),
    ),
)(lambda x, w, b: F.conv3d(x, w, b, padding=1))
case(
    "conv3d_stride",
    f32(1, 2, 5, 7, 6),
    layer(
        "Convolution3D",
        "num_output: 4 kernel_size: 2 kernel_depth: 3 stride: 2 temporal_stride: 1 bias_term: false",
        weight(4, 2, 3, 2, 2),
    ),
)(lambda x, w: F.conv3d(x, w, stride=(1, 2, 2)))
case(
    "pool3d_max",
    f32(1, 3, 4, 6, 8),
    layer("Pooling3D", "pool: MAX kernel_size: 2 kernel_depth: 2 stride: 2 temporal_stride: 2"),
)(lambda x: F.max_pool3d(x, 2))
case(
    "pool3d_max_odd",
    f32(1, 3, 5, 7, 9),
    layer("Pooling3D", "pool: MAX kernel_size: 2 kernel_depth: 1 stride: 2 temporal_stride: 1"),
)(lambda x: F.max_pool3d(x, (1, 2, 2), ceil_mode=True))
case(
    "pool3d_ave",
    f32(1, 3, 4, 6, 8),
    layer("Pooling3D", "pool: AVE kernel_size: 2 kernel_depth: 2 stride: 2 temporal_stride: 2"),
)(lambda x: F.avg_pool3d(x, 2))
