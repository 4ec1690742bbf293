"""FlatBuffer bytes -> dicts. Nothing is trusted: every offset, length and vtable is checked before it is followed.

What is accepted is what FlatBuffers' own verifier accepts, with its limits, but for two things it lets pass: an offset
of zero inside a vector, and data so often referred to that reading it would take far more memory than the file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from minnow.schema.errors import FormatError
from minnow.schema.mnn.fault import Fault
from minnow.schema.mnn.fbs import SCALARS, Field, Schema, Table, schema

Buffer = Any  # bytes, mmap, numpy array, ...: `collections.abc.Buffer` comes with Python 3.12

MAX_BYTES = 2**31 - 1
MAX_DEPTH = 64
MAX_TABLES = 1_000_000

_U16 = SCALARS["uint16"].codec
_U32 = SCALARS["uint32"].codec
_I32 = SCALARS["int32"].codec


def read_root(root: str, buffer: Buffer) -> dict[str, Any]:
    """The table named `root` that the buffer starts with, as described in `wire`."""
    view = memoryview(buffer)
    try:
        if not 8 <= view.nbytes < MAX_BYTES:
            raise Fault(f"{view.nbytes} bytes: a FlatBuffer has 8 bytes at least and less than 2 GiB", 0)
        reader = _Reader(schema(), view.cast("B").toreadonly())
        return reader.table(schema().tables[root], reader.follow(0), 1)
    except Fault as fault:
        raise FormatError(
            "the .mnn data is damaged, or not .mnn at all",
            where=fault.where(root),
            why=fault.why,
            hint="compare the size and checksum of the file with those of its source, or convert the model again",
        ) from None


class _Reader:
    def __init__(self, known: Schema, view: memoryview) -> None:
        self.known = known
        self.view = view
        self.data = np.frombuffer(view, np.uint8)
        self.end = len(view)
        self.tables_left = MAX_TABLES
        # An honest file has four bytes for each element of a list, and hardly ever uses a vector twice.
        self.elements_left = self.end
        self.layouts: dict[tuple[str, int], list[tuple[Field, int]]] = {}
        self.strings: dict[int, str] = {}

    def check(self, at: int, size: int, align: int, what: str) -> None:
        if not 0 <= at <= self.end - size:
            raise Fault(f"{what} ({size} bytes) would lie outside of the {self.end} bytes of data", at)
        if at % align:
            raise Fault(f"{what} is not aligned to {align} bytes", at)

    def follow(self, at: int) -> int:
        """The position that the offset at `at` points to."""
        self.check(at, 4, 4, "an offset")
        (offset,) = _U32.unpack_from(self.view, at)
        if not 0 < offset < self.end - at:
            raise Fault(f"the offset {offset} does not point into the {self.end} bytes of data", at)
        return int(at + offset)

    def table(self, table: Table, at: int, depth: int) -> dict[str, Any]:
        self.tables_left -= 1
        if self.tables_left < 0:
            raise Fault(f"more than {MAX_TABLES} tables", at)
        if depth > MAX_DEPTH:
            raise Fault(f"tables are nested more than {MAX_DEPTH} deep", at)
        self.check(at, 4, 4, "a table")
        vtable = at - _I32.unpack_from(self.view, at)[0]
        if not 0 <= vtable < self.end:
            raise Fault(f"the vtable, at {vtable}, would lie outside of the {self.end} bytes of data", at)
        layout = self.layout(table, vtable)
        values: dict[str, Any] = {}
        for field, offset in layout:
            try:
                value: Any
                if field.kind == "union":
                    value = self.union(values.get(f"{field.name}_type"), at + offset, depth)
                elif field.vector:
                    value = self.vector(field, at + offset, depth)
                else:
                    value = _SINGLE[field.kind](self, field, at + offset, depth)
            except Fault as fault:
                raise fault.inside(f".{field.name}") from None
            if value is not None:
                values[field.name] = value
        return values

    def layout(self, table: Table, at: int) -> list[tuple[Field, int]]:
        """The fields that the vtable at `at` has, each with its distance from the start of the table."""
        key = (table.name, at)
        if key not in self.layouts:
            self.check(at, 2, 2, "a vtable")
            (size,) = _U16.unpack_from(self.view, at)
            if size % 2:
                raise Fault(f"a vtable of the odd size {size}", at)
            self.check(at, size, 2, "a vtable")
            layout = []
            for field in table.fields.values():
                entry = 4 + 2 * field.slot
                offset = _U16.unpack_from(self.view, at + entry)[0] if entry < size else 0
                if offset:
                    layout.append((field, offset))
                elif field.required:
                    raise Fault(f"the required field '{field.name}' is missing", at)
            self.layouts[key] = layout
        return self.layouts[key]

    def scalar(self, field: Field, at: int, depth: int) -> Any:
        size = field.scalar.size
        self.check(at, size, size, f"a value of type {field.scalar.name}")
        return field.scalar.codec.unpack_from(self.view, at)[0]

    def enum(self, field: Field, at: int, depth: int) -> str | int:
        code: int = self.scalar(field, at, depth)
        return self.known.names[field.type].get(code, code)

    def tag(self, field: Field, at: int, depth: int) -> str | int | None:
        member = self.enum(field, at, depth)
        return None if member == "NONE" else member

    def union(self, member: str | int | None, at: int, depth: int) -> dict[str, Any] | None:
        target = self.follow(at)
        return self.table(self.known.tables[member], target, depth + 1) if isinstance(member, str) else None

    def string(self, field: Field, at: int, depth: int) -> str:
        start = self.follow(at)
        # One string may stand in many places: decoded once, so that a small file cannot fill the memory.
        if start not in self.strings:
            first, count = self.span(start, 1)
            self.check(first + count, 1, 1, "the end of a string")
            if self.view[first + count]:
                raise Fault("a string does not end with a zero byte", first + count)
            self.strings[start] = str(self.view[first : first + count], "utf-8", "surrogateescape")
        return self.strings[start]

    def child(self, field: Field, at: int, depth: int) -> dict[str, Any]:
        return self.table(self.known.tables[field.type], self.follow(at), depth + 1)

    def span(self, at: int, size: int) -> tuple[int, int]:
        """Start and count of the elements, `size` bytes each, of the vector at `at`."""
        self.check(at, 4, 4, "the length of a vector")
        (count,) = _U32.unpack_from(self.view, at)
        if count * size > self.end - at - 4:
            raise Fault(
                f"a vector of {count} elements of {size} bytes ends outside of the {self.end} bytes of data", at
            )
        return at + 4, int(count)

    def vector(self, field: Field, at: int, depth: int) -> npt.NDArray[Any] | list[Any]:
        size = field.scalar.size
        start, count = self.span(self.follow(at), size)
        array: npt.NDArray[Any] = self.data[start : start + count * size]
        if field.kind == "scalar" and field.type != "bool":
            return array.view(field.scalar.dtype)
        self.elements_left -= count
        if self.elements_left < 0:
            raise Fault("the same vectors are referred to again and again", start)
        if field.type == "bool":
            array = array.astype(bool)
            array.flags.writeable = False
            return array
        if field.kind == "enum":
            names = self.known.names[field.type]
            return [names.get(code, code) for code in array.view(field.scalar.dtype).tolist()]
        single = _SINGLE[field.kind]
        values = []
        for index, place in enumerate(range(start, start + 4 * count, 4)):
            try:
                values.append(single(self, field, place, depth))
            except Fault as fault:
                raise fault.inside(f"[{index}]") from None
        return values


_SINGLE: dict[str, Callable[[_Reader, Field, int, int], Any]] = {
    "scalar": _Reader.scalar,
    "enum": _Reader.enum,
    "tag": _Reader.tag,
    "string": _Reader.string,
    "table": _Reader.child,
}
