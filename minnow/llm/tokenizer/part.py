"""The objects of a tokenizer.json, read with checks: whatever is wrong is a FormatError that names the place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from minnow.schema.errors import FormatError, UnsupportedError

T = TypeVar("T")
_NOTHING: Any = object()


class Part:
    """One JSON object of the file.

    Attributes:
        where: its place, such as `tokenizer.json: model`.
    """

    def __init__(self, value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise FormatError("an object is expected here", where=where)
        self.value: dict[str, Any] = value
        self.where = where

    def text(self, key: str, default: Any = _NOTHING) -> Any:
        """A text; `default` where there is none."""
        return self._get(key, str, "a text", default)

    def character(self, key: str, default: Any = _NOTHING) -> Any:
        """A text of one character."""
        found = self.text(key, default)
        if len(found) != 1:
            raise self.error(f"'{key}' is not one character")
        return found

    def flag(self, key: str, default: Any = _NOTHING) -> Any:
        """true or false."""
        return self._get(key, bool, "true or false", default)

    def number(self, key: str, default: Any = _NOTHING) -> Any:
        """A whole number from 0 to 2^31 - 1."""
        found = self._get(key, int, "a number", default)
        if found is not default and (isinstance(found, bool) or not 0 <= found < 1 << 31):
            raise self.error(f"'{key}' is {str(found)[:40]}", "a whole number from 0 to 2^31 - 1 is expected")
        return found

    def items(self, key: str, default: Any = _NOTHING) -> Any:
        """A list."""
        return self._get(key, list, "a list", default)

    def object(self, key: str, default: Any = _NOTHING) -> Any:
        """An object, as a dict."""
        return self._get(key, dict, "an object", default)

    def part(self, key: str) -> Part | None:
        """An object, or None where there is none."""
        value = self.value.get(key)
        return None if value is None else Part(value, f"{self.where}.{key}")

    def parts(self, key: str) -> list[Part]:
        """A list of objects."""
        return [Part(value, f"{self.where}.{key}[{i}]") for i, value in enumerate(self.items(key))]

    def error(self, message: str, why: str = "") -> FormatError:
        """An error about this object."""
        return FormatError(message, where=self.where, why=why)

    def _get(self, key: str, kind: type, words: str, default: Any) -> Any:
        value = self.value.get(key)
        if value is None and default is not _NOTHING:
            return default
        if not isinstance(value, kind):
            raise self.error(f"'{key}' is {'missing' if value is None else 'wrong'}", f"{words} is expected")
        return value


class Kinds(dict[str, Callable[[Part], T]]):
    """What the objects of a section may be, by their `type`: each entry reads one."""

    def __init__(self, section: str) -> None:
        super().__init__()
        self.section = section

    def add(self, name: str) -> Callable[[Callable[[Part], T]], Callable[[Part], T]]:
        """The decorated function reads objects of the type `name`."""

        def added(function: Callable[[Part], T]) -> Callable[[Part], T]:
            self[name] = function
            return function

        return added

    def read(self, part: Part) -> T:
        """What an object describes. Raises FormatError, and UnsupportedError for an unknown type."""
        name = part.text("type")
        if name not in self:
            raise UnsupportedError(
                f"the {self.section} '{name[:80]}' is not supported",
                where=part.where,
                hint=f"supported are {', '.join(self)}",
            )
        return self[name](part)
