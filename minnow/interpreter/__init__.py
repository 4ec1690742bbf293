"""`Interpreter`, sessions and tensors: the interface that programs for MNN use without `expr`."""

from minnow.interpreter.constant import (
    CV_Filter_BICUBIC,
    CV_Filter_BILINEAL,
    CV_Filter_NEAREST,
    CV_ImageFormat_BGR,
    CV_ImageFormat_BGRA,
    CV_ImageFormat_GRAY,
    CV_ImageFormat_RGB,
    CV_ImageFormat_RGBA,
    CV_ImageFormat_YUV_NV21,
    CV_Wrap_CLAMP_TO_EDGE,
    CV_Wrap_REPEAT,
    CV_Wrap_ZERO,
    Halide_Type_Double,
    Halide_Type_Float,
    Halide_Type_Int,
    Halide_Type_Int64,
    Halide_Type_String,
    Halide_Type_Uint8,
    Tensor_DimensionType_Caffe,
    Tensor_DimensionType_Caffe_C4,
    Tensor_DimensionType_Tensorflow,
)
from minnow.interpreter.image_process import CVImageProcess
from minnow.interpreter.interpreter import Interpreter, get_model_uuid, version
from minnow.interpreter.matrix import CVMatrix
from minnow.interpreter.operation import OpInfo
from minnow.interpreter.session import Session
from minnow.interpreter.tensor import Tensor

__all__ = [
    "CVImageProcess",
    "CVMatrix",
    "CV_Filter_BICUBIC",
    "CV_Filter_BILINEAL",
    "CV_Filter_NEAREST",
    "CV_ImageFormat_BGR",
    "CV_ImageFormat_BGRA",
    "CV_ImageFormat_GRAY",
    "CV_ImageFormat_RGB",
    "CV_ImageFormat_RGBA",
    "CV_ImageFormat_YUV_NV21",
    "CV_Wrap_CLAMP_TO_EDGE",
    "CV_Wrap_REPEAT",
    "CV_Wrap_ZERO",
    "Halide_Type_Double",
    "Halide_Type_Float",
    "Halide_Type_Int",
    "Halide_Type_Int64",
    "Halide_Type_String",
    "Halide_Type_Uint8",
    "Interpreter",
    "OpInfo",
    "Session",
    "Tensor",
    "Tensor_DimensionType_Caffe",
    "Tensor_DimensionType_Caffe_C4",
    "Tensor_DimensionType_Tensorflow",
    "get_model_uuid",
    "version",
]
