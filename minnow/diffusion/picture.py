"""A picture, and the file that it becomes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from minnow.output import written

Array = np.ndarray[Any, Any]

_LEVEL = 6


@dataclass(frozen=True)
class Picture:
    """A picture.

    Attributes:
        pixels: uint8 [height, width, 3]: red, green, blue.
        image: float32 [3, height, width], what the model has made of it: from -1 to 1, or a bit more.
    """

    pixels: Array
    image: Array

    @classmethod
    def of(cls, image: Array) -> Picture:
        """The picture that a model has made: float32 [3, height, width]."""
        shades = np.clip(image / 2 + np.float32(0.5), 0, 1) * 255
        return cls(np.nan_to_num(shades.transpose(1, 2, 0)).round().astype(np.uint8), image)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a file: .png, and with Pillow the other formats of `minnow.cv.imwrite`.

        Raises:
            UsageError: the extension is not known. UnsupportedError: Pillow is not installed.
            WriteError: the file cannot be written.
        """
        from minnow.cv import imwrite
        from minnow.cv.png import encode

        if Path(path).suffix.lower() == ".png":
            with written(path) as part:
                part.write_bytes(encode(self.pixels, _LEVEL))
        else:
            imwrite(path, self.pixels[..., ::-1])
