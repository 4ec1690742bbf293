"""The normalizer `Precompiled`: the table of replacements inside a SentencePiece model.

The table is a little-endian uint32, the size of a trie; the trie, a double array of uint32 over bytes; and the
replacements, texts that end with a zero byte. The value of a key in the trie is where its replacement begins.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

import numpy as np

from minnow.llm.tokenizer.pattern import regex_engine
from minnow.schema.errors import FormatError

_LONGEST = 6
"""Of a cluster of characters that is looked up as one, in bytes: less than that. Others are looked up one by one."""


class Charsmap:
    """Replaces the characters of a text by the table.

    Args:
        encoded: the table in base64.
        where: its place in the file, for errors.
    """

    def __init__(self, encoded: str, where: str) -> None:
        try:
            data = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError) as e:
            raise FormatError("the table of characters is not base64", where=where, why=str(e)) from None
        size = int.from_bytes(data[:4], "little")
        if data and (len(data) < 4 or size % 4 or 4 + size > len(data)):
            raise FormatError("the table of characters is cut off", where=where, why=f"its trie has {size} bytes")
        self._units: list[int] = np.frombuffer(data[4 : 4 + size], "<u4").tolist()
        self._texts = data[4 + size :]
        self._where = where
        self._known: dict[str, str | None] = {}
        self._clusters = _clusters()

    def __call__(self, text: str) -> str:
        if not self._units:
            return text
        return "".join(map(self._replaced, self._clusters(text)))

    def _replaced(self, cluster: str) -> str:
        if len(cluster.encode()) < _LONGEST:
            found = self._find(cluster)
            if found is not None:
                return found
        if len(cluster) == 1:
            return cluster
        return "".join(c if (found := self._find(c)) is None else found for c in cluster)

    def _find(self, text: str) -> str | None:
        """The replacement of the shortest key that a text begins with, as the `tokenizers` package chooses it."""
        if text not in self._known:
            if len(self._known) > 1 << 16:
                self._known.clear()
            self._known[text] = self._search(text.encode())
        return self._known[text]

    def _search(self, key: bytes) -> str | None:
        units, at = self._units, 0
        unit = units[0]
        at ^= _offset(unit)
        for byte in key:
            if byte == 0:
                return None
            at ^= byte
            if at >= len(units):
                return None
            unit = units[at]
            if unit & (1 << 31 | 0xFF) != byte:
                return None
            at ^= _offset(unit)
            if unit >> 8 & 1 and at < len(units):
                return self._text(units[at] & 0x7FFFFFFF)
        return None

    def _text(self, start: int) -> str:
        end = self._texts.find(b"\0", start)
        if not 0 <= start < len(self._texts) or end < 0:
            raise FormatError("the table of characters has a wrong offset", where=self._where)
        try:
            return self._texts[start:end].decode()
        except UnicodeDecodeError:
            raise FormatError("the table of characters has a text that is not UTF-8", where=self._where) from None


def _offset(unit: int) -> int:
    return (unit >> 10) << ((unit & 1 << 9) >> 6)


def _clusters() -> Any:
    """A function that splits a text into what readers take for one character each."""
    return regex_engine().compile(r"\X").findall
