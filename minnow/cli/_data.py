"""Arrays from and to .npz files."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from minnow.output import written
from minnow.schema.errors import FormatError


def read_npz(path: str) -> dict[str, Any]:
    """The arrays of an .npz file. Nothing in it is executed: pickled objects are refused.

    Raises:
        FormatError: it cannot be read.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            if not hasattr(file, "files"):
                raise FormatError("this is a single array", where=path, hint="save inputs by name with numpy.savez")
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, zipfile.BadZipFile) as e:
        raise FormatError("cannot read the arrays", where=path, why=str(e)) from None


def write_npz(path: str, arrays: Mapping[str, Any]) -> None:
    """Writes an .npz file.

    Raises:
        UsageError, WriteError: as `minnow.output.written`.
    """
    with written(path) as part, part.open("wb") as file:
        np.savez(file, **{name: _plain(a) for name, a in arrays.items()})


def _plain(array: Any) -> Any:
    """Bytes without a type, where numpy itself does not have it: some of them it writes, but does not read."""
    foreign = isinstance(array, np.ndarray) and array.dtype.isbuiltin == 2
    return array.view(np.dtype((np.void, array.dtype.itemsize))) if foreign else array
