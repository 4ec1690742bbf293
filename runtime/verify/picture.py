"""Pictures as inputs of models. OpenCV decodes and resizes them.

A picture is RGB, for Caffe models BGR, with its axes in the order that the shape of the input shows. It is stretched to
the size of the input, or keeps its own size if that of the input is dynamic. Float inputs get values from 0 to 1,
unsigned integers the pixel values, signed 8-bit integers the pixel values minus 128.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from minnow.schema.errors import FormatError, UsageError
from minnow.schema.extra import install
from minnow.schema.ir import DType, Model, TensorType

Array = np.ndarray[Any, Any]

_ARRAYS = (b"PK\x03\x04", b"PK\x05\x06", b"\x93NUMPY")
_LUMA = np.array([0.299, 0.587, 0.114])
"""Weights of red, green and blue in the perceived brightness (ITU-R BT.601)."""


def is_picture(path: Path) -> bool:
    """Whether a file is not one of numpy's, by its first bytes. Raises FormatError if it cannot be read."""
    try:
        with path.open("rb") as file:
            return not file.read(6).startswith(_ARRAYS)
    except OSError as e:
        raise FormatError("cannot read the data", where=str(path), why=e.strerror or str(e)) from None


def fitted(
    path: Path, model: Model, crop: tuple[float, float] = (1.0, 1.0), size: tuple[int, int] | None = None
) -> tuple[str, Array]:
    """The name of a model's image input, and the picture as an array for it.

    Args:
        path: the picture.
        model: says what its input is.
        crop: shares of the height and of the width, in the middle, that are used.
        size: height and width where the input is dynamic; by default those of the picture.

    Raises:
        UsageError: the model has no such input, or several; OpenCV is not installed.
        FormatError: the file is not a picture.
    """
    kinds = {name: found for name, type in model.user_inputs if (found := _axes(type, model.source)) is not None}
    if len(kinds) != 1:
        inputs = ", ".join(f"{n}: {t}" for n, t in model.user_inputs)
        raise UsageError(
            f"{'no input' if not kinds else 'more than one input'} of the model takes pictures",
            where=str(path),
            why=f"its inputs: {inputs}; a picture is [N, C, H, W] or [N, H, W, C] with 1 or 3 channels",
            hint="give arrays by name: numpy.savez('data.npz', ...), --data data.npz",
        )
    ((name, axes),) = kinds.items()
    type = dict(model.user_inputs)[name]
    pixels = _cropped(_read(path), crop)
    own = size or pixels.shape[:2]
    height, width = (_size(type, axes.index(axis), n) for axis, n in zip("HW", own, strict=True))
    return name, arranged(_resized(pixels, height, width), type, axes, model.source)


def arranged(pixels: Array, type: TensorType, axes: str, source: str) -> Array:
    """RGB pixels [height, width, 3] as an array for an input with these axes ("NCHW")."""
    if source == "caffe":
        pixels = pixels[..., ::-1]
    if _channels(type, axes) == 1:
        weights = _LUMA[::-1] if source == "caffe" else _LUMA
        pixels = np.rint(pixels.astype(np.float64) @ weights)[..., None]
    numbers = pixels.astype(np.float64)
    if type.dtype.is_float:
        numbers /= 255
    elif type.dtype is DType.I8:
        numbers -= 128
    moved = numbers.transpose(["HWC".index(axis) for axis in axes if axis != "N"])
    if "N" in axes:
        moved = np.repeat(moved[None], _size(type, 0, 1), axis=0)
    return np.ascontiguousarray(moved.astype(type.dtype.numpy))


def _axes(type: TensorType, source: str) -> str | None:
    """The axes of an image input, "NCHW" or another order, perhaps without N; None if it is not an image input."""
    if type.holds_tensors or type.shape is None or type.dtype is DType.BOOL or type.rank not in (3, 4):
        return None
    usual = ("HWC", "CHW") if source in ("tensorflow", "tflite") else ("CHW", "HWC")
    for form in usual:
        axes = "N" * (type.rank - 3) + form
        if _channels(type, axes) in (1, 3):
            return axes
    # The number of channels is not known: the usual order of axes.
    axes = "N" * (type.rank - 3) + usual[0]
    return axes if type.rank == 4 and _channels(type, axes) is None else None


def _channels(type: TensorType, axes: str) -> int | None:
    size = (type.shape or ())[axes.index("C")]
    return size if isinstance(size, int) else None


def _size(type: TensorType, axis: int, otherwise: int) -> int:
    """The size of a dimension, or `otherwise` if it is dynamic."""
    size = (type.shape or ())[axis]
    return size if isinstance(size, int) else otherwise


def _read(path: Path) -> Array:
    """The RGB pixels of a picture, [height, width, 3], rotated as its metadata says."""
    try:
        import cv2
    except ImportError:
        raise UsageError(
            "pictures are read by OpenCV, which is not installed",
            where=str(path),
            hint=f"{install('cv2')}, or give an array: numpy.savez('data.npz', ...), --data data.npz",
        ) from None
    data, found, why = np.fromfile(path, np.uint8), None, ""
    try:
        found = cv2.imdecode(data, cv2.IMREAD_COLOR) if data.size else None
    except cv2.error as e:
        why = str(e)[:300]
    if found is None:
        raise FormatError("the file is neither a picture nor an .npz file", where=str(path), why=why)
    return np.asarray(found)[..., ::-1]


def _cropped(pixels: Array, crop: tuple[float, float]) -> Array:
    kept = [max(1, round(n * share)) for n, share in zip(pixels.shape, crop, strict=False)]
    top, left = ((n - k) // 2 for n, k in zip(pixels.shape, kept, strict=False))
    return pixels[top : top + kept[0], left : left + kept[1]]


def _resized(pixels: Array, height: int, width: int) -> Array:
    import cv2

    if pixels.shape[:2] == (height, width):
        return pixels
    method = cv2.INTER_AREA if height * width < pixels.shape[0] * pixels.shape[1] else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(np.ascontiguousarray(pixels), (width, height), interpolation=method))
