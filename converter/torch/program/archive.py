"""The files of a `.pt2` archive."""

from __future__ import annotations

import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

from minnow.converter.torch.program.vetting import check_names
from minnow.schema.errors import FormatError, UnsupportedError
from minnow.schema.limit import LIMITS, file_bytes

_MAX_JSON = 1 << 27
_SMALL = 1 << 16
_MOST_PACKED = 1100
"""Deflate makes nothing smaller than by about this factor."""
_MOST_PACKED_TEXT = 30
"""PyTorch packs nothing; what others have packed again must not take more memory than its size lets expect."""
_DAMAGED = (OSError, zipfile.BadZipFile, ValueError, NotImplementedError, RuntimeError, EOFError, zlib.error)
_OLD = "serialized_exported_program.json"
_PICKLED = ("data/weights/model.pt", "data/constants/model.pt")


class Archive:
    """The files of an archive, by their names without the folder that holds them all.

    Raises:
        FormatError: it is damaged. UnsupportedError: of an old version, or compiled.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with zipfile.ZipFile(path) as archive:
                infos = archive.infolist()
        except _DAMAGED as e:
            raise FormatError("the archive is damaged", where=str(path), why=str(e)) from e
        # What is packed is held in memory once it is read.
        self._most = max(LIMITS.constant_bytes, LIMITS.constant_per_byte * file_bytes(path))
        names = [i.filename.partition("/") for i in infos]
        self._infos = {name: i for (_, _, name), i in zip(names, infos, strict=True)}
        if any(folder == _OLD for folder, _, _ in names) or any(n in self._infos for n in _PICKLED):
            raise UnsupportedError("the archive is of an old version, which holds its weights as a pickle",
                                   where=str(path), why="pickles run code",
                                   hint="load it in the old PyTorch, and save it in 2.9 or newer")  # fmt: skip
        if len({folder for folder, _, _ in names}) > 1:
            raise FormatError("the archive's files are not in one folder", where=str(path))
        check_names((name for _, _, name in names), str(path))
        if "byteorder" in self._infos and self.read("byteorder", 16).strip() != b"little":
            raise UnsupportedError("the archive's byte order is not little-endian", where=str(path))

    def __contains__(self, name: str) -> bool:
        return name in self._infos

    def size(self, name: str) -> int:
        """The bytes that a file says it has. Raises FormatError when there is none."""
        if name not in self._infos:
            raise FormatError(f"the archive has no file '{name}'", where=str(self.path))
        return self._infos[name].file_size

    def read(self, name: str, most: int) -> bytes:
        """The bytes of a file. Raises FormatError when there is none, it is damaged, or larger than `most` bytes."""
        size, info = self.size(name), self._infos[name]
        if size > min(most, self._most) or size > max(_SMALL, _MOST_PACKED * info.compress_size):
            raise FormatError(f"'{name}' is too large: {size} bytes", where=str(self.path))
        try:
            with zipfile.ZipFile(self.path) as archive:
                return archive.read(info)
        except _DAMAGED as e:
            raise FormatError(f"'{name}' is damaged", where=str(self.path), why=str(e)) from e

    def program_name(self) -> str:
        """What the archive calls its only program."""
        models = sorted(n for n in self._infos if n.startswith("models/"))
        if not models:
            raise FormatError("the archive holds no program", where=str(self.path))
        if len(models) > 1:
            raise UnsupportedError(f"the archive holds {len(models)} programs", where=str(self.path),
                                   hint="save each one in an archive of its own")  # fmt: skip
        return models[0].removeprefix("models/").removesuffix(".json")

    def json(self, name: str) -> dict[str, Any]:
        """A file of JSON."""
        if self.size(name) > max(_SMALL, _MOST_PACKED_TEXT * self._infos[name].compress_size):
            raise FormatError(f"'{name}' is too large: {self.size(name)} bytes", where=str(self.path))
        try:
            loaded = json.loads(self.read(name, _MAX_JSON))
        except (ValueError, RecursionError) as e:
            raise FormatError(f"'{name}' is not valid JSON", where=str(self.path), why=str(e)[:200]) from e
        if not isinstance(loaded, dict):
            raise FormatError(f"'{name}' is not a JSON object", where=str(self.path))
        return loaded
