"""The chain from logits to a token."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from minnow.llm.sampler.filter import CHAIN, Candidates, begin, exclude_top
from minnow.llm.sampler.penalty import penalize_repetitions, penalize_seen
from minnow.llm.sampler.random import uniform
from minnow.options.sampler import SamplerOptions
from minnow.schema.errors import ModelError, UsageError

if TYPE_CHECKING:
    from minnow.llm.description import Description
    from minnow.llm.grammar import Constraint
    from minnow.llm.tokenizer import Tokenizer

Array = np.ndarray[Any, Any]
_XTC = 1
"""The stream of random numbers that says whether XTC takes part in a choice."""


class Sampler:
    """Chooses the tokens of one answer.

    1. What the grammar and `banned_tokens` do not allow gets the logit -inf; `logit_bias` is added.
    2. Penalties: repetition, frequency, presence, DRY.
    3. The most probable token, if the temperature is 0. Else the filters: top-k, tail-free, typical, top-p, min-p, XTC.
    4. The temperature, and a draw. The random number is a function of the seed and of the number of the token: the
       same seed gives the same tokens, whatever else is in the batch.

    Args:
        options: of the choice. If they have a `json_schema`, the answer satisfies it, which needs the other arguments.
        tokenizer, description: of the model.

    Raises:
        UsageError: an option is wrong.
    """

    def __init__(
        self,
        options: SamplerOptions,
        *,
        tokenizer: Tokenizer | None = None,
        description: Description | None = None,
        constraint: Constraint | None = None,
    ) -> None:
        self.options = options
        self.seed = secrets.randbits(63) if options.seed is None else options.seed
        self._bias = _table(options.logit_bias)
        self._banned = np.asarray(_tokens(options.banned_tokens, "banned_tokens"), np.int64)
        _tokens(options.dry_breakers, "dry_breakers")
        self._tokens: list[int] = []
        self._place = 0
        o = options
        penalties = o.repetition_penalty != 1 or o.presence_penalty or o.frequency_penalty or o.dry_multiplier
        self._plain = not (self._bias or len(self._banned) or penalties)
        schema = getattr(options, "json_schema", None)
        if constraint is None and schema is not None:
            from minnow.llm.grammar import json_constraint

            if tokenizer is None or description is None:
                raise UsageError("a JSON schema needs the tokenizer of the model")
            constraint = json_constraint(schema, tokenizer, description.eos, description.vocab_size)
        self.constraint = constraint

    def prime(self, tokens: Iterable[int]) -> None:
        """Takes note of the tokens of the prompt, for penalties."""
        self._tokens += map(int, tokens)

    def accept(self, token: int) -> None:
        """Takes note of the next token of the answer."""
        self._tokens.append(int(token))
        self._place += 1
        if self.constraint is not None:
            self.constraint.accept(int(token))

    def complete(self) -> bool:
        """Whether the grammar, if there is one, allows nothing more."""
        return self.constraint is not None and self.constraint.complete

    def sample(self, logits: Array) -> int:
        """The next token by the logits [vocabulary], drawn from `probabilities(logits)`."""
        changed = self._changed(logits)
        if not self.options.temperature:
            return int(np.argmax(changed))
        found = self._filtered(changed)
        total = np.cumsum(self._tempered(found).probabilities())
        place = int(np.searchsorted(total, uniform(self.seed, self._place) * total[-1], side="right"))
        return int(found.ids[min(place, len(total) - 1)])

    def probabilities(self, logits: Array) -> Array:
        """The distribution of the next token, float64 [vocabulary]."""
        changed = self._changed(logits)
        result = np.zeros(len(changed))
        if not self.options.temperature:
            result[int(np.argmax(changed))] = 1
        else:
            found = self._filtered(changed)
            result[found.ids] = self._tempered(found).probabilities()
        return result

    def _changed(self, logits: Array) -> Array:
        """The logits after bans, biases and penalties; -inf is not allowed, and there is something else."""
        logits = np.asarray(logits, np.float32).reshape(-1)
        if not self._plain or self.constraint is not None:
            logits = logits.copy()
            self._change(logits)
        top = logits.max(initial=-np.inf)
        if not np.isfinite(top):
            logits = np.nan_to_num(logits, nan=-np.inf, posinf=np.finfo(np.float32).max, neginf=-np.inf)
            if not logits.max(initial=-np.inf) > -np.inf:
                why = "all logits are -inf or no numbers" if self._plain else "what is banned, or the grammar"
                raise ModelError("no token can be chosen", why=why)
        return logits

    def _change(self, logits: Array) -> None:
        for token, bias in self._bias.items():
            if token < len(logits):
                logits[token] += bias
        penalize_seen(logits, self._tokens, self.options)
        penalize_repetitions(logits, self._tokens, self.options)
        logits[self._banned[self._banned < len(logits)]] = -np.inf
        if self.constraint is not None:
            logits[~self.constraint.allowed()[: len(logits)]] = -np.inf

    def _filtered(self, logits: Array) -> Candidates:
        options = self.options
        found, done = begin(logits, options)
        for name, all_, step in CHAIN:
            value = getattr(options, name)
            if value != all_ and name != done and len(found.ids) > 1:
                found = step(found, value)
        if options.xtc_probability and uniform(self.seed, self._place, _XTC) < options.xtc_probability:
            found = exclude_top(found, options.xtc_threshold)
        return found

    def _tempered(self, found: Candidates) -> Candidates:
        return Candidates(found.ids, (found.logits - found.logits[0]) / self.options.temperature)


def _tokens(given: Any, name: str) -> Sequence[int]:
    try:
        found = [int(token) for token in given]
    except (TypeError, ValueError):
        found = [-1]
    if not all(0 <= token < 1 << 31 for token in found):
        raise UsageError(f"{name} is {str(given)[:60]!r}", hint="give a list of tokens, by their ids")
    return found


def _table(given: Any) -> dict[int, float]:
    if given is None:
        return {}
    try:
        found = {int(token): float(bias) for token, bias in given.items()}
    except (AttributeError, TypeError, ValueError):
        found = {-1: 0.0}
    if not all(0 <= token < 1 << 31 and abs(bias) < 1e30 for token, bias in found.items()):
        raise UsageError(f"logit_bias is {str(given)[:60]!r}", hint="give a number for each token, by its id")
    return found
