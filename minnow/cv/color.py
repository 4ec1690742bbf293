"""Conversions between color spaces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from minnow.cv import argument, constant
from minnow.cv.argument import Image, channels_of
from minnow.cv.boundary import Array, exported
from minnow.cv.thread import thread_count
from minnow.runtime._engine import vision
from minnow.schema.errors import UsageError

Space = Literal["reorder", "gray", "XYZ", "YCrCb", "YUV", "HSV", "HLS", "Lab", "Luv", "packed", "premultiplied"]
_SPACES: tuple[Space, ...] = get_args(Space)
"""In the order of the engine's enumeration."""
_VIDEO_ORDERS = ("I420", "YV12", "NV12", "NV21", "UYVY", "YUY2", "YVYU")
"""The same."""


@dataclass(frozen=True)
class Conversion:
    """What a code means.

    Attributes:
        source: the numbers of channels that it takes.
        target: that of the result; 0: 3, or 4 where the caller wants it.
        space: a color space; None for `video`.
        back: from that space.
        swap: red is first; of "reorder": red and blue change places.
        full: a circle of hues is 256 steps of a byte.
        linear: RGB without gamma.
        green: bits of green in 16 bits.
        video: how luma and chroma lie in memory, "gray" for luma alone; "" for other conversions.
    """

    source: tuple[int, ...]
    target: int
    space: Space | None = None
    back: bool = False
    swap: bool = False
    full: bool = False
    linear: bool = False
    green: int = 6
    video: str = ""

    @property
    def is_for_pixels(self) -> bool:
        """Each pixel of the result depends on the same pixel of the source."""
        return not self.video and self.space not in ("packed",)

    @property
    def is_reordering(self) -> bool:
        """The engine does it in the pass of another function."""
        return self.space in ("reorder", "gray")

    def channels_to(self, wanted: int) -> int:
        """Channels of the result."""
        return self.target or wanted or 3

    def check(self, src: Image) -> None:
        """Raises UsageError for a type or a number of channels that the conversion does not take."""
        if channels_of(src) not in self.source:
            raise UsageError(
                f"this conversion takes images of {argument.listed(self.source)} channels, but the shape of src is"
                f" {list(src.shape)}"
            )
        if self.video or self.space in ("packed", "premultiplied"):
            types: tuple[str, ...] = ("uint8",)
        elif self.space in ("HSV", "HLS", "Lab", "Luv"):
            types = ("uint8", "float32")
        else:
            types = ("uint8", "uint16", "float32")
        if argument.name_of(src.dtype) not in types:
            raise UsageError(f"this conversion takes images of type {argument.listed(types)}, not {src.dtype}")


def _conversions() -> dict[int, Conversion]:
    """The meaning of each code, from its name."""
    found: dict[int, Conversion] = {}
    for name, code in vars(constant).items():
        if name.startswith("COLOR_") and "2" in name and code not in found:
            meaning = _meaning(*name[6:].split("2", 1))
            if meaning is not None:
                found[code] = meaning
    return found


_CHANNELS = {"BGR": 3, "RGB": 3, "BGRA": 4, "RGBA": 4, "GRAY": 1}


def _meaning(source: str, target: str) -> Conversion | None:
    linear = "LBGR" in (source, target) or "LRGB" in (source, target)
    full = target.endswith("_FULL")
    target = target.removesuffix("_FULL")
    video = target.partition("_")[2] if source.startswith("YUV") else ""
    if source == "YUV" and video:
        return _video(video, target.partition("_")[0])
    if source.startswith("YUV420"):
        return None  # names that are others, too
    if target.startswith("YUV_"):
        layout = {"IYUV": "I420"}.get(target[4:], target[4:])
        if layout not in ("I420", "YV12"):
            return None
        return Conversion((_CHANNELS[source],), 1, swap=source.startswith("RGB"), video=layout)
    source, target = (text.removeprefix("L") if text in ("LBGR", "LRGB") else text for text in (source, target))
    if source in _CHANNELS and target in _CHANNELS:
        taken = (_CHANNELS[source],)
        if target == "GRAY":
            return Conversion(taken, 1, "gray", swap=source.startswith("RGB"))
        swap = source != "GRAY" and source[:3] != target[:3]
        return Conversion(taken, _CHANNELS[target], "reorder", swap=swap)
    if "mRGBA" in (source, target):
        return Conversion((4,), 4, "premultiplied", back=source == "mRGBA")
    for packed, green in (("BGR565", 6), ("BGR555", 5)):
        if target == packed:
            return Conversion((_CHANNELS[source],), 2, "packed", swap=source.startswith("RGB"), green=green)
        if source == packed:
            swap = target.startswith("RGB")
            return Conversion((2,), _CHANNELS[target], "packed", back=True, swap=swap, green=green)
    for space in _SPACES[2:9]:
        if target == space:
            swap = source == "RGB"
            return Conversion((3, 4), 3, space, swap=swap, full=full, linear=linear)
        if source == space:
            swap = target == "RGB"
            return Conversion((3,), 0, space, back=True, swap=swap, full=full, linear=linear)
    return None


def _video(layout: str, target: str) -> Conversion | None:
    layout = {"IYUV": "I420", "420": "I420", "YUYV": "YUY2", "YUNV": "YUY2", "UYNV": "UYVY", "Y422": "UYVY"}.get(
        layout, layout
    )
    if layout not in _VIDEO_ORDERS:
        return None
    taken = (2,) if layout in _VIDEO_ORDERS[4:] else (1,)
    return Conversion(taken, _CHANNELS[target], back=True, swap=target.startswith("RGB"), video=layout)


CONVERSIONS = _conversions()
"""By code."""


@exported
def cvtColor(src: Array, code: int, dstCn: int = 0) -> Array:
    """Converts the colors of an image.

    Args:
        src: the image; of YUV with chroma of half the resolution an array [height * 3 / 2, width].
        code: the conversion, a constant `COLOR_...`.
        dstCn: channels of the result where the code leaves the choice: 3 or 4; 0: 3.

    Returns:
        An image of the same type. One channel gives [height, width]. Bytes are within one level of OpenCV's; from Luv,
        where OpenCV has tables, fewer than one of 3000 pixels differ by two.

    Raises:
        UsageError: an unknown code, or an image that it does not take.
    """
    wanted = argument.integer(dstCn, "dstCn", 0, 4)
    return convert(argument.image(src), argument.integer(code, "code"), wanted)


def convert(src: Image, code: int, wanted: int = 0) -> Image:
    """The same for an image that has been checked."""
    conversion = CONVERSIONS.get(code)
    if conversion is None:
        raise UsageError(f"{code} is no code of a conversion of colors", hint="use the constants COLOR_...")
    conversion.check(src)
    if conversion.video:
        return _from_video(src, None, conversion) if conversion.back else _to_video(src, conversion)
    channels = conversion.channels_to(wanted)
    if channels not in (1, 2, 3, 4) or (not conversion.target and channels < 3):
        raise UsageError(f"dstCn is {wanted}: it must be 0, 3 or 4")
    height, width = src.shape[:2]
    dst = argument.result((height, width) if channels == 1 else (height, width, channels), src.dtype)
    c = conversion
    assert c.space is not None
    if c.space == "reorder" and not c.swap and channels_of(src) == channels:
        dst[...] = src
        return dst
    vision.color(
        argument.rows(src), dst, _SPACES.index(c.space), c.back, c.swap, c.full, c.linear, c.green, thread_count()
    )
    return dst


def _from_video(src: Image, chroma: Image | None, conversion: Conversion) -> Image:
    order = _VIDEO_ORDERS.index(conversion.video)
    height, width = src.shape[:2]
    if order < 4 and chroma is None:
        if height % 3 or width % 2:
            raise UsageError(
                f"src must have the shape [height * 3 / 2, width] with an even height and width, not {list(src.shape)}"
            )
        height = height * 2 // 3
    if width % 2 or (order < 4 and height % 2):
        raise UsageError(f"the image must have an even width and height, but the shape of src is {list(src.shape)}")
    if conversion.target == 1:
        return np.ascontiguousarray(src[:, :, 1 if conversion.video == "UYVY" else 0] if order >= 4 else src[:height])
    dst = argument.result((height, width, conversion.target), np.uint8)
    vision.from_yuv(np.ascontiguousarray(src), chroma, dst, order, conversion.swap, thread_count())
    return dst


def _to_video(src: Image, conversion: Conversion) -> Image:
    height, width = src.shape[:2]
    if height % 2 or width % 2:
        raise UsageError(f"the image must have an even width and height, but its shape is {list(src.shape)}")
    dst = argument.result((height + height // 2, width), np.uint8)
    vision.to_yuv(argument.rows(src), dst, conversion.swap, conversion.video == "YV12")
    return dst


@exported
def cvtColorTwoPlane(src1: Array, src2: Array, code: int) -> Array:
    """Converts an image in YUV of two planes, as cameras give them, to BGR or RGB.

    Args:
        src1: luma, uint8 [height, width].
        src2: chroma, uint8 [height / 2, width / 2, 2].
        code: one of `COLOR_YUV2..._NV12` and `COLOR_YUV2..._NV21`.

    Returns:
        uint8 [height, width, 3 or 4].
    """
    luma = argument.image(src1, "src1", dtypes=("uint8",), channels=(1,))
    chroma = argument.image(src2, "src2", dtypes=("uint8",), channels=(2,))
    conversion = CONVERSIONS.get(argument.integer(code, "code"))
    if conversion is None or conversion.video not in ("NV12", "NV21") or conversion.target == 1:
        raise UsageError(f"code {code} is none of COLOR_YUV2..._NV12 and COLOR_YUV2..._NV21")
    height, width = luma.shape[:2]
    if (2 * chroma.shape[0], 2 * chroma.shape[1]) != (height, width):
        raise UsageError(
            f"src2 must have the shape [{height / 2:g}, {width / 2:g}, 2], half that of src1, not {list(chroma.shape)}"
        )
    return _from_video(luma.reshape(height, width), argument.rows(chroma), conversion)
