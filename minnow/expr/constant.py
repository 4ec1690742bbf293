"""The enumerations of the interface, and their members by the names that scripts use."""

from __future__ import annotations

from enum import Enum

from minnow.expr.names import constant, named


class _Named(Enum):
    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    __str__ = __repr__


@named("expr")
class data_format(_Named):
    """Order of the axes. NC4HW4 is NCHW to the user: how channels lie in memory is the engine's matter."""

    NHWC = 0
    NC4HW4 = 1
    NCHW = 2


@named("expr")
class Backend(_Named):
    """Where to run."""

    CPU = 0
    METAL = 1
    CUDA = 2
    OPENCL = 3
    OPENGL = 6
    VULKAN = 7
    HIAI = 8
    TRT = 9


@named("expr")
class PrecisionMode(_Named):
    """Precision of products: High and Normal are float32."""

    Normal = 0
    High = 1
    Low = 2
    Low_BF16 = 3


@named("expr")
class MemoryMode(_Named):
    """How much memory to use."""

    Normal = 0
    High = 1
    Low = 2


@named("expr")
class PowerMode(_Named):
    """How much power to use."""

    Normal = 0
    High = 1
    Low = 2


@named("expr")
class Padding_Mode(_Named):
    """CAFFE: as many as are given; VALID: none; SAME: so many that the output has ceil(size / stride)."""

    CAFFE = 0
    VALID = 1
    SAME = 2


@named("expr")
class PadValue_Mode(_Named):
    """What lies outside of a padded tensor: a number, its mirror image, or that with the border repeated."""

    CONSTANT = 0
    REFLECT = 1
    SYMMETRIC = 2


@named("expr")
class Pooling_Mode(_Named):
    """Largest or mean."""

    MAXPOOL = 0
    AVEPOOL = 1


@named("expr")
class Interp_Method(_Named):
    """How to interpolate."""

    BILINEAR = 0
    NEAREST = 1


NHWC = constant("expr", "NHWC", data_format.NHWC)
NC4HW4 = constant("expr", "NC4HW4", data_format.NC4HW4)
NCHW = constant("expr", "NCHW", data_format.NCHW)
CPU = constant("expr", "CPU", Backend.CPU)
CUDA = constant("expr", "CUDA", Backend.CUDA)
OPENCL = constant("expr", "OPENCL", Backend.OPENCL)
OPENGL = constant("expr", "OPENGL", Backend.OPENGL)
VULKAN = constant("expr", "VULKAN", Backend.VULKAN)
METAL = constant("expr", "METAL", Backend.METAL)
HIAI = constant("expr", "HIAI", Backend.HIAI)
TRT = constant("expr", "TRT", Backend.TRT)
CAFFE = constant("expr", "CAFFE", Padding_Mode.CAFFE)
VALID = constant("expr", "VALID", Padding_Mode.VALID)
SAME = constant("expr", "SAME", Padding_Mode.SAME)
CONSTANT = constant("expr", "CONSTANT", PadValue_Mode.CONSTANT)
REFLECT = constant("expr", "REFLECT", PadValue_Mode.REFLECT)
SYMMETRIC = constant("expr", "SYMMETRIC", PadValue_Mode.SYMMETRIC)
MAXPOOL = constant("expr", "MAXPOOL", Pooling_Mode.MAXPOOL)
AVEPOOL = constant("expr", "AVEPOOL", Pooling_Mode.AVEPOOL)
BILINEAR = constant("expr", "BILINEAR", Interp_Method.BILINEAR)
NEAREST = constant("expr", "NEAREST", Interp_Method.NEAREST)
Low = constant("expr", "Low", PrecisionMode.Low)
Normal = constant("expr", "Normal", PrecisionMode.Normal)
High = constant("expr", "High", PrecisionMode.High)
Low_BF16 = constant("expr", "Low_BF16", PrecisionMode.Low_BF16)

Format = data_format
"""For annotations where `data_format` is the name of an argument."""
