"""Element types and their numpy counterparts."""

from __future__ import annotations

from enum import Enum

import ml_dtypes
import numpy as np


class DType(str, Enum):
    """Element type of a tensor; the value is the name used in text, messages and reports."""

    F32 = "f32"
    F64 = "f64"
    F16 = "f16"
    BF16 = "bf16"
    I8 = "i8"
    U8 = "u8"
    I16 = "i16"
    U16 = "u16"
    I32 = "i32"
    U32 = "u32"
    I64 = "i64"
    U64 = "u64"
    BOOL = "bool"
    # Storage types: tensors are kept in them, one element per byte; ops move and convert them, and compute in others.
    F8E4M3FN = "f8e4m3fn"
    F8E4M3FNUZ = "f8e4m3fnuz"
    F8E5M2 = "f8e5m2"
    F8E5M2FNUZ = "f8e5m2fnuz"
    F8E8M0 = "f8e8m0"
    F6E2M3 = "f6e2m3"
    F6E3M2 = "f6e3m2"
    F4E2M1 = "f4e2m1"
    I4 = "i4"
    U4 = "u4"
    I2 = "i2"
    U2 = "u2"

    __hash__ = str.__hash__  # that of Enum takes much longer

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """The numpy dtype; bfloat16 and the storage types come from `ml_dtypes`."""
        return _NUMPY[self]

    @property
    def size(self) -> int:
        """Bytes of one element."""
        return _NUMPY[self].itemsize

    @property
    def is_float(self) -> bool:
        return self in _FLOATS

    @property
    def is_int(self) -> bool:
        return self is not DType.BOOL and self not in _FLOATS

    @property
    def is_storage(self) -> bool:
        """Whether tensors are only kept in this type: ops move and convert it, none computes in it."""
        return self in _BITS

    @property
    def bits(self) -> int:
        """Bits that one element needs; those of less than 8 bits take a byte in memory, with the upper bits 0."""
        return _BITS.get(self, 8 * self.size)

    @staticmethod
    def of(dtype: np.dtype[np.generic] | type) -> DType:
        """The DType of a numpy dtype. Raises KeyError for strings, objects and complex numbers."""
        return _FROM_NUMPY[np.dtype(dtype)]

    def __str__(self) -> str:
        return self.value

    __repr__ = __str__


_NUMPY: dict[DType, np.dtype[np.generic]] = {
    DType.F32: np.dtype(np.float32),
    DType.F64: np.dtype(np.float64),
    DType.F16: np.dtype(np.float16),
    DType.BF16: np.dtype(ml_dtypes.bfloat16),
    DType.I8: np.dtype(np.int8),
    DType.U8: np.dtype(np.uint8),
    DType.I16: np.dtype(np.int16),
    DType.U16: np.dtype(np.uint16),
    DType.I32: np.dtype(np.int32),
    DType.U32: np.dtype(np.uint32),
    DType.I64: np.dtype(np.int64),
    DType.U64: np.dtype(np.uint64),
    DType.BOOL: np.dtype(np.bool_),
    DType.F8E4M3FN: np.dtype(ml_dtypes.float8_e4m3fn),
    DType.F8E4M3FNUZ: np.dtype(ml_dtypes.float8_e4m3fnuz),
    DType.F8E5M2: np.dtype(ml_dtypes.float8_e5m2),
    DType.F8E5M2FNUZ: np.dtype(ml_dtypes.float8_e5m2fnuz),
    DType.F8E8M0: np.dtype(ml_dtypes.float8_e8m0fnu),
    DType.F6E2M3: np.dtype(ml_dtypes.float6_e2m3fn),
    DType.F6E3M2: np.dtype(ml_dtypes.float6_e3m2fn),
    DType.F4E2M1: np.dtype(ml_dtypes.float4_e2m1fn),
    DType.I4: np.dtype(ml_dtypes.int4),
    DType.U4: np.dtype(ml_dtypes.uint4),
    DType.I2: np.dtype(ml_dtypes.int2),
    DType.U2: np.dtype(ml_dtypes.uint2),
}
_FROM_NUMPY = {n: t for t, n in _NUMPY.items()}
_BITS = {
    DType.F8E4M3FN: 8,
    DType.F8E4M3FNUZ: 8,
    DType.F8E5M2: 8,
    DType.F8E5M2FNUZ: 8,
    DType.F8E8M0: 8,
    DType.F6E2M3: 6,
    DType.F6E3M2: 6,
    DType.F4E2M1: 4,
    DType.I4: 4,
    DType.U4: 4,
    DType.I2: 2,
    DType.U2: 2,
}
_FLOATS = frozenset(t for t in DType if "f" in t.value)
