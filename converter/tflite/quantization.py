"""Quantization: which real number a quantized value stands for, and conversion between the two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from minnow.converter.tflite.tensor import DTYPES
from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, LazyBlob, Value
from minnow.schema.ops import Builder

Array = np.ndarray[Any, Any]

QUANTIZED_TYPES = frozenset({DType.I8, DType.U8, DType.I16})
"""Types that activations are quantized to."""
_SUMS = frozenset({DType.I32, DType.I64})
INT4 = 17


@dataclass(frozen=True, eq=False)
class Quantization:
    """real = (quantized - zero) * scale.

    Attributes:
        dtype: of the quantized values; 4-bit ones are kept as i8.
        scale: f32[1], or one for each place along `axis`.
        zero: i32, of the same shape.
        bits: of a quantized value.
    """

    dtype: DType
    scale: Array
    zero: Array
    axis: int = 0
    bits: int = 8

    @staticmethod
    def read(code: int, scale: Array, zero: Array, axis: int, rank: int, where: str) -> Quantization | None:
        """What a file says. None where it says nothing, or the tensor is not quantized. Raises ModelError."""
        dtype = DTYPES.get(code)
        if not len(scale) or dtype is None or dtype not in QUANTIZED_TYPES | _SUMS:
            return None
        zero = zero if len(zero) else np.zeros(len(scale), np.int64)
        if len(zero) == 1:
            zero = np.repeat(zero, len(scale))
        axis = 0 if rank == 1 else axis  # biases are known to repeat the axis of the weights
        if len(zero) != len(scale) or (len(scale) > 1 and not 0 <= axis < rank):
            raise ModelError(
                "invalid quantization", where=where, why=f"there are {len(scale)} scales and {len(zero)} zero points"
            )
        if not np.all(np.isfinite(scale)) or np.any(scale < 0) or np.any(np.abs(zero) > np.iinfo(np.int32).max):
            raise ModelError(
                "invalid quantization", where=where, why="scales must be finite, and zero points must fit 32 bits"
            )
        bits = 4 if code == INT4 else 8 * dtype.size
        return Quantization(dtype, scale.astype(np.float32), zero.astype(np.int32), axis, bits)

    @property
    def per_axis(self) -> bool:
        """There is a scale for each place along `axis`, and not one for all."""
        return len(self.scale) > 1

    @property
    def is_activation(self) -> bool:
        """8 or 16 bits, as activations and weights have; not the sums that biases are."""
        return self.dtype in QUANTIZED_TYPES

    @property
    def lowest(self) -> int:
        """The lowest value of the quantized type."""
        return int(np.iinfo(self.dtype.numpy).min)  # type: ignore[type-var]

    @property
    def highest(self) -> int:
        """The highest value of the quantized type."""
        return int(np.iinfo(self.dtype.numpy).max)  # type: ignore[type-var]

    def real(self, quantized: Array) -> Array:
        """The real numbers that quantized values stand for, f32 as TFLite computes them."""
        scale, zero = (
            v if not self.per_axis else v.reshape(self._column(quantized.ndim)) for v in (self.scale, self.zero)
        )
        return (
            ((quantized.astype(np.int32) - zero).astype(np.float32) * scale).astype(np.float32).reshape(quantized.shape)
        )

    def quantized(self, real: Array) -> Array:
        """The nearest quantized values of real numbers, halves away from zero."""
        scale, zero = (v if not self.per_axis else v.reshape(self._column(real.ndim)) for v in (self.scale, self.zero))
        x = (real.astype(np.float32) / scale).astype(np.float32)
        rounded = np.trunc(x + np.copysign(np.float32(0.5), x)).astype(np.float64)
        return np.clip(rounded + zero, self.lowest, self.highest).astype(self.dtype.numpy).reshape(real.shape)

    def _column(self, rank: int) -> tuple[int, ...]:
        return tuple(-1 if i == self.axis else 1 for i in range(rank))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Quantization):
            return NotImplemented
        same = self.dtype is other.dtype and self.axis * self.per_axis == other.axis * other.per_axis
        return same and np.array_equal(self.scale, other.scale) and np.array_equal(self.zero, other.zero)

    __hash__ = object.__hash__


def dequantize(b: Builder, x: Value, q: Quantization) -> Value:
    """The real numbers (f32) of quantized values; of constants once and for all."""
    if x.data is not None:
        data = x.data
        return Value.constant(LazyBlob(lambda: q.real(data.numpy()), DType.F32, tuple(data.shape)), x.name)
    if q.dtype is DType.I64:
        return b.Mul(b.Cast(x, to=DType.F32), q.scale if q.per_axis else q.scale.reshape(()))
    scale, zero = (q.scale, q.zero) if q.per_axis else (q.scale.reshape(()), q.zero.reshape(()))
    return b.DequantizeLinear(x, scale, zero.astype(q.dtype.numpy), axis=q.axis if q.per_axis else 0)


def quantize(b: Builder, x: Value, q: Quantization) -> Value:
    """The nearest quantized values of real numbers, halves away from zero as in TFLite's reference kernels."""
    if x.data is not None:
        data = x.data
        return Value.constant(LazyBlob(lambda: q.quantized(data.numpy()), q.dtype, tuple(data.shape)), x.name)
    scale, zero = q.scale, q.zero.astype(np.float32)
    if q.per_axis:
        n = x.type.rank or 0
        scale, zero = (v.reshape(q._column(n)) for v in (scale, zero))
    else:
        scale, zero = scale.reshape(()), zero.reshape(())
    y = b.Round(b.Div(x, scale), halves="away")
    if np.any(zero):
        y = b.Add(y, zero)
    return b.Cast(b.Clip(y, min=float(q.lowest), max=float(q.highest)), to=q.dtype)


def requantize(b: Builder, x: Value, old: Quantization, new: Quantization) -> Value:
    """Quantized values with other quantization parameters."""
    return x if old == new else quantize(b, dequantize(b, x, old), new)
