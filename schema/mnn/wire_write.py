"""Dicts -> FlatBuffer bytes, with the Builder of the `flatbuffers` package.

The Builder is made as large as the file will be, for it grows by doubling and copying, and arrays are copied straight
into its memory: writing takes the memory of the file once. Long vectors of the same bytes are written once, and both
tables point there. Nothing but the dict decides the bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import flatbuffers
import numpy as np
import numpy.typing as npt
from flatbuffers.builder import BuilderSizeError

from minnow.schema.errors import InternalError, UnsupportedError
from minnow.schema.ir.blob import same_bytes
from minnow.schema.mnn.fault import Fault, RangeFault
from minnow.schema.mnn.fbs import Field, Scalar, Schema, Table, schema
from minnow.schema.mnn.wire_read import MAX_BYTES, MAX_DEPTH, MAX_TABLES

# From this many bytes on a vector of numbers starts on a cache line of its own, so that mapped weights need no copy.
LONG_VECTOR = 1024
CACHE_LINE = 64

# Of vectors that may be the same some numbers are looked at first; of those that agree in these, so many are compared.
_PIECES = 16
_MOST_ALIKE = 8

_SHORT = 64
"""Lists of so many integers are packed at once, without an array."""


def write_root(root: str, value: Mapping[str, Any]) -> memoryview:
    """The FlatBuffer whose root is the table `root`, as described in `wire`."""
    bound = room(value) + CACHE_LINE
    try:
        if bound >= MAX_BYTES:
            raise BuilderSizeError
        writer = _Writer(schema(), bound)
        writer.builder.Finish(writer.table(schema().tables[root], value, 1))
        view = memoryview(writer.builder.Bytes)[writer.builder.Head() :]
        if view.nbytes >= MAX_BYTES:
            raise BuilderSizeError
    except BuilderSizeError:
        raise UnsupportedError(
            "the model is too large for one .mnn file",
            where=root,
            why=f"it needs about {bound / 2**30:.1f} GiB, and a FlatBuffer ends at 2 GiB",
            hint="keep the weights in a companion weights file: --side-file",
        ) from None
    except RangeFault as fault:
        raise UnsupportedError("the format cannot hold a number", where=fault.where(root), why=fault.why) from None
    except Fault as fault:
        raise InternalError("a value does not fit its field in .mnn", where=fault.where(root), why=fault.why) from None
    return view.toreadonly()


def room(value: Any) -> int:
    """How many bytes a value takes at most, whatever field it is for."""
    if isinstance(value, str):
        return 16 + (len(value) if value.isascii() else 4 * len(value))
    if isinstance(value, (int, float)):
        return 0
    if isinstance(value, (dict, Mapping)):
        return 48 + 16 * len(value) + sum(map(room, value.values()))
    if isinstance(value, (bytes, bytearray)):
        return 2 * CACHE_LINE + len(value)
    if isinstance(value, (list, tuple)):
        return 16 + 8 * len(value) + sum(map(room, value))
    if hasattr(value, "nbytes"):
        return 2 * CACHE_LINE + int(value.nbytes)
    shape = getattr(value, "shape", None)
    return 0 if shape is None else 2 * CACHE_LINE + int(value.dtype.size * np.prod(shape, dtype=object))


def _width(stored: tuple[Field, bytes | int]) -> int:
    """Less for what is wider."""
    return -len(stored[1]) if isinstance(stored[1], bytes) else -4


class _Writer:
    def __init__(self, known: Schema, room: int) -> None:
        self.known = known
        self.builder = flatbuffers.Builder(room)
        self.tables_left = MAX_TABLES
        self.long: dict[tuple[int, int, bytes], list[int]] = {}
        self.layouts: dict[tuple[int, ...], int] = {}
        self.defaults: dict[int, bytes] = {}  # by the identity of the field

    def table(self, table: Table, value: Any, depth: int) -> int:
        """Writes the table and all it holds; its position as the Builder counts."""
        self.tables_left -= 1
        if self.tables_left < 0 or depth > MAX_DEPTH:
            raise Fault(f"no reader takes more than {MAX_TABLES} tables, or tables more than {MAX_DEPTH} deep")
        if not isinstance(value, Mapping):
            raise Fault(f"the table {table.name} is written from a dict, not from {type(value).__name__}")
        for name in value:
            if name not in table.fields:
                raise Fault(f"the table {table.name} has no field '{name}'")
        stored: list[tuple[Field, bytes | int]] = []
        for field in table.fields.values():
            if not (field.required or field.name in value):
                continue
            try:
                if (place := self.field(field, value, depth)) is not None:
                    stored.append((field, place))
            except Fault as fault:
                raise fault.inside(f".{field.name}") from None
        return self.laid_out(stored)

    def laid_out(self, stored: list[tuple[Field, bytes | int]]) -> int:
        """Writes what a table holds, and behind its back the list of where each field is, if no table has the same.

        This is what StartObject, Slot and EndObject of the Builder do, for all fields at once.
        """
        builder = self.builder
        begin = at = builder.Offset()  # counted from the end
        places: dict[int, int] = {}
        # The widest first: so no field but the first needs padding.
        stored.sort(key=_width)
        for field, place in stored:
            width = len(place) if isinstance(place, bytes) else 4
            builder.minalign = max(builder.minalign, width)
            at += -at % width + width
            places[field.slot] = at
        at += -at % 4 + 4
        table = int(at)
        rows = [0] * (max(places, default=-1) + 1)
        for slot, position in places.items():
            rows[slot] = table - position
        layout = (2 * len(rows) + 4, table - begin, *rows)
        known = self.layouts.get(layout)
        if known is None:
            at += layout[0]
            known = self.layouts[layout] = at
        builder.Prep(1, at - begin)  # may move all that is written
        data, end = builder.Bytes, len(builder.Bytes)
        builder.head = end - at
        for (_, place), at in zip(stored, places.values(), strict=True):
            packed = place if isinstance(place, bytes) else (at - place).to_bytes(4, "little")
            data[end - at : end - at + len(packed)] = packed
        struct.pack_into("<i", data, end - table, known - table)
        if builder.head < end - table:
            struct.pack_into(f"<{len(layout)}H", data, builder.head, *layout)
        return table

    def field(self, field: Field, values: Mapping[str, Any], depth: int) -> bytes | int | None:
        """What the table holds for this field: the bytes of a number, the position of what is written elsewhere, or
        nothing."""
        value = values.get(field.name)
        if value is None:
            if field.required:
                raise Fault("a required field is missing")
            return None
        if field.kind == "union":
            return self.union(field, values.get(f"{field.name}_type"), value, depth)
        if field.vector:
            return self.vector(field, value, depth)
        if field.inline:
            packed = self.pack(field, value)
            # Compared as bytes: -0.0 equals 0.0, but is not the default.
            default = self.defaults.get(id(field))
            if default is None:
                default = self.defaults[id(field)] = self.pack(field, field.default or 0)
            return None if packed == default else packed
        return self.behind(field, value, depth)

    def pack(self, field: Field, value: Any) -> bytes:
        if field.type == "bool" and not (isinstance(value, (bool, np.bool_, int)) and value in (0, 1)):
            raise Fault(f"{value!r:.80} is not a bool")
        try:
            return field.scalar.codec.pack(self.code(field, value))
        except (struct.error, OverflowError, TypeError):
            kind = RangeFault if isinstance(value, int) and field.kind == "scalar" else Fault
            raise kind(f"{value!r:.80} is not a value of type {field.scalar.name}") from None

    def code(self, field: Field, value: Any) -> Any:
        """The number of an enum's member, or of none; any other value as it is."""
        if field.kind in ("enum", "tag") and isinstance(value, str):
            if value not in self.known.codes[field.type]:
                if value.removeprefix("-").isdecimal():  # of an op that the schema does not know, as it was read
                    return int(value)
                raise Fault(f"{field.type} has no member '{value:.80}'")
            return self.known.codes[field.type][value]
        return value

    def behind(self, field: Field, value: Any, depth: int) -> int:
        """Writes a string or a table."""
        if field.kind == "table":
            return self.table(self.known.tables[field.type], value, depth + 1)
        if not isinstance(value, str):
            raise Fault(f"expected a string, not {type(value).__name__}")
        try:
            return int(self.builder.CreateSharedString(value.encode("utf-8", "surrogateescape")))
        except UnicodeEncodeError as error:
            raise Fault(f"the string cannot be encoded: {error.reason}") from None

    def union(self, field: Field, member: str | int | None, value: Any, depth: int) -> int:
        if isinstance(member, int):
            member = self.known.names[field.type].get(member)
        if member in (None, "NONE") or member not in self.known.tables:
            raise Fault(f"'{field.name}_type' must name the table to write")
        return self.table(self.known.tables[member], value, depth + 1)

    def vector(self, field: Field, value: Any, depth: int) -> int:
        if field.kind == "scalar":
            return self.array(field.scalar, value)
        if isinstance(value, str) or not isinstance(value, (Sequence, np.ndarray)):
            raise Fault(f"expected a list, not {type(value).__name__}")
        places = []
        for index, item in enumerate(value):
            try:
                places.append(self.code(field, item) if field.kind == "enum" else self.behind(field, item, depth))
            except Fault as fault:
                raise fault.inside(f"[{index}]") from None
        if field.kind == "enum":
            return self.array(field.scalar, places)
        builder = self.builder
        builder.StartVector(4, len(places), 4)
        begin = builder.Offset() + 4 * len(places)
        builder.head -= 4 * len(places)
        offsets = [begin - 4 * i - place for i, place in enumerate(places)]
        struct.pack_into(f"<{len(places)}I", builder.Bytes, builder.head, *offsets)
        return int(builder.EndVector())

    def array(self, scalar: Scalar, value: Any) -> int:
        if type(value) is list and len(value) <= _SHORT and scalar.dtype[1] in "iu" and scalar.name != "bool":
            with suppress(struct.error):  # which the check of all elements says more about
                return self.short(scalar, struct.pack(f"<{len(value)}{scalar.codec.format[1:]}", *value))
        array = _array(scalar, value)
        bytes_ = array.size * scalar.size
        builder = self.builder
        if bytes_ >= LONG_VECTOR:
            return self.long_vector(scalar, np.ascontiguousarray(array, scalar.dtype).reshape(-1), bytes_)
        builder.StartVector(scalar.size, array.size, scalar.size)
        if array.size:
            builder.head -= bytes_
            target = np.frombuffer(builder.Bytes, scalar.dtype, array.size, builder.head)
            target.reshape(array.shape)[...] = array
        return int(builder.EndVector())

    def short(self, scalar: Scalar, packed: bytes) -> int:
        builder = self.builder
        builder.StartVector(scalar.size, len(packed) // scalar.size, scalar.size)
        builder.head -= len(packed)
        builder.Bytes[builder.head : builder.head + len(packed)] = packed
        return int(builder.EndVector())

    def long_vector(self, scalar: Scalar, array: npt.NDArray[Any], bytes_: int) -> int:
        """Writes a vector on a cache line of its own, unless the same bytes were written before."""
        builder = self.builder
        step = max(1, array.size // _PIECES)
        alike = self.long.setdefault((scalar.size, bytes_, array[::step].tobytes()), [])
        for place in alike[:_MOST_ALIKE]:
            # Counted from the end: the Builder grows at its front.
            written = np.frombuffer(builder.Bytes, np.uint8, bytes_, len(builder.Bytes) - place + 4)
            if same_bytes(written, array):
                return place
        builder.StartVector(scalar.size, array.size, CACHE_LINE)
        builder.head -= bytes_
        np.frombuffer(builder.Bytes, scalar.dtype, array.size, builder.head)[...] = array
        alike.append(int(builder.EndVector()))
        return alike[-1]


def _array(scalar: Scalar, value: Any) -> npt.NDArray[Any]:
    """The elements of a vector, of any type and shape, after a check that each is a value of the type `scalar`."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        if scalar.size != 1:
            raise Fault(f"bytes are not a vector of {scalar.name}")
        return np.frombuffer(value, scalar.dtype)
    try:
        array: npt.NDArray[Any] = value.numpy() if callable(getattr(value, "numpy", None)) else np.asarray(value)
    except (ValueError, OverflowError):
        array = np.asarray(None)
    if array.size == 0:
        return array
    target: np.dtype[Any] = np.dtype(bool if scalar.name == "bool" else scalar.dtype)
    if np.can_cast(array.dtype, target, "safe"):
        return array
    if array.dtype.kind not in ("iuf" if target.kind == "f" else "iu") or target.kind == "b":
        raise Fault(f"{array.dtype} is not a vector of {scalar.name}")
    limit: Any = np.finfo(target) if target.kind == "f" else np.iinfo(target)
    finite = np.isfinite(array)
    low, high = np.min(array, where=finite, initial=0), np.max(array, where=finite, initial=0)
    if not limit.min <= low <= high <= limit.max:
        raise RangeFault(f"values from {low} to {high} do not fit a vector of {scalar.name}")
    return array
