"""Element types, orders of axes, and the constants of images, by the names of MNN."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.schema.errors import UsageError


class HalideType:
    """The element type of a `Tensor`: one of the constants `Halide_Type_...`.

    Attributes:
        name: "Float".
        dtype: the numpy dtype.
    """

    __slots__ = ("dtype", "name")

    def __init__(self, name: str, dtype: Any) -> None:
        self.name = name
        self.dtype = np.dtype(dtype)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HalideType) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        return f"Halide_Type_{self.name}"


Halide_Type_Double = HalideType("Double", np.float64)
Halide_Type_Float = HalideType("Float", np.float32)
Halide_Type_Int = HalideType("Int", np.int32)
Halide_Type_Int64 = HalideType("Int64", np.int64)
Halide_Type_String = HalideType("String", object)
Halide_Type_Uint8 = HalideType("Uint8", np.uint8)
_TYPES = {t.dtype: t for t in (Halide_Type_Double, Halide_Type_Float, Halide_Type_Int, Halide_Type_Int64,
                               Halide_Type_Uint8)}  # fmt: skip

_SHOWN = {"float16": "float32", "bfloat16": "float32", "bool": "int32"}


def shown(dtype: str) -> np.dtype[Any]:
    """The numpy dtype of a tensor of a session, for the name of the model's: float32 for types of 16 bits, int32 for
    booleans."""
    return np.dtype(_SHOWN.get(dtype, dtype))


def type_of(dtype: np.dtype[Any]) -> HalideType:
    """The element type for a numpy dtype."""
    return _TYPES.get(dtype) or HalideType(dtype.name.capitalize(), dtype)


def is_type(value: Any) -> HalideType:
    """The value, if it is an element type that tensors can have. Raises UsageError otherwise."""
    if not isinstance(value, HalideType):
        raise UsageError(f"{value!r} is not an element type", hint="a constant Halide_Type_...")
    if value.dtype == np.dtype(object):
        raise UsageError("tensors of texts are not supported", hint="Halide_Type_Float, _Double, _Int, _Int64, _Uint8")
    return value


Tensor_DimensionType_Tensorflow = 0
Tensor_DimensionType_Caffe = 1
Tensor_DimensionType_Caffe_C4 = 2
TENSORFLOW, CAFFE, CAFFE_C4 = 0, 1, 2

CV_ImageFormat_RGBA = 0
CV_ImageFormat_RGB = 1
CV_ImageFormat_BGR = 2
CV_ImageFormat_GRAY = 3
CV_ImageFormat_BGRA = 4
CV_ImageFormat_YUV_NV21 = 11
CV_Filter_NEAREST = 0
CV_Filter_BILINEAL = 1
CV_Filter_BICUBIC = 2
CV_Wrap_CLAMP_TO_EDGE = 0
CV_Wrap_ZERO = 1
CV_Wrap_REPEAT = 2


def dimension_type(value: Any) -> int:
    """The value, if it is an order of axes. Raises UsageError otherwise."""
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, np.integer))
        or value not in (TENSORFLOW, CAFFE, CAFFE_C4)
    ):
        raise UsageError(f"{value!r} is not an order of axes", hint="a constant Tensor_DimensionType_...")
    return int(value)
