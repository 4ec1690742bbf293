"""Checks of the arguments of `minnow.cv`: what was expected, and what was given."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from minnow.schema.errors import UsageError

LARGEST_SIDE = (1 << 15) * 1024
"""Of an image, in pixels."""
LARGEST_IMAGE = 1 << 32
"""Bytes of a result."""

PIXEL_DTYPES = ("uint8", "uint16", "int16", "float32", "float64")
"""That most functions take."""

Image = npt.NDArray[Any]


@functools.cache
def name_of(dtype: np.dtype[Any]) -> str:
    """The name of a type; numpy makes it anew each time."""
    return str(dtype.name)


def array(value: Any, name: str) -> Image:
    """The value as an array of numbers. Raises UsageError for anything else."""
    if type(value) is np.ndarray and value.dtype.kind in "buif":
        return value
    if value is None or isinstance(value, (str, bytes, dict)):
        raise UsageError(f"{name} must be an array, not {described(value)}")
    try:
        result = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise UsageError(f"{name} must be an array, not {described(value)}", why=str(error)) from error
    if result.dtype.kind not in "buif":
        raise UsageError(f"{name} must be an array of numbers, not of {result.dtype}")
    return result


def image(
    value: Any,
    name: str = "src",
    *,
    dtypes: Sequence[str] = PIXEL_DTYPES,
    channels: Sequence[int] | None = None,
) -> Image:
    """An image: an array [height, width] or [height, width, channels] without empty dimensions.

    Args:
        value: what the caller has given.
        name: of the argument.
        dtypes: the types that the function takes.
        channels: the numbers of channels that it takes; None: 1 to 512. [height, width] is one channel.

    Raises:
        UsageError: it is something else.
    """
    result = array(value, name)
    if result.ndim not in (2, 3):
        raise UsageError(
            f"{name} must be an image [height, width] or [height, width, channels], but its shape is"
            f" {list(result.shape)}",
            hint="process the images of a batch one by one" if result.ndim == 4 else "",
        )
    if 0 in result.shape:
        raise UsageError(f"{name} is empty: its shape is {list(result.shape)}")
    if name_of(result.dtype) not in dtypes:
        raise UsageError(f"{name} must be of type {listed(dtypes)}, not {result.dtype}")
    given = channels_of(result)
    if channels is not None and given not in channels:
        raise UsageError(f"{name} must have {listed(channels)} channels, but its shape is {list(result.shape)}")
    if given > 512:
        raise UsageError(f"{name} has {given} channels: at most 512 are possible")
    return result


def rows(image: Image) -> Image:
    """The image with the elements of each row side by side, as the engine needs them; a copy only if they are not."""
    if image.flags.c_contiguous and image.dtype.isnative and image.flags.aligned:
        return image
    step = image.itemsize
    for axis in range(image.ndim - 1, 0, -1):
        if image.strides[axis] != step and image.shape[axis] > 1:
            return np.ascontiguousarray(image)
        step *= image.shape[axis]
    return image if image.dtype.isnative and image.flags.aligned else np.ascontiguousarray(image)


def channels_of(image: Image) -> int:
    """Number of channels: 1 for [height, width]."""
    return 1 if image.ndim == 2 else int(image.shape[2])


def matrix(value: Any, name: str, *shapes: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Finite float64 numbers of one of these shapes; the first of them is named in the error."""
    result = array(value, name).astype(np.float64)
    if shapes and result.shape not in shapes:
        raise UsageError(f"{name} must have the shape {list(shapes[0])}, not {list(result.shape)}")
    if not np.isfinite(result).all():
        raise UsageError(f"{name} has numbers that are not finite")
    return result


def integer(value: Any, name: str, least: int = -(1 << 31), most: int = (1 << 31) - 1) -> int:
    """A whole number in [least, most]. Raises UsageError for anything else, a fraction too."""
    if type(value) is int and least <= value <= most:
        return value
    try:
        if isinstance(value, (float, np.floating)):
            result = int(value)
            if result != value:
                raise TypeError
        else:
            result = operator.index(value.item() if isinstance(value, np.ndarray) and value.size == 1 else value)
    except (TypeError, ValueError, OverflowError):
        raise UsageError(f"{name} must be a whole number, not {described(value)}") from None
    if not least <= result <= most:
        raise UsageError(f"{name} is {result}: it must be from {least} to {most}")
    return result


def number(value: Any, name: str, least: float = -math.inf, most: float = math.inf) -> float:
    """A finite number in [least, most]."""
    try:
        if isinstance(value, (str, bytes)) or value is None:
            raise TypeError
        result = float(value)
    except (TypeError, ValueError, OverflowError):
        raise UsageError(f"{name} must be a number, not {described(value)}") from None
    if not math.isfinite(result):
        raise UsageError(f"{name} must be a finite number, not {result}")
    if not least <= result <= most:
        raise UsageError(f"{name} is {result}: it must be from {least} to {most}")
    return result


def flag(value: Any, name: str) -> bool:
    """True or false: a bool, or a number, 0 being false."""
    if isinstance(value, (bool, int, float, np.bool_, np.number)):
        return bool(value)
    raise UsageError(f"{name} must be True or False, not {described(value)}")


def pair(value: Any, name: str, meaning: str = "(width, height)") -> tuple[Any, Any]:
    """Two values, which the caller of this function checks."""
    try:
        first, second = value
    except (TypeError, ValueError):
        raise UsageError(f"{name} must be {meaning}, not {described(value)}") from None
    return first, second


def items(value: Any, name: str, what: str = "numbers") -> list[Any]:
    """The elements of a sequence, which the caller of this function checks."""
    try:
        return list(value)
    except TypeError:
        raise UsageError(f"{name} must be a list of {what}, not {described(value)}") from None


def size(value: Any, name: str = "dsize", least: int = 1) -> tuple[int, int]:
    """(width, height) of an image."""
    width, height = pair(value, name)
    return (
        integer(width, f"the width in {name}", least, LARGEST_SIDE),
        integer(height, f"the height in {name}", least, LARGEST_SIDE),
    )


def result(shape: Sequence[int], dtype: npt.DTypeLike) -> Image:
    """A new array for a result. Raises UsageError where it would be unreasonably large."""
    if math.prod(shape) * np.dtype(dtype).itemsize > LARGEST_IMAGE:
        raise UsageError(f"a result of shape {list(shape)} is too large", hint="give a smaller size")
    try:
        return np.empty(shape, dtype)
    except MemoryError:
        raise UsageError(f"there is not enough memory for a result of shape {list(shape)}") from None


def point(value: Any, name: str) -> tuple[float, float]:
    """A point (x, y) with finite coordinates."""
    x, y = pair(value, name, "(x, y)")
    return number(x, f"x of {name}"), number(y, f"y of {name}")


def scalar(value: Any, name: str, count: int = 4) -> tuple[float, ...]:
    """A value for each channel: a number is that of the first channel, or up to 4 numbers; the others are 0.
    For images of more than 4 channels the numbers repeat, as in OpenCV."""
    if isinstance(value, (int, float, np.number)):
        numbers = [number(value, name)]
    else:
        try:
            numbers = [number(item, name) for item in value]
        except TypeError:
            raise UsageError(f"{name} must be a number or up to 4 numbers, not {described(value)}") from None
    if not 1 <= len(numbers) <= 4:
        raise UsageError(f"{name} must be a number or up to 4 numbers, but it has {len(numbers)}")
    numbers += [0.0] * (4 - len(numbers))
    return tuple(numbers[i % 4] for i in range(count))


def described(value: Any) -> str:
    """A value in an error message."""
    text = repr(value)
    if len(text) > 60:
        text = text[:57] + "..."
    return f"{text} ({type(value).__name__})" if not isinstance(value, np.ndarray) else f"an array {list(value.shape)}"


def listed(values: Sequence[object]) -> str:
    """'a', 'a or b', 'a, b or c'."""
    texts = [str(value) for value in values]
    return texts[0] if len(texts) == 1 else ", ".join(texts[:-1]) + f" or {texts[-1]}"
