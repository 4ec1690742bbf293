"""What `resize` and `warpAffine` do with their results on request: convert colors and normalize, in the same pass."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.cv import argument
from minnow.cv.argument import Image, channels_of
from minnow.cv.color import CONVERSIONS, Conversion, convert
from minnow.schema.errors import UsageError

Finish = tuple[int, bool, list[float], list[float]]
"""Number of channels, whether red and blue change places, means and factors: what the engine takes."""


_BYTES = np.dtype(np.uint8)


class Finishing:
    """Colors by a code of `cvtColor`, then float32 `(x - mean) * norm`.

    Args:
        src: the image before.
        code: of the conversion, or None.
        mean: what is subtracted: a number for each channel or one for all; empty: nothing.
        norm: what the rest is multiplied by; empty: 1.
    """

    def __init__(self, src: Image, code: object, mean: object, norm: object) -> None:
        self._fused: Finish | None = None
        if code is None and type(mean) is type(norm) is tuple and not mean and not norm:  # nothing: most calls
            self._code, self.is_wanted, self.is_normalizing = None, False, False
            self.channels = channels_of(src)
            return
        number = -1 if code is None else argument.integer(code, "code")
        self._code = None if number == -1 else number
        self.is_wanted = self._code is not None
        channels = channels_of(src)
        conversion: Conversion | None = None
        if self._code is not None:
            conversion = CONVERSIONS.get(self._code)
            if conversion is None or not conversion.is_for_pixels:
                raise UsageError(
                    f"code {self._code} is no conversion of single pixels",
                    hint="call cvtColor before or after",
                )
            conversion.check(src)
            channels = conversion.channels_to(0)
        self.channels = channels
        means, factors = _numbers(mean, "mean", channels), _numbers(norm, "norm", channels)
        self._means = means or ([0.0] * channels if factors else [])
        self._factors = factors or ([1.0] * channels if means else [])
        self.is_normalizing = bool(self._means)
        self.is_wanted = self.is_wanted or self.is_normalizing
        if src.dtype == _BYTES and channels <= 4:
            if conversion is None:
                self._fused = (channels, False, self._means, self._factors)
            elif conversion.is_reordering:
                self._fused = (channels, conversion.swap, self._means, self._factors)

    @property
    def fused(self) -> Finish | None:
        """What the engine does in the pass before; None: `apply` follows."""
        return self._fused if self.is_wanted else None

    def apply(self, image: Image) -> Image:
        """The same, after the pass."""
        if self._code is not None:
            image = convert(image, self._code)
        if not self.is_normalizing:
            return image
        # In this order, in float32: as the engine does it.
        mean, factor = np.array(self._means, np.float32), np.array(self._factors, np.float32)
        if image.ndim == 2:
            mean, factor = mean[0], factor[0]
        result: Image = (image.astype(np.float32) - mean) * factor
        return result


def _numbers(value: Any, name: str, channels: int) -> list[float]:
    if value is None or (type(value) is tuple and not value):
        return []
    try:
        given = list(value)
    except TypeError:  # one number, also of numpy
        given = [value]
    numbers = [argument.number(item, f"an element of {name}") for item in given]
    if len(numbers) == 1:
        numbers *= channels
    if len(numbers) > channels and len(numbers) <= 4:
        numbers = numbers[:channels]  # as MNN, which takes four for any number of channels
    if len(numbers) not in (0, channels):
        raise UsageError(f"{name} has {len(numbers)} numbers for {channels} channels")
    return numbers
