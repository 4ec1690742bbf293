"""Writes arrays to .npz files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from minnow.output import written


def write_npz(path: str | os.PathLike[str], arrays: Mapping[str, Any]) -> None:
    """Writes an .npz file.

    Raises:
        UsageError, WriteError: as `minnow.output.written`.
    """
    with written(path) as part, part.open("wb") as file:
        np.savez(file, **{name: _plain(a) for name, a in arrays.items()})


def _plain(array: Any) -> Any:
    """Raw bytes if the type is not one of numpy's own, which np.load does not always read."""
    foreign = isinstance(array, np.ndarray) and array.dtype.isbuiltin == 2
    return array.view(np.dtype((np.void, array.dtype.itemsize))) if foreign else array
