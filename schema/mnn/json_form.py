"""The JSON form of `.mnn`: the tables of the file by the names of the schema, as MNN's converter writes and reads it.

    {"bizCode": "", "oplists": [{"main_type": "Blob", "main": {...}, "type": "Const"}], "tensorName": ["x"]}

A field that the file lacks is absent here, too. Enums are names, or numbers where there is no name; the member of a
union comes before it. Numbers have the fewest digits that give the same bits again, also for a reader that goes through
float64, as MNN's does. JSON has no infinities: they are 1e39, which every reader rounds to infinity; NaN is `nan`, as
MNN writes it, which MNN's own reader refuses. Both spellings of MNN's writer, `inf` and `nan`, are read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from minnow.schema.errors import FormatError
from minnow.schema.mnn.fault import Fault
from minnow.schema.mnn.fbs import Field, Scalar, Schema, Table, schema
from minnow.schema.mnn.wire_read import MAX_DEPTH

_INFINITY = "1e39"
_CHUNK = 1 << 16
"""So many numbers are written as one piece of text."""
_OFF = 2.0**-50
_NAMED = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN", "-nan": "NaN"}
_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|-?\b(?:inf|nan)\b')


def to_json(net: Mapping[str, Any]) -> Iterator[str]:
    """The text of a file, in pieces.

    Args:
        net: its root table, as `wire.read` gives it.
    """
    yield from _Writer(schema()).table(schema().tables[schema().root], net, 0)
    yield "\n"


def from_json(text: str) -> dict[str, Any]:
    """The root table that a text stands for, for `wire.write`.

    Raises:
        FormatError: the text is not JSON, or does not have the form of a `.mnn` file. `where` is the path of the value.
    """
    try:
        return _Reader(schema()).table(schema().tables[schema().root], _parsed(text), 1)
    except Fault as fault:
        raise FormatError(
            "the JSON text is not the form of a .mnn file",
            where=fault.where(schema().root),
            why=fault.why,
            hint="`mnnconvert json MODEL.mnn -o MODEL.json` writes this form",
        ) from None


def _parsed(text: str) -> Any:
    try:
        try:
            return json.loads(text, object_pairs_hook=_unique)
        except json.JSONDecodeError:
            # The parser of the library is as fast as a pass over the text: so the names are replaced only if need be.
            return json.loads(_WORD.sub(lambda m: _NAMED.get(m[0], m[0]), text), object_pairs_hook=_unique)
    except json.JSONDecodeError as e:
        raise FormatError("the text is not JSON", where=f"line {e.lineno}, column {e.colno}", why=e.msg) from None
    except RecursionError:
        raise FormatError("the text is not JSON", why="its values are nested too deep") from None
    except ValueError as e:  # an integer of thousands of digits
        raise FormatError("the text is not JSON", why=str(e)) from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Fault(f"the key '{twice}' occurs twice in one object")
    return found


class _Writer:
    def __init__(self, known: Schema) -> None:
        self.known = known

    def table(self, table: Table, value: Mapping[str, Any], depth: int) -> Iterator[str]:
        separator = "{"
        # The root and the lists in it have a line for each item; all else stays on one line.
        between = ",\n" if depth == 0 else ", "
        for field in table.fields.values():
            if (found := value.get(field.name)) is None:
                continue
            yield f"{separator}{json.dumps(field.name)}: "
            separator = between
            if field.kind == "union":
                yield from self.table(self.known.tables[value[f"{field.name}_type"]], found, depth + 1)
            elif field.vector:
                yield from self.vector(field, found, depth + 1)
            else:
                yield from self.single(field, found, depth + 1)
        yield "{}" if separator == "{" else "}"

    def single(self, field: Field, value: Any, depth: int) -> Iterator[str]:
        if field.kind == "table":
            yield from self.table(self.known.tables[field.type], value, depth)
        elif isinstance(value, (str, bool)):
            yield json.dumps(value)
        elif isinstance(value, float):
            yield from _numbers(np.asarray([value], field.scalar.dtype))
        else:
            yield str(int(value))

    def vector(self, field: Field, value: Any, depth: int) -> Iterator[str]:
        if field.kind == "scalar":
            yield "["
            array: npt.NDArray[Any] = np.asarray(value)
            if field.scalar.name == "bool":
                yield ",".join("true" if v else "false" for v in array)
            elif array.dtype.kind == "f":
                yield from _numbers(array)
            else:
                yield from _pieces(array, lambda part: ",".join(map(str, part.tolist())))
            yield "]"
            return
        separator, between = "[", ",\n  " if depth == 1 and field.kind == "table" else ", "
        for item in value:
            yield separator
            separator = between
            yield from self.single(field, item, depth + 1)
        yield "[]" if separator == "[" else "]"


def _pieces(array: npt.NDArray[Any], text: Any) -> Iterator[str]:
    for start in range(0, array.size, _CHUNK):
        if start:
            yield ","
        yield text(array[start : start + _CHUNK])


def _numbers(array: npt.NDArray[Any]) -> Iterator[str]:
    """Floats in as few digits as give them again, through float64 or not."""
    return _pieces(array, _shortest)


def _shortest(part: npt.NDArray[Any]) -> str:
    words = part.astype("U").tolist()
    read = np.asarray(words, np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        # MNN's reader may be a few units of the last place off in float64.
        same = [(read * factor).astype(part.dtype) == part for factor in (1, 1 - _OFF, 1 + _OFF)]
    for i in np.flatnonzero(~np.logical_and.reduce([*same, np.isfinite(part)])):
        value = float(part[i])
        words[i] = "nan" if value != value else f"{'-' * (value < 0)}{_INFINITY}" if np.isinf(value) else repr(value)
    return ",".join(words)


class _Reader:
    def __init__(self, known: Schema) -> None:
        self.known = known

    def table(self, table: Table, value: Any, depth: int) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise Fault(f"the table {table.name} is an object in JSON, not {_kind(value)}")
        if depth > MAX_DEPTH:
            raise Fault(f"tables are nested more than {MAX_DEPTH} deep")
        if unknown := [name for name in value if name not in table.fields]:
            raise Fault(f"the table {table.name} has no field '{unknown[0][:80]}'")
        read: dict[str, Any] = {}
        for field in table.fields.values():
            if field.name not in value or value[field.name] is None:
                if field.required:
                    raise Fault(f"the required field '{field.name}' is missing")
                continue
            try:
                if field.kind == "union":
                    member = read.get(f"{field.name}_type")
                    if member not in self.known.tables:
                        raise Fault(f"'{field.name}_type' does not say which table it is")
                    read[field.name] = self.table(self.known.tables[str(member)], value[field.name], depth + 1)
                elif field.vector:
                    read[field.name] = self.vector(field, value[field.name], depth)
                else:
                    read[field.name] = self.single(field, value[field.name], depth)
            except Fault as fault:
                raise fault.inside(f".{field.name}") from None
        return read

    def single(self, field: Field, value: Any, depth: int) -> Any:
        if field.kind == "table":
            return self.table(self.known.tables[field.type], value, depth + 1)
        if field.kind == "string":
            if not isinstance(value, str):
                raise Fault(f"expected a string, not {_kind(value)}")
            return value
        if field.kind in ("enum", "tag"):
            return self.member(field, value)
        if field.type == "bool":
            if value not in (True, False):
                raise Fault(f"expected true or false, not {_kind(value)}")
            return bool(value)
        return _array(field.scalar, [value])[0].item()

    def member(self, field: Field, value: Any) -> str | int:
        """The name of a member of an enum or union, or a number that has none."""
        if isinstance(value, str):
            if value not in self.known.codes[field.type]:
                raise Fault(f"{field.type} has no member '{value[:80]}'")
            return value
        code = int(_array(field.scalar, [value])[0])
        return self.known.names[field.type].get(code, code)

    def vector(self, field: Field, value: Any, depth: int) -> Any:
        if not isinstance(value, list):
            raise Fault(f"expected a list, not {_kind(value)}")
        if field.kind == "scalar" and field.type != "bool":
            return _array(field.scalar, value)
        items = []
        for index, item in enumerate(value):
            try:
                items.append(self.single(field, item, depth))
            except Fault as fault:
                raise fault.inside(f"[{index}]") from None
        return items


def _array(scalar: Scalar, value: list[Any]) -> npt.NDArray[Any]:
    """The numbers of a list, after a check that each is one that the type holds."""
    wanted: tuple[type, ...] = (int, float) if scalar.dtype[1] == "f" else (int,)
    kinds = set(map(type, value))
    if not kinds <= set(wanted):
        index = next(i for i, v in enumerate(value) if type(v) not in wanted)
        raise Fault(f"expected {scalar.name}, not {_kind(value[index])}").inside(f"[{index}]")
    try:
        if scalar.dtype[1] == "f":
            with np.errstate(over="ignore"):
                return np.asarray(value, np.float64).astype(scalar.dtype)
        limit = np.iinfo(scalar.dtype)
        # MNN writes and reads bytes with or without a sign.
        low, high = (-128, 255) if scalar.size == 1 else (int(limit.min), int(limit.max))
        if value and not low <= min(value) <= max(value) <= high:
            raise OverflowError
        return np.asarray(value, np.int16 if scalar.size == 1 else scalar.dtype).astype(scalar.dtype)
    except OverflowError:
        raise Fault(f"a number is out of the range of {scalar.name}") from None


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), f"the number {str(value)[:40]}")


def unread_by_mnn(net: Mapping[str, Any]) -> str:
    """Why MNN's own reader refuses the JSON form of a file: NaN, or a name that is not UTF-8; "" if it reads it."""
    waiting: list[Any] = [net]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str) and not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
            return "a name is not UTF-8"
        elif isinstance(value, (float, np.ndarray)) and np.asarray(value).dtype.kind == "f" and np.isnan(value).any():
            return "a number is NaN, which JSON does not have"
    return ""


def looks_like_json(head: bytes) -> bool:
    """Whether the first bytes of a file are those of a JSON object."""
    return head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{"


__all__ = ["from_json", "looks_like_json", "to_json", "unread_by_mnn"]
