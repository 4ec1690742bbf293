"""Unigram: of all ways to split a piece into tokens, the one with the largest sum of scores."""

from __future__ import annotations

import math
from typing import Any

from minnow.llm.tokenizer.model import MODELS, Model
from minnow.llm.tokenizer.part import Part

_UNKNOWN = 10.0
"""How much less than the least score a character counts that no token begins with."""

_LONGEST = 1024


@MODELS.add("Unigram")
class Unigram(Model):
    """The model of SentencePiece that T5 and XLM-RoBERTa have. `vocab` is a list of tokens and scores."""

    def __init__(self, part: Part) -> None:
        vocabulary: dict[str, int] = {}
        self.scores: list[float] = []
        for id, entry in enumerate(part.items("vocab")):
            if not _is_entry(entry):
                raise part.error(f"token {id} is no pair of a text and a score")
            vocabulary[entry[0]] = id
            self.scores.append(float(entry[1]))
        super().__init__(part, vocabulary)
        self.unknown: int | None = part.number("unk_id", None)
        if self.unknown is not None and self.unknown >= len(self.scores):
            raise part.error(f"'unk_id' is {self.unknown}, but there are {len(self.scores)} tokens")
        self.bytes = self._bytes() if part.flag("byte_fallback", False) else None
        self._least = min(self.scores, default=0.0) - _UNKNOWN
        self._begin: dict[str, int] = {}
        """The longest token that begins with a character."""
        for token in vocabulary:
            if token:
                self._begin[token[0]] = max(self._begin.get(token[0], 0), len(token))
        if max(self._begin.values(), default=0) > _LONGEST:
            raise part.error("a token is too long", f"more than {_LONGEST} characters")
        self._prefixes: set[str] | None = None

    def tokens(self, piece: str) -> list[int]:
        """The ids of one piece."""
        ids: list[int] = []
        for start, end in self._best(piece):
            text = piece[start:end]
            id = self.vocabulary.get(text)
            if id is not None:
                ids.append(id)
            elif self.bytes is not None:
                ids += [self.bytes[byte] for byte in text.encode()]
            elif self.unknown is not None:
                ids.append(self.unknown)
            else:
                raise self.part.error(f"the text {text[:40]!r} has no token", "and there is none for what is unknown")
        return ids

    def _best(self, piece: str) -> list[tuple[int, int]]:
        """Where the tokens of the best way begin and end; unknown characters side by side are one."""
        vocabulary, scores, prefixes, n = self.vocabulary, self.scores, self._all_prefixes(), len(piece)
        totals, starts, unknown = [0.0] * (n + 1), [-1] * (n + 1), [False] * (n + 1)
        for start in range(n):
            so_far, single = totals[start], False
            for end in range(start + 1, min(start + self._begin.get(piece[start], 0), n) + 1):
                text = piece[start:end]
                id = vocabulary.get(text)
                if id is not None:
                    total = scores[id] + so_far
                    if starts[end] < 0 or total > totals[end]:
                        totals[end], starts[end], unknown[end] = total, start, id == self.unknown
                    single = single or end == start + 1
                elif text not in prefixes:
                    break
            end = start + 1
            if not single:
                total = self._least + so_far
                if starts[end] < 0 or total > totals[end]:
                    totals[end], starts[end], unknown[end] = total, start, True
        found: list[tuple[int, int]] = []
        fused, end = False, n
        while end > 0:
            start = starts[end]
            if unknown[end] and fused:
                found[-1] = (start, found[-1][1])
            else:
                found.append((start, end))
            fused, end = unknown[end], start
        return found[::-1]

    def _all_prefixes(self) -> set[str]:
        if self._prefixes is None:
            self._prefixes = {token[:i] for token in self.vocabulary for i in range(1, len(token))}
        return self._prefixes


def _is_entry(entry: Any) -> bool:
    if not isinstance(entry, list) or len(entry) != 2:
        return False
    text, score = entry
    return isinstance(text, str) and type(score) in (int, float) and abs(score) < 1e30 and math.isfinite(score)
