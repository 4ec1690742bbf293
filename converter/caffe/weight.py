"""The numbers of a .caffemodel, by layer."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from minnow.converter.caffe.message import LooseBlob
from minnow.converter.file.wire import BYTES, NUMBER, fields, integers, signed
from minnow.schema.errors import FormatError, UnsupportedError
from minnow.schema.ir import Value

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class _Form:
    """Where a form of layers has what: numbers of fields.

    Attributes:
        inner: a message that holds the other two, in the first form.
    """

    name: int
    blobs: int
    inner: int = 0


_NEW, _SECOND, _FIRST = _Form(1, 7), _Form(4, 6, inner=1), _Form(1, 50)
_LAYERS = {100: _NEW, 2: _SECOND}

# Of a blob: packed numbers, the same as doubles, those of NVIDIA's fork with their type.
_DATA, _DOUBLE, _RAW, _RAW_TYPE, _SHAPE = 5, 8, 12, 10, 7
_TYPES = {_DATA: "<f4", _DOUBLE: "<f8"}
_RAW_TYPES = {0: "<f8", 1: "<f4", 2: "<f2"}


def blobs_by_layer(net: memoryview) -> dict[str, list[memoryview]]:
    """The blobs of each layer that has some, by its name; of layers of one name those of the last.

    Raises:
        ValueError: the file is damaged.
    """
    found: dict[str, list[memoryview]] = {}
    for number, kind, value in fields(net):
        if number in _LAYERS and kind == BYTES:
            name, blobs = _layer(value, _LAYERS[number])
            if blobs:
                found[name] = blobs
    return found


def _layer(message: memoryview, form: _Form) -> tuple[str, list[memoryview]]:
    name, blobs = "", list[memoryview]()
    for number, kind, value in fields(message):
        if kind != BYTES:
            continue
        if number == form.name:
            name = bytes(value).decode(errors="replace")
        elif number == form.blobs:
            blobs.append(value)
        elif form.inner and number == form.inner:
            inner, more = _layer(value, _FIRST)
            name, blobs = inner or name, blobs + more
    return name, blobs


def constant(blob: memoryview, name: str, where: str) -> Value:
    """A blob as a constant of float32, a view of the file where that holds it as such.

    Raises:
        FormatError: its numbers do not fit its shape. UnsupportedError: they are of a type that has no conversion.
    """
    try:
        numbers, shape = _numbers(blob, name, where)
    except ValueError as e:
        raise FormatError(f"the weights '{name}' are damaged", where=where, why=str(e)) from None
    if any(d < 0 for d in shape) or prod(shape) != numbers.size:
        raise FormatError(f"the weights '{name}' are damaged", where=where, why=f"{numbers.size} numbers for {shape}")
    return Value.constant(numbers.reshape(shape), name)


def _numbers(blob: memoryview, name: str, where: str) -> tuple[Array, tuple[int, ...]]:
    """The numbers of a blob, in a row, and their shape; files that name no dimensions at all are of one axis."""
    chunks: dict[int, list[memoryview]] = {}
    old: dict[int, int] = {}
    shape: list[int] | None = None
    raw_type, loose = 1, False
    for number, kind, value in fields(blob):
        if number in (_DATA, _DOUBLE, _RAW) and kind == BYTES:
            chunks.setdefault(number, []).append(value)
        elif number in _TYPES:
            loose = True
        elif number == _SHAPE and kind == BYTES:
            shape = [d for n, k, v in fields(value) if n == 1 for d in integers(k, v)]
        elif number in (1, 2, 3, 4) and kind == NUMBER:
            old[number] = signed(value)
        elif number == _RAW_TYPE and kind == NUMBER:
            raw_type = value
    if _RAW in chunks and raw_type not in _RAW_TYPES:
        raise UnsupportedError(
            f"the weights '{name}' have the element type {raw_type}, which is not supported", where=where
        )
    if loose:
        numbers = _one_by_one(blob)
    else:
        which = next((n for n in (_RAW, _DATA, _DOUBLE) if n in chunks), _DATA)
        dtype = _RAW_TYPES[raw_type] if which == _RAW else _TYPES[which]
        parts = [np.frombuffer(c, dtype) for c in chunks.get(which, [])]
        numbers = parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, dtype), *parts])
    legacy = tuple(old.get(n, 0) for n in (1, 2, 3, 4)) if old else (numbers.size,)
    return numbers.astype(np.float32, copy=False), legacy if shape is None else tuple(shape)


def _one_by_one(blob: memoryview) -> Array:
    """Numbers that each have a field of their own."""
    try:
        message = LooseBlob.FromString(bytes(blob))
    except Exception as e:  # noqa: BLE001  (protobuf's parsers raise classes of their own, other ones in each version)
        raise ValueError(str(e)[:200]) from None
    return np.array(message.data or message.double_data, np.float32)
