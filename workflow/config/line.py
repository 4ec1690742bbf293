"""In which line of a TOML text a key is: tomllib gives the values only."""

from __future__ import annotations

import re
import sys
from typing import Any

from minnow.schema.errors import UsageError

Path = tuple[str | int, ...]
"""The keys from the top to a value, with the indices in arrays."""

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR = re.compile(r"[^,\]}#\n]*")


def parsed(text: str, file: str) -> dict[str, Any]:
    """The values of a TOML text.

    Raises:
        UsageError: it is not TOML; with file and line.
    """
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        values: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        found = re.search(r"\(at line (\d+), column \d+\)|\(at end of document\)", str(e))
        line = int(found[1]) if found and found[1] else text.count("\n") + 1
        why = str(e).partition(" (at ")[0]
        raise UsageError("this is not a valid TOML file", where=f"{file}:{line}", why=why) from None
    return values


class Lines:
    """The lines of the keys of a valid TOML text.

    Args:
        text: that `parsed` has accepted.
    """

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._lines: dict[Path, int] = {}
        self._counts: dict[Path, int] = {}
        self._scan()

    def of(self, path: Path) -> int:
        """The line, from 1, of a key; of one that the text does not have, the line of what would contain it."""
        while path and path not in self._lines:
            path = path[:-1]
        return self._lines.get(path, 1)

    def _scan(self) -> None:
        prefix: Path = ()
        while self._skip():
            if self._take("[["):
                prefix = self._resolved(self._key())
                index = self._counts[prefix] = self._counts.get(prefix, -1) + 1
                self._note(prefix)
                prefix = (*prefix, index)
                self._note(prefix)
                self._skip()
                self._take("]]")
            elif self._take("["):
                prefix = self._resolved(self._key())
                self._note(prefix)
                self._skip()
                self._take("]")
            else:
                self._pair(prefix)

    def _pair(self, prefix: Path) -> None:
        """A key with its value."""
        begin = self._at
        key = self._key()
        for n in range(1, len(key)):
            self._lines.setdefault((*prefix, *key[:n]), self._line(begin))
        path = (*prefix, *key)
        self._lines.setdefault(path, self._line(begin))
        self._skip()
        self._take("=")
        self._skip()
        self._value(path)

    def _value(self, path: Path) -> None:
        if self._take("["):
            index = 0
            while self._skip() and not self._take("]"):
                self._note((*path, index))
                self._value((*path, index))
                self._skip()
                self._take(",")
                index += 1
        elif self._take("{"):
            while self._skip() and not self._take("}"):
                self._pair(path)
                self._skip()
                self._take(",")
        elif self._text[self._at] in "\"'":
            self._string()
        else:
            found = _SCALAR.match(self._text, self._at)
            self._at = max(found.end() if found else 0, self._at + 1)

    def _string(self) -> str:
        """A string in quotes, as it is in the text."""
        begin, quote = self._at, self._text[self._at]
        end = quote * 3 if self._text.startswith(quote * 3, self._at) else quote
        self._at += len(end)
        while self._at < len(self._text) and not self._text.startswith(end, self._at):
            self._at += 2 if quote == '"' and self._text[self._at] == "\\" else 1
        self._at += len(end)
        while len(end) == 3 and self._text.startswith(quote, self._at):  # up to two quotes before the end
            self._at += 1
        return self._text[begin : self._at]

    def _key(self) -> Path:
        parts: list[str] = []
        while self._skip():
            if self._text[self._at] in "\"'":
                parts += parsed(f"{self._string()} = 0", "")
            elif found := _BARE.match(self._text, self._at):
                parts.append(found.group())
                self._at = found.end()
            else:
                break
            self._skip()
            if not self._take("."):
                break
        return tuple(parts)

    def _resolved(self, key: Path) -> Path:
        """The path of a header: below an array of tables, in its last table."""
        path: Path = ()
        for n, part in enumerate(key):
            path = (*path, part)
            if path in self._counts and n + 1 < len(key):
                path = (*path, self._counts[path])
        return path

    def _note(self, path: Path) -> None:
        self._lines.setdefault(path, self._line(self._at))

    def _line(self, at: int) -> int:
        return self._text.count("\n", 0, at) + 1

    def _take(self, text: str) -> bool:
        found = self._text.startswith(text, self._at)
        self._at += len(text) if found else 0
        return found

    def _skip(self) -> bool:
        """Goes over white space and comments; whether there is more."""
        while self._at < len(self._text):
            if self._text[self._at] == "#":
                end = self._text.find("\n", self._at)
                self._at = len(self._text) if end < 0 else end
            elif self._text[self._at].isspace():
                self._at += 1
            else:
                return True
        return False
