"""Weights: where the numbers of a constant are, without copying them before they are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from minnow.schema.errors import FormatError
from minnow.schema.ir.dtype import DType

Array = npt.NDArray[np.generic]


@runtime_checkable
class Blob(Protocol):
    """Numbers of a constant. `numpy()` gives them, as a view where that is possible; never write to it."""

    @property
    def dtype(self) -> DType: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    def numpy(self) -> Array: ...
    def __hash__(self) -> int: ...


class ArrayBlob:
    """Numbers in memory."""

    __slots__ = ("_array",)

    def __init__(self, array: npt.ArrayLike) -> None:
        self._array = np.asarray(array)

    @property
    def dtype(self) -> DType:
        return DType.of(self._array.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        return self._array.shape

    def numpy(self) -> Array:
        return self._array


class Described:
    """A blob that is told its dtype and shape, because its numbers are not there yet."""

    __slots__ = ("_dtype", "_shape")

    def __init__(self, dtype: DType, shape: tuple[int, ...]) -> None:
        self._dtype, self._shape = dtype, shape

    @property
    def dtype(self) -> DType:
        return self._dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape


class MappedBlob(Described):
    """Numbers in a file, mapped at the first use.

    Args:
        path: the file; the caller has checked that it may be read.
        offset: bytes from the start of the file.
    """

    __slots__ = ("_offset", "_path")

    def __init__(self, path: Path, offset: int, dtype: DType, shape: tuple[int, ...]) -> None:
        super().__init__(dtype, shape)
        self._path, self._offset = path, offset

    def numpy(self) -> Array:
        if 0 in self._shape:
            return np.zeros(self._shape, self._dtype.numpy)
        try:
            return np.memmap(self._path, self._dtype.numpy, mode="r", offset=self._offset, shape=self._shape)
        except (OSError, ValueError) as e:
            raise FormatError("cannot read external weights", where=str(self._path), why=str(e)) from e


class LazyBlob(Described):
    """Numbers computed when they are asked for, for instance folded weights; nothing is kept.

    Attributes:
        depth: how many of them are computed one of the other. work: bytes that are computed for its own.
    """

    __slots__ = ("_function", "depth", "work")

    def __init__(
        self, function: Callable[[], Array], dtype: DType, shape: tuple[int, ...], of: Iterable[Blob] = ()
    ) -> None:
        super().__init__(dtype, shape)
        self._function = function
        made_of = list(of)
        self.depth = 1 + max((getattr(b, "depth", 0) for b in made_of), default=0)
        self.work = nbytes(self) + sum(getattr(b, "work", 0) for b in made_of)

    def numpy(self) -> Array:
        array = np.asarray(self._function(), self._dtype.numpy)
        return array.reshape(self._shape)


class TurnedBlob(Described):
    """A matrix that the file has on its side, where others read it so; a node turns it back when it is loaded.

    Attributes:
        stored: the matrix on its side.
    """

    __slots__ = ("stored",)

    def __init__(self, stored: Blob) -> None:
        super().__init__(stored.dtype, tuple(stored.shape)[::-1])
        self.stored = stored

    def numpy(self) -> Array:
        return np.ascontiguousarray(self.stored.numpy().T)


class PackedBlob(Described):
    """A matrix of small integers, packed into bytes, with a scale for each block of a row: (code - zero) * scale.

    Args:
        codes: u8[rows, bytes of a row]: codes of 0 .. 2^bits - 1 side by side, the first in the low bits of a byte.
        bits: of a code: 1, 2, 4 or 8.
        scale: [rows, blocks] in a float type; a row's blocks are of one length.
        zero: the codes of the number 0, f32[rows, blocks]; None: 2^(bits - 1) everywhere.
        shape: of the numbers, its first dimension being the rows.
        dtype: of the numbers.
    """

    __slots__ = ("bits", "codes", "scale", "zero")

    def __init__(
        self, codes: Blob, bits: int, scale: Array, zero: Array | None, shape: tuple[int, ...], dtype: DType = DType.F32
    ) -> None:
        super().__init__(dtype, shape)
        self.codes, self.bits, self.scale, self.zero = codes, bits, scale, zero

    def scaled(self, factor: Array) -> PackedBlob:
        """The numbers times a factor for each row, f64[rows]: only the scales change, which are f32 then."""
        scale = (self.scale.astype(np.float64) * factor.astype(np.float64)[:, None]).astype(np.float32)
        return PackedBlob(self.codes, self.bits, scale, self.zero, self._shape, self._dtype)

    def numpy(self) -> Array:
        rows, blocks = self.scale.shape
        codes = unpack_codes(self.codes.numpy(), self.bits).reshape(rows, blocks, -1).astype(np.float32)
        if self.zero is None:
            zero = np.full((1, 1, 1), 1 << (self.bits - 1), np.float32)
        else:
            zero = self.zero.astype(np.float32)[..., None]
        numbers = (codes - zero) * self.scale.astype(np.float32)[..., None]
        return np.asarray(numbers, self._dtype.numpy).reshape(self._shape)


def unpack_codes(packed: Array, bits: int) -> Array:
    """Codes of `bits` bits, the first in the low bits of a byte, as one u8 each along the last axis."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    codes = (packed.astype(np.uint8)[..., None] >> shifts) & np.uint8((1 << bits) - 1)
    return np.asarray(codes).reshape(*packed.shape[:-1], -1)


_CHUNK = 1 << 16


def same_bytes(a: Array, b: Array) -> bool:
    """Two contiguous arrays hold the same bytes; looked at piece by piece, which takes no memory to speak of."""
    x, y = (array.reshape(-1).view(np.uint8) for array in (a, b))
    return x.size == y.size and all(
        np.array_equal(x[i : i + _CHUNK], y[i : i + _CHUNK]) for i in range(0, x.size, _CHUNK)
    )


def nbytes(blob: Blob) -> int:
    """Bytes of the numbers, without loading them."""
    n = blob.dtype.size
    for d in blob.shape:
        n *= d
    return n
