"""Memory that programs name by its address."""

from __future__ import annotations

import contextlib
import ctypes
import os
from typing import Any

import numpy as np

from minnow.schema.errors import UsageError

Array = np.ndarray[Any, Any]


class Address(int):
    """Where an array lies in memory. It keeps the array alive.

    Attributes:
        array: the array.
    """

    array: Array

    @classmethod
    def of(cls, array: Array) -> Address:
        made = cls(array.ctypes.data)
        made.array = array
        return made


def at(address: int, dtype: np.dtype[Any], count: int) -> Array:
    """A copy of the elements at an address.

    Raises:
        UsageError: the memory of this process does not hold so many bytes there.
    """
    size = count * dtype.itemsize
    if isinstance(address, Address):
        if address.array.nbytes < size:
            raise UsageError(f"{size} bytes are wanted of an array of {address.array.nbytes}")
        held: Array = np.frombuffer(address.array.tobytes(), dtype, count)
        copy: Array = held.copy()
        return copy
    if size == 0:
        return np.zeros(0, dtype)
    read: Array = np.frombuffer(_read(int(address), size), dtype)
    copied: Array = read.copy()
    return copied


def _read(address: int, size: int) -> bytes:
    """The bytes at an address, read by the system, which refuses what is not there instead of ending the process."""
    error = UsageError(f"there are no {size} bytes at the address {address:#x}", hint="pass the array itself")
    if not 0 < address < 2**63 - size or not hasattr(os, "memfd_create"):
        raise error
    with contextlib.ExitStack() as stack:
        file = os.memfd_create("minnow")
        stack.callback(os.close, file)
        view = memoryview((ctypes.c_char * size).from_address(address)).cast("B")
        done = 0
        while done < size:
            try:
                written = os.write(file, view[done : done + (1 << 30)])
            except OSError:
                raise error from None
            if written == 0:
                raise error
            done += written
        parts, left = [], 0
        while left < size:
            parts.append(os.pread(file, min(size - left, 1 << 30), left))
            left += len(parts[-1])
        return b"".join(parts)
