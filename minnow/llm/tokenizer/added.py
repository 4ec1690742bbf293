"""Added tokens: texts that are found before anything else, such as <|im_start|>."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from minnow.llm.tokenizer.normalizer import SPACES
from minnow.llm.tokenizer.part import Part

_KEY = 3
"""Tokens are looked up by so many of their first characters."""


@dataclass(frozen=True)
class AddedToken:
    """A token of the list `added_tokens`.

    Attributes:
        special: a mark for the model, which decoded text leaves out.
        lstrip, rstrip: it takes the white space before, or after, it.
        single_word: it counts only where no letter or digit is beside it.
        normalized: it is searched in the normalized text, else in the text as it was given.
    """

    id: int
    content: str
    special: bool
    lstrip: bool
    rstrip: bool
    single_word: bool
    normalized: bool

    @classmethod
    def read(cls, part: Part) -> AddedToken:
        special = part.flag("special", False)
        return cls(
            id=part.number("id"),
            content=part.text("content"),
            special=special,
            lstrip=part.flag("lstrip", False),
            rstrip=part.flag("rstrip", False),
            single_word=part.flag("single_word", False),
            normalized=part.flag("normalized", not special),
        )


class Search:
    """Finds tokens in a text: of those that begin at the same place, the longest."""

    def __init__(self, tokens: Sequence[AddedToken], normalize: Callable[[str], str]) -> None:
        self._tokens: dict[str, dict[int, dict[str, AddedToken]]] = {}
        for token in tokens:
            text = normalize(token.content)
            if not text:
                continue
            self._tokens.setdefault(text[:_KEY], {}).setdefault(len(text), {}).setdefault(text, token)
        first = "".join(re.escape(c) for c in sorted({key[0] for key in self._tokens}))
        self._first = re.compile(f"[{first}]" if first else r"(?!)")

    def _matches(self, text: str, skip: Callable[[AddedToken], bool]) -> Iterator[tuple[int, int, AddedToken]]:
        at = 0
        while found := self._first.search(text, at):
            start = found.start()
            at = start + 1
            token = self._longest(text, start)
            if token is not None:
                at = start + token[0]
                if not skip(token[1]):
                    yield start, at, token[1]

    def _longest(self, text: str, start: int) -> tuple[int, AddedToken] | None:
        for size in range(_KEY, 0, -1):
            by_length = self._tokens.get(text[start : start + size])
            if by_length is None:
                continue
            for length in sorted(by_length, reverse=True):
                token = by_length[length].get(text[start : start + length])
                if token is not None:
                    return length, token
        return None

    def split(self, text: str, skip: Callable[[AddedToken], bool]) -> list[tuple[str, int, int | None]]:
        """The parts of a text: each with where it begins, and the id of the token or None.

        Args:
            skip: tokens that are ordinary text here.
        """
        parts: list[tuple[str, int, int | None]] = []
        before = 0
        for start, end, token in self._matches(text, skip):
            if token.single_word and (_is_word(text[max(start - 1, 0) : start]) or _is_word(text[end : end + 1])):
                continue
            while token.lstrip and start > before and text[start - 1] in SPACES:
                start -= 1
            while token.rstrip and end < len(text) and text[end] in SPACES:
                end += 1
            if before < start:
                parts.append((text[before:start], before, None))
            parts.append((text[start:end], start, token.id))
            before = end
        if before < len(text):
            parts.append((text[before:], before, None))
        return parts


def _is_word(c: str) -> bool:
    return bool(re.match(r"\w", c))
