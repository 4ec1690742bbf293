"""The JSON form of `.mnn` files, as files: what MNNDump2Json and MNNRevert2Buffer do, without a loss."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

from minnow.converter.file.door import guarded
from minnow.converter.formats import check_readable
from minnow.output import target_of, writing, written
from minnow.schema.collector import SeldomCollected
from minnow.schema.errors import FormatError, MinnowError, UsageError


def is_json(path: Path) -> bool:
    """Whether a file is JSON text, by its first bytes. Raises FormatError if it cannot be read."""
    from minnow.schema.mnn.json_form import looks_like_json

    if path.is_dir():
        raise FormatError("this is a folder, not a file", where=str(path))
    return looks_like_json(check_readable(path, any_kind=True))


def write_json(source: Path, target: Path) -> list[str]:
    """Writes the JSON form of a `.mnn` file; returns notes for the user.

    Raises:
        FormatError: the file cannot be read, or is damaged.
        UsageError, WriteError: the text cannot be written.
    """
    from minnow.schema.mnn import json_form

    check_readable(source)
    _not_the_same(source, target)
    with SeldomCollected(), guarded(source), source.open("rb") as file:
        net = _read(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        with written(target) as part, part.open("w", encoding="ascii") as out:
            out.writelines(json_form.to_json(net))
    notes = _notes(net)
    if why := json_form.unread_by_mnn(net):
        notes.append(f"MNN's own reader refuses the text, Minnow's reads it: {why}")
    return notes


def write_mnn(source: Path, target: Path) -> list[str]:
    """Writes the `.mnn` file that a JSON text describes, as it is described; returns notes for the user.

    Raises:
        FormatError: the text cannot be read, or is not the form of a `.mnn` file.
        UnsupportedError: it is larger than a file can be.
        UsageError, WriteError: the file cannot be written.
    """
    from minnow.schema.mnn import decode, side_path, wire
    from minnow.schema.mnn.json_form import from_json

    check_readable(source, any_kind=True)
    _not_the_same(source, target)
    with SeldomCollected(), guarded(source):
        try:
            text = source.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as e:
            raise FormatError("the text is not UTF-8", where=str(source), why=str(e)) from None
        except OSError as e:
            raise FormatError("cannot read the file", where=str(source), why=e.strerror or str(e)) from None
        net = from_json(text)
        data = wire.write_view(net)
    with written(target) as part, writing(target):
        part.write_bytes(data)
    notes = _notes(net)
    try:
        decode(data, side_path(target))
    except MinnowError as e:
        notes.append(f"the file says what the text says, but Minnow does not run it: {e.message}")
    return notes


def _read(data: Any) -> dict[str, Any]:
    from minnow.schema.mnn import wire

    return wire.read(data)


def _notes(net: dict[str, Any]) -> list[str]:
    mains = (op.get("main") for op in net.get("oplists", ()))
    outside = any(isinstance(main, dict) and len(main.get("external", ())) > 1 for main in mains)
    return ["weights are in the companion weights file: keep it beside the .mnn file"] if outside else []


def _not_the_same(source: Path, target: Path) -> None:
    if target_of(target) == source.resolve():
        raise UsageError("the output file is the source file", where=str(target))
