"""Decoders: from tokens back to text, at once or one token after the other.

A decoder is a chain of stages. Each takes tokens as they come and gives on what is certain: a stage that waits for the
rest of a character, or for what it may have to leave out, gives it on later, at the latest with `finish`.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable

from minnow.llm.tokenizer.alphabet import from_alphabet
from minnow.llm.tokenizer.part import Kinds, Part
from minnow.llm.tokenizer.pattern import Pattern
from minnow.llm.tokenizer.pretokenizer import prepend_scheme


class Stage:
    """A step of a decoder.

    Attributes:
        fused: what it gives, and what comes after it, are parts of one text, no longer tokens.
    """

    fused = False

    def push(self, tokens: list[str]) -> list[str]:
        """What becomes of the next tokens, as far as that is certain."""
        raise NotImplementedError

    def finish(self) -> list[str]:
        """What is left at the end."""
        return []


Maker = Callable[[bool, bool], Stage]
"""Makes a stage: is what it gets one text already, and does the text stream, so that nothing may wait for long?"""

DECODERS: Kinds[list[Maker]] = Kinds("decoder")


class _Each(Stage):
    """Changes each token by itself; the first one may be special."""

    def __init__(self, change: Callable[[str, bool], str], fused: bool) -> None:
        self._change, self._fused = change, fused
        self._first = True

    def push(self, tokens: list[str]) -> list[str]:
        found = []
        for token in tokens:
            found.append(self._change(token, self._first))
            self._first = self._first and (self._fused and not token)
        return found


class _Held(Stage):
    """Changes one text as a whole, when all of it is there: for what cannot be changed in parts."""

    def __init__(self, change: Callable[[str, bool], str]) -> None:
        self._change = change
        self._parts: list[str] = []

    def push(self, tokens: list[str]) -> list[str]:
        self._parts += tokens
        return []

    def finish(self) -> list[str]:
        return [self._change("".join(self._parts), True)]


class ByteLevel(Stage):
    """Characters of the byte-level alphabet become bytes, and these text."""

    fused = True

    def __init__(self) -> None:
        self._text = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, tokens: list[str]) -> list[str]:
        return [self._text.decode(b"".join(map(from_alphabet, tokens)))]

    def finish(self) -> list[str]:
        return [self._text.decode(b"", final=True)]


class ByteFallback(Stage):
    """Tokens such as <0xE2>, one after the other, become text.

    If they are no valid text, each is U+FFFD. Where the text streams, characters that were complete are not taken back.
    """

    def __init__(self, streams: bool) -> None:
        self._streams = streams
        self._bytes = bytearray()

    def push(self, tokens: list[str]) -> list[str]:
        found: list[str] = []
        for token in tokens:
            byte = byte_of(token)
            if byte is None:
                found += self._flush()
                found.append(token)
                continue
            self._bytes.append(byte)
            if self._streams:
                done = self._complete()
                if done:
                    found.append(done)
        return found

    def finish(self) -> list[str]:
        return self._flush()

    def _complete(self) -> str:
        try:
            text = self._bytes.decode()
        except UnicodeDecodeError:
            return ""
        self._bytes.clear()
        return text

    def _flush(self) -> list[str]:
        if not self._bytes:
            return []
        found = [self._complete()]
        if self._bytes:
            found = ["\ufffd"] * len(self._bytes)
            self._bytes.clear()
        return found


class Fuse(Stage):
    """From here on there is one text."""

    fused = True

    def push(self, tokens: list[str]) -> list[str]:
        return tokens


class Strip(Stage):
    """Leaves out up to `start` of a character at the beginning of the text, and up to `stop` at its end."""

    fused = True

    def __init__(self, content: str, start: int, stop: int) -> None:
        self._content, self._start, self._stop = content, start, stop
        self._kept = ""

    def push(self, tokens: list[str]) -> list[str]:
        text = self._kept + "".join(tokens)
        while self._start and text:
            if not text.startswith(self._content):
                self._start = 0
                break
            text, self._start = text[1:], self._start - 1
        if not self._stop:
            return [text]
        end = len(text)
        while end and len(text) - end < self._stop and text[end - 1] == self._content:
            end -= 1
        self._kept = text[end:]
        return [text[:end]]


def byte_of(token: str) -> int | None:
    """The byte that a token such as <0x0A> stands for; None for others."""
    if len(token) != 6 or not token.startswith("<0x") or token[5] != ">":
        return None
    try:
        return int(token[3:5], 16) if token[3:5].isalnum() else None
    except ValueError:
        return None


@DECODERS.add("ByteLevel")
def _(part: Part) -> list[Maker]:
    return [lambda fused, streams: ByteLevel()]


@DECODERS.add("ByteFallback")
def _(part: Part) -> list[Maker]:
    def alone(text: str, _: bool) -> str:
        stage = ByteFallback(False)
        return "".join(stage.push([text]) + stage.finish())

    return [lambda fused, streams: _Held(alone) if fused else ByteFallback(streams)]


@DECODERS.add("Fuse")
def _(part: Part) -> list[Maker]:
    return [lambda fused, streams: Fuse()]


@DECODERS.add("Strip")
def _(part: Part) -> list[Maker]:
    content = part.character("content")
    start, stop = part.number("start", 0), part.number("stop", 0)

    def one(token: str, _: bool) -> str:
        low = 0
        while low < min(start, len(token)) and token[low] == content:
            low += 1
        high = len(token)
        while high > low and len(token) - high < stop and token[high - 1] == content:
            high -= 1
        return token[low:high]

    return [lambda fused, streams: Strip(content, start, stop) if fused else _Each(one, False)]


@DECODERS.add("Replace")
def _(part: Part) -> list[Maker]:
    pattern, content = Pattern.read(part), part.text("content")
    by_character = pattern.literal is not None and len(pattern.literal) == 1

    def change(token: str, _: bool) -> str:
        return pattern.replaced(token, content)

    return [lambda fused, streams: _Held(change) if fused and not by_character else _Each(change, fused)]


@DECODERS.add("Metaspace")
def _(part: Part) -> list[Maker]:
    mark, drops = part.character("replacement", "▁"), prepend_scheme(part) != "never"

    def change(token: str, first: bool) -> str:
        return token.replace(mark, "" if first and drops else " ")

    return [lambda fused, streams: _Held(change) if fused else _Each(change, False)]


_CONTRACTIONS = ((" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't"), (" 'm", "'m"))
_CONTRACTIONS += ((" do not", " don't"), (" 's", "'s"), (" 've", "'ve"), (" 're", "'re"))  # type: ignore[assignment]


@DECODERS.add("WordPiece")
def _(part: Part) -> list[Maker]:
    prefix, cleans = part.text("prefix", "##"), part.flag("cleanup", True)

    def change(token: str, first: bool) -> str:
        if not first:
            token = token[len(prefix) :] if token.startswith(prefix) else " " + token
        for was, becomes in _CONTRACTIONS if cleans else ():
            token = token.replace(was, becomes)
        return token

    return [lambda fused, streams: _Held(change) if fused else _Each(change, False)]


@DECODERS.add("Sequence")
def _(part: Part) -> list[Maker]:
    return [maker for step in part.parts("decoders") for maker in DECODERS.read(step)]


class Words(Stage):
    """No decoder: a space between tokens."""

    fused = True

    def __init__(self) -> None:
        self._first = True

    def push(self, tokens: list[str]) -> list[str]:
        found = [token if self._first and not i else " " + token for i, token in enumerate(tokens)]
        self._first = self._first and not tokens
        return found


class Chain:
    """All stages of a decoder, for one text.

    Args:
        makers: of the stages.
        streams: text is given out as soon as possible.
    """

    def __init__(self, makers: list[Maker], streams: bool) -> None:
        self._stages: list[Stage] = []
        fused = False
        for make in makers:
            self._stages.append(make(fused, streams))
            fused = fused or self._stages[-1].fused

    def push(self, tokens: list[str]) -> str:
        """The text that is certain after the next tokens."""
        for stage in self._stages:
            tokens = stage.push(tokens)
        return "".join(tokens)

    def finish(self) -> str:
        """The rest of the text."""
        tokens: list[str] = []
        for stage in self._stages:
            tokens = stage.push(tokens) + stage.finish()
        return "".join(tokens)
