"""Weights of filters, and shapes for morphology."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from minnow.cv import argument
from minnow.cv.boundary import Array, exported
from minnow.cv.constant import CV_32F, CV_64F, FILTER_SCHARR, MORPH_CROSS, MORPH_ELLIPSE, MORPH_RECT
from minnow.schema.errors import UsageError

LARGEST_KERNEL = 4096
"""Of one side, in pixels."""

_SMALL_GAUSSIANS = {
    1: (1.0,),
    3: (0.25, 0.5, 0.25),
    5: (0.0625, 0.25, 0.375, 0.25, 0.0625),
    7: (0.03125, 0.109375, 0.21875, 0.28125, 0.21875, 0.109375, 0.03125),
    9: tuple(n / 256 for n in (4, 13, 30, 51, 60, 51, 30, 13, 4)),
}
"""What OpenCV takes without a sigma."""


def _type(ktype: Any) -> Any:
    kind = argument.integer(ktype, "ktype")
    if kind not in (CV_32F, CV_64F):
        raise UsageError(f"ktype is {kind}: it must be CV_32F or CV_64F")
    return np.float32 if kind == CV_32F else np.float64


def gaussian(n: int, sigma: float) -> tuple[float, ...]:
    """Weights of a Gaussian, whose sum is 1. `sigma` 0 or below: from `n`."""
    if sigma <= 0 and n in _SMALL_GAUSSIANS:
        return _SMALL_GAUSSIANS[n]
    if sigma <= 0:
        sigma = ((n - 1) * 0.5 - 1) * 0.3 + 0.8
    exponents = [-((i - (n - 1) * 0.5) ** 2) / (2 * sigma * sigma) if sigma > 1e-150 else -math.inf for i in range(n)]
    most = max(exponents)
    values = [math.exp(e - most) if most > -math.inf else float(2 * i == n - 1) for i, e in enumerate(exponents)]
    total = sum(values)
    return tuple(v / total for v in values)


@exported
def getGaussianKernel(n: int, sigma: float, ktype: int = CV_64F) -> Array:
    """Weights of a Gaussian, [n, 1]; their sum is 1.

    Args:
        n: their number, odd.
        sigma: the standard deviation in pixels; 0 or below: the one that fits `n`.
        ktype: CV_64F or CV_32F.
    """
    count = argument.integer(n, "n", 1, LARGEST_KERNEL)
    if count % 2 == 0:
        raise UsageError(f"n is {count}: it must be odd")
    return np.array(gaussian(count, argument.number(sigma, "sigma")), _type(ktype)).reshape(-1, 1)


def derivative(order: int, size: int) -> list[int]:
    """Weights of Sobel's filter of one axis: `order` differences, and sums for the rest of the size."""
    weights = [1]
    for i in range(size - 1):
        step = (-1, 1) if i < order else (1, 1)
        padded = [0, *weights, 0]
        weights = [step[1] * padded[k] + step[0] * padded[k + 1] for k in range(len(weights) + 1)]
    return weights


@functools.cache
def derivative_pair(dx: int, dy: int, ksize: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Weights of both axes for derivatives of these orders."""
    for name, order in (("dx", dx), ("dy", dy)):
        if order < 0:
            raise UsageError(f"{name} is {order}: it must not be negative")
    if dx + dy == 0:
        raise UsageError("dx and dy are 0: there is no derivative")
    if ksize == FILTER_SCHARR:
        if dx + dy != 1:
            raise UsageError("Scharr's filter is for first derivatives: dx + dy must be 1")
        smooth, differences = (3, 10, 3), (-1, 0, 1)
        return (differences, smooth) if dx else (smooth, differences)
    if ksize % 2 == 0 or not 1 <= ksize <= 31:
        raise UsageError(f"ksize is {ksize}: it must be odd and from 1 to 31, or FILTER_SCHARR")
    pair = []
    for order in (dx, dy):
        size = max(ksize, 3) if ksize == 1 and order > 0 else ksize
        if size <= order:
            raise UsageError(f"a window of {size} pixels has no derivative of order {order}")
        pair.append(tuple(derivative(order, size)))
    return pair[0], pair[1]


@exported
def getDerivKernels(dx: int, dy: int, ksize: int, normalize: bool = False, ktype: int = CV_32F) -> tuple[Array, Array]:
    """Weights of rows and of columns, [n, 1] each, for the derivatives of these orders: of Sobel, or with
    `ksize=FILTER_SCHARR` of Scharr.

    Args:
        dx: order of the derivative along x.
        dy: the same along y.
        ksize: odd, up to 31, or FILTER_SCHARR.
        normalize: divides by what the sums amount to.
        ktype: CV_32F or CV_64F.
    """
    size, normalize = argument.integer(ksize, "ksize"), argument.flag(normalize, "normalize")
    orders = argument.integer(dx, "dx", most=30), argument.integer(dy, "dy", most=30)
    results = []
    for weights, order in zip(derivative_pair(*orders, size), orders, strict=True):
        scale = 1.0
        if normalize and size == FILTER_SCHARR:
            scale = 1 / 32 if order == 0 else 1.0
        elif normalize:
            scale = 2.0 ** -(len(weights) - order - 1)
        results.append((np.array(weights, np.float64) * scale).astype(_type(ktype)).reshape(-1, 1))
    return results[0], results[1]


@exported
def getGaborKernel(
    ksize: Any,
    sigma: float,
    theta: float,
    lambd: float,
    gamma: float,
    psi: float = math.pi * 0.5,
    ktype: int = CV_64F,
) -> Array:
    """Weights of a Gabor filter: a wave within a Gaussian.

    Args:
        ksize: (width, height); 0: three standard deviations.
        sigma: standard deviation of the Gaussian in pixels.
        theta: direction of the wave in radians.
        lambd: wavelength in pixels.
        gamma: aspect ratio.
        psi: phase in radians.
        ktype: CV_64F or CV_32F.
    """
    width, height = argument.pair(ksize, "ksize")
    width = argument.integer(width, "the width in ksize", -LARGEST_KERNEL, LARGEST_KERNEL)
    height = argument.integer(height, "the height in ksize", -LARGEST_KERNEL, LARGEST_KERNEL)
    sigma_x = argument.number(sigma, "sigma", 1e-30, 1e30)
    wave, aspect = (argument.number(v, n, -1e30, 1e30) for v, n in ((lambd, "lambd"), (gamma, "gamma")))
    if wave == 0 or aspect == 0:
        raise UsageError("lambd and gamma must not be 0")
    sigma_y = sigma_x / aspect
    angle, phase = argument.number(theta, "theta"), argument.number(psi, "psi")
    c, s = math.cos(angle), math.sin(angle)

    def reach(side: int, a: float, b: float) -> int:
        found = side // 2 if side > 0 else round(max(abs(3 * sigma_x * a), abs(3 * sigma_y * b)))
        return int(argument.integer(found, "the size of the filter", 0, LARGEST_KERNEL))

    right, bottom = reach(width, c, s), reach(height, s, c)
    y, x = np.mgrid[bottom : -bottom - 1 : -1, right : -right - 1 : -1].astype(np.float64)
    along, across = x * c + y * s, -x * s + y * c
    envelope = np.exp(-0.5 * along**2 / sigma_x**2 - 0.5 * across**2 / sigma_y**2)
    return (envelope * np.cos(2 * math.pi / wave * along + phase)).astype(_type(ktype))


@exported
def getStructuringElement(shape: int, ksize: Any, anchor: Any = (-1, -1)) -> Array:
    """A shape for `dilate` and `erode`: uint8 [height, width] of 1 and 0.

    Args:
        shape: MORPH_RECT, MORPH_CROSS or MORPH_ELLIPSE.
        ksize: (width, height).
        anchor: (x, y) of the center of a cross; -1: the middle.
    """
    kind = argument.integer(shape, "shape")
    width, height = window_size(ksize)
    center_x, center_y = anchor_of(anchor, width, height)
    if kind == MORPH_RECT or (width, height) == (1, 1):
        return np.ones((height, width), np.uint8)
    element = np.zeros((height, width), np.uint8)
    if kind == MORPH_CROSS:
        element[center_y] = 1
        element[:, center_x] = 1
    elif kind == MORPH_ELLIPSE:
        radius, middle = height // 2, width // 2
        for y in range(height):
            dy = y - radius
            if abs(dy) <= radius:
                dx = round(middle * math.sqrt((radius * radius - dy * dy) / (radius * radius))) if radius else 0
                element[y, max(middle - dx, 0) : min(middle + dx + 1, width)] = 1
    else:
        raise UsageError(f"shape is {kind}: it must be MORPH_RECT, MORPH_CROSS or MORPH_ELLIPSE")
    return element


def window_size(ksize: Any) -> tuple[int, int]:
    """(width, height) of a window."""
    width, height = argument.size(ksize, "ksize")
    if max(width, height) > LARGEST_KERNEL:
        raise UsageError(f"ksize is larger than {LARGEST_KERNEL}")
    return width, height


def anchor_of(anchor: Any, width: int, height: int) -> tuple[int, int]:
    """(x, y) of the pixel of a window that its result belongs to; -1: the middle."""
    x, y = argument.pair(anchor, "anchor", "(x, y)")
    column = argument.integer(x, "x of anchor", -1, width - 1)
    row = argument.integer(y, "y of anchor", -1, height - 1)
    return width // 2 if column == -1 else column, height // 2 if row == -1 else row
