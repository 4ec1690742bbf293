"""BMP images with alpha."""

from __future__ import annotations

import struct

import numpy as np

from minnow.cv.argument import Image

_HEADERS = 14 + 56  # of the file, and of the image with masks of channels
_BIT_FIELDS = 3


def encode(pixels: Image) -> bytes:
    """A file with uint8 [height, width, 4], red first."""
    height, width = pixels.shape[:2]
    body = np.ascontiguousarray(pixels[::-1, :, [2, 1, 0, 3]]).tobytes()  # the lowest row first
    file = struct.pack("<2sIHHI", b"BM", _HEADERS + len(body), 0, 0, _HEADERS)
    image = struct.pack("<IiiHHIIiiII", 56, width, height, 1, 32, _BIT_FIELDS, len(body), 0, 0, 0, 0)
    masks = struct.pack("<IIII", 0xFF0000, 0xFF00, 0xFF, 0xFF000000)
    return file + image + masks + body
