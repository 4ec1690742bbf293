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
from minnow.schema.errors import UsageError

Array = np.ndarray[Any, Any]

NV21 = names.CV_ImageFormat_YUV_NV21
_CHANNELS = {
    names.CV_ImageFormat_RGBA: 4, names.CV_ImageFormat_RGB: 3, names.CV_ImageFormat_BGR: 3,
    names.CV_ImageFormat_GRAY: 1, names.CV_ImageFormat_BGRA: 4,
}  # fmt: skip
_BLUE_FIRST = (names.CV_ImageFormat_BGR, names.CV_ImageFormat_BGRA)
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
        pixels = self._sampled(self._pixels(source, w, h, int(stride)), int(size[0]), int(size[1]))
        image = _in_format(pixels, self._source, self._target)
        made: Array = image
        if tensor.getDataType().dtype == np.dtype(np.float32):
            made = (image.astype(np.float32) - self._mean[:channels]) * self._normal[:channels]
        batch = made if len(shape) == 3 else made[None]
        tensor.fromNumpy(np.ascontiguousarray(batch if last else turned(batch, TENSORFLOW, tensor.getDimensionType())))

    def createImageTensor(self, type: Any, width: Any, height: Any, channels: Any, data: Any = None) -> Tensor:
        """A tensor [1, height, width, channels] for an image, with these data or zeros."""
        return _image_tensor(type, width, height, channels, data)

    def _pixels(self, source: Any, w: int, h: int, stride: int) -> Array:
        """The image as [h, w, c]; what is in NV21, as RGB."""
        channels = 1 if self._source == NV21 else _CHANNELS[self._source]
        step = stride or w * channels
        if step < w * channels:
            raise UsageError(f"stride is {stride} bytes, and a row has {w * channels}")
        rows = h + (h + 1) // 2 if self._source == NV21 else h
        if self._source == NV21 and step < 2 * ((w + 1) // 2):
            raise UsageError(f"a row of {step} bytes cannot hold the colors of {w} pixels", hint="an even width")
        needed = step * (rows - 1) + (2 * ((w + 1) // 2) if self._source == NV21 else w * channels)
        flat = _bytes(source, needed)
        table = np.lib.stride_tricks.as_strided(flat, (rows, needed - step * (rows - 1)), (step, 1), writeable=False)
        if self._source == NV21:
            return _of_nv21(table, w, h)
        return table.reshape(h, w, channels)

    def _sampled(self, image: Array, height: int, width: int) -> Array:
        """The image at the places that the matrix gives for each pixel of the target."""
        h, w = image.shape[:2]
        if np.array_equal(self._matrix, np.eye(3)) and (height, width) == (h, w):
            return image
        x, y = np.meshgrid(np.arange(width, dtype=np.float64), np.arange(height, dtype=np.float64))
        places = np.tensordot(self._matrix, np.stack([x, y, np.ones_like(x)]), 1)
        with np.errstate(all="ignore"):
            x, y = (places[:2] / places[2]).astype(np.float32).astype(np.float64)
        outside = ~((x >= 0) & (x <= w - 1) & (y >= 0) & (y <= h - 1))
        x, y = np.nan_to_num(x, posinf=w, neginf=-1), np.nan_to_num(y, posinf=h, neginf=-1)
        if self._wrap != names.CV_Wrap_REPEAT:
            x, y = x.clip(0, w - 1), y.clip(0, h - 1)
        else:
            x, y = np.mod(x, w), np.mod(y, h)
        result = self._interpolated(image, x, y)
        if self._wrap == names.CV_Wrap_ZERO:
            result[outside] = self._padding
        return result

    def _interpolated(self, image: Array, x: Array, y: Array) -> Array:
        h, w = image.shape[:2]

        def at_places(rows: Array, columns: Array) -> Array:
            if self._wrap == names.CV_Wrap_REPEAT:
                found: Array = image[rows % h, columns % w]
            else:
                found = image[rows.clip(0, h - 1), columns.clip(0, w - 1)]
            return found

        if self._filter == names.CV_Filter_NEAREST:
            return at_places(np.floor(y + 0.5).astype(np.int64), np.floor(x + 0.5).astype(np.int64)).copy()
        left, top = np.floor(x).astype(np.int64), np.floor(y).astype(np.int64)
        across, down = (x - left)[..., None], (y - top)[..., None]
        weights, first = (_linear, 0) if self._filter == names.CV_Filter_BILINEAL else (_cubic, -1)
        total = np.zeros((*x.shape, image.shape[2]))
        for j, b in enumerate(weights(down)):
            row = np.zeros_like(total)
            for i, a in enumerate(weights(across)):
                row += a * at_places(top + j + first, left + i + first)
            total += b * row
        return np.floor(total + 0.5).clip(0, 255).astype(np.uint8)


def _linear(t: Array) -> list[Array]:
    return [1 - t, t]


def _cubic(t: Array) -> list[Array]:
    """Weights of four pixels, by the polynomials that OpenCV uses (a = -0.75)."""
    a = -0.75

    def far(d: Array) -> Array:
        r: Array = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        return r

    def near(d: Array) -> Array:
        r: Array = ((a + 2) * d - (a + 3)) * d * d + 1
        return r

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def _of_nv21(table: Array, w: int, h: int) -> Array:
    """RGB of a plane of luminance and one of two colors at half the size, by MNN's integer formula."""
    light = table[:h, :w].astype(np.int32)
    colors = table[h:, : 2 * ((w + 1) // 2)].astype(np.int32) - 128
    v, u = (np.repeat(np.repeat(colors[:, k::2], 2, 0), 2, 1)[:h, :w] for k in (0, 1))
    parts = (73 * v, -25 * u - 37 * v, 130 * u)
    return np.stack([(64 * light + part) >> 6 for part in parts], -1).clip(0, 255).astype(np.uint8)


def _in_format(image: Array, source: int, target: int) -> Array:
    """[..., channels] in another format."""
    if source == NV21:
        source = names.CV_ImageFormat_RGB
    if source == target:
        return image
    gray = names.CV_ImageFormat_GRAY
    if source == gray:
        colors = np.repeat(image, 3, -1)
    else:
        colors = image[..., 2::-1] if source in _BLUE_FIRST else image[..., :3]  # red first
    if target == gray:
        # The integer formula of OpenCV.
        parts = colors.astype(np.int64) * (4899, 9617, 1868)
        made: Array = ((parts.sum(-1, keepdims=True) + (1 << 13)) >> 14).astype(np.uint8)
        return made
    if target in _BLUE_FIRST:
        colors = colors[..., ::-1]
    if _CHANNELS[target] == 3:
        return colors
    opaque = np.full_like(colors[..., :1], 255)
    return np.concatenate([colors, image[..., 3:4] if _CHANNELS[source] == 4 else opaque], -1)


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
