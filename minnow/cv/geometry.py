"""Images of other sizes, and pixels at other places."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from minnow.cv import argument
from minnow.cv.argument import Image, channels_of
from minnow.cv.arithmetic import DTYPES, as_picture
from minnow.cv.boundary import Array, exported
from minnow.cv.constant import (
    BORDER_CONSTANT,
    BORDER_ISOLATED,
    BORDER_REFLECT_101,
    BORDER_TRANSPARENT,
    CV_8U,
    CV_16SC2,
    CV_32F,
    CV_32FC1,
    CV_32FC2,
    INTER_AREA,
    INTER_CUBIC,
    INTER_LANCZOS4,
    INTER_LINEAR,
    INTER_NEAREST,
    INTER_NEAREST_EXACT,
    ROTATE_90_CLOCKWISE,
    ROTATE_90_COUNTERCLOCKWISE,
    ROTATE_180,
    WARP_FILL_OUTLIERS,
    WARP_INVERSE_MAP,
)
from minnow.cv.finish import Finishing
from minnow.cv.thread import thread_count
from minnow.cv.transform import inverse_affine
from minnow.runtime._engine import vision
from minnow.schema.errors import UsageError


def shape_of(height: int, width: int, channels: int) -> tuple[int, ...]:
    """As OpenCV gives images: without the last dimension where that is 1."""
    return (height, width) if channels == 1 else (height, width, channels)


def like(image: Image, dtype: npt.DTypeLike) -> Image:
    """A new image of the same size and the same number of channels."""
    return argument.result(shape_of(image.shape[0], image.shape[1], channels_of(image)), dtype)


def without_one(image: Image) -> Image:
    """The image as OpenCV gives it: one channel is no dimension."""
    return image.reshape(shape_of(image.shape[0], image.shape[1], channels_of(image)))


def border_of(borderType: Any, name: str = "borderType") -> int:
    """A border that all functions have. Whether it is isolated makes no difference: arrays have nothing around them."""
    border = argument.integer(borderType, name) & ~BORDER_ISOLATED
    if border == BORDER_TRANSPARENT:
        raise UsageError("BORDER_TRANSPARENT leaves pixels as they were, but the results are new images")
    if not BORDER_CONSTANT <= border <= BORDER_REFLECT_101:
        raise UsageError(f"{name} is {border}: it must be one of the constants BORDER_...")
    return border


@exported
def resize(
    src: Array,
    dsize: Any = None,
    fx: float | None = None,
    fy: float | None = None,
    interpolation: int = INTER_LINEAR,
    code: int | None = None,
    mean: Any = (),
    norm: Any = (),
) -> Array:
    """Resizes an image; on request it also converts its colors and normalizes it, in the same pass.

    Args:
        src: the image.
        dsize: (width, height) of the result; None or (0, 0): from `fx` and `fy`.
        fx: width of the result per width of the image, used without `dsize`.
        fy: the same of the heights.
        interpolation: one of the constants INTER_.... INTER_LINEAR_EXACT is INTER_LINEAR without its rounding.
        code: a conversion of colors, as for `cvtColor`; None: none.
        mean: subtracted from each channel after that.
        norm: what the rest is multiplied by. With `mean` or `norm` the result is float32.

    Returns:
        An image of the same type, or float32.

    Raises:
        UsageError: no size, a size of 0, or something else that is wrong.
    """
    image = argument.image(src)
    how = argument.integer(interpolation, "interpolation")
    if not INTER_NEAREST <= how <= INTER_NEAREST_EXACT:
        raise UsageError(f"interpolation is {how}: it must be one of the constants INTER_...")
    height, width = image.shape[:2]
    given = (0, 0) if dsize is None else argument.size(dsize, "dsize", least=0)
    if given == (0, 0):
        scales = [0.0 if f is None else argument.number(f, name, 0) for f, name in ((fx, "fx"), (fy, "fy"))]
        if not all(scales):
            raise UsageError("resize needs dsize, or fx and fy")
        scale_x, scale_y = scales
        given = argument.size((round(width * scale_x), round(height * scale_y)), "the result's size")
    else:
        if 0 in given:
            argument.size(given, "dsize")  # an error that says which
        scale_x, scale_y = given[0] / width, given[1] / height
    finishing = Finishing(image, code, mean, norm)
    channels = channels_of(image)
    if given == (width, height):
        resized = image.reshape(shape_of(height, width, channels))
        return finishing.apply(resized.copy()) if finishing.fused is None else _fused_copy(resized, finishing)
    return _resized(argument.rows(image), given, (1 / scale_x, 1 / scale_y), how, finishing)


def _fused_copy(image: Image, finishing: Finishing) -> Image:
    height, width = image.shape[:2]
    return _resized(argument.rows(image), (width, height), (1.0, 1.0), INTER_NEAREST, finishing)


def _resized(image: Image, size: tuple[int, int], scales: tuple[float, float], how: int, finishing: Finishing) -> Image:
    fused = finishing.fused
    channels = channels_of(image) if fused is None else finishing.channels
    dtype = np.dtype(np.float32) if fused is not None and finishing.is_normalizing else image.dtype
    result = argument.result(shape_of(size[1], size[0], channels), dtype)
    vision.resize(image, result, how, *scales, fused, thread_count())
    return finishing.apply(result) if fused is None and finishing.is_wanted else result


@exported
def rotate(src: Array, rotateCode: int) -> Array:
    """Rotates an image by 90, 180 or 270 degrees.

    Args:
        src: the image.
        rotateCode: ROTATE_90_CLOCKWISE, ROTATE_180 or ROTATE_90_COUNTERCLOCKWISE.
    """
    image = argument.image(src, dtypes=DTYPES)
    code = argument.integer(rotateCode, "rotateCode")
    if code not in (ROTATE_90_CLOCKWISE, ROTATE_180, ROTATE_90_COUNTERCLOCKWISE):
        raise UsageError(f"rotateCode is {code}: it must be one of the constants ROTATE_...")
    height, width, channels = image.shape[0], image.shape[1], channels_of(image)
    height, width = (height, width) if code == ROTATE_180 else (width, height)
    result = argument.result(shape_of(height, width, channels), image.dtype)
    source, target = (as_picture(argument.rows(v)) for v in (image, result))
    if code == ROTATE_180:
        vision.mirror(source, target, True, True, thread_count())
    else:
        vision.turn(source, target, code == ROTATE_90_CLOCKWISE, thread_count())
    return result


def _interpolation(flags: Any, name: str) -> tuple[int, int]:
    """Interpolation of a warp, and the other bits of its flags."""
    given = argument.integer(flags, name)
    how, others = given & 7, given & ~7
    if how == INTER_AREA:
        how = INTER_LINEAR  # as OpenCV
    is_known = how in (INTER_NEAREST, INTER_LINEAR, INTER_CUBIC, INTER_LANCZOS4)
    if not is_known or others & ~(WARP_FILL_OUTLIERS | WARP_INVERSE_MAP):
        raise UsageError(f"{name} is {given}: it must be an INTER_... of warps, and may have WARP_INVERSE_MAP")
    return how, others


def _matrix(M: Any, rows: int) -> Image:
    """An affine or perspective transform, also from an object of MNN's kind, `CVMatrix`."""
    if not isinstance(M, np.ndarray) and hasattr(M, "read"):
        M = np.reshape(M.read(), (3, 3))
    given = argument.array(M, "M")
    if rows == 2 and given.shape == (3, 3):
        return argument.matrix(given, "M")[:2]
    if given.ndim == 1 and given.size == 3 * rows:
        given = given.reshape(rows, 3)
    return argument.matrix(given, "M", (rows, 3))


@exported
def warpAffine(
    src: Array,
    M: Array,
    dsize: Any,
    flags: int = INTER_LINEAR,
    borderMode: int = BORDER_CONSTANT,
    borderValue: Any = 0,
    code: int | None = None,
    mean: Any = (),
    norm: Any = (),
) -> Array:
    """Applies an affine transform to an image; on request it also converts colors and normalizes, as `resize`.

    Args:
        src: the image.
        M: the transform from the image to the result, [2, 3]; with WARP_INVERSE_MAP the other way.
        dsize: (width, height) of the result.
        flags: an interpolation, and WARP_INVERSE_MAP.
        borderMode: what lies outside of the image.
        borderValue: that value, with BORDER_CONSTANT.
        code: a conversion of colors, as for `cvtColor`; None: none.
        mean: subtracted from each channel after that.
        norm: what the rest is multiplied by. With `mean` or `norm` the result is float32.
    """
    image = argument.image(src)
    how, others = _interpolation(flags, "flags")
    matrix = _matrix(M, 2)
    inverse = matrix if others & WARP_INVERSE_MAP else inverse_affine(matrix)
    width, height = argument.size(dsize, "dsize")
    border, value = border_of(borderMode, "borderMode"), argument.scalar(borderValue, "borderValue")
    finishing = Finishing(image, code, mean, norm)
    fused = finishing.fused
    channels = channels_of(image) if fused is None else finishing.channels
    dtype = np.dtype(np.float32) if fused is not None and finishing.is_normalizing else image.dtype
    result = argument.result(shape_of(height, width, channels), dtype)
    vision.warp(argument.rows(image), result, list(inverse.ravel()), how, border, list(value), fused, thread_count())
    return finishing.apply(result) if fused is None and finishing.is_wanted else result


@exported
def warpPerspective(
    src: Array,
    M: Array,
    dsize: Any,
    flags: int = INTER_LINEAR,
    borderMode: int = BORDER_CONSTANT,
    borderValue: Any = 0,
) -> Array:
    """Applies a perspective transform to an image.

    Args:
        src: the image.
        M: the transform from the image to the result, [3, 3]; with WARP_INVERSE_MAP the other way.
        dsize: (width, height) of the result.
        flags: an interpolation, and WARP_INVERSE_MAP.
        borderMode: what lies outside of the image.
        borderValue: that value, with BORDER_CONSTANT.
    """
    image = argument.image(src)
    how, others = _interpolation(flags, "flags")
    inverse = _matrix(M, 3)
    if not others & WARP_INVERSE_MAP:
        inverse = np.linalg.inv(inverse) if np.linalg.det(inverse) != 0 else np.zeros((3, 3))
    width, height = argument.size(dsize, "dsize")
    border, value = border_of(borderMode, "borderMode"), argument.scalar(borderValue, "borderValue")
    result = argument.result(shape_of(height, width, channels_of(image)), image.dtype)
    vision.warp(argument.rows(image), result, list(inverse.ravel()), how, border, list(value), None, thread_count())
    return result


@exported
def remap(
    src: Array,
    map1: Array,
    map2: Array | None = None,
    interpolation: int = INTER_LINEAR,
    borderMode: int = BORDER_CONSTANT,
    borderValue: Any = 0,
) -> Array:
    """Takes each pixel of the result from a given place of the image.

    Args:
        src: the image.
        map1: the places: x as float32 [height, width]; x and y as float32 [height, width, 2]; or whole pixels as int16
            [height, width, 2].
        map2: y as float32 [height, width] with the first kind of `map1`; fractions as uint16 [height, width] with the
            last, as `convertMaps` gives them; else None.
        interpolation: one of the constants INTER_....
        borderMode: what lies outside of the image.
        borderValue: that value, with BORDER_CONSTANT.
    """
    image = argument.image(src)
    how, others = _interpolation(interpolation, "interpolation")
    if others:
        raise UsageError("remap has no flags beside the interpolation")
    first, second = _maps(map1, map2)
    border, value = border_of(borderMode, "borderMode"), argument.scalar(borderValue, "borderValue")
    result = argument.result(shape_of(first.shape[0], first.shape[1], channels_of(image)), image.dtype)
    vision.remap(argument.rows(image), result, first, second, how, border, list(value), thread_count())
    return result


def _maps(map1: Any, map2: Any) -> tuple[Image, Image | None]:
    first = argument.image(map1, "map1", dtypes=("float32", "int16"), channels=(1, 2))
    second = None
    if map2 is not None and argument.array(map2, "map2").size:
        second = argument.image(map2, "map2", dtypes=("float32", "uint16", "int16"), channels=(1,))
        if second.shape[:2] != first.shape[:2]:
            raise UsageError(f"map1 has the shape {list(first.shape)}, but map2 {list(second.shape)}")
    if first.dtype == np.float32:
        if (channels_of(first) == 1) != (second is not None):
            raise UsageError("float maps are x in map1 and y in map2, or both in map1 as [height, width, 2]")
        if second is not None and second.dtype != np.float32:
            raise UsageError(f"map2 must be of type float32, as map1, not {second.dtype}")
    else:
        if channels_of(first) != 2:
            raise UsageError(f"map1 of int16 must have 2 channels, not the shape {list(first.shape)}")
        if second is not None and second.dtype == np.float32:
            raise UsageError("map2 must be of type uint16 where map1 is of int16")
        if second is not None:
            second = argument.rows(second).view(np.uint16)
    return argument.rows(first), None if second is None else argument.rows(second)


@exported
def convertMaps(
    map1: Array, map2: Array | None, dstmap1type: int = CV_16SC2, nninterpolation: bool = False
) -> tuple[Array, Array | None]:
    """Converts maps for `remap` from one kind to another.

    Args:
        map1: as `remap` takes it.
        map2: as `remap` takes it.
        dstmap1type: CV_16SC2: whole pixels and fractions; CV_32FC1: x and y apart; CV_32FC2: together.
        nninterpolation: the maps are for INTER_NEAREST: without fractions.

    Returns:
        `map1` and `map2` of that kind; None for a second map that there is not.
    """
    first, second = _maps(map1, map2)
    kind = argument.integer(dstmap1type, "dstmap1type")
    if kind not in (CV_16SC2, CV_32FC1, CV_32FC2):
        raise UsageError(f"dstmap1type is {kind}: it must be CV_16SC2, CV_32FC1 or CV_32FC2")
    if first.dtype == np.float32:
        x, y = (first[..., 0], first[..., 1]) if second is None else (first.squeeze(), second.squeeze())
        x, y = x.reshape(first.shape[:2]), y.reshape(first.shape[:2])
    else:
        whole = first.astype(np.float32)
        fraction = np.zeros(first.shape[:2], np.uint16) if second is None else second.reshape(first.shape[:2])
        x = whole[..., 0] + (fraction & 31).astype(np.float32) / 32
        y = whole[..., 1] + (fraction >> 5 & 31).astype(np.float32) / 32
    if kind == CV_32FC1:
        return np.ascontiguousarray(x), np.ascontiguousarray(y)
    if kind == CV_32FC2:
        return np.stack([x, y], -1), None
    limits = np.iinfo(np.int16)
    if nninterpolation:
        near = [np.clip(np.rint(np.nan_to_num(v)), limits.min, limits.max) for v in (x, y)]
        return np.stack(near, -1).astype(np.int16), None
    fixed = [np.clip(np.rint(np.nan_to_num(v) * np.float32(32)), -(2**30), 2**30).astype(np.int32) for v in (x, y)]
    pixels = np.stack([np.clip(v >> 5, limits.min, limits.max) for v in fixed], -1).astype(np.int16)
    return pixels, ((fixed[1] & 31) * 32 + (fixed[0] & 31)).astype(np.uint16)


@exported
def getRectSubPix(image: Array, patchSize: Any, center: Any, patchType: int = -1) -> Array:
    """A rectangle of an image around a point between pixels; outside of the image, the nearest pixel.

    Args:
        image: uint8 or float32, 1 or 3 channels.
        patchSize: (width, height) of the result.
        center: (x, y) of its center.
        patchType: CV_32F for a result of float32; -1 for that of the image.
    """
    src = argument.image(image, "image", dtypes=("uint8", "float32"), channels=(1, 3))
    width, height = argument.size(patchSize, "patchSize")
    x, y = argument.point(center, "center")
    kind = argument.integer(patchType, "patchType")
    if kind not in (-1, CV_8U, CV_32F) or (kind == CV_8U and src.dtype == np.float32):
        raise UsageError(f"patchType is {kind}: it must be -1 or CV_32F")
    dtype = np.dtype(np.float32) if kind == CV_32F else src.dtype
    result = argument.result(shape_of(height, width, channels_of(src)), dtype)
    vision.rect_sub_pixel(argument.rows(src), result, x, y)
    return result
