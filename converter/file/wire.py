"""The fields of a protobuf message in place: weights are mapped from the file, not copied into messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

NUMBER, EIGHT, BYTES, FOUR = 0, 1, 2, 5
"""How a field is written: as a number of its own length, with a length, or in a fixed number of bytes."""


def varint(data: Any, at: int) -> tuple[int, int]:
    """A number and where it ends. Raises ValueError where the data end before."""
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = int(data[at])
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value & (1 << 64) - 1, at
        shift += 7
    raise ValueError("a number is cut off")


def fields(message: memoryview) -> Iterator[tuple[int, int, Any]]:
    """(number, how it is written, what it holds) of each field: a number, or a view. Raises ValueError when damaged."""
    at, end = 0, len(message)
    while at < end:
        key, at = varint(message, at)
        number, kind = key >> 3, key & 7
        if kind == NUMBER:
            value, at = varint(message, at)
            yield number, kind, value
            continue
        if kind == BYTES:
            size, at = varint(message, at)
        elif kind in (EIGHT, FOUR):
            size = 8 if kind == EIGHT else 4
        else:
            raise ValueError(f"field {number} has the unknown wire type {kind}")
        if not number or at + size > end:
            raise ValueError(f"field {number} has {size} bytes, but only {end - at} are left")
        yield number, kind, message[at : at + size]
        at += size


def signed(value: int) -> int:
    """A number that may be negative."""
    return value - (1 << 64) if value >> 63 else value


def integers(kind: int, value: Any) -> list[int]:
    """Numbers of a repeated field: packed, or one of them."""
    if kind == NUMBER:
        return [signed(value)]
    found, at = [], 0
    while at < len(value):
        number, at = varint(value, at)
        found.append(signed(number))
    return found
