"""A language model whose logits are a function of the tokens, without weights: to test what uses language models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


class FakeSequence:
    def __init__(self, model: FakeModel, tokens: list[int]) -> None:
        self.model, self.tokens, self.open = model, tokens, True
        model.sequences.add(self)

    def __len__(self) -> int:
        return len(self.tokens)

    def rewind(self, length: int) -> None:
        assert 0 <= length <= len(self.tokens)
        del self.tokens[length:]

    def close(self) -> None:
        assert self.open
        self.open = False
        self.model.sequences.remove(self)
        self.model.closed = [*self.model.closed[-7:], list(self.tokens)]


class FakeModel:
    """The logits after some tokens follow from the last two of them, the sum of all, and a seed.

    Args:
        repeats: after token t comes t + 1 with this many more logits: text with repetitions, that can be guessed.
    """

    def __init__(self, vocabulary: int = 50, seed: int = 0, repeats: float = 0.0, block: int = 4) -> None:
        self.vocabulary, self.seed, self.repeats, self.block = vocabulary, seed, repeats, block
        self.sequences: set[FakeSequence] = set()
        self.closed: list[list[int]] = []
        self.work: list[list[tuple[int, int]]] = []
        self.fails: BaseException | None = None
        self._known: dict[tuple[int, ...], Array] = {}

    def sequence(self, tokens: Sequence[int] = ()) -> FakeSequence:
        best: list[int] = []
        for held in self.closed:
            same = next(
                (i for i, (a, b) in enumerate(zip(held, tokens, strict=False)) if a != b), min(len(held), len(tokens))
            )
            same = min(same, len(tokens) - 1) // self.block * self.block
            best = held[:same] if same > len(best) else best
        return FakeSequence(self, list(best))

    def step(self, work: Sequence[tuple[Sequence[int], FakeSequence, int]]) -> Array:
        if self.fails is not None:
            error, self.fails = self.fails, None
            raise error
        self.work = [*self.work[-1000:], [(len(tokens), wanted) for tokens, _, wanted in work]]
        rows = []
        for tokens, sequence, wanted in work:
            assert tokens
            assert sequence.open
            for place, token in enumerate(tokens):
                sequence.tokens.append(int(token))
                if place >= len(tokens) - wanted:
                    rows.append(self.logits(sequence.tokens))
        return np.array(rows, np.float32).reshape(-1, self.vocabulary)

    def logits(self, tokens: Sequence[int]) -> Array:
        key = (self.seed, *tokens[-2:], sum(tokens) % 7)
        if key not in self._known:
            if len(self._known) > 2000:
                self._known.clear()
            out = np.random.default_rng(key).normal(0, 2, self.vocabulary)
            out[(tokens[-1] + 1) % self.vocabulary] += self.repeats
            self._known[key] = out.astype(np.float32)
        return self._known[key]


class FakeSampler:
    """Greedy at temperature 0, else from the softmax; a token that was accepted gets a penalty."""

    def __init__(self, temperature: float = 0.0, seed: int = 0, penalty: float = 0.0) -> None:
        self.temperature, self.penalty = temperature, penalty
        self.random = np.random.default_rng(seed)
        self.accepted: list[int] = []

    def probabilities(self, logits: Array) -> Array:
        x = logits.astype(np.float64)
        for token in set(self.accepted):
            x[token] -= self.penalty
        if self.temperature <= 0:
            out = np.zeros(len(x))
            out[int(x.argmax())] = 1
            return out
        p = np.exp((x - x.max()) / self.temperature)
        return p / p.sum()

    def sample(self, logits: Array) -> int:
        p = self.probabilities(logits)
        return int(p.argmax()) if self.temperature <= 0 else int(self.random.choice(len(p), p=p))

    def accept(self, token: int) -> None:
        self.accepted.append(token)


class Heard:
    """A listener that keeps what it hears.

    Args:
        enough: with this many tokens the answer is complete.
    """

    def __init__(self, enough: int | None = None) -> None:
        self.sampled: list[Any] = []
        self.ends: list[tuple[str, BaseException | None]] = []
        self.enough = enough

    @property
    def tokens(self) -> list[int]:
        return [s.token for s in self.sampled]

    def take(self, sampled: Any) -> bool:
        self.sampled.append(sampled)
        return self.enough is None or len(self.sampled) < self.enough

    def end(self, reason: str, error: BaseException | None) -> None:
        self.ends.append((reason, error))
