"""Weights: where the numbers of a constant are, without copying them before they are needed."""

from __future__ import annotations

from collections.abc import Callable
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


class MappedBlob:
    """Numbers in a file, mapped at the first use.

    Args:
        path: the file; the caller has checked that it may be read.
        offset: bytes from the start of the file.
    """

    __slots__ = ("_dtype", "_offset", "_path", "_shape")

    def __init__(self, path: Path, offset: int, dtype: DType, shape: tuple[int, ...]) -> None:
        self._path, self._offset, self._dtype, self._shape = path, offset, dtype, shape

    @property
    def dtype(self) -> DType:
        return self._dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    def numpy(self) -> Array:
        if 0 in self._shape:
            return np.zeros(self._shape, self._dtype.numpy)
        try:
            return np.memmap(self._path, self._dtype.numpy, mode="r", offset=self._offset, shape=self._shape)
        except (OSError, ValueError) as e:
            raise FormatError("cannot read external weights", where=str(self._path), why=str(e)) from e


class LazyBlob:
    """Numbers computed when they are asked for, for instance folded weights; nothing is kept."""

    __slots__ = ("_dtype", "_function", "_shape")

    def __init__(self, function: Callable[[], Array], dtype: DType, shape: tuple[int, ...]) -> None:
        self._function, self._dtype, self._shape = function, dtype, shape

    @property
    def dtype(self) -> DType:
        return self._dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    def numpy(self) -> Array:
        array = np.asarray(self._function(), self._dtype.numpy)
        return array.reshape(self._shape)


def nbytes(blob: Blob) -> int:
    """Bytes of the numbers, without loading them."""
    n = blob.dtype.size
    for d in blob.shape:
        n *= d
    return n
