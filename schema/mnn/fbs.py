"""`mnn.fbs` as Python data: enums, unions and tables with their slots, types and defaults.

The file is parsed once, at first use. Only the part of the schema language that `mnn.fbs` speaks is known here:
`namespace`, `enum`, `union`, `table`, `root_type`, defaults, and the attributes `(key)` and
`(deprecated)`, which leaves out a slot.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from struct import Struct
from typing import Literal

from minnow.schema.errors import InternalError

Kind = Literal["scalar", "enum", "string", "table", "tag", "union"]
Default = bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class Scalar:
    """A fixed-size number as it lies in the file: little endian, aligned to its own size."""

    name: str
    codec: Struct
    dtype: str
    size: int


def _scalar(name: str, code: str, dtype: str) -> Scalar:
    return Scalar(name, Struct("<" + code), "<" + dtype, Struct(code).size)


SCALARS = {
    scalar.name: scalar
    for scalar in (
        _scalar("bool", "?", "u1"),
        _scalar("int8", "b", "i1"),
        _scalar("uint8", "B", "u1"),
        _scalar("int16", "h", "i2"),
        _scalar("uint16", "H", "u2"),
        _scalar("int32", "i", "i4"),
        _scalar("uint32", "I", "u4"),
        _scalar("int64", "q", "i8"),
        _scalar("uint64", "Q", "u8"),
        _scalar("float32", "f", "f4"),
        _scalar("float64", "d", "f8"),
    )
}


@dataclass(frozen=True, slots=True)
class Field:
    """One slot of a table.

    `type` names the scalar, enum, union or table; a union's field is preceded by its "tag" field of the same type.
    `scalar` is how the value itself, or one element of the vector, is stored: a uint32 offset for strings and tables.
    `default` is the value a reader fills in: exactly as the file would hold it, an enum by its name.
    """

    name: str
    slot: int
    kind: Kind
    type: str
    vector: bool
    scalar: Scalar
    default: Default = None
    required: bool = False

    @property
    def inline(self) -> bool:
        """Whether the value lies in the table itself, not behind an offset."""
        return not self.vector and self.kind in ("scalar", "enum", "tag")


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    fields: dict[str, Field]


@dataclass(frozen=True, slots=True)
class Schema:
    """Everything `mnn.fbs` says. `codes` and `names` map enum and union member names to numbers and back."""

    root: str
    enums: dict[str, dict[str, int]]
    underlying: dict[str, Scalar]
    unions: dict[str, dict[str, int]]
    tables: dict[str, Table]
    codes: dict[str, dict[str, int]]
    names: dict[str, dict[int, str]]


@cache
def schema() -> Schema:
    """The schema of `.mnn` files."""
    return parse(Path(__file__).with_name("mnn.fbs").read_text(encoding="utf-8"))


def parse(text: str) -> Schema:
    """Parses the text of a `.fbs` file; InternalError if it is not the language described above."""
    return _Parser(text).schema()


_TOKEN: re.Pattern[str] = re.compile(r"//[^\n]*|[\w.+-]+|[^\s\w]")


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens: list[str] = [token for token in _TOKEN.findall(text) if not token.startswith("//")]
        self.at = 0
        self.root = ""
        self.enums: dict[str, dict[str, int]] = {}
        self.underlying: dict[str, Scalar] = {}
        self.unions: dict[str, dict[str, int]] = {}
        self.bodies: dict[str, list[tuple[str, str, bool, str, str]]] = {}

    def schema(self) -> Schema:
        statements = {
            "namespace": self.line,
            "enum": self.enum,
            "union": self.union,
            "table": self.table,
            "root_type": self.root_type,
        }
        while self.at < len(self.tokens):
            word = self.take()
            if word not in statements:
                raise self.error(f"a statement cannot start with '{word}'")
            statements[word]()
        codes = self.enums | self.unions
        names = {name: {code: member for member, code in members.items()} for name, members in codes.items()}
        # Fields are typed only now: a table may use one that is declared after it.
        tables = {name: Table(name, {field.name: field for field in self.fields(name)}) for name in self.bodies}
        if self.root not in tables:
            raise self.error(f"the root type '{self.root}' is not a table")
        return Schema(self.root, self.enums, self.underlying, self.unions, tables, codes, names)

    def error(self, why: str) -> InternalError:
        near = " ".join(self.tokens[max(0, self.at - 6) : self.at])
        return InternalError("the FlatBuffers schema cannot be parsed", where=f"mnn.fbs, after '{near}'", why=why)

    def take(self) -> str:
        if self.at == len(self.tokens):
            raise self.error("the text ends too early")
        self.at += 1
        return self.tokens[self.at - 1]

    def skip(self, token: str) -> bool:
        """Takes the next token if it is this one."""
        found = self.at < len(self.tokens) and self.tokens[self.at] == token
        self.at += found
        return found

    def expect(self, token: str) -> None:
        if not self.skip(token):
            raise self.error(f"expected '{token}'")

    def line(self) -> str:
        word = self.take()
        self.expect(";")
        return word

    def root_type(self) -> None:
        self.root = self.line()

    def members(self, first: int) -> dict[str, int]:
        """`{ A = 1, B }`: without a number a member follows the one before."""
        self.expect("{")
        members: dict[str, int] = {}
        code = first
        while not self.skip("}"):
            name = self.take()
            code = int(self.take()) if self.skip("=") else code
            members[name] = code
            code += 1
            if not self.skip(","):
                self.expect("}")
                break
        return members

    def enum(self) -> None:
        name = self.take()
        self.expect(":")
        self.underlying[name] = SCALARS[self.take()]
        self.enums[name] = self.members(0)

    def union(self) -> None:
        name = self.take()
        self.underlying[name] = SCALARS["uint8"]
        self.unions[name] = {"NONE": 0} | self.members(1)

    def table(self) -> None:
        body = self.bodies[self.take()] = []
        self.expect("{")
        while not self.skip("}"):
            name = self.take()
            self.expect(":")
            vector = self.skip("[")
            kind = self.take()
            if vector:
                self.expect("]")
            default = self.take() if self.skip("=") else ""
            attribute = self.take() if self.skip("(") else ""
            if attribute not in ("", "key", "deprecated"):
                raise self.error(f"the attribute '{attribute}' is not known")
            if attribute:
                self.expect(")")
            self.expect(";")
            body.append((name, kind, vector, default, attribute))

    def fields(self, table: str) -> Iterator[Field]:
        slot = 0
        for name, of, vector, default, attribute in self.bodies[table]:
            if attribute == "deprecated":
                slot += 1
                continue
            if of in self.unions:
                yield Field(f"{name}_type", slot, "tag", of, False, self.underlying[of])
                slot += 1
            kind, scalar, value = self.typed(of, default)
            # A key of string type is a required field, for flatc and for every reader made with it.
            yield Field(name, slot, kind, of, vector, scalar, None if vector else value, required=attribute == "key")
            slot += 1

    def typed(self, of: str, default: str) -> tuple[Kind, Scalar, Default]:
        if of in self.enums:
            names = {code: name for name, code in self.enums[of].items()}
            return "enum", self.underlying[of], default or names.get(0)
        if of == "bool":
            return "scalar", SCALARS[of], default == "true"
        if of.startswith("float"):
            codec = SCALARS[of].codec
            # Rounded as in the file: 0.001 as float32 is not 0.001.
            return "scalar", SCALARS[of], codec.unpack(codec.pack(float(default or 0)))[0]
        if of in SCALARS:
            return "scalar", SCALARS[of], int(default or 0)
        if of in self.unions:
            return "union", SCALARS["uint32"], None
        if of == "string":
            return "string", SCALARS["uint32"], None
        if of in self.bodies:
            return "table", SCALARS["uint32"], None
        raise self.error(f"'{of}' is not a type")
