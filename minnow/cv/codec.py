"""Image files: JPEG, PNG, BMP and WebP, in and out, by Pillow.

Pillow has the same decoder of JPEG as OpenCV, libjpeg-turbo, so that the pixels are the same; it is well kept, has
wheels for all platforms, and is needed only here. It has no colors of 16 bits and no alpha in BMP: these are in
`png.py` and `bmp32.py`.
"""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from minnow.cv import argument, bmp32, png
from minnow.cv.argument import Image
from minnow.cv.arithmetic import saturated
from minnow.cv.boundary import Array, exported
from minnow.cv.color import convert
from minnow.cv.constant import (
    COLOR_BGR2RGB,
    COLOR_BGRA2RGBA,
    COLOR_RGB2GRAY,
    IMREAD_ANYCOLOR,
    IMREAD_ANYDEPTH,
    IMREAD_COLOR,
    IMREAD_COLOR_RGB,
    IMREAD_IGNORE_ORIENTATION,
    IMREAD_UNCHANGED,
    IMWRITE_JPEG_OPTIMIZE,
    IMWRITE_JPEG_PROGRESSIVE,
    IMWRITE_JPEG_QUALITY,
    IMWRITE_JPEG_SAMPLING_FACTOR,
    IMWRITE_PNG_COMPRESSION,
    IMWRITE_WEBP_QUALITY,
    INTER_LINEAR_EXACT,
)
from minnow.cv.geometry import resize, without_one
from minnow.output import written
from minnow.schema.errors import FormatError, UnsupportedError, UsageError
from minnow.schema.extra import install

_FORMATS = ("JPEG", "PNG", "BMP", "WEBP")
_SUFFIXES = {
    ".jpg": "JPEG",
    ".jpeg": "JPEG",
    ".jpe": "JPEG",
    ".png": "PNG",
    ".bmp": "BMP",
    ".dib": "BMP",
    ".webp": "WEBP",
}
_STARTS = {b"\xff\xd8\xff": "JPEG", png.SIGNATURE: "PNG", b"BM": "BMP"}
_REDUCTIONS = {16: 2, 32: 4, 64: 8}
_KNOWN_FLAGS = 1 | IMREAD_ANYDEPTH | IMREAD_ANYCOLOR | 16 | 32 | 64 | IMREAD_IGNORE_ORIENTATION | IMREAD_COLOR_RGB
_ORIENTATION = 0x0112


def _pillow() -> Any:
    try:
        import PIL.Image
    except ImportError as error:
        raise UnsupportedError(
            "image files need the package Pillow, which is not installed", hint=install("PIL")
        ) from error
    return PIL.Image


def _format_of(start: bytes) -> str:
    for magic, name in _STARTS.items():
        if start.startswith(magic):
            return name
    return "WEBP" if start[:4] == b"RIFF" and start[8:12] == b"WEBP" else ""


def _flags(flags: Any) -> int:
    given = argument.integer(flags, "flags")
    if given != IMREAD_UNCHANGED and (given < 0 or given & ~_KNOWN_FLAGS):
        raise UsageError(f"flags is {given}: it must be a combination of constants IMREAD_...")
    return given


def _decoded(data: bytes, flags: int, where: str) -> Image:
    """The image in a file's bytes. Raises FormatError where there is none, or only a part of one."""
    if not data:
        raise FormatError("the image is empty: it has no bytes", where=where)
    name = _format_of(data[:16])
    if not name:
        raise FormatError(f"this is no image that can be read: its first bytes are {data[:4]!r}", where=where,
                          hint=f"files may be {', '.join(_FORMATS)}")  # fmt: skip
    pillow = _pillow()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of large images, and of metadata that is not used
            with pillow.open(io.BytesIO(data), formats=[name]) as opened:
                return _pixels(opened, name, data, flags)
    except pillow.DecompressionBombError as error:
        raise FormatError("the image is too large to be decoded", where=where, why=str(error)) from error
    except (FormatError, UsageError, UnsupportedError):
        raise
    except MemoryError:
        raise UnsupportedError("there is not enough memory to decode the image", where=where) from None
    except Exception as error:
        raise FormatError(f"the {name} image is damaged", where=where, why=str(error)) from error


def _pixels(opened: Any, name: str, data: bytes, flags: int) -> Image:
    unchanged = flags == IMREAD_UNCHANGED
    mode = opened.mode
    is_gray = mode in ("1", "L", "I", "I;16", "I;16B", "LA")
    has_alpha = mode in ("LA", "RGBA", "PA") or ("transparency" in opened.info and not is_gray)
    wants_color = bool(flags & (IMREAD_COLOR | IMREAD_COLOR_RGB)) or bool(
        flags & IMREAD_ANYCOLOR and not (is_gray and not has_alpha)
    )
    reduction = 1 if unchanged else next((n for bit, n in _REDUCTIONS.items() if flags & bit), 1)
    if name == "JPEG" and not unchanged:
        # The decoder itself gives luma, and smaller images.
        size = [max(side // reduction, 1) for side in opened.size]
        opened.draft("RGB" if wants_color and mode != "L" else "L", size) if mode in ("RGB", "L") else None
    wide = name == "PNG" and png.bits(data) == 16 and (unchanged or bool(flags & IMREAD_ANYDEPTH))
    image = _wide(opened, data, has_alpha) if wide else _narrow(opened, unchanged, has_alpha)
    if not unchanged and not flags & IMREAD_IGNORE_ORIENTATION:
        image = _turned(image, opened.getexif().get(_ORIENTATION, 1))
    if not unchanged:
        image = _in_colors(image, wants_color)
        if reduction > 1 and name != "JPEG":
            size = [max(side // reduction, 1) for side in image.shape[1::-1]]
            image = np.asarray(resize(image, size, interpolation=INTER_LINEAR_EXACT))
    if image.ndim == 3 and not (flags & IMREAD_COLOR_RGB and not unchanged):
        image = convert(image, COLOR_BGR2RGB if image.shape[2] == 3 else COLOR_BGRA2RGBA)
    return np.ascontiguousarray(image)


def _narrow(opened: Any, unchanged: bool, has_alpha: bool) -> Image:
    """8 bits: gray, RGB or RGBA."""
    mode = opened.mode
    if mode in ("I", "I;16", "I;16B"):
        return (np.asarray(opened).astype(np.uint32) >> 8).astype(np.uint8)
    if unchanged and has_alpha:
        return np.asarray(opened.convert("RGBA"))
    if mode in ("1", "L", "LA"):
        return np.asarray(opened.convert("L") if mode != "LA" else opened.getchannel("L"))
    if mode == "RGBA":
        return np.asarray(opened)[..., :3]
    if has_alpha:
        opened.info.pop("transparency", None)
    return np.asarray(opened if mode == "RGB" else opened.convert("RGB"))


def _wide(opened: Any, data: bytes, has_alpha: bool) -> Image:
    if opened.mode in ("I", "I;16", "I;16B") and not has_alpha:
        return np.asarray(opened).astype(np.uint16)
    return png.decode(data)


def _in_colors(image: Image, wants_color: bool) -> Image:
    if image.ndim == 3 and image.shape[2] == 4:
        image = image[..., :3]
    if image.ndim == 3 and not wants_color:
        return convert(np.ascontiguousarray(image), COLOR_RGB2GRAY)
    if image.ndim == 2 and wants_color:
        return np.repeat(image[..., None], 3, 2)
    return image


def _turned(image: Image, orientation: Any) -> Image:
    """As the camera was held."""
    if orientation not in range(2, 9):
        return image
    if orientation >= 5:
        image = image.swapaxes(0, 1)
    if orientation in (2, 3, 6, 7):
        image = image[:, ::-1]
    if orientation in (3, 4, 7, 8):
        image = image[::-1]
    return image


def _path(filename: Any) -> Path:
    if not isinstance(filename, (str, os.PathLike)):
        raise UsageError(f"filename must be a path, not {argument.described(filename)}")
    path = os.fspath(filename)
    if not isinstance(path, str) or "\0" in path:
        raise UsageError(f"filename must be a path, not {argument.described(path)}")
    return Path(path)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise FormatError(f"the image cannot be read: {error.strerror}", where=str(path)) from error


@exported
def imread(filename: Any, flags: int = IMREAD_COLOR) -> Array:
    """Reads an image: JPEG, PNG, BMP or WebP.

    Args:
        filename: the path.
        flags: constants IMREAD_...: without IMREAD_UNCHANGED, alpha is dropped and the image is turned as its metadata
            say.

    Returns:
        uint8, with IMREAD_ANYDEPTH or IMREAD_UNCHANGED also uint16: [height, width] for a gray image, else
        [height, width, channels], in the order blue, green, red, alpha.

    Raises:
        FormatError: there is no such file, or it is not an image, or it is damaged.
        UnsupportedError: Pillow is not installed.
    """
    path, given = _path(filename), _flags(flags)
    return _decoded(_read(path), given, str(path))


@exported
def imdecode(buf: Any, flags: int = IMREAD_COLOR) -> Array:
    """The same as `imread` for the bytes of a file: an array of uint8, or bytes."""
    given = _flags(flags)
    if isinstance(buf, (bytes, bytearray, memoryview)):
        return _decoded(bytes(buf), given, "buf")
    array = argument.array(buf, "buf")
    if array.dtype not in (np.uint8, np.int8):
        raise UsageError(f"buf must be bytes or an array of uint8, not of {array.dtype}")
    return _decoded(array.tobytes(), given, "buf")


@exported
def haveImageReader(filename: Any) -> bool:
    """Whether a file looks like an image that `imread` can read."""
    try:
        with _path(filename).open("rb") as file:
            return bool(_format_of(file.read(16)))
    except OSError:
        return False


@exported
def haveImageWriter(filename: Any) -> bool:
    """Whether `imwrite` can write files with this extension."""
    return _path(filename).suffix.lower() in _SUFFIXES


def _settings(params: Any) -> dict[int, int]:
    numbers = [] if params is None else argument.items(params, "params")
    if len(numbers) % 2:
        raise UsageError("params must be pairs of a constant IMWRITE_... and its value")
    whole = [argument.integer(n, "an element of params") for n in numbers]
    return dict(zip(whole[::2], whole[1::2], strict=True))


def _encoded(image: Any, suffix: str, params: Any) -> bytes:
    name = _SUFFIXES.get(suffix.lower())
    if name is None:
        raise UsageError(f"images with the extension {suffix!r} cannot be written",
                         hint=f"extensions may be {', '.join(_SUFFIXES)}")  # fmt: skip
    pixels = without_one(argument.image(image, "img", channels=(1, 3, 4)))
    settings = _settings(params)
    if pixels.dtype != np.uint8 and not (pixels.dtype == np.uint16 and name == "PNG"):
        pixels = saturated(pixels, "uint8")  # as OpenCV
    if pixels.ndim == 3 and pixels.shape[2] == 4 and name == "JPEG":
        pixels = pixels[..., :3]
    if pixels.ndim == 3:
        pixels = convert(pixels, COLOR_BGR2RGB if pixels.shape[2] == 3 else COLOR_BGRA2RGBA)
    pixels = np.ascontiguousarray(pixels)
    if name == "BMP" and pixels.ndim == 3 and pixels.shape[2] == 4:
        return bmp32.encode(pixels)
    level = settings.get(IMWRITE_PNG_COMPRESSION, 1)
    if not 0 <= level <= 9:
        raise UsageError(f"IMWRITE_PNG_COMPRESSION is {level}: it must be from 0 to 9")
    if pixels.dtype == np.uint16:
        return png.encode(pixels, level)
    if max(pixels.shape[:2]) > {"JPEG": 65500, "WEBP": 16383}.get(name, 1 << 30):
        raise UsageError(f"an image of {pixels.shape[1]} x {pixels.shape[0]} pixels is too large for {name}")
    options = {"JPEG": _jpeg, "PNG": lambda _: {"compress_level": level}, "WEBP": _webp}.get(name, lambda _: {})
    buffer = io.BytesIO()
    _pillow().fromarray(pixels).save(buffer, name, **options(settings))
    return buffer.getvalue()


def _jpeg(settings: dict[int, int]) -> dict[str, Any]:
    quality = min(max(settings.get(IMWRITE_JPEG_QUALITY, 95), 0), 100)
    sampling = {0x221111: "4:2:0", 0x211111: "4:2:2", 0x111111: "4:4:4"}
    factor = settings.get(IMWRITE_JPEG_SAMPLING_FACTOR, 0x221111)
    if factor not in sampling:
        raise UsageError(f"IMWRITE_JPEG_SAMPLING_FACTOR is {factor:#x}: it must be 0x111111, 0x211111 or 0x221111")
    return {
        "quality": quality,
        "subsampling": sampling[factor],
        "progressive": bool(settings.get(IMWRITE_JPEG_PROGRESSIVE, 0)),
        "optimize": bool(settings.get(IMWRITE_JPEG_OPTIMIZE, 0)),
    }


def _webp(settings: dict[int, int]) -> dict[str, Any]:
    quality = settings.get(IMWRITE_WEBP_QUALITY, 101)
    return {"lossless": True} if quality > 100 else {"quality": max(quality, 1)}


@exported
def imencode(ext: str, img: Array, params: Sequence[int] | None = None) -> tuple[bool, Array]:
    """Encodes an image as the bytes of a file.

    Args:
        ext: the extension, ".jpg", ".png", ".bmp" or ".webp".
        img: uint8, or uint16 for PNG; 1, 3 or 4 channels, in the order blue, green, red, alpha. Other types are rounded
            to uint8.
        params: pairs of a constant IMWRITE_... and its value.

    Returns:
        True, and uint8 [bytes].
    """
    if not isinstance(ext, str):
        raise UsageError(f"ext must be an extension such as '.png', not {argument.described(ext)}")
    return True, np.frombuffer(bytearray(_encoded(img, ext, params)), np.uint8)


@exported
def imwrite(filename: Any, img: Array, params: Sequence[int] | None = None) -> bool:
    """Writes an image to a file, whose extension says in which format; arguments as for `imencode`.

    Returns:
        True.

    Raises:
        UsageError: an extension or an image that cannot be written.
        WriteError: the file cannot be written.
    """
    path = _path(filename)
    data = _encoded(img, path.suffix, params)
    with written(path) as part:
        part.write_bytes(data)
    return True
