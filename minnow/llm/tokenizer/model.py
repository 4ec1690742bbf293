"""What all three kinds of models have: a vocabulary, and a cache of the pieces that were seen."""

from __future__ import annotations

from typing import Any

from minnow.llm.tokenizer.part import Kinds, Part

MODELS: Kinds[Model] = Kinds("model")
_WORDS, _WORD = 1 << 16, 64
"""How many pieces are remembered, and of how many characters."""


class Model:
    """Turns a piece of text into tokens.

    Attributes:
        vocabulary: the id of each token.
    """

    def __init__(self, part: Part, vocabulary: dict[str, int]) -> None:
        self.part = part
        self.vocabulary = vocabulary
        self._known: dict[str, tuple[int, ...]] = {}

    def encode(self, pieces: list[str]) -> list[int]:
        """The ids of the tokens of all pieces, one after the other."""
        ids: list[int] = []
        known = self._known
        for piece in pieces:
            found = known.get(piece)
            if found is None:
                found = tuple(self.tokens(piece))
                if len(piece) <= _WORD:
                    if len(known) >= _WORDS:
                        known.clear()
                    known[piece] = found
            ids += found
        return ids

    def tokens(self, piece: str) -> list[int]:
        """The ids of one piece."""
        raise NotImplementedError

    def _special(self, key: str) -> int | None:
        """The id of a token that the file names; None where it names none."""
        token = self.part.text(key, None)
        if token is None:
            return None
        if token not in self.vocabulary:
            raise self.part.error(f"'{key}' is {token[:40]!r}, which is not in the vocabulary")
        return self.vocabulary[token]

    def _bytes(self) -> list[int] | None:
        """The tokens of single bytes, <0x00> to <0xFF>; None where one is missing."""
        found = [self.vocabulary.get(f"<0x{byte:02X}>") for byte in range(256)]
        return None if None in found else found  # type: ignore[return-value]


def vocabulary_of(part: Part) -> dict[str, int]:
    """The object `vocab`: an id for each token."""
    found: dict[str, Any] = part.object("vocab")
    for token, id in found.items():
        if type(id) is not int or not 0 <= id < 1 << 31:
            raise part.error(f"the token {token[:40]!r} has the id {str(id)[:40]}")
    return found
