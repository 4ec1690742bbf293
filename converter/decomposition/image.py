"""Resampling of images [N, H, W, C]."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minnow.converter.decomposition.channel_last import channels_last, channels_second
from minnow.converter.operand import constant
from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder

_LONGEST = 1 << 20
Array = np.ndarray[tuple[int], np.dtype[np.int64]]


def _sizes(b: Builder, image: Value, size: Value | Sequence[int]) -> tuple[Value | Array, list[int] | None]:
    """All dimensions of the result for [N, C, H, W], and the last two where they are constant."""
    if isinstance(size, Value) and size.data is None:
        wide = b.Cast(size, to=DType.I64) if size.type.dtype is not DType.I64 else size
        return b.Concat(b.Shape(image, start=0, end=2), wide, axis=0), None
    numbers = constant(size).reshape(-1) if isinstance(size, Value) else size
    wanted = [int(v) for v in numbers]
    if len(wanted) != 2 or min(wanted) < 1:
        raise ModelError(f"the size {wanted} of the resized image is invalid")
    lead = (image.type.shape or ("?", "?"))[:2]
    if all(isinstance(d, int) for d in lead):
        return np.array([*lead, *wanted], np.int64), wanted
    return b.Concat(b.Shape(image, start=0, end=2), np.array(wanted), axis=0), wanted


def resize_bilinear(
    b: Builder, x: Value, size: Value | Sequence[int], *, align_corners: bool = False, half_pixel_centers: bool = False
) -> Value:
    """x[N, H, W, C] at the size (height, width), in f32 arithmetic; the type stays."""
    mode = "align_corners" if align_corners else "half_pixel" if half_pixel_centers else "asymmetric"
    image = channels_second(b, x, 2)
    sizes, _ = _sizes(b, image, size)
    return channels_last(b, b.Resize(image, None, None, sizes, mode="linear", coordinate_mode=mode), 2)


def resize_bicubic(
    b: Builder, x: Value, size: Value | Sequence[int], *, align_corners: bool = False, half_pixel_centers: bool = False
) -> Value:
    """x[N, H, W, C] at the size (height, width) by cubic interpolation, as TensorFlow has it."""
    mode = "align_corners" if align_corners else "half_pixel" if half_pixel_centers else "asymmetric"
    image = channels_second(b, x, 2)
    sizes, _ = _sizes(b, image, size)
    # With half pixels it is Keys' kernel without the elements outside; without, the older one.
    attrs = {"cubic_coeff": -0.5, "exclude_outside": True} if half_pixel_centers else {"cubic_coeff": -0.75}
    return channels_last(b, b.Resize(image, None, None, sizes, mode="cubic", coordinate_mode=mode, **attrs), 2)


def nearest_places(size: int, out: int, align_corners: bool, half_pixel_centers: bool) -> Array:
    """For each output index the nearest input index, in the f32 arithmetic of TensorFlow and TFLite."""
    f32 = np.float32
    aligned = align_corners and out > 1
    scale = f32(size - 1) / f32(out - 1) if aligned else f32(size) / f32(out)
    places = (np.arange(out, dtype=np.float32) + f32(0.5 if half_pixel_centers else 0)) * scale
    rounded = np.floor(places + f32(0.5)) if align_corners else np.floor(places)
    return np.asarray(np.clip(rounded, 0, size - 1).astype(np.int64))


def resize_nearest(
    b: Builder, x: Value, size: Value | Sequence[int], *, align_corners: bool = False, half_pixel_centers: bool = False
) -> Value:
    """x[N, H, W, C] at the size (height, width), every element a copy of the nearest one."""
    if x.type.rank is None:
        channels_second(b, x, 2)
    dims = x.type.shape or ()
    if len(dims) != 4:
        raise ModelError(f"the image is {x.type}, but must have rank 4")
    known = size if not isinstance(size, Value) else constant(size).reshape(-1).tolist() if size.is_const else None
    places = []
    for d, out in zip(dims[1:3], known or (), strict=False):
        if isinstance(d, int) and d and 0 < out <= _LONGEST:
            places.append(nearest_places(d, int(out), align_corners, half_pixel_centers))
    uneven = any(len(p) % d or not np.array_equal(p, np.arange(len(p)) // max(len(p) // d, 1))
                 for p, d in zip(places, dims[1:3], strict=False) if isinstance(d, int))  # fmt: skip
    if len(places) == 2 and uneven:
        # Which element is the nearest depends on the last bit of a quotient: the places are constants.
        for axis, index in enumerate(places, 1):
            if len(index) != dims[axis] or not np.array_equal(index, np.arange(len(index))):
                x = b.Gather(x, index, axis=axis)
        return x
    mode = "align_corners" if align_corners else "tf_half_pixel_for_nn" if half_pixel_centers else "asymmetric"
    if len(places) == 2:
        mode = "asymmetric"  # every element is repeated, whatever the centers
    image = channels_second(b, x, 2)
    sizes, _ = _sizes(b, image, size)
    nearest = "round_prefer_ceil" if mode == "align_corners" else "floor"
    y = b.Resize(image, None, None, sizes, mode="nearest", coordinate_mode=mode, nearest_mode=nearest)
    return channels_last(b, y, 2)
