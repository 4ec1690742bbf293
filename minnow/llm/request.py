"""A request for tokens, and what fulfils it: a model with sequences, a sampler, a draft."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from minnow.llm.speculative import Draft

Array = np.ndarray[Any, Any]

Reason = Literal["stop", "length", "cancelled", "error"]
"""Why an answer has ended: a stop token or stop string; a limit on tokens; it was cancelled; an error."""


class CachedSequence(Protocol):
    """The keys and values of a sequence of tokens in the cache of a model."""

    def __len__(self) -> int:
        """How many tokens are in the cache."""

    def rewind(self, length: int) -> None:
        """Forgets all tokens but the first `length`."""

    def close(self) -> None:
        """Gives the memory back. What it holds may be found again as the prefix of another sequence."""


class Steps(Protocol):
    """What batching needs of a language model."""

    def sequence(self, tokens: Sequence[int] = ()) -> Any:
        """A new sequence, which starts with as many of these tokens as are cached; at least the last one is not."""

    def step(self, work: Sequence[tuple[Sequence[int], Any, int]]) -> Array:
        """Appends tokens to sequences.

        Args:
            work: for each sequence the new tokens, the sequence, and for how many of the last of these logits are
                wanted.

        Returns:
            float32 [sum of wanted, vocabulary].
        """


class Sampler(Protocol):
    """Chooses tokens by their logits."""

    def sample(self, logits: Array) -> int:
        """A token, drawn from `probabilities(logits)`."""

    def probabilities(self, logits: Array) -> Array:
        """The probability of each token, float64 [vocabulary]."""

    def accept(self, token: int) -> None:
        """Takes note of the next token, for penalties and grammars."""


class Sampled(NamedTuple):
    """A token of an answer.

    Attributes:
        token: its id.
        logprob: the logarithm of its probability, before any sampler; None where it was not asked for.
        top: the most probable tokens with theirs, the first one first.
    """

    token: int
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()


class Listener(Protocol):
    """Who receives an answer. The calls come from the thread that steps the batch, one at a time."""

    def take(self, sampled: Sampled) -> bool:
        """Takes the next token; False if the answer is complete."""

    def end(self, reason: Reason, error: BaseException | None) -> None:
        """The last call, always exactly one."""


@dataclass
class Timing:
    """When a request came to its stages, by `time.perf_counter`."""

    added: float = field(default_factory=time.perf_counter)
    admitted: float = 0.0
    first: float = 0.0
    ended: float = 0.0


@dataclass(eq=False)
class Request:
    """Tokens to continue.

    Attributes:
        tokens: the prompt, at least one token.
        sampler: chooses the tokens; belongs to this request.
        listener: receives them.
        max_tokens: the most tokens of the answer.
        stop: tokens that end the answer; they do not belong to it.
        logprobs: how many of the most probable tokens to tell with each token; None: no probabilities at all.
        client: whose request it is: clients take turns.
        draft: guesses tokens; the answer's distribution stays the same.
        temperature: of what a draft model samples; 0: it guesses its most probable token.
        seed: of the random numbers that accept and replace the guesses of a draft model.
        after: is in the queue until this one has its first token, whose cached prompt it shares.
        timing: of its stages.
        cached: how many tokens of the prompt were in the cache.
        drafted, accepted: how many tokens were guessed, and how many of them rightly.
    """

    tokens: Sequence[int]
    sampler: Sampler
    listener: Listener
    max_tokens: int
    stop: frozenset[int] = frozenset()
    logprobs: int | None = None
    client: str = ""
    draft: Draft | None = None
    temperature: float = 0.0
    seed: int | None = None
    after: Request | None = None
    timing: Timing = field(default_factory=Timing)
    cached: int = 0
    drafted: int = 0
    accepted: int = 0
