"""Weights that take less space than float32, and stand for float32 all the same."""

from __future__ import annotations

import numpy as np

from minnow.schema.ir.blob import Array, Blob, Described, nbytes
from minnow.schema.ir.dtype import DType


class RoundedBlob(Described):
    """Numbers of float32 that are stored in 16 bits, rounded to the nearest.

    Args:
        source: the numbers.
        stored: f16 or bf16; all numbers are within its range.
    """

    __slots__ = ("source", "stored")

    def __init__(self, source: Blob, stored: DType) -> None:
        super().__init__(DType.F32, tuple(source.shape))
        self.source, self.stored = source, stored

    def rounded(self) -> Array:
        """The numbers as they are stored."""
        return np.asarray(self.source.numpy(), np.float32).astype(self.stored.numpy)

    def numpy(self) -> Array:
        return self.rounded().astype(np.float32)


class QuantizedBlob(Described):
    """Numbers of float32 as small integers, with a scale for each group of neighbours: code * scale + low.

    Args:
        codes: u8[groups, length], each of 0 .. 2^bits - 1: the numbers in their order.
        bits: of a code, 2 to 8.
        scale: [groups] in f32 or f16.
        low: the number that code 0 stands for, of the shape and type of `scale`; None: -2^(bits - 1) * scale.
        shape: of the numbers.
    """

    __slots__ = ("bits", "codes", "low", "scale")

    def __init__(self, codes: Array, bits: int, scale: Array, low: Array | None, shape: tuple[int, ...]) -> None:
        super().__init__(DType.F32, shape)
        self.codes, self.bits, self.scale, self.low = codes, bits, scale, low

    def numpy(self) -> Array:
        scale = self.scale.astype(np.float32)[:, None]
        if self.low is None:
            numbers = (self.codes.astype(np.float32) - np.float32(1 << (self.bits - 1))) * scale
        else:
            numbers = self.codes.astype(np.float32) * scale + self.low.astype(np.float32)[:, None]
        return np.asarray(numbers).reshape(self._shape)

    @property
    def packed_bytes(self) -> int:
        """Bytes of the codes side by side, and of what belongs to the groups."""
        scales = self.scale.nbytes * (1 if self.low is None else 2)
        return -(-self.codes.size * self.bits // 8) + scales


def stored_bytes(blob: Blob) -> int:
    """Bytes that the numbers of a constant take in a file, without loading them."""
    if isinstance(blob, QuantizedBlob):
        return blob.packed_bytes
    return nbytes(blob) // 2 if isinstance(blob, RoundedBlob) else nbytes(blob)


def pack(codes: Array, bits: int) -> bytes:
    """Codes of `bits` bits side by side, the first in the highest bits of a byte; the last byte ends with 0s."""
    flat = np.ascontiguousarray(codes, np.uint8).reshape(-1)
    if bits == 8:
        return flat.tobytes()
    step = 1 << 20  # a multiple of 8 codes: whole bytes
    parts = (flat[i : i + step] for i in range(0, flat.size, step))
    return b"".join(np.packbits(np.unpackbits(p[:, None], axis=1)[:, 8 - bits :].reshape(-1)).tobytes() for p in parts)
