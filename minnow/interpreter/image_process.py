"""`CVImageProcess`: from the bytes of an image to the input of a model, in one step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from minnow.interpreter import constant as names
from minnow.interpreter.constant import TENSORFLOW, HalideType, is_type
from minnow.interpreter.matrix import CVMatrix
from minnow.interpreter.memory import at
from minnow.interpreter.tensor import Tensor, turned
from minnow.runtime._engine import vision
from minnow.schema.errors import UsageError

Array = np.ndarray[Any, Any]

NV21 = names.CV_ImageFormat_YUV_NV21
_CHANNELS = {
    names.CV_ImageFormat_RGBA: 4, names.CV_ImageFormat_RGB: 3, names.CV_ImageFormat_BGR: 3,
    names.CV_ImageFormat_GRAY: 1, names.CV_ImageFormat_BGRA: 4,
}  # fmt: skip
_KEYS = ("sourceFormat", "destFormat", "filterType", "mean", "normal", "wrap")
_MOST = 1 << 30
"""Pixels of an image."""


def _choice(value: Any, known: tuple[int, ...], key: str) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value not in known:
        raise UsageError(f"{key} is {value!r}", hint="a constant CV_...")
    return int(value)


def _four(value: Any, key: str, default: float) -> Array:
    row = np.full(4, default, np.float32)
    try:
        given = np.asarray(value, np.float32).ravel()
    except (TypeError, ValueError):
        given = np.full(5, np.nan)
    if given.size > 4 or not np.isfinite(given).all():
        raise UsageError(f"{key} is {value!r}, not up to four numbers")
    row[: given.size] = given
    return row


class CVImageProcess:
    """Scales, turns, converts and normalizes an image on its way into a tensor.

    Args:
        config: a dict with sourceFormat and destFormat (CV_ImageFormat_..., by default RGBA), filterType
            (CV_Filter_..., by default NEAREST), wrap (CV_Wrap_...: what lies outside of the image, by default
            CLAMP_TO_EDGE), mean and normal (up to four numbers: the result is (pixel - mean) * normal).

    Raises:
        UsageError: a key or value is unknown.
    """

    def __init__(self, config: Any) -> None:
        if not isinstance(config, Mapping):
            raise UsageError(
                f"the configuration is a dict, not {type(config).__name__}", hint=f"keys: {', '.join(_KEYS)}"
            )
        if unknown := [key for key in config if key not in _KEYS]:
            raise UsageError(f"configuration: '{unknown[0]}' is unknown", hint=f"keys: {', '.join(_KEYS)}")
        formats = tuple(_CHANNELS)
        self._source = _choice(config.get("sourceFormat", 0), (*formats, NV21), "sourceFormat")
        self._target = _choice(config.get("destFormat", 0), formats, "destFormat")
        self._filter = _choice(config.get("filterType", 0), (0, 1, 2), "filterType")
        self._wrap = _choice(config.get("wrap", 0), (0, 1, 2), "wrap")
        self._mean = _four(config.get("mean", ()), "mean", 0)
        self._normal = _four(config.get("normal", ()), "normal", 1)
        self._padding = 0
        self._matrix = np.eye(3)

    def setMatrix(self, matrix: Any) -> None:
        """Sets the map from places in the tensor to places in the image. Places are (x, y) of pixels."""
        if not isinstance(matrix, CVMatrix):
            raise UsageError(f"the matrix is {type(matrix).__name__}, not a CVMatrix")
        self._matrix = matrix.array

    def setPadding(self, value: Any) -> None:
        """Sets what lies outside of the image with wrap ZERO: a number of 0 to 255 for all channels, by default 0."""
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 0 <= value <= 255:
            raise UsageError(f"the padding is {value!r}, not a number of 0 to 255")
        self._padding = int(value)

    def convert(self, source: Any, width: Any, height: Any, stride: Any, tensor: Any) -> None:
        """Fills a tensor with the image, whose parts are where the matrix says.

        Args:
            source: the pixels: an array of bytes, bytes, or an address.
            width, height: size of the image in pixels.
            stride: bytes from one row to the next; 0 if they follow each other closely.
            tensor: a Tensor of floats, or of bytes, which are not normalized: of the shape [1, H, W, C], [1, C, H, W],
                or [H, W, C], where C is that of destFormat.

        Raises:
            UsageError: an argument is wrong, or the source is too short.
        """
        w, h = _size(width, "width"), _size(height, "height")
        if w * h > _MOST:
            raise UsageError(f"an image of {w} x {h} pixels is too large")
        if isinstance(stride, bool) or not isinstance(stride, (int, np.integer)) or stride < 0:
            raise UsageError(f"stride is {stride!r}, not a number of bytes")
        if not isinstance(tensor, Tensor):
            raise UsageError(f"the target is {type(tensor).__name__}, not a Tensor")
        shape = tensor.getShape()
        channels = _CHANNELS[self._target]
        last = tensor.getDimensionType() == TENSORFLOW
        place = shape if len(shape) == 3 and last else shape[1:] if len(shape) == 4 and shape[0] == 1 else ()
        size = place[:2] if last else place[1:]
        if len(place) != 3 or place[-1 if last else 0] != channels:
            raise UsageError(
                f"the tensor has the shape {list(shape)}",
                hint=f"[1, H, W, {channels}] (Tensorflow) or [1, {channels}, H, W] (Caffe): destFormat has {channels} "
                f"channel{'s' if channels > 1 else ''}",
            )
        if tensor.getDataType().dtype not in (np.dtype(np.float32), np.dtype(np.uint8)):
            raise UsageError(f"the tensor is of {tensor.getDataType().dtype}", hint="Halide_Type_Float or _Uint8")
        flat, step = self._bytes_of(source, w, h, int(stride))
        made = np.empty((*map(int, size), channels), tensor.getDataType().dtype)
        if made.size:
            numbers = self._mean.tolist(), self._normal.tolist(), self._matrix.ravel().tolist()
            choices = self._source, self._target, self._filter, self._wrap
            vision.process(flat, w, h, step, made, *choices, *numbers, self._padding, planes=False)
        batch = made if len(shape) == 3 else made[None]
        tensor.fromNumpy(np.ascontiguousarray(batch if last else turned(batch, TENSORFLOW, tensor.getDimensionType())))

    @staticmethod
    def createImageTensor(type: Any, width: Any, height: Any, channels: Any, data: Any = None) -> Tensor:
        """A tensor [1, height, width, channels] for an image, with these data or zeros."""
        return _image_tensor(type, width, height, channels, data)

    def _bytes_of(self, source: Any, w: int, h: int, stride: int) -> tuple[Array, int]:
        """The bytes of the image, and those from one row to the next."""
        channels = 1 if self._source == NV21 else _CHANNELS[self._source]
        step = stride or w * channels
        if step < w * channels:
            raise UsageError(f"stride is {stride} bytes, and a row has {w * channels}")
        rows = h + (h + 1) // 2 if self._source == NV21 else h
        last = 2 * ((w + 1) // 2) if self._source == NV21 else w * channels
        if step < last:
            raise UsageError(f"a row of {step} bytes cannot hold the colors of {w} pixels", hint="an even width")
        return _bytes(source, step * (rows - 1) + last), step


def _bytes(source: Any, needed: int) -> Array:
    """The first bytes of the source."""
    if isinstance(source, int) and not isinstance(source, bool):
        return at(source, np.dtype(np.uint8), needed)
    if isinstance(source, Tensor):
        source = source.getNumpyData()
    if isinstance(source, (bytes, bytearray, memoryview)):
        flat = np.frombuffer(bytes(source), np.uint8)
    elif isinstance(source, (list, tuple)) or hasattr(source, "__array__"):
        try:
            flat = np.asarray(source)
        except (ValueError, TypeError, OverflowError) as error:
            raise UsageError("the pixels are no array", why=str(error)) from None
        if flat.dtype.kind in "iu" and flat.size and flat.min() >= 0 and flat.max() <= 255:
            flat = flat.astype(np.uint8)
        if flat.dtype != np.uint8:
            raise UsageError(f"the pixels are of {flat.dtype}", hint="an array of uint8")
        flat = np.ascontiguousarray(flat).reshape(-1)
    else:
        raise UsageError(f"the pixels are {type(source).__name__}", hint="an array of uint8, bytes, or an address")
    if flat.size < needed:
        raise UsageError(f"the source has {flat.size} bytes, and the image needs {needed}")
    return np.ascontiguousarray(flat[:needed])


def _size(value: Any, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 1 <= value <= _MOST:
        raise UsageError(f"{what} is {value!r}, not a positive number of pixels")
    return int(value)


def _image_tensor(type: Any, width: Any, height: Any, channels: Any, data: Any) -> Tensor:
    kind: HalideType = is_type(type)
    count = _size(channels, "channels")
    if not math.isfinite(count) or count > 4:
        raise UsageError(f"channels is {channels!r}, not 1 to 4")
    shape = (1, _size(height, "height"), _size(width, "width"), count)
    return Tensor(shape, kind, TENSORFLOW) if data is None else Tensor(shape, kind, data, TENSORFLOW)
