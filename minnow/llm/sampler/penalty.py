"""Penalties: logits of tokens that have occurred, or that would repeat what has been said, become smaller."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.options.sampler import SamplerOptions

Array = np.ndarray[Any, Any]

_LONGEST = 256
"""Tokens of a repetition, for DRY: longer ones have the penalty of this length."""


def penalize_seen(logits: Array, tokens: list[int], options: SamplerOptions) -> None:
    """Repetition, frequency and presence penalties, in place.

    A logit becomes logit / r if it is positive, else logit * r, and then loses f for each time that the token has
    occurred, and p if it has at all.
    """
    o = options
    if o.repetition_penalty == 1 and not o.presence_penalty and not o.frequency_penalty:
        return
    window = tokens[-o.penalty_window :] if o.penalty_window else tokens
    seen, counts = np.unique(np.asarray(window, np.int64), return_counts=True)
    counts = counts[seen < len(logits)]
    seen = seen[seen < len(logits)]
    found = logits[seen]
    found = np.where(found > 0, found / o.repetition_penalty, found * o.repetition_penalty)
    logits[seen] = found - counts * o.frequency_penalty - o.presence_penalty


def penalize_repetitions(logits: Array, tokens: list[int], options: SamplerOptions) -> None:
    """DRY ("don't repeat yourself"), in place.

    Where the last n tokens have occurred before, the token that followed them there loses
    multiplier * base ** (n - allowed), if n is at least `allowed`; the longest such n counts.
    """
    o = options
    if not o.dry_multiplier or len(tokens) < 2:
        return
    text = np.asarray(tokens, np.int64)
    stops = np.flatnonzero(np.isin(text, np.asarray(list(o.dry_breakers), np.int64)))
    longest = min(_LONGEST, len(text) - 1 - (int(stops[-1]) if len(stops) else -1))
    ends = np.arange(len(text) - 1)  # where an earlier occurrence may end
    for length in range(1, longest + 1):
        ends = ends[ends >= length - 1]
        ends = ends[text[ends - (length - 1)] == text[-length]]
        if not len(ends):
            break
        if length >= o.dry_allowed_length:
            next_ = np.unique(text[ends + 1])
            next_ = next_[next_ < len(logits)]
            # A longer match replaces the penalty of the shorter one: the difference is subtracted.
            less = o.dry_base ** (length - 1 - o.dry_allowed_length) if length > o.dry_allowed_length else 0.0
            logits[next_] -= o.dry_multiplier * (o.dry_base ** (length - o.dry_allowed_length) - less)
