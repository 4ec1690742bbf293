"""Kinds of values in a configuration: how one is read, what it is called, and its JSON schema."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NoReturn

from minnow.schema.errors import UsageError
from minnow.workflow.config.line import Lines, Path

_UNITS = {"B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_SIZE = re.compile(rf"(\d+(?:\.\d+)?)\s*({'|'.join(_UNITS)})")
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%")


@dataclass(frozen=True)
class At:
    """A place in a configuration file.

    Attributes:
        file: its name for messages.
        lines: of its keys.
        path: the keys from the top of the file.
        hidden: how many of them are the same everywhere in the file ("tool", "minnow").
    """

    file: str
    lines: Lines
    path: Path = ()
    hidden: int = 0

    def __truediv__(self, key: str | int) -> At:
        return At(self.file, self.lines, (*self.path, key), self.hidden)

    @property
    def line(self) -> int:
        return self.lines.of(self.path)

    @property
    def key(self) -> str:
        """The keys below the top, as TOML has them."""
        return ".".join(str(k) for k in self.path[self.hidden :] if isinstance(k, str))

    def error(self, message: str, hint: str = "") -> NoReturn:
        """Raises UsageError with file and line."""
        raise UsageError(message, where=f"{self.file}:{self.line}", hint=hint)


class Kind:
    """A kind of values.

    Attributes:
        text: what it is called in the documentation.
    """

    text = ""

    def read(self, value: Any, at: At) -> Any:
        """The value, checked. Raises UsageError with the place."""
        raise NotImplementedError

    def schema(self) -> dict[str, Any]:
        """As JSON schema."""
        raise NotImplementedError

    def refuse(self, value: Any, at: At) -> NoReturn:
        at.error(f"{at.key} is {value!r}", f"give {self.text}")


@dataclass(frozen=True)
class Text(Kind):
    """A text.

    Attributes:
        of: () or all texts that are allowed.
        path: it is the path of a file, relative to the configuration file.
        what: another name for it in the documentation.
    """

    of: tuple[str, ...] = ()
    path: bool = False
    what: str = ""

    @property
    def text(self) -> str:  # type: ignore[override]
        return f"one of {', '.join(self.of)}" if self.of else self.what or ("a path" if self.path else "a text")

    def read(self, value: Any, at: At) -> Any:
        if not isinstance(value, str) or (self.of and value not in self.of):
            self.refuse(value, at)
        return value

    def schema(self) -> dict[str, Any]:
        return {"enum": list(self.of)} if self.of else {"type": "string"}


@dataclass(frozen=True)
class Flag(Kind):
    """true or false."""

    text = "true or false"

    def read(self, value: Any, at: At) -> Any:
        return value if isinstance(value, bool) else self.refuse(value, at)

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


@dataclass(frozen=True)
class Number(Kind):
    """A number of at least `least`, greater than `above`, and at most `most`."""

    whole: bool = False
    least: float | None = None
    above: float | None = None
    most: float | None = None

    @property
    def text(self) -> str:  # type: ignore[override]
        what = "a whole number" if self.whole else "a number"
        if self.least is not None and self.most is not None:
            return f"{what} from {self.least:g} to {self.most:g}"
        limits = [("of at least", self.least), ("above", self.above), ("up to", self.most)]
        return " ".join([what, *(f"{word} {limit:g}" for word, limit in limits if limit is not None)])

    def read(self, value: Any, at: At) -> Any:
        kinds = (int,) if self.whole else (int, float)
        if not isinstance(value, kinds) or isinstance(value, bool) or not isfinite(value):
            self.refuse(value, at)
        low = (self.least is not None and value < self.least) or (self.above is not None and value <= self.above)
        return self.refuse(value, at) if low or (self.most is not None and value > self.most) else value

    def schema(self) -> dict[str, Any]:
        limits = {"minimum": self.least, "exclusiveMinimum": self.above, "maximum": self.most}
        known = {name: limit for name, limit in limits.items() if limit is not None}
        return {"type": "integer" if self.whole else "number", **known}


@dataclass(frozen=True)
class Size(Kind):
    """A number of bytes."""

    text = 'a number of bytes, or a text such as "5 MB" or "512 MiB"'

    def read(self, value: Any, at: At) -> Any:
        if isinstance(value, str) and (found := _SIZE.fullmatch(value.strip())):
            return int(float(found[1]) * _UNITS[found[2]])
        return value if type(value) is int and value > 0 else self.refuse(value, at)

    def schema(self) -> dict[str, Any]:
        return {
            "anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": rf"^\s*{_SIZE.pattern}\s*$"}]
        }


@dataclass(frozen=True)
class Relative(Kind):
    """What `of` is, or a percentage of the same metric of the source: then the pair (fraction, True)."""

    of: Kind

    @property
    def text(self) -> str:  # type: ignore[override]
        return f'{self.of.text}; or "60 %" of the source'

    def read(self, value: Any, at: At) -> Any:
        if isinstance(value, str) and (found := _PERCENT.fullmatch(value.strip())):
            return float(found[1]) / 100, True
        try:
            return self.of.read(value, at), False
        except UsageError:
            self.refuse(value, at)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [self.of.schema(), {"type": "string", "pattern": rf"^\s*{_PERCENT.pattern}\s*$"}]}


@dataclass(frozen=True)
class List(Kind):
    """A list; of texts also one alone."""

    of: Kind
    alone: bool = True

    @property
    def text(self) -> str:  # type: ignore[override]
        if isinstance(self.of, Table):
            return "an array of tables"
        return f"{self.of.text}, or a list" if self.alone else f"a list of {self.of.text.partition(' ')[2]}s"

    def read(self, value: Any, at: At) -> Any:
        if self.alone and not isinstance(value, list):
            return [self.of.read(value, at)]
        if not isinstance(value, list):
            self.refuse(value, at)
        return [self.of.read(one, at / n) for n, one in enumerate(value)]

    def schema(self) -> dict[str, Any]:
        many = {"type": "array", "items": self.of.schema()}
        return {"anyOf": [self.of.schema(), many]} if self.alone else many


@dataclass(frozen=True)
class Shapes(Kind):
    """Shapes of graph inputs by name; they become texts, as the command line has them."""

    text = 'a table of shapes by name: {x = [1, 3, 224, 224]}, {x = "1x3x?x?"} or {ids = "int64[1,128]"}'

    def read(self, value: Any, at: At) -> Any:
        if not isinstance(value, dict):
            self.refuse(value, at)
        return {name: self._shape(one, at / name) for name, one in value.items()}

    def _shape(self, value: Any, at: At) -> str:
        if isinstance(value, list) and all(type(d) is int or isinstance(d, str) for d in value):
            value = "x".join(str(d) for d in value)
        if not isinstance(value, str):
            self.refuse(value, at)
        from minnow.converter.inputs.given import parsed

        try:
            parsed(value)
        except UsageError as e:
            at.error(f"{at.key} is {value!r}: {e.message}", e.hint)
        return value

    def schema(self) -> dict[str, Any]:
        dim = {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string"}]}
        return {
            "type": "object",
            "additionalProperties": {"anyOf": [{"type": "string"}, {"type": "array", "items": dim}]},
        }


@dataclass(frozen=True)
class Key:
    """A key of a table: what its value is and means. `default` is for the documentation."""

    kind: Kind
    doc: str
    default: str = ""
    required: bool = False


@dataclass(frozen=True)
class Table(Kind):
    """A table with known keys.

    Attributes:
        name, doc: for the documentation.
        keys: by name; a function gives them when they are needed.
    """

    name: str
    doc: str
    keys: Callable[[], Mapping[str, Key]] = field(compare=False)
    text = "a table"

    def read(self, value: Any, at: At) -> Any:
        if not isinstance(value, dict):
            at.error(f"{at.key} is {value!r}", "give a table")
        known = self.keys()
        for name in value:
            if name not in known:
                unknown(name, known, at / name)
        if missing := [name for name, key in known.items() if key.required and name not in value]:
            what = f"[{at.key}]" if at.key else "the file"
            at.error(f"{what} has no key '{missing[0]}'", f"{missing[0]}: {known[missing[0]].doc}")
        return {name: known[name].kind.read(one, at / name) for name, one in value.items()}

    def schema(self) -> dict[str, Any]:
        keys = self.keys()
        properties = {name: {**key.kind.schema(), "description": key.doc} for name, key in keys.items()}
        required = [name for name, key in keys.items() if key.required]
        more = {"required": required} if required else {}
        return {"type": "object", "properties": properties, "additionalProperties": False, **more}


@dataclass(frozen=True)
class Named(Kind):
    """Tables of one kind by names of the user."""

    of: Table
    text = "tables by name"

    def read(self, value: Any, at: At) -> Any:
        if not isinstance(value, dict):
            at.error(f"{at.key} is {value!r}", "give a table for each name")
        for name in value:
            if not name.strip() or re.search(r"[/\\\x00-\x1f{}*?\[\]]", name):
                (at / name).error(f"{name!r} is not a name", "it may not be empty, nor contain / \\ { } * ? [ ]")
        return {name: self.of.read(one, at / name) for name, one in value.items()}

    def schema(self) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": self.of.schema()}


@dataclass(frozen=True)
class Either(Kind):
    """A list of names, or tables by name: then a name without settings is an empty table."""

    of: Named

    @property
    def text(self) -> str:  # type: ignore[override]
        return "a list of names, or tables by name"

    def read(self, value: Any, at: At) -> Any:
        if isinstance(value, list):
            return {name: {} for name in List(Text(), alone=False).read(value, at)}
        return self.of.read(value, at)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [{"type": "array", "items": {"type": "string"}}, self.of.schema()]}


def unknown(name: str, known: Iterable[str], at: At, what: str = "key") -> NoReturn:
    """Raises UsageError for a name that is not known, with the nearest one that is."""
    names = list(known)
    near = difflib.get_close_matches(name, names, 1, 0.5)
    hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(names)}"
    at.error(f"unknown {what} '{name}'", hint)
