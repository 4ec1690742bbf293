"""Weights that take less space than float32, and stand for float32 all the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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


class SparseBlob(Described):
    """Numbers of float32 that are mostly zeros, which a file does not have.

    Args:
        numbers: all of them, in f32.
    """

    __slots__ = ("_numbers",)

    def __init__(self, numbers: Array) -> None:
        super().__init__(DType.F32, tuple(numbers.shape))
        self._numbers = numbers

    def numpy(self) -> Array:
        return self._numbers

    @property
    def packed_bytes(self) -> int:
        """Bytes of the numbers that are not 0, and of their places."""
        return 8 * int(np.count_nonzero(self._numbers))


class QuantizedBlob(Described):
    """Numbers of float32 as small integers, with a scale for each group of neighbours: code * scale + low.

    Args:
        codes: u8[groups, length], each of 0 .. 2^bits - 1: the numbers in their order.
        bits: of a code, 2 to 8.
        scale: [groups] in f32 or f16.
        low: the number that code 0 stands for, of the shape and type of `scale`; None: -2^(bits - 1) * scale.
        shape: of the numbers.
        is_sparse: a file lists the codes that do not stand for 0, if that is smaller; only without `low`.
    """

    __slots__ = ("bits", "codes", "is_sparse", "low", "scale")

    def __init__(
        self,
        codes: Array,
        bits: int,
        scale: Array,
        low: Array | None,
        shape: tuple[int, ...],
        is_sparse: bool = False,
    ) -> None:
        super().__init__(DType.F32, shape)
        self.codes, self.bits, self.scale, self.low = codes, bits, scale, low
        self.is_sparse = is_sparse and low is None and listed_bytes(codes, bits) < -(-codes.size * bits // 8)

    def numpy(self) -> Array:
        scale = self.scale.astype(np.float32)[:, None]
        if self.low is None:
            numbers = (self.codes.astype(np.float32) - np.float32(1 << (self.bits - 1))) * scale
        else:
            numbers = self.codes.astype(np.float32) * scale + self.low.astype(np.float32)[:, None]
        return np.asarray(numbers).reshape(self._shape)

    def parts(self) -> tuple[Array, Array, Array | None]:
        """Codes, scale and low."""
        return self.codes, self.scale, self.low

    @property
    def groups(self) -> tuple[int, int]:
        """How many groups there are, and how many numbers each has."""
        return self.codes.shape[0], self.codes.shape[1]

    @property
    def scale_type(self) -> DType:
        """The type of scales and lows."""
        return DType.of(self.scale.dtype)

    @property
    def has_low(self) -> bool:
        return self.low is not None

    @property
    def packed_bytes(self) -> int:
        """Bytes of the codes side by side, and of what belongs to the groups."""
        count, length = self.groups
        scales = count * self.scale_type.size * (2 if self.has_low else 1)
        codes = listed_bytes(self.codes, self.bits) if self.is_sparse else -(-count * length * self.bits // 8)
        return codes + scales


class UnreadBlob(QuantizedBlob):
    """A QuantizedBlob whose codes and scales are read when they are asked for, anew each time; nothing is kept.

    Args:
        read: gives codes, scale and low.
        groups: how many groups there are, and how many numbers each has.
        bits, shape: see QuantizedBlob.
        half: scale and low are f16, else f32.
        low: there is one.
    """

    __slots__ = ("_groups", "_half", "_low", "_read")

    def __init__(
        self,
        read: Callable[[], tuple[Array, Array, Array | None]],
        groups: tuple[int, int],
        bits: int,
        shape: tuple[int, ...],
        *,
        half: bool,
        low: bool,
    ) -> None:
        Described.__init__(self, DType.F32, shape)
        self._read, self._groups, self._half, self._low = read, groups, half, low
        self.bits, self.is_sparse = bits, False

    def parts(self) -> tuple[Array, Array, Array | None]:
        return self._read()

    @property
    def codes(self) -> Array:  # type: ignore[override]
        return self._read()[0]

    @property
    def scale(self) -> Array:  # type: ignore[override]
        return self._read()[1]

    @property
    def low(self) -> Array | None:  # type: ignore[override]
        return self._read()[2]

    @property
    def groups(self) -> tuple[int, int]:
        return self._groups

    @property
    def scale_type(self) -> DType:
        return DType.F16 if self._half else DType.F32

    @property
    def has_low(self) -> bool:
        return self._low

    def numpy(self) -> Array:
        codes, scale, low = self._read()
        return QuantizedBlob(codes, self.bits, scale, low, self._shape).numpy()

    def in_shape(self, shape: tuple[int, ...]) -> UnreadBlob:
        """The same numbers in another shape."""
        return UnreadBlob(self._read, self._groups, self.bits, shape, half=self._half, low=self._low)


def reshaped(blob: QuantizedBlob, shape: tuple[int, ...]) -> QuantizedBlob:
    """The same numbers in another shape."""
    if isinstance(blob, UnreadBlob):
        return blob.in_shape(shape)
    return QuantizedBlob(blob.codes, blob.bits, blob.scale, blob.low, shape, blob.is_sparse)


def joined(blobs: Sequence[QuantizedBlob]) -> QuantizedBlob | None:
    """Matrices one below the other as one; None where their codes are of different kinds."""
    kinds = {(b.bits, b.groups[1], b.scale_type, b.has_low, b.is_sparse, b.shape[1:]) for b in blobs}
    if len(kinds) > 1 or blobs[0].is_sparse:
        return None

    def read() -> tuple[Array, Array, Array | None]:
        parts = [b.parts() for b in blobs]
        codes, scale = (np.concatenate([p[i] for p in parts]) for i in (0, 1))
        lows = [low for _, _, low in parts if low is not None]
        return codes, scale, np.concatenate(lows) if lows else None

    first = blobs[0]
    groups = (sum(b.groups[0] for b in blobs), first.groups[1])
    shape = (sum(b.shape[0] for b in blobs), *first.shape[1:])
    return UnreadBlob(read, groups, first.bits, shape, half=first.scale_type is DType.F16, low=first.has_low)


def stored_bytes(blob: Blob) -> int:
    """Bytes that the numbers of a constant take in a file, without loading them."""
    if isinstance(blob, (QuantizedBlob, SparseBlob)):
        return blob.packed_bytes
    return nbytes(blob) // 2 if isinstance(blob, RoundedBlob) else nbytes(blob)


@dataclass(frozen=True)
class Listed:
    """Codes that are not that of 0: each with its distance from the one before, the first from the first number.

    Where a distance is too long for `step_bits`, codes of 0 stand between.
    """

    steps: Array
    step_bits: int
    codes: Array


_STEP_BITS = range(2, 9)


Places = npt.NDArray[np.intp]


def _distances(codes: Array, bits: int) -> tuple[Places, Places]:
    """The places of the codes that are not that of 0, and the distances between; one code at least."""
    places = np.flatnonzero(codes.reshape(-1) != 1 << (bits - 1))
    places = places if places.size else np.zeros(1, np.intp)
    return places, np.asarray(np.diff(places, prepend=0), np.intp)


def _between(distances: Places, step_bits: int) -> Places:
    """How many codes of 0 must stand before each listed code."""
    return np.asarray(np.maximum(distances - 1, 0) // ((1 << step_bits) - 1), np.intp)


def _listed_size(distances: Places, bits: int) -> tuple[int, int]:
    """The least bytes of steps and codes, and the bits of a step for them."""
    counts = {s: distances.size + int(_between(distances, s).sum()) for s in _STEP_BITS}
    return min((-(-n * s // 8) + -(-n * bits // 8), s) for s, n in counts.items())


def listed_bytes(codes: Array, bits: int) -> int:
    """Bytes of codes where those of 0 are left out, with the distances between the others."""
    return _listed_size(_distances(codes, bits)[1], bits)[0]


def listed(blob: QuantizedBlob) -> Listed:
    """The codes of numbers that are mostly 0."""
    places, distances = _distances(blob.codes, blob.bits)
    step_bits = _listed_size(distances, blob.bits)[1]
    between, most = _between(distances, step_bits), (1 << step_bits) - 1
    ends = np.cumsum(between + 1) - 1
    steps = np.full(int(ends[-1]) + 1, most, np.uint8)
    steps[ends] = distances - between * most
    codes = np.full(steps.size, 1 << (blob.bits - 1), np.uint8)
    codes[ends] = blob.codes.reshape(-1)[places]
    return Listed(steps, step_bits, codes)


def pack(codes: Array, bits: int) -> bytes:
    """Codes of `bits` bits side by side, the first in the highest bits of a byte; the last byte ends with 0s."""
    flat = np.ascontiguousarray(codes, np.uint8).reshape(-1)
    if bits == 8:
        return flat.tobytes()
    if bits in (2, 4):
        padded = np.zeros(-(-flat.size * bits // 8) * (8 // bits), np.uint8)
        padded[: flat.size] = flat
        fields = padded.reshape(-1, 8 // bits)
        made = fields[:, -1].copy()
        for i in range(8 // bits - 1):
            made |= fields[:, i] << np.uint8(8 - bits * (i + 1))
        return bytes(made)
    step = 1 << 20  # a multiple of 8 codes: whole bytes
    parts = (flat[i : i + step] for i in range(0, flat.size, step))
    return b"".join(np.packbits(np.unpackbits(p[:, None], axis=1)[:, 8 - bits :].reshape(-1)).tobytes() for p in parts)
