"""Folders as archives, which is how they are changed and kept here: what is in a file of the folder becomes another."""

from __future__ import annotations

import json
import random
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

from fuzz.messages import NUMBERS
from fuzz.tables import damaged_bytes

FOLDER = "saved"
"""What unpacked folders are called."""
Files = dict[str, bytes]
Change = Callable[[Files, Files, random.Random], None]
_BROKEN = (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, RuntimeError, NotImplementedError)


class NoCaseError(Exception):
    """What was made is no archive any more, so there is nothing to read."""


def members(data: bytes) -> Files:
    """The files of an archive. Raises NoCaseError."""
    from torch_damage import files_of

    try:
        return dict(files_of(data))
    except _BROKEN as e:
        raise NoCaseError from e


def unpacked(path: Path) -> Path:
    """A folder beside an archive, with its files, which `probe` removes. Raises NoCaseError."""
    files, folder = members(path.read_bytes()), path.with_name(FOLDER)
    folder.mkdir()
    for name, data in files.items():
        file = folder / name
        if folder not in file.parents or ".." in file.parts:
            raise NoCaseError
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
        except (OSError, ValueError) as e:  # no name of a file, or one in another
            raise NoCaseError from e
    return folder


def of_folder(change: Change) -> Callable[[bytes, bytes, random.Random], bytes]:
    """What makes another archive of one; of an archive that cannot be read, from the other, which is as it was made."""

    def damage(data: bytes, other: bytes, dice: random.Random) -> bytes:
        from torch_damage import archive_of

        spare = members(other)
        try:
            files = members(data)
        except NoCaseError:
            files = dict(spare)
        if not files or dice.random() < 0.03:
            files.update(spare)
        if dice.random() < 0.03:
            files.pop(dice.choice(sorted(files)))
        else:
            change(files, spare, dice)
        return bytes(archive_of(files))

    return damage


def damaged_document(data: bytes, dice: random.Random) -> bytes:
    """Another document of JSON; bytes of what is none are others."""
    from torch_damage import damaged_json

    if dice.random() < 0.85:
        try:
            if isinstance(json.loads(data), (dict, list)):
                return bytes(damaged_json(dice, data))
        except (ValueError, RecursionError):
            pass
    return damaged_bytes(data, dice)


def damaged_tensors(data: bytes, dice: random.Random) -> bytes:
    """Another table of tensors in a safetensors file, another size of it, or other numbers."""
    if len(data) < 8:
        return damaged_bytes(data, dice)
    size = struct.unpack("<Q", data[:8])[0]
    head, rest, what = data[8 : 8 + size], data[8 + size :], dice.random()
    if what < 0.75:
        head = damaged_document(head, dice)
    elif what < 0.9:
        rest = damaged_bytes(rest, dice)
    size = len(head) if what < 0.9 else dice.choice(NUMBERS) % (1 << 64)
    return struct.pack("<Q", size) + head + rest
