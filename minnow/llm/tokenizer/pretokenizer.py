"""Pre-tokenizers: where a text is split before the model sees it. No token crosses such a place."""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Callable, Iterable, Iterator

from minnow.llm.tokenizer.alphabet import to_alphabet
from minnow.llm.tokenizer.normalizer import SPACES
from minnow.llm.tokenizer.part import Kinds, Part
from minnow.llm.tokenizer.pattern import Pattern

Piece = tuple[str, bool]
"""A part of a text, and whether it is the beginning of the whole text."""

PreTokenizer = Callable[[list[Piece]], list[Piece]]
PRE_TOKENIZERS: Kinds[PreTokenizer] = Kinds("pre-tokenizer")
Spans = Callable[[str], Iterable[tuple[int, int]]]

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_KNOWN = 1 << 16


def cut(text: str, spans: Iterable[tuple[int, int]], behavior: str, invert: bool = False) -> list[tuple[int, int]]:
    """Where the parts of a text begin and end that matches split it into; none is empty.

    Args:
        spans: the matches, in their order.
        behavior: what becomes of a match. Removed: it is left out. Isolated: a part. MergedWithPrevious,
            MergedWithNext: it belongs to the part before, or after, it. Contiguous: neighbouring matches are a part.
        invert: what is between the matches takes their place.
    """
    runs: list[tuple[int, int, bool]] = []
    at = 0
    for start, end in spans:
        if at < start:
            runs.append((at, start, invert))
        runs.append((start, end, not invert))
        at = end
    if at < len(text):
        runs.append((at, len(text), invert))
    return [(start, end) for start, end in _BEHAVIORS[behavior](runs) if start < end]


def _removed(runs: list[tuple[int, int, bool]]) -> Iterator[tuple[int, int]]:
    return ((start, end) for start, end, matched in runs if not matched)


def _isolated(runs: list[tuple[int, int, bool]]) -> Iterator[tuple[int, int]]:
    return ((start, end) for start, end, _ in runs)


def _contiguous(runs: list[tuple[int, int, bool]]) -> Iterator[tuple[int, int]]:
    parts: list[tuple[int, int]] = []
    before: bool | None = None
    for start, end, matched in runs:
        parts[len(parts) - (matched == before) :] = [(parts[-1][0] if matched == before else start, end)]
        before = matched
    return iter(parts)


def _with_previous(runs: list[tuple[int, int, bool]]) -> Iterator[tuple[int, int]]:
    parts: list[tuple[int, int]] = []
    before = False
    for start, end, matched in runs:
        if matched and not before and parts:
            parts[-1] = (parts[-1][0], end)
        else:
            parts.append((start, end))
        before = matched
    return iter(parts)


def _with_next(runs: list[tuple[int, int, bool]]) -> Iterator[tuple[int, int]]:
    parts: list[tuple[int, int]] = []
    after = False
    for start, end, matched in reversed(runs):
        if matched and not after and parts:
            parts[-1] = (start, parts[-1][1])
        else:
            parts.append((start, end))
        after = matched
    return reversed(parts)


_BEHAVIORS: dict[str, Callable[[list[tuple[int, int, bool]]], Iterator[tuple[int, int]]]] = {
    "Removed": _removed,
    "Isolated": _isolated,
    "Contiguous": _contiguous,
    "MergedWithPrevious": _with_previous,
    "MergedWithNext": _with_next,
}


def _splitter(find: Spans, behavior: str, invert: bool = False) -> PreTokenizer:
    def split(pieces: list[Piece]) -> list[Piece]:
        return [
            (text[start:end], first and start == 0)
            for text, first in pieces
            for start, end in cut(text, find(text), behavior, invert)
        ]

    return split


def _behavior(part: Part, default: str | None = None) -> str:
    found = str(part.text("behavior") if default is None else part.text("behavior", default))
    if found not in _BEHAVIORS:
        raise part.error(f"'behavior' is {found[:40]!r}", f"one of {', '.join(_BEHAVIORS)} is expected")
    return found


def _runs(belongs: Callable[[str], bool], single: bool) -> Spans:
    """Finds the characters that belong: each, or as long as they follow each other."""
    known: dict[str, bool] = {}

    def find(text: str) -> Iterator[tuple[int, int]]:
        start = None
        for at, c in enumerate(text):
            if c not in known:
                known[c] = belongs(c)
            if known[c] and single:
                yield at, at + 1
            elif known[c] and start is None:
                start = at
            elif not known[c] and start is not None:
                yield start, at
                start = None
        if start is not None:
            yield start, len(text)

    return find


def is_punctuation(c: str) -> bool:
    """As BERT has it: all of ASCII that is no letter, digit or space, and Unicode's punctuation."""
    return c in string.punctuation or unicodedata.category(c)[0] == "P"


@PRE_TOKENIZERS.add("ByteLevel")
def _(part: Part) -> PreTokenizer:
    prefix = part.flag("add_prefix_space", True)
    pattern = Pattern(GPT2) if part.flag("use_regex", True) else None
    known: dict[str, str] = {}

    def byte_level(pieces: list[Piece]) -> list[Piece]:
        if prefix:
            pieces = [(text if text.startswith(" ") else " " + text, first) for text, first in pieces]
        if pattern:
            pieces = [
                (text[start:end], first and start == 0)
                for text, first in pieces
                for start, end in cut(text, pattern.spans(text), "Isolated")
            ]
        if len(known) > _KNOWN:
            known.clear()
        for text, _ in pieces:
            if text not in known:
                known[text] = to_alphabet(text)
        return [(known[text], first) for text, first in pieces]

    return byte_level


@PRE_TOKENIZERS.add("Metaspace")
def _(part: Part) -> PreTokenizer:
    mark = part.character("replacement", "▁")
    scheme = prepend_scheme(part)
    split = part.flag("split", True)
    at_marks = _splitter(lambda text: ((i, i + 1) for i, c in enumerate(text) if c == mark), "MergedWithNext")

    def metaspace(pieces: list[Piece]) -> list[Piece]:
        marked = []
        for text, first in pieces:
            text = text.replace(" ", mark)
            if not text.startswith(mark) and (scheme == "always" or (scheme == "first" and first)):
                text = mark + text
            marked.append((text, first))
        return at_marks(marked) if split else marked

    return metaspace


def prepend_scheme(part: Part) -> str:
    """When Metaspace puts its mark before a text: always, first, never."""
    old = part.flag("add_prefix_space", None)
    found = str(part.text("prepend_scheme", "never" if old is False else "always"))
    if found not in ("always", "first", "never"):
        raise part.error(f"'prepend_scheme' is {found[:40]!r}", "always, first or never is expected")
    return found


@PRE_TOKENIZERS.add("Digits")
def _(part: Part) -> PreTokenizer:
    single = part.flag("individual_digits", False)
    find = _runs(lambda c: unicodedata.category(c)[0] == "N", single)
    return _splitter(find, "Isolated" if single else "Contiguous")


@PRE_TOKENIZERS.add("Punctuation")
def _(part: Part) -> PreTokenizer:
    return _splitter(_runs(is_punctuation, True), _behavior(part, "Isolated"))


@PRE_TOKENIZERS.add("Split")
def _(part: Part) -> PreTokenizer:
    pattern, behavior, invert = Pattern.read(part), _behavior(part), part.flag("invert", False)
    if pattern.literal == "":
        return lambda pieces: pieces
    return _splitter(pattern.spans, behavior, invert)


@PRE_TOKENIZERS.add("CharDelimiterSplit")
def _(part: Part) -> PreTokenizer:
    mark = part.character("delimiter")
    return _splitter(_runs(lambda c: c == mark, True), "Removed")


@PRE_TOKENIZERS.add("WhitespaceSplit")
def _(part: Part) -> PreTokenizer:
    return _splitter(_runs(lambda c: c in SPACES, True), "Removed")


@PRE_TOKENIZERS.add("Whitespace")
def _(part: Part) -> PreTokenizer:
    return _splitter(Pattern(r"\w+|[^\w\s]+").spans, "Removed", invert=True)


@PRE_TOKENIZERS.add("BertPreTokenizer")
def _(part: Part) -> PreTokenizer:
    words = _splitter(_runs(lambda c: c in SPACES, True), "Removed")
    marks = _splitter(_runs(is_punctuation, True), "Isolated")
    return lambda pieces: marks(words(pieces))


@PRE_TOKENIZERS.add("Sequence")
def _(part: Part) -> PreTokenizer:
    steps = [PRE_TOKENIZERS.read(step) for step in part.parts("pretokenizers")]

    def sequence(pieces: list[Piece]) -> list[Piece]:
        for step in steps:
            pieces = step(pieces)
        return pieces

    return sequence
