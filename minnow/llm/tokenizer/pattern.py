"""Regular expressions of a tokenizer.json: written for Oniguruma, run by the package `regex`.

Python's `re` has no classes of Unicode such as \\p{L}. `regex` has, and the nested sets, the scoped flags and the
lookaheads that these files use; and it stops at a deadline, which matters for expressions that strangers have written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from minnow.llm.tokenizer.part import Part
from minnow.schema.errors import FormatError, UsageError
from minnow.schema.extra import install

SECONDS = 20.0
"""How long one expression may take over one text. Those in use need less than a second for a megabyte."""

_LONGEST = 1 << 16


class Pattern:
    """An expression, or a text to be searched as it is.

    Args:
        source: the expression.
        where: its place in the file, for errors.
        literal: search for the text itself.
    """

    def __init__(self, source: str, where: str = "", *, literal: bool = False) -> None:
        self.source, self.where = source, where
        self.literal = source if literal else None
        if literal:
            self._compiled: Any = re.compile(re.escape(source))
            self._limits: dict[str, float] = {}
            return
        engine = regex_engine()
        self._limits = {"timeout": SECONDS}
        try:
            if len(source) > _LONGEST:
                raise ValueError(f"it has {len(source)} characters")
            self._compiled = engine.compile(_translated(source), engine.VERSION1 | engine.MULTILINE)
        except (engine.error, ValueError, OverflowError, RecursionError, KeyError, IndexError, TypeError) as e:
            raise FormatError("the regular expression cannot be read", where=where, why=str(e)[:200]) from None

    @classmethod
    def read(cls, part: Part, key: str = "pattern") -> Pattern:
        """The pattern of an object: {"String": text} or {"Regex": expression}."""
        found = Part(part.object(key), f"{part.where}.{key}")
        if "Regex" in found.value:
            return cls(found.text("Regex"), found.where)
        return cls(found.text("String"), found.where, literal=True)

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Where the matches in a text begin and end. Raises FormatError for an expression that takes too long."""
        try:
            for found in self._compiled.finditer(text, **self._limits):
                yield found.span()
        except TimeoutError:
            raise self._slow() from None

    def replaced(self, text: str, by: str) -> str:
        """The text with `by` in place of each match; an expression that takes too long is a FormatError."""
        if self.literal is not None:
            return text.replace(self.literal, by) if self.literal else text
        try:
            return str(self._compiled.sub(lambda _: by, text, **self._limits))
        except TimeoutError:
            raise self._slow() from None

    def _slow(self) -> FormatError:
        why = f"{self.source[:100]} has not finished after {SECONDS:g} s"
        return FormatError("a regular expression takes too long", where=self.where, why=why)


_ESCAPE = re.compile(r"(?s)\\.|\[|\]")
_OUTSIDE = {r"\h": "[0-9a-fA-F]", r"\z": r"(?![\s\S])", r"\Z": r"(?=\n?(?![\s\S]))"}
_INSIDE = {r"\h": "0-9a-fA-F"}


def _translated(source: str) -> str:
    """The expression with the escapes that mean something else in `regex`: \\h is a hexadecimal digit, \\z the end.

    In Oniguruma, ^ and $ belong to lines, too: that is the flag MULTILINE.
    """
    depth = 0

    def one(found: re.Match[str]) -> str:
        nonlocal depth
        text = found[0]
        depth = depth + 1 if text == "[" else max(depth - 1, 0) if text == "]" else depth
        return (_INSIDE if depth else _OUTSIDE).get(text, text)

    return _ESCAPE.sub(one, source)


def regex_engine() -> Any:
    """The package `regex`; UsageError where it is not installed."""
    try:
        import regex
    except ImportError:
        raise UsageError("tokenizers need the package regex", hint=install("regex")) from None
    return regex
