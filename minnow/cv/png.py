"""PNG images: those of 16 bits for each channel, and a writer of those of 8 bits that needs no other package."""

from __future__ import annotations

import struct
import zlib

import numpy as np

from minnow.cv.argument import Image
from minnow.runtime._engine import vision
from minnow.schema.errors import FormatError, UnsupportedError

SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}
_LARGEST = 1 << 30


def bits(data: bytes) -> int:
    """Bits of each channel; 0 where the header is not complete."""
    return data[24] if len(data) > 24 and data[12:16] == b"IHDR" else 0


def encode(pixels: Image, level: int) -> bytes:
    """A file with uint8 or uint16 of 1, 3 or 4 channels, red first."""
    height, width = pixels.shape[:2]
    color = {1: 0, 3: 2, 4: 6}[1 if pixels.ndim == 2 else pixels.shape[2]]
    raw = pixels.astype(pixels.dtype.newbyteorder(">")).reshape(height, -1).view(np.uint8)
    rows = np.zeros((height, raw.shape[1] + 1), np.uint8)  # the first byte: no filter
    rows[:, 1:] = raw
    header = struct.pack(">IIBBBBB", width, height, 8 * pixels.itemsize, color, 0, 0, 0)
    chunks = (b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), level)), (b"IEND", b"")
    return SIGNATURE + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    )


def decode(data: bytes) -> Image:
    """uint16 [height, width] for gray, else [height, width, 3 or 4], red first. Gray with alpha is RGBA.

    Raises:
        FormatError: the file is damaged.
        UnsupportedError: it is interlaced.
    """
    width = height = color = 0
    packed = []
    at = len(SIGNATURE)
    while at + 12 <= len(data):
        (length,) = struct.unpack_from(">I", data, at)
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        if (
            len(data) < at + 12 + length
            or zlib.crc32(kind + body) != struct.unpack_from(">I", data, at + 8 + length)[0]
        ):
            raise FormatError("the PNG image is damaged: a part of it is missing or changed")
        if kind == b"IHDR":
            width, height, _, color, _, _, interlaced = struct.unpack(">IIBBBBB", body)
            if interlaced:
                raise UnsupportedError(
                    "interlaced PNG images of 16 bits cannot be read", hint="read it without IMREAD_ANYDEPTH"
                )
        elif kind == b"IDAT":
            packed.append(body)
        elif kind == b"IEND":
            break
        at += 12 + length
    if color not in _CHANNELS or not 0 < width * height <= _LARGEST:
        raise FormatError(f"the PNG image is damaged: {width} x {height} pixels of kind {color}")
    channels = _CHANNELS[color]
    stride = width * channels * 2
    expected = height * (stride + 1)
    inflater = zlib.decompressobj()
    raw = inflater.decompress(b"".join(packed), expected)
    if len(raw) != expected:
        raise FormatError("the PNG image is damaged: it ends too early")
    rows = np.frombuffer(raw, np.uint8).reshape(height, stride + 1).copy()
    if not vision.unfilter(rows, 2 * channels):
        raise FormatError("the PNG image is damaged: an unknown filter")
    pixels = rows[:, 1:].copy().view(">u2").astype(np.uint16).reshape(height, width, channels)
    result: Image = pixels if channels > 2 else pixels[..., 0] if channels == 1 else pixels[..., [0, 0, 0, 1]]
    return result
