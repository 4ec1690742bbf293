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
        ("arena", c.c_void_p),
    ]

    def __init__(self, **fields: int | bytes | c.c_void_p) -> None:
        super().__init__(struct_size=c.sizeof(Options), **fields)


class Stats(c.Structure):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("arena", c.c_int64),
        ("weights", c.c_int64),
        ("threads", c.c_int32),
        ("least", c.c_int64),
    ]


def tensor(array: np.ndarray, name: bytes | None = None) -> Tensor:
    code = [t.numpy for t in DType].index(array.dtype)
    return Tensor(name, code, array.ndim, (c.c_int64 * 12)(*array.shape), array.ctypes.data)


def array_of(t: Tensor) -> np.ndarray:
    """A copy of its elements."""
    dtype = list(DType)[t.dtype].numpy
    shape = tuple(t.shape[: t.rank])
    return np.frombuffer(c.string_at(t.data, int(np.prod(shape)) * dtype.itemsize), dtype).reshape(shape)
