"""Blocks of a cache: taken, shared, copied before they are written, found again by what they hold, given up in time."""

from __future__ import annotations

import random

import pytest

from minnow.llm.cache import Blocks, CachedSequence, CacheFullError
from minnow.schema.errors import UnsupportedError, UsageError

BLOCK = 4


class Memory:
    """Stands in for the caches of a session: what was written into each slot."""

    def __init__(self, most: int | None = None, limit: int = 1 << 30) -> None:
        self.slots: list[list[int | None]] = []
        self.limit = limit
        self.blocks = Blocks(BLOCK, self.resize, self.copy, most)

    def resize(self, size: int) -> None:
        if size > self.limit:
            raise UnsupportedError("there is not so much memory")
        self.slots += [[None] * BLOCK for _ in range(size - len(self.slots))]

    def copy(self, source: int, target: int) -> None:
        self.slots[target] = [*self.slots[source]]

    def write(self, sequence: CachedSequence, tokens: list[int]) -> None:
        """As a step does."""
        sequence.reserve(len(tokens))
        for i, token in enumerate(tokens, len(sequence)):
            self.slots[sequence.blocks[i // BLOCK]][i % BLOCK] = token
        sequence.append(tokens)

    def read(self, sequence: CachedSequence) -> list[int | None]:
        return [self.slots[sequence.blocks[i // BLOCK]][i % BLOCK] for i in range(len(sequence))]

    def sequence(self, tokens: list[int] | None = None) -> CachedSequence:
        return CachedSequence(self.blocks, tokens or [])


def test_full_blocks_are_found_by_what_stands_before_them() -> None:
    memory = Memory()
    text = list(range(11))
    first = memory.sequence(text)
    assert len(first) == 0
    memory.write(first, text)
    again = memory.sequence(text)
    assert again.tokens == text[:8]
    assert again.blocks == first.blocks[:2]
    assert len(memory.sequence(text[:8])) == 4  # the last token is always computed
    assert len(memory.sequence([9, *text[1:]])) == 0
    assert len(memory.sequence([*text[:4], 9, 9, 9, 9, 9])) == 4
    assert len(memory.sequence(text[4:])) == 0  # the same tokens behind others


def test_what_a_closed_sequence_held_is_found_until_its_memory_is_needed() -> None:
    memory = Memory(most=4)
    first = memory.sequence()
    memory.write(first, list(range(10)))
    first.close()
    assert memory.blocks.used == 0
    found = memory.sequence(list(range(10)))
    assert len(found) == 8
    found.close()
    other = memory.sequence()
    memory.write(other, list(range(20, 20 + 3 * BLOCK)))
    assert len(memory.sequence(list(range(10)))) == 4  # the end of a text is given up before its beginning
    assert memory.read(other) == list(range(20, 32))


def test_forks_write_into_blocks_of_their_own() -> None:
    memory = Memory()
    one = memory.sequence()
    memory.write(one, [1, 2, 3, 4, 5, 6])
    two = one.fork()
    assert two.blocks == one.blocks
    memory.write(one, [7, 8, 9])
    memory.write(two, [17, 18])
    assert memory.read(one) == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert memory.read(two) == [1, 2, 3, 4, 5, 6, 17, 18]
    assert one.blocks[0] == two.blocks[0]
    assert one.blocks[1] != two.blocks[1]


def test_rewinding_into_a_shared_block_leaves_the_other_sequence_alone() -> None:
    memory = Memory()
    one = memory.sequence()
    memory.write(one, [1, 2, 3, 4, 5, 6, 7, 8])
    two = memory.sequence([1, 2, 3, 4, 5, 6, 7, 8, 9])
    assert len(two) == 8
    two.rewind(6)
    memory.write(two, [20, 21, 22])
    assert memory.read(one) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert memory.read(two) == [1, 2, 3, 4, 5, 6, 20, 21, 22]
    assert len(memory.sequence([1, 2, 3, 4, 5, 6, 20, 21, 0])) == 8
    with pytest.raises(UsageError, match="9 tokens cannot be rewound to 10"):
        two.rewind(10)


def test_a_block_that_is_written_again_is_no_longer_found() -> None:
    memory = Memory()
    one = memory.sequence()
    memory.write(one, [1, 2, 3, 4])
    one.rewind(3)
    memory.write(one, [9])
    assert len(memory.sequence([1, 2, 3, 4, 5])) == 0
    assert memory.sequence([1, 2, 3, 9, 5]).blocks == one.blocks


def test_a_full_cache_says_so_and_changes_nothing() -> None:
    memory = Memory(most=3)
    one, two = memory.sequence(), memory.sequence()
    memory.write(one, [1] * 6)
    with pytest.raises(CacheFullError, match="its 3 blocks of 4 tokens are all in use"):
        two.reserve(5)
    assert (len(two), two.blocks, memory.blocks.used, memory.blocks.available) == (0, [], 2, 1)
    one.close()
    memory.write(two, [2] * 12)
    assert memory.blocks.available == 0


def test_memory_that_ends_is_a_limit_while_there_are_kept_blocks() -> None:
    memory = Memory(limit=16)
    one = memory.sequence()
    memory.write(one, list(range(40)))
    one.close()
    two = memory.sequence()
    memory.write(two, list(range(100, 160)))  # takes the kept ones
    assert memory.read(two) == list(range(100, 160))
    three = memory.sequence()
    with pytest.raises(UnsupportedError):
        three.reserve(40)
    assert memory.blocks.used == 15


@pytest.mark.parametrize("seed", range(6))
def test_random_histories_keep_every_sequence_what_it_is(seed: int) -> None:
    rng = random.Random(seed)
    memory = Memory(most=20)
    live: list[tuple[CachedSequence, list[int]]] = []
    refused = shared = 0
    for _ in range(600):
        kind = rng.choice(["new", "new", "write", "write", "write", "rewind", "fork", "close"])
        if kind == "new" and len(live) < 6:
            wanted = [rng.randrange(2) for _ in range(rng.randrange(20))]
            sequence = memory.sequence(wanted)
            shared += len(sequence) > 0
            live.append((sequence, wanted[: len(sequence)]))
        elif live and kind != "new":
            place = rng.randrange(len(live))
            sequence, tokens = live[place]
            if kind == "write":
                new = [rng.randrange(2) for _ in range(rng.randrange(9))]
                try:
                    memory.write(sequence, new)
                    tokens += new
                except CacheFullError:
                    refused += 1
            elif kind == "rewind":
                length = rng.randrange(len(tokens) + 1)
                sequence.rewind(length)
                del tokens[length:]
            elif kind == "fork" and len(live) < 6:
                live.append((sequence.fork(), [*tokens]))
            elif kind == "close":
                sequence.close()
                del live[place]
        for sequence, tokens in live:
            assert sequence.tokens == tokens
            assert memory.read(sequence) == tokens
    assert refused
    assert shared
    for sequence, _ in live:
        sequence.close()
    assert memory.blocks.used == 0
