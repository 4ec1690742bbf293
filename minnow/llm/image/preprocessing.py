"""Makes images ready for a model, in the steps and with the roundings of transformers' processors with Pillow."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.llm.image.description import ImageDescription
from minnow.schema.errors import UnsupportedError, UsageError
from minnow.schema.extra import install

Array = np.ndarray[Any, Any]

_LARGEST_SIDE, _LARGEST_SQUARE = 1 << 16, 1 << 27


def prepared(image: Array, how: ImageDescription) -> Array:
    """The numbers that the encoder of images reads.

    Args:
        image: uint8 [height, width, 3], red, green, blue.
        how: the steps.

    Returns:
        float32 [3, size, size].

    Raises:
        UsageError: it is so long and narrow that it cannot be made smaller.
        UnsupportedError: Pillow is not installed.
    """
    if how.square:
        image = _squared(image, how)
    if how.resized is not None:
        image = _resized(image, how.resized[0], how.resized[1], how.filter)
    elif how.shortest is not None:
        height, width = image.shape[:2]
        short, long = how.shortest, int(how.shortest * max(height, width) / min(height, width))
        if long > _LARGEST_SIDE:
            raise _too_narrow(image)
        image = _resized(image, *((long, short) if width <= height else (short, long)), how.filter)
    if how.crop is not None:
        image = _cropped(image, how.crop[0], how.crop[1])
    numbers: Array = (image.astype(np.float64) * how.scale).astype(np.float32)
    if how.mean is not None:
        numbers = (numbers - np.asarray(how.mean, np.float32)) / np.asarray(how.std, np.float32)
    return np.ascontiguousarray(numbers.transpose(2, 0, 1))


def _too_narrow(image: Array) -> UsageError:
    return UsageError(f"an image of {image.shape[1]} by {image.shape[0]} pixels is too long and narrow")


def _squared(image: Array, how: ImageDescription) -> Array:
    """The image in the middle of a square of the mean color."""
    height, width = image.shape[:2]
    side = max(height, width)
    if side * side > _LARGEST_SQUARE:
        raise _too_narrow(image)
    color = [int(m * 255) for m in how.mean] if how.mean is not None else [0, 0, 0]
    square = np.empty((side, side, 3), np.uint8)
    square[:] = np.clip(color, 0, 255)
    top, left = (side - height) // 2, (side - width) // 2
    square[top : top + height, left : left + width] = image
    return square


def _resized(image: Array, height: int, width: int, filter: int) -> Array:
    try:
        import PIL.Image
    except ImportError as e:
        raise UnsupportedError("images need the package Pillow, which is not installed", hint=install("PIL")) from e
    opened = PIL.Image.fromarray(np.ascontiguousarray(image))
    return np.asarray(opened.resize((width, height), resample=PIL.Image.Resampling(filter)))


def _cropped(image: Array, height: int, width: int) -> Array:
    """The part in the middle; black where the image is smaller."""
    rows, columns = image.shape[:2]
    out = np.zeros((height, width, 3), np.uint8)
    # Where the image is larger, and where it is smaller, the middle is rounded to the same side.
    (top, above), (left, before) = (_middle(n, wanted) for n, wanted in ((rows, height), (columns, width)))
    part = image[top : top + height, left : left + width]
    out[above : above + part.shape[0], before : before + part.shape[1]] = part
    return out


def _middle(size: int, wanted: int) -> tuple[int, int]:
    """Where what is taken of an axis begins, and where it goes."""
    return ((size - wanted) // 2, 0) if size >= wanted else (0, -((size - wanted) // 2))
