"""Byte-pair encoding: neighbouring tokens are merged, those of the best rank first."""

from __future__ import annotations

from functools import cached_property
from heapq import heapify, heappop, heappush
from itertools import pairwise

from minnow.llm.tokenizer.model import MODELS, Model, vocabulary_of
from minnow.llm.tokenizer.part import Part

_SHORT = 24
"""Tokens of a piece up to which the best pair is searched anew each time; a heap is faster for more."""

_SHIFT = 32
_LOW = (1 << _SHIFT) - 1


@MODELS.add("BPE")
class BPE(Model):
    """The model of GPT-2, Llama and most others.

    A long piece costs n log n: a heap of pairs over a linked list of tokens. A text that no pre-tokenizer splits is cut
    where two characters stand side by side in no token that merges make, since no merge crosses such a place.
    """

    def __init__(self, part: Part) -> None:
        super().__init__(part, vocabulary_of(part))
        self.prefix: str = part.text("continuing_subword_prefix", "")
        self.suffix: str = part.text("end_of_word_suffix", "")
        self.whole_words: bool = part.flag("ignore_merges", False)
        self.fuses: bool = part.flag("fuse_unk", False)
        self.unknown = self._special("unk_token")
        self.fallback = part.flag("byte_fallback", False)
        self.bytes = self._bytes() if self.fallback else None
        part.items("merges")
        self._can_cut = not (self.prefix or self.suffix or (self.fuses and self.unknown is not None and not self.bytes))
        self._inner: set[str] | None = None

    @cached_property
    def merges(self) -> dict[int, int]:
        """Of two ids, in one number, the rank and the id of what they become, in one number.

        They are read when the first text comes, since the package `tokenizers` has its own.
        """
        vocabulary, skipped = self.vocabulary, len(self.prefix)
        merges: dict[int, int] = {}
        for rank, merge in enumerate(self.part.items("merges")):
            pair = merge.split(" ") if isinstance(merge, str) else merge
            if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(token, str) for token in pair):
                raise self.part.error(f"merge {rank} is no pair of tokens")
            left, right = pair
            try:
                merged = vocabulary[left + right[skipped:]]
                merges[vocabulary[left] << _SHIFT | vocabulary[right]] = rank << _SHIFT | merged
            except KeyError as e:
                raise self.part.error(f"merge {rank} has a token that is not in the vocabulary", str(e)[:80]) from None
        return merges

    def tokens(self, piece: str) -> list[int]:
        """The ids of one piece."""
        if self.whole_words and piece in self.vocabulary:
            return [self.vocabulary[piece]]
        if self._can_cut and len(piece) > _SHORT:
            cuts = self._cuts(piece)
            if len(cuts) > 2:
                return self.encode([piece[a:b] for a, b in pairwise(cuts)])
        return self._merged(self._symbols(piece))

    def _cuts(self, piece: str) -> list[int]:
        """The beginning of the piece, the places in it that no merge crosses, and its end."""
        if self._inner is None:
            made = {merge & _LOW for merge in self.merges.values()}
            texts = [token for token, id in self.vocabulary.items() if id in made]
            self._inner = {a + b for token in texts for a, b in pairwise(token)}
            spelled = {*(self.bytes or ()), self.unknown}
            self._can_cut = not any(pair >> _SHIFT in spelled or pair & _LOW in spelled for pair in self.merges)
        if not self._can_cut:  # tokens that are not the characters they stand for are merged
            return []
        inner = self._inner
        places = [i for i in range(1, len(piece)) if piece[i - 1 : i + 1] not in inner]
        return [0, *places, len(piece)]

    def _symbols(self, piece: str) -> list[int]:
        """The tokens that merging begins with: characters, bytes, or the unknown token."""
        vocabulary = self.vocabulary
        if not self.prefix and not self.suffix:
            found = [vocabulary.get(c, -1) for c in piece]
            if -1 not in found:
                return found
        ids: list[int] = []
        pending = False
        for i, c in enumerate(piece):
            text = (self.prefix if i else "") + c + (self.suffix if i == len(piece) - 1 else "")
            id = vocabulary.get(text)
            if id is not None:
                if pending:
                    ids.append(self.unknown)  # type: ignore[arg-type]
                    pending = False
                ids.append(id)
                continue
            spelled = self._spelled(text) if self.fallback else None
            if spelled is not None:
                ids += spelled
                continue
            if self.unknown is not None:
                if pending and not self.fuses:
                    ids.append(self.unknown)
                pending = True
        if pending:
            ids.append(self.unknown)  # type: ignore[arg-type]
        return ids

    def _spelled(self, text: str) -> list[int] | None:
        """The tokens of the bytes of a text; None where one is missing."""
        if self.bytes is not None:
            return [self.bytes[byte] for byte in text.encode()]
        found = [self.vocabulary.get(f"<0x{byte:02X}>") for byte in text.encode()]
        return None if None in found else found  # type: ignore[return-value]

    def _merged(self, ids: list[int]) -> list[int]:
        if len(ids) > _SHORT:
            return self._merged_by_heap(ids)
        merges = self.merges
        pairs = [merges.get(a << _SHIFT | b) for a, b in pairwise(ids)]
        while True:
            best = None
            at = 0
            for i, found in enumerate(pairs):
                if found is not None and (best is None or found < best):
                    best, at = found, i
            if best is None:
                return ids
            ids[at : at + 2] = [best & _LOW]
            del pairs[at]
            if at:
                pairs[at - 1] = merges.get(ids[at - 1] << _SHIFT | ids[at])
            if at < len(pairs):
                pairs[at] = merges.get(ids[at] << _SHIFT | ids[at + 1])

    def _merged_by_heap(self, ids: list[int]) -> list[int]:
        """`ids` is a linked list here: `after` and `before` are the neighbours; -1 is a token that is gone."""
        merges, n = self.merges, len(ids)
        after, before = list(range(1, n + 1)), list(range(-1, n - 1))
        heap = []
        for i in range(n - 1):
            found = merges.get(ids[i] << _SHIFT | ids[i + 1])
            if found is not None:
                heap.append((found, i))
        heapify(heap)
        while heap:
            found, i = heappop(heap)
            left, j = ids[i], after[i]
            if left < 0 or j >= n or merges.get(left << _SHIFT | ids[j]) != found:
                continue
            ids[i], ids[j] = found & _LOW, -1
            after[i] = k = after[j]
            if k < n:
                before[k] = i
                new = merges.get(ids[i] << _SHIFT | ids[k])
                if new is not None:
                    heappush(heap, (new, i))
            h = before[i]
            if h >= 0:
                new = merges.get(ids[h] << _SHIFT | ids[i])
                if new is not None:
                    heappush(heap, (new, h))
        return [id for id in ids if id >= 0]
