"""Filters: each pixel from its neighbors."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.cv import argument
from minnow.cv.argument import Image
from minnow.cv.arithmetic import DEPTHS, saturated
from minnow.cv.boundary import Array, exported
from minnow.cv.constant import (
    BORDER_CONSTANT,
    BORDER_DEFAULT,
    BORDER_WRAP,
    CV_16S,
    CV_32F,
    CV_64F,
    FILTER_SCHARR,
)
from minnow.cv.geometry import border_of, like
from minnow.cv.kernel import LARGEST_KERNEL, anchor_of, derivative, derivative_pair, gaussian, window_size
from minnow.cv.thread import thread_count
from minnow.runtime._engine import vision
from minnow.schema.errors import UsageError


def _depth(ddepth: Any, src: Image) -> str:
    """The type of a result. Raises UsageError for one that holds less than that of the image."""
    depth = argument.integer(ddepth, "ddepth")
    if depth == -1:
        return argument.name_of(src.dtype)
    found = np.dtype(DEPTHS[depth]) if depth in DEPTHS else None
    if found is None or argument.name_of(found) not in argument.PIXEL_DTYPES:
        raise UsageError(f"ddepth is {depth}: it must be -1, CV_8U, CV_16U, CV_16S, CV_32F or CV_64F")
    if not np.can_cast(src.dtype, found):
        raise UsageError(f"an image of {src.dtype} gives no result of {found}", hint="ddepth=-1 keeps the type")
    return argument.name_of(found)


def _separable(
    src: Image,
    dtype: str,
    across: Any,
    down: Any,
    border: int,
    *,
    anchor: tuple[int, int] | None = None,
    delta: float = 0.0,
    bits: int = -1,
) -> Image:
    dst = like(src, dtype)
    x, y = anchor or (len(across) // 2, len(down) // 2)
    wx, wy = [float(w) for w in across], [float(w) for w in down]
    vision.separable(argument.rows(src), dst, wx, wy, x, y, delta, bits, border, thread_count())
    return dst


def _vector(kernel: Any, name: str) -> list[float]:
    weights = argument.matrix(kernel, name)
    if weights.size != max(weights.shape, default=0) or not 1 <= weights.size <= LARGEST_KERNEL:
        raise UsageError(f"{name} must be a vector of weights, not an array {list(weights.shape)}")
    return [float(w) for w in weights.ravel()]


def filter_border(borderType: Any) -> int:
    """A border that filters and morphology have."""
    border = border_of(borderType)
    if border == BORDER_WRAP:
        raise UsageError("filters have no BORDER_WRAP", hint="extend the image, or use another border")
    return border


def _fixed(weights: tuple[float, ...], bits: int) -> list[int]:
    """Whole numbers whose sum is 2^bits: what rounding leaves over goes to the next weight, and to the middle."""
    unit, half = 1 << bits, len(weights) // 2
    result, error = [0] * len(weights), 0.0
    for i in range(half):
        wanted = weights[i] * unit + error
        result[i] = result[-1 - i] = round(wanted)
        error = wanted - result[i]
    result[half] = unit - sum(result)
    return result


@exported
def GaussianBlur(src: Array, ksize: Any, sigmaX: float, sigmaY: float = 0, borderType: int = BORDER_DEFAULT) -> Array:
    """Blurs an image with a Gaussian.

    Args:
        src: the image.
        ksize: (width, height) of the window, odd; 0: from the standard deviation.
        sigmaX: standard deviation along x in pixels; 0: from `ksize`.
        sigmaY: the same along y; 0: that along x.
        borderType: what lies outside of the image.
    """
    image = argument.image(src)
    border = filter_border(borderType)
    sx, sy = argument.number(sigmaX, "sigmaX"), argument.number(sigmaY, "sigmaY")
    sy = sy if sy > 0 else sx
    width, height = argument.size(ksize, "ksize", least=0)
    reach = 3 if image.dtype == np.uint8 else 4
    sides = []
    for side, sigma, name in ((width, sx, "width"), (height, sy, "height")):
        if side == 0 and sigma > 0:
            side = round(min(sigma, 1e6) * reach * 2 + 1) | 1
        if side % 2 == 0 or side > LARGEST_KERNEL:
            raise UsageError(f"the {name} in ksize is {side}: it must be odd and at most {LARGEST_KERNEL}")
        sides.append(side)
    if border != BORDER_CONSTANT:  # beside a single row or column there is nothing else
        sides = [1 if n == 1 else side for n, side in zip((image.shape[1], image.shape[0]), sides, strict=True)]
    across, down = gaussian(sides[0], max(sx, 0)), gaussian(sides[1], max(sy, 0))
    if image.dtype == np.uint8:
        fixed = _fixed(across, 8), _fixed(down, 8)
        return _separable(image, "uint8", *fixed, border, bits=16)
    return _separable(image, argument.name_of(image.dtype), across, down, border)


def _derivative(
    src: Array, ddepth: Any, dx: Any, dy: Any, ksize: int, scale: Any, delta: Any, borderType: Any
) -> Image:
    image = argument.image(src)
    dtype = _depth(ddepth, image)
    orders = argument.integer(dx, "dx", most=30), argument.integer(dy, "dy", most=30)
    across, down = derivative_pair(*orders, ksize)
    factor, offset = argument.number(scale, "scale"), argument.number(delta, "delta")
    wx: list[float] = [float(w) for w in across]
    wy: list[float] = [float(w) for w in down]
    if factor != 1:
        if orders[0] == 0:
            wx = [w * factor for w in wx]
        else:
            wy = [w * factor for w in wy]
    return _separable(image, dtype, wx, wy, filter_border(borderType), delta=offset)


@exported
def Sobel(
    src: Array,
    ddepth: int,
    dx: int,
    dy: int,
    ksize: int = 3,
    scale: float = 1,
    delta: float = 0,
    borderType: int = BORDER_DEFAULT,
) -> Array:
    """Derivatives of an image by Sobel's filter.

    Args:
        src: the image.
        ddepth: the type of the result, such as CV_16S; -1: that of the image.
        dx: order of the derivative along x.
        dy: the same along y.
        ksize: size of the window, odd, up to 31; FILTER_SCHARR for Scharr's filter.
        scale: factor of the result.
        delta: what is added to it.
        borderType: what lies outside of the image.
    """
    return _derivative(src, ddepth, dx, dy, argument.integer(ksize, "ksize"), scale, delta, borderType)


@exported
def Scharr(
    src: Array,
    ddepth: int,
    dx: int,
    dy: int,
    scale: float = 1,
    delta: float = 0,
    borderType: int = BORDER_DEFAULT,
) -> Array:
    """A first derivative of an image by Scharr's filter of 3 x 3 pixels.

    Args:
        src: the image.
        ddepth: the type of the result, such as CV_16S; -1: that of the image.
        dx: 1 for the derivative along x, else 0.
        dy: 1 for the derivative along y, else 0.
        scale: factor of the result.
        delta: what is added to it.
        borderType: what lies outside of the image.
    """
    return _derivative(src, ddepth, dx, dy, FILTER_SCHARR, scale, delta, borderType)


@exported
def Laplacian(
    src: Array,
    ddepth: int,
    ksize: int = 1,
    scale: float = 1,
    delta: float = 0,
    borderType: int = BORDER_DEFAULT,
) -> Array:
    """The sum of the second derivatives of an image along x and y.

    Args:
        src: the image.
        ddepth: the type of the result, such as CV_16S; -1: that of the image.
        ksize: size of the window, odd, up to 31; 1 is a window of 3 x 3 with the four neighbors.
        scale: factor of the result.
        delta: what is added to it.
        borderType: what lies outside of the image.
    """
    image = argument.image(src)
    dtype = _depth(ddepth, image)
    size = argument.integer(ksize, "ksize", 1, 31)
    if size % 2 == 0:
        raise UsageError(f"ksize is {size}: it must be odd")
    factor, offset, border = argument.number(scale, "scale"), argument.number(delta, "delta"), filter_border(borderType)
    if size <= 3:
        inner = ([0, 1, 0], [1, -4, 1], [0, 1, 0]) if size == 1 else ([2, 0, 2], [0, -8, 0], [2, 0, 2])
        return _windowed(image, dtype, np.array(inner, np.float64) * factor, (1, 1), offset, border)
    second, smooth = derivative(2, size), derivative(0, size)
    wide = "float64" if image.dtype == np.float64 or size > 11 else "float32"
    total = _separable(image, wide, second, smooth, border) + _separable(image, wide, smooth, second, border)
    return saturated(total * total.dtype.type(factor) + total.dtype.type(offset), dtype)


def _windowed(src: Image, dtype: str, weights: Image, anchor: tuple[int, int], delta: float, border: int) -> Image:
    dst = like(src, dtype)
    height, width = weights.shape
    window = [width, height, *anchor]
    flat = [float(w) for w in weights.ravel()]
    vision.windowed(argument.rows(src), dst, flat, window, delta, border, thread_count())
    return dst


@exported
def filter2D(
    src: Array,
    ddepth: int,
    kernel: Array,
    delta: float = 0,
    borderType: int = BORDER_DEFAULT,
    anchor: Any = (-1, -1),
) -> Array:
    """The sum of the neighbors of each pixel with the weights of a matrix.

    Args:
        src: the image.
        ddepth: the type of the result, such as CV_16S; -1: that of the image.
        kernel: the weights, [height, width].
        delta: what is added to the sum.
        borderType: what lies outside of the image.
        anchor: (x, y) of the pixel in the matrix; -1: the middle.
    """
    image = argument.image(src)
    weights = argument.matrix(kernel, "kernel")
    if weights.ndim == 1:
        weights = weights.reshape(-1, 1)
    if weights.ndim != 2 or weights.size == 0 or max(weights.shape) > LARGEST_KERNEL:
        raise UsageError(f"kernel must be a matrix of weights, not an array {list(weights.shape)}")
    place = anchor_of(anchor, weights.shape[1], weights.shape[0])
    offset = argument.number(delta, "delta")
    if not weights.any():
        return np.full_like(like(image, _depth(ddepth, image)), saturated(np.array(offset), _depth(ddepth, image)))
    return _windowed(image, _depth(ddepth, image), weights, place, offset, filter_border(borderType))


@exported
def sepFilter2D(
    src: Array,
    ddepth: int,
    kernelX: Array,
    kernelY: Array,
    delta: float = 0,
    borderType: int = BORDER_DEFAULT,
    anchor: Any = (-1, -1),
) -> Array:
    """The same as `filter2D` with a matrix that is the product of a row and a column of weights.

    Args:
        src: the image.
        ddepth: the type of the result, such as CV_16S; -1: that of the image.
        kernelX: the weights of rows.
        kernelY: the weights of columns.
        delta: what is added to the sum.
        borderType: what lies outside of the image.
        anchor: (x, y) of the pixel in the window; -1: the middle.
    """
    image = argument.image(src)
    across, down = _vector(kernelX, "kernelX"), _vector(kernelY, "kernelY")
    place = anchor_of(anchor, len(across), len(down))
    offset, border, dtype = argument.number(delta, "delta"), filter_border(borderType), _depth(ddepth, image)
    return _separable(image, dtype, across, down, border, anchor=place, delta=offset)


def _box(src: Array, ddepth: Any, ksize: Any, normalize: bool, borderType: Any, anchor: Any, squares: bool) -> Image:
    normalize = argument.flag(normalize, "normalize")
    image = argument.image(src)
    width, height = window_size(ksize)
    x, y = anchor_of(anchor, width, height)
    border = filter_border(borderType)
    if squares and argument.integer(ddepth, "ddepth") == -1:
        ddepth = CV_64F if image.dtype.kind == "f" else CV_32F
    dtype = _depth(ddepth, image)
    if normalize and border != BORDER_CONSTANT:  # beside a single row or column there is nothing else
        width, x = (1, 0) if image.shape[1] == 1 else (width, x)
        height, y = (1, 0) if image.shape[0] == 1 else (height, y)
    dst = like(image, dtype)
    factor = 1 / (width * height) if normalize else 1.0
    vision.box(argument.rows(image), dst, [width, height, x, y], squares, factor, border, thread_count())
    return dst


@exported
def boxFilter(
    src: Array,
    ddepth: int,
    ksize: Any,
    normalize: bool = True,
    borderType: int = BORDER_DEFAULT,
    anchor: Any = (-1, -1),
) -> Array:
    """The sum or the mean of the pixels of a window.

    Args:
        src: the image.
        ddepth: the type of the result, such as CV_32F; -1: that of the image.
        ksize: (width, height) of the window.
        normalize: the mean, not the sum.
        borderType: what lies outside of the image.
        anchor: (x, y) of the pixel in the window; -1: the middle.
    """
    return _box(src, ddepth, ksize, normalize, borderType, anchor, squares=False)


@exported
def sqrBoxFilter(
    src: Array,
    ddepth: int,
    ksize: Any,
    normalize: bool = True,
    borderType: int = BORDER_DEFAULT,
    anchor: Any = (-1, -1),
) -> Array:
    """The sum or the mean of the squares of the pixels of a window.

    Args:
        src: the image.
        ddepth: the type of the result; -1: CV_32F, or CV_64F for an image of floats.
        ksize: (width, height) of the window.
        normalize: the mean, not the sum.
        borderType: what lies outside of the image.
        anchor: (x, y) of the pixel in the window; -1: the middle.
    """
    return _box(src, ddepth, ksize, normalize, borderType, anchor, squares=True)


@exported
def blur(src: Array, ksize: Any, borderType: int = BORDER_DEFAULT, anchor: Any = (-1, -1)) -> Array:
    """The mean of the pixels of a window of (width, height)."""
    return _box(src, -1, ksize, True, borderType, anchor, squares=False)


@exported
def bilateralFilter(
    src: Array, d: int, sigmaColor: float, sigmaSpace: float, borderType: int = BORDER_DEFAULT
) -> Array:
    """Blurs an image, but not across edges: neighbors of other colors count less.

    Args:
        src: uint8 or float32, 1 or 3 channels.
        d: diameter of the window in pixels; 0 or below: from `sigmaSpace`.
        sigmaColor: standard deviation of colors that count.
        sigmaSpace: the same of distances in pixels.
        borderType: what lies outside of the image.
    """
    image = argument.image(src, dtypes=("uint8", "float32"), channels=(1, 3))
    color, space = argument.number(sigmaColor, "sigmaColor"), argument.number(sigmaSpace, "sigmaSpace")
    color, space = color if color > 0 else 1.0, space if space > 0 else 1.0
    diameter = argument.integer(d, "d")
    radius = max(round(min(space, 1e6) * 1.5) if diameter <= 0 else diameter // 2, 1)
    if radius > LARGEST_KERNEL // 2:
        raise UsageError(f"a window of {2 * radius + 1} pixels is too large")
    dst = like(image, argument.name_of(image.dtype))
    vision.bilateral(argument.rows(image), dst, radius, color, space, filter_border(borderType), thread_count())
    return dst


@exported
def spatialGradient(src: Array, ksize: int = 3, borderType: int = BORDER_DEFAULT) -> tuple[Array, Array]:
    """The derivatives of a gray image along x and along y by Sobel's filter, int16.

    Args:
        src: uint8, 1 channel.
        ksize: 3, the size of the window.
        borderType: BORDER_DEFAULT or BORDER_REPLICATE.
    """
    image = argument.image(src, dtypes=("uint8",), channels=(1,))
    argument.integer(ksize, "ksize", 3, 3)
    border = filter_border(borderType)
    return (
        _derivative(image, CV_16S, 1, 0, 3, 1, 0, border),
        _derivative(image, CV_16S, 0, 1, 3, 1, 0, border),
    )
