"""Speculative decoding: guesses of the next tokens, all of which the model checks in one step.

The answer's distribution is exactly that of decoding without guesses. A guess that was drawn from a distribution q,
where the model has p, is kept with probability min(1, p/q); otherwise the token is drawn from what p has more than q,
max(p - q, 0). For a guess that was not drawn (the continuation of an earlier occurrence), q is 1 at that token, and the
rule becomes: draw from p, and go on while the result is what was guessed. So an answer with a seed is the same with and
without `NgramDraft`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from minnow.llm.request import Array, Request, Sampler, Steps
from minnow.schema.errors import UsageError


class Proposal(NamedTuple):
    """Guesses of the next tokens.

    Attributes:
        tokens: in order.
        probabilities: the distribution that each was drawn from, float64 [tokens, vocabulary]; None: not drawn.
    """

    tokens: list[int]
    probabilities: Array | None = None


class Draft(Protocol):
    """Guesses tokens of several answers."""

    def propose(self, asked: Sequence[tuple[Request, Sequence[int], int]]) -> list[Proposal]:
        """Guesses for each request, by all its tokens up to now, at most so many."""

    def forget(self, request: Request) -> None:
        """The request has ended."""


def checked(rows: Array, proposal: Proposal, sampler: Sampler, random: np.random.Generator) -> Iterator[int]:
    """The tokens that follow: those guessed rightly, and one more.

    Args:
        rows: logits after the last token and after each guess, [guesses + 1, vocabulary].
        sampler: its `accept` is to be called with each token before the next one is taken from here.
    """
    for place, guess in enumerate(proposal.tokens):
        if proposal.probabilities is None:
            token = sampler.sample(rows[place])
        else:
            token = _kept_or_drawn(sampler.probabilities(rows[place]), proposal.probabilities[place], guess, random)
        yield token
        if token != guess:
            return
    yield sampler.sample(rows[len(proposal.tokens)])


def _kept_or_drawn(p: Array, q: Array, guess: int, random: np.random.Generator) -> int:
    if random.random() * q[guess] < p[guess]:
        return guess
    rest = np.maximum(p - q, 0)
    total = rest.sum()
    return drawn(rest / total if total > 0 else p, random)


def drawn(p: Array, random: np.random.Generator) -> int:
    """A token drawn from a distribution."""
    total = np.cumsum(p)
    return int(min(np.searchsorted(total, random.random() * total[-1], side="right"), len(p) - 1))


def stream(seed: int | None, number: int) -> np.random.Generator:
    """Random numbers of a seed, independent of other streams (from 1 on), and of a sampler's with the same seed."""
    return np.random.default_rng(None if seed is None else [seed, number])


class NgramDraft:
    """Guesses that what followed the last tokens before will follow them again: for answers that quote their prompt.

    Args:
        tokens: the most guesses at a time.
        longest, shortest: how many of the last tokens have to occur earlier; more are looked for first.
    """

    def __init__(self, tokens: int = 8, longest: int = 4, shortest: int = 2) -> None:
        self._tokens, self._longest, self._shortest = tokens, longest, shortest
        self._indexes: dict[Request, _Index] = {}

    def propose(self, asked: Sequence[tuple[Request, Sequence[int], int]]) -> list[Proposal]:
        out = []
        for request, tokens, most in asked:
            index = self._indexes.get(request)
            if index is None:
                index = self._indexes[request] = _Index(self._longest, self._shortest)
            start = index.found(tokens)
            guesses = [] if start is None else list(tokens[start : start + min(most, self._tokens)])
            out.append(Proposal(guesses))
        return out

    def forget(self, request: Request) -> None:
        self._indexes.pop(request, None)


class _Index:
    """Where each n-gram of a growing text has ended last, and the time before: the last one is the end of the text."""

    def __init__(self, longest: int, shortest: int) -> None:
        self._sizes = range(longest, shortest - 1, -1)
        self._last: dict[tuple[int, ...], int] = {}
        self._before: dict[tuple[int, ...], int] = {}
        self._seen = 0

    def found(self, tokens: Sequence[int]) -> int | None:
        """The place after an earlier occurrence of the last tokens."""
        for end in range(self._seen + 1, len(tokens) + 1):
            for size in self._sizes:
                if size <= end:
                    gram = tuple(tokens[end - size : end])
                    if gram in self._last:
                        self._before[gram] = self._last[gram]
                    self._last[gram] = end
        self._seen = len(tokens)
        for size in self._sizes:
            if size <= len(tokens) and (place := self._before.get(tuple(tokens[len(tokens) - size :]))) is not None:
                return place
        return None


class ModelDraft:
    """Guesses with another, smaller model of the same vocabulary; for all answers of a batch in the same steps.

    Args:
        model: the smaller model.
        tokens: the most guesses at a time.
    """

    def __init__(self, model: Steps, tokens: int = 4) -> None:
        self._model, self._tokens = model, tokens
        self._sequences: dict[Request, tuple[Any, list[int]]] = {}
        self._random: dict[Request, np.random.Generator] = {}

    def propose(self, asked: Sequence[tuple[Request, Sequence[int], int]]) -> list[Proposal]:
        guesses: list[list[int]] = [[] for _ in asked]
        rows: list[list[Array]] = [[] for _ in asked]
        sequences = [self._follow(request, tokens) for request, tokens, _ in asked]
        while True:
            at = [i for i, (_, _, most) in enumerate(asked) if len(guesses[i]) < min(most, self._tokens)]
            if not at:
                break
            work = []
            for i in at:
                sequence, held = sequences[i]
                new = [*asked[i][1], *guesses[i]][len(held) :]
                held += new
                work.append((new, sequence, 1))
            for i, logits in zip(at, self._model.step(work), strict=True):
                request = asked[i][0]
                q = probabilities(logits, request.temperature)
                rows[i].append(q)
                guesses[i].append(int(q.argmax()) if request.temperature <= 0 else drawn(q, self._random[request]))
        return [
            Proposal(tokens, np.stack(q) if q and request.temperature > 0 else None)
            for tokens, q, (request, _, _) in zip(guesses, rows, asked, strict=True)
        ]

    def forget(self, request: Request) -> None:
        sequence, _ = self._sequences.pop(request, (None, None))
        self._random.pop(request, None)
        if sequence is not None:
            sequence.close()

    def _follow(self, request: Request, tokens: Sequence[int]) -> tuple[Any, list[int]]:
        """The sequence of a request, without the guesses that were wrong; its last token is not in it yet."""
        if request not in self._sequences:
            sequence = self._model.sequence(tokens)
            self._sequences[request] = sequence, list(tokens[: len(sequence)])
            self._random[request] = stream(request.seed, 1)
        sequence, held = self._sequences[request]
        del held[len(sequence) :]  # what a step that failed did not append
        same = next((i for i, (a, b) in enumerate(zip(held, tokens, strict=False)) if a != b), len(held))
        same = min(same, len(tokens) - 1)
        if same < len(held):
            sequence.rewind(same)
            del held[same:]
        return sequence, held


def probabilities(logits: Array, temperature: float) -> Array:
    """The softmax of logits at a temperature, float64; at 0 all of it is at the largest."""
    if temperature <= 0:
        certain: Array = np.zeros(len(logits))
        certain[int(np.argmax(logits))] = 1
        return certain
    scaled = logits.astype(np.float64) / temperature
    out: Array = np.exp(scaled - scaled.max())
    out /= out.sum()
    return out


def check_same_vocabulary(model: Any, draft: Any) -> None:
    """Checks that two tokenizers give the same tokens.

    Raises:
        UsageError: they do not.
    """
    if model.size != draft.size or any(model.token(i) != draft.token(i) for i in range(model.size)):
        hint = "give a smaller model of the same family"
        raise UsageError("the draft model has another vocabulary than the model", hint=hint)
