"""The blocks of a cache of keys and values: who has which, and which hold the beginnings of other texts.

The caches of all layers are cut into blocks of some tokens; a block has the same number in all of them. Sequences share
blocks with the same tokens behind the same tokens. Nothing here touches the memory itself.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

import numpy as np

from minnow.schema.errors import UnsupportedError, UsageError

_FIRST = 16
"""Blocks that a cache begins with."""


class CacheFullError(UnsupportedError):
    """All blocks of the cache are in use."""


class Blocks:
    """The blocks of a cache.

    Args:
        block: tokens of a block.
        resize: makes room for so many blocks; what they hold stays.
        copy: copies a block to another.
        most: the most blocks; None: as many as there is memory for.
    """

    def __init__(
        self, block: int, resize: Callable[[int], None], copy: Callable[[int, int], None], most: int | None = None
    ) -> None:
        self.block, self._resize, self._copy, self._most = block, resize, copy, most
        self._users: list[int] = []  # of each block
        self._free: list[int] = []  # without contents that anyone could want
        self._kept: OrderedDict[int, None] = OrderedDict()  # without users, but with contents; the oldest first
        # A full block stands for the text up to its end: for one more block behind that of an entry. Numbers of entries
        # are never used again, so that what followed on an entry that is gone is never found.
        self._entries: dict[tuple[int, bytes], int] = {}  # (the entry before, tokens) to the entry
        self._places: dict[int, int] = {}  # of entries: the block
        self._owner: dict[int, tuple[int, tuple[int, bytes]]] = {}  # of blocks: the entry, and its key
        self._next = 1

    def __len__(self) -> int:
        """How many blocks there is memory for."""
        return len(self._users)

    @property
    def used(self) -> int:
        """How many blocks sequences have."""
        return len(self) - len(self._free) - len(self._kept)

    @property
    def available(self) -> int | None:
        """How many blocks can still be taken; None where only memory limits them."""
        return None if self._most is None else max(self._most - self.used, 0)

    def take(self) -> int:
        """A block for one user. Raises CacheFullError where all are in use; UnsupportedError without memory."""
        if not self._free:
            self._grow()
        if self._free:
            place = self._free.pop()
        elif self._kept:
            place = self._kept.popitem(last=False)[0]
            self.forget(place)
        else:
            raise CacheFullError(
                "the cache of the language model is full",
                why=f"its {len(self)} blocks of {self.block} tokens are all in use",
                hint="end other answers, or allow more cached tokens",
            )
        self._users[place] = 1
        return place

    def _grow(self) -> None:
        """Doubles the memory, within the limits; kept contents are given up only where there is no more."""
        now = len(self)
        wanted = max(2 * now, _FIRST) if self._most is None else min(max(2 * now, _FIRST), self._most)
        if wanted <= now:
            return
        try:
            self._resize(wanted)
        except UnsupportedError:
            if not self._kept:
                raise
            self._most = now  # there is no memory for more
            return
        self._users += [0] * (wanted - now)
        self._free += range(wanted - 1, now - 1, -1)

    def share(self, place: int) -> None:
        """One more user of a block."""
        if self._users[place] == 0:
            del self._kept[place]
        self._users[place] += 1

    def release(self, place: int) -> None:
        """One user less. What a full block holds is kept until its memory is needed."""
        self._users[place] -= 1
        if self._users[place] > 0:
            return
        if place in self._owner:
            self._kept[place] = None
        else:
            self._free.append(place)

    def own(self, place: int) -> int:
        """The block, or a copy of it if it has other users: for one user who is about to write into it."""
        if self._users[place] == 1:
            self.forget(place)
            return place
        mine = self.take()
        self._copy(place, mine)
        self._users[place] -= 1
        return mine

    def forget(self, place: int) -> None:
        """The contents of a block are no longer found."""
        if place in self._owner:
            entry, key = self._owner.pop(place)
            del self._entries[key], self._places[entry]

    def find(self, entry: int, tokens: bytes) -> tuple[int, int] | None:
        """The entry that follows on another with these tokens, and its block. 0 is the beginning of a text."""
        found = self._entries.get((entry, tokens))
        return None if found is None else (found, self._places[found])

    def keep(self, entry: int, tokens: bytes, place: int) -> int:
        """Makes a full block found by its tokens behind those of an entry; gives its entry.

        Where another block holds the same, that one stays the one to be found.
        """
        known = self._entries.get((entry, tokens))
        if known is not None:
            return known
        made, self._next = self._next, self._next + 1
        self._entries[entry, tokens], self._places[made], self._owner[place] = made, place, (made, (entry, tokens))
        return made


class CachedSequence:
    """A sequence of tokens whose keys and values are cached; made by `LanguageModel.sequence`.

    Attributes:
        tokens: those in the cache.
        blocks: where they lie.
    """

    def __init__(self, blocks: Blocks, tokens: Sequence[int] = ()) -> None:
        self._all = blocks
        self.tokens: list[int] = []
        self.blocks: list[int] = []
        self._entries: list[int] = []  # of the full blocks
        self.is_open = True
        size = blocks.block
        for begin in range(0, max(len(tokens) - 1, 0) // size * size, size):
            part = tokens[begin : begin + size]
            found = blocks.find(self._entries[-1] if self._entries else 0, _bytes(part))
            if found is None:
                break
            blocks.share(found[1])
            self._entries.append(found[0])
            self.blocks.append(found[1])
            self.tokens += part

    def __len__(self) -> int:
        """How many tokens are in the cache."""
        return len(self.tokens)

    def rewind(self, length: int) -> None:
        """Forgets all tokens but the first `length`. Raises UsageError if there are less."""
        if not 0 <= length <= len(self.tokens):
            raise UsageError(f"a sequence of {len(self.tokens)} tokens cannot be rewound to {length}")
        del self.tokens[length:]
        del self._entries[length // self._all.block :]
        self._trim()

    def fork(self) -> CachedSequence:
        """A second sequence with the same tokens; what both go on with is each one's own."""
        other = CachedSequence(self._all)
        other.tokens, other.blocks, other._entries = [*self.tokens], [*self.blocks], [*self._entries]
        for place in other.blocks:
            self._all.share(place)
        return other

    def close(self) -> None:
        """Gives the blocks back. What full ones hold may be found as the beginning of another sequence."""
        self.is_open = False
        self.tokens, self._entries = [], []
        self._trim()

    def reserve(self, new: int) -> None:
        """Takes the blocks that so many new tokens need, each for this sequence alone. Raises CacheFullError."""
        size, length = self._all.block, len(self.tokens)
        if new and length % size:
            at = length // size
            self.blocks[at] = self._all.own(self.blocks[at])
        try:
            while len(self.blocks) * size < length + new:
                self.blocks.append(self._all.take())
        except UnsupportedError:
            self._trim()
            raise

    def append(self, tokens: Sequence[int]) -> None:
        """These tokens are in the cache now, in the blocks that `reserve` has taken."""
        size = self._all.block
        self.tokens += tokens
        for at in range(len(self._entries), len(self.tokens) // size):
            part = _bytes(self.tokens[at * size : (at + 1) * size])
            self._entries.append(self._all.keep(self._entries[-1] if at else 0, part, self.blocks[at]))

    def _trim(self) -> None:
        """Gives back the blocks behind the last token: the last one first, which is the least likely to be wanted."""
        needed = -(-len(self.tokens) // self._all.block)
        while len(self.blocks) > needed:
            self._all.release(self.blocks.pop())


def _bytes(tokens: Sequence[int]) -> bytes:
    return np.asarray(tokens, np.int64).tobytes()  # rows of images have numbers of more than 32 bits
