"""What the C API takes, for ctypes."""

from __future__ import annotations

import ctypes as c

import numpy as np

from minnow.schema.ir import DType


class Tensor(c.Structure):
    _fields_ = [
        ("name", c.c_char_p),
        ("dtype", c.c_int),
        ("rank", c.c_int32),
        ("shape", c.c_int64 * 12),
        ("data", c.c_void_p),
    ]


class Options(c.Structure):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("threads", c.c_int32),
        ("precision", c.c_int),
        ("timeout_ms", c.c_int64),
        ("max_memory", c.c_int64),
        ("max_rounds", c.c_int64),
        ("device", c.c_char_p),
    ]

    def __init__(self, **fields: int | bytes) -> None:
        super().__init__(struct_size=c.sizeof(Options), **fields)


def tensor(array: np.ndarray, name: bytes | None = None) -> Tensor:
    code = [t.numpy for t in DType].index(array.dtype)
    return Tensor(name, code, array.ndim, (c.c_int64 * 12)(*array.shape), array.ctypes.data)
