"""Reads images: files, their bytes, `data:` URLs, arrays. Nothing is fetched from a network."""

from __future__ import annotations

import base64
import binascii
import io
import os
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import numpy as np

from minnow.schema.errors import FormatError, UsageError

Array = np.ndarray[Any, Any]

MOST_BYTES = 256 << 20
"""Of a file."""
MOST_PIXELS = 1 << 27
"""Of an image, unless a caller allows less."""


def read_image(source: Any, *, local: bool = True, most_pixels: int = MOST_PIXELS) -> Array:
    """An image as uint8 [height, width, 3], red, green, blue.

    Args:
        source: the path of a file, or a `data:` URL; the bytes of a file; an array, uint8 [height, width] or [height,
            width, 3 or 4]; an image of Pillow.
        local: files of this machine may be read.
        most_pixels: how many it may have.

    Raises:
        FormatError: it cannot be read, is no image, or is damaged.
        UsageError: it is too large, or of a kind that is not read.
        UnsupportedError: Pillow is not installed.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _decoded(bytes(source), "", most_pixels)
    if isinstance(source, str) and source[:5].lower() == "data:":
        return _decoded(_data_of(source), "", most_pixels)
    if isinstance(source, (str, os.PathLike)) and local and not _is_url(source):
        path = Path(source)
        return _decoded(_content(path), str(path), most_pixels)
    if isinstance(source, str):
        text = "images are not fetched from the network" if local or _is_url(source) else "the image is no data: URL"
        raise UsageError(text, where=source[:100], hint="give its bytes, as data:image/png;base64,...")
    convert = getattr(source, "convert", None)
    image = np.asarray(convert("RGB") if callable(convert) else source)
    return _plain(image, most_pixels)


def _is_url(source: str | os.PathLike[str]) -> bool:
    return isinstance(source, str) and "://" in source[:32]


def _content(path: Path) -> bytes:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise FormatError(f"the image has more than {MOST_BYTES >> 20} MiB", where=str(path))
        return path.read_bytes()
    except (OSError, ValueError) as e:
        why = getattr(e, "strerror", None) or str(e)
        raise FormatError("the image cannot be read", where=str(path), why=why) from None


def _data_of(url: str) -> bytes:
    """What is in a URL: data:image/png;base64,iVBO... Raises FormatError."""
    head, comma, data = url.partition(",")
    if not comma:
        raise FormatError("the data: URL of an image has no comma, behind which its bytes are", where=head[:60])
    if not head.lower().endswith(";base64"):
        return unquote_to_bytes(data)
    try:
        return base64.b64decode(unquote_to_bytes(data) if "%" in data else data, validate=True)
    except (binascii.Error, ValueError) as e:
        raise FormatError("the data: URL of an image is no base64", where=head[:60], why=str(e)) from None


def _decoded(data: bytes, where: str, most_pixels: int) -> Array:
    from minnow.cv import IMREAD_COLOR_RGB, imdecode

    try:
        _check_size(data, where, most_pixels)
        image: Array = imdecode(data, IMREAD_COLOR_RGB)
    except FormatError as e:
        raise FormatError(e.message, where=where, why=e.why, hint=e.hint) from None
    return image


def _check_size(data: bytes, where: str, most: int) -> None:
    """Looks at what a file says of its size, before it is decoded."""
    try:
        import PIL.Image
    except ImportError:
        return  # decoding tells it
    try:
        with PIL.Image.open(io.BytesIO(data)) as opened:
            width, height = opened.size
    except PIL.Image.DecompressionBombError as e:
        raise UsageError("the image is too large", where=where, why=str(e)) from None
    except Exception:  # noqa: BLE001  (decoding tells what is wrong)
        return
    _check_pixels(width, height, most, where)


def _check_pixels(width: int, height: int, most: int, where: str = "") -> None:
    if width * height > most:
        why = f"it has {width} by {height} pixels, and {most:,} are allowed"
        raise UsageError("the image is too large", where=where, why=why, hint="make it smaller")


def _plain(image: Array, most_pixels: int) -> Array:
    if image.dtype != np.uint8 or image.ndim not in (2, 3) or (image.ndim == 3 and image.shape[2] not in (1, 3, 4)):
        what = f"{image.dtype} {list(image.shape)}" if image.dtype != object else "something else"
        hint = "uint8 [height, width, 3], a path, the bytes of a file, or an image of Pillow"
        raise UsageError(f"an image is {what}", hint=hint)
    if not image.size:
        raise UsageError("an image has no pixels")
    _check_pixels(image.shape[1], image.shape[0], most_pixels)
    if image.ndim == 2 or image.shape[2] == 1:
        return np.repeat(image.reshape(*image.shape[:2], 1), 3, 2)
    return np.ascontiguousarray(image[..., :3])
