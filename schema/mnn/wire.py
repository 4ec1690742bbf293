"""The wire level of `.mnn`: FlatBuffer bytes <-> nested plain dicts, driven by `mnn.fbs`.

A table is a dict `{field: value}` that holds only the fields which the file holds; `default` gives what the others
stand for. Values:

    scalar             int, float, bool
    enum               its name; a number without a name stays an int
    string             str; bytes that are not UTF-8 become lone surrogates, so they survive a round trip
    table              dict
    union `main`       two keys, {"main_type": "Convolution2D", "main": {...}}; of type NONE: neither
    vector of scalars  numpy array, 1-D, read-only, little endian: a view into the buffer, nothing is copied
    vector of others   list

A union of an unknown type keeps its number in `main_type` and has no `main`. Fields that a newer version of the
format has added are skipped, as FlatBuffers wants it.

Source of the encoding: https://flatbuffers.dev/internals/
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minnow.schema.mnn import wire_read, wire_write
from minnow.schema.mnn.fbs import Default, Table, schema
from minnow.schema.mnn.wire_read import MAX_BYTES, Buffer
from minnow.schema.mnn.wire_write import room

__all__ = [
    "MAX_BYTES",
    "Buffer",
    "default",
    "enums",
    "read",
    "read_nested",
    "room",
    "tables",
    "unions",
    "write",
    "write_nested",
    "write_view",
]

enums: dict[str, dict[str, int]]
"""Of every enum the members and their numbers."""
unions: dict[str, dict[str, int]]
"""Of every union the members, which are tables, and their numbers; NONE is 0."""
tables: dict[str, Table]
"""Every table with its fields in the order of their slots."""


def __getattr__(name: str) -> Any:
    if name in ("enums", "unions", "tables"):
        return getattr(schema(), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def read(buffer: Buffer) -> dict[str, Any]:
    """Reads a `.mnn` file.

    Args:
        buffer: the whole file: bytes, mmap, or anything contiguous with the buffer protocol. The arrays in the result
            keep it alive.

    Returns:
        The root table `Net`.

    Raises:
        FormatError: the bytes are not a valid FlatBuffer of this schema. No bytes give any other exception.
    """
    return wire_read.read_root(schema().root, buffer)


def read_nested(table: str, buffer: Buffer) -> dict[str, Any]:
    """Like `read`, for a FlatBuffer with another root table, such as `Extra` in `ExtraInfo.buffer`."""
    return wire_read.read_root(table, buffer)


def write(net: Mapping[str, Any]) -> bytes:
    """Writes a `.mnn` file.

    Args:
        net: the root table in the form described above. Vectors may also be any array-like object or sequence, of
            one-byte elements also bytes; enums may be numbers; None is the same as absent. Scalars equal to their
            default are not written.

    Returns:
        The bytes of the file; the same dict gives the same bytes. Long vectors start at multiples of 64 bytes.

    Raises:
        InternalError: an unknown name, or a value that its field cannot hold.
        UnsupportedError: the file would be larger than a FlatBuffer can be, 2 GiB.
    """
    return bytes(write_view(net))


def write_view(net: Mapping[str, Any]) -> memoryview:
    """Like `write`, without the last copy: for big models, whose weights are then in memory only once more."""
    return wire_write.write_root(schema().root, net)


def write_nested(table: str, value: Mapping[str, Any]) -> bytes:
    """Like `write`, for another root table."""
    return bytes(wire_write.write_root(table, value))


def default(table: str, field: str) -> Default:
    """What a reader takes an absent field for: a number, an enum's name, or None for everything behind an offset.

    Raises:
        KeyError: there is no such table or field.
    """
    return schema().tables[table].fields[field].default
