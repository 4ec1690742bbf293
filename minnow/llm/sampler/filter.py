"""Filters: which tokens may be chosen. Each sees the probabilities of those that the ones before it have left.

Tokens are sorted by their logits, largest first, and equal ones by their ids. Nothing here sorts a whole vocabulary
unless a filter needs all of it: what can be cut off by a threshold or a partition is cut off first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from minnow.options.sampler import SamplerOptions

Array = np.ndarray[Any, Any]


class Candidates(NamedTuple):
    """Attributes:
    ids: of the tokens, int64, sorted by their logits.
    logits: float64.
    """

    ids: Array
    logits: Array

    def probabilities(self) -> Array:
        """The softmax, float64."""
        found: Array = np.exp(self.logits - self.logits[0])
        found /= found.sum()
        return found

    def first(self, count: int) -> Candidates:
        """The most probable ones; at least one."""
        return Candidates(self.ids[: max(count, 1)], self.logits[: max(count, 1)])


def sorted_by_logit(ids: Array, logits: Array) -> Candidates:
    """Candidates of tokens and their logits in any order, ids ascending."""
    order = np.argsort(-logits, kind="stable")
    return Candidates(ids[order], logits[order].astype(np.float64))


def largest(logits: Array, count: int) -> Candidates:
    """The candidates with the `count` largest logits; of equal ones those with the smaller ids."""
    if count >= len(logits):
        return sorted_by_logit(np.arange(len(logits)), logits)
    least = np.partition(logits, len(logits) - count)[len(logits) - count]
    above = np.flatnonzero(logits > least)
    equal = np.flatnonzero(logits == least)[: count - len(above)]
    ids = np.sort(np.concatenate([above, equal]))
    return sorted_by_logit(ids, logits[ids])


def begin(logits: Array, options: SamplerOptions) -> tuple[Candidates, str]:
    """The first candidates: those of top-k; without it, those that the filters after it can leave.

    Args:
        logits: float32 [vocabulary]; what is not allowed is -inf.

    Returns:
        and the filter after top-k that is done already, by its option.
    """
    allowed = int(np.count_nonzero(logits > -np.inf))
    if options.top_k:
        return largest(logits, min(options.top_k, allowed)), ""
    if options.tfs_z == options.typical_p == 1 and options.top_p < 1:
        return _nucleus(logits, options.top_p, allowed), "top_p"
    if options.tfs_z == options.typical_p == 1 and options.min_p > 0:
        ids = np.flatnonzero(logits >= logits.max() + np.float32(np.log(options.min_p)) - 1e-3)
        return sorted_by_logit(ids, logits[ids]), ""
    return largest(logits, allowed), ""


def _nucleus(logits: Array, p: float, allowed: int) -> Candidates:
    """The most probable tokens that have the probability p together. Only those are sorted that can belong to them."""
    below = np.minimum((logits.max() - logits) * np.float32(_BINS / _NATS), np.float32(_BINS)).astype(np.int64)
    shares = np.exp(logits - logits.max(), dtype=np.float64)
    total = shares.sum()
    per_bin = np.bincount(below, shares)
    last = int(np.searchsorted(np.cumsum(per_bin), p * total * (1 + 1e-9))) + 1
    if last >= _BINS:
        found = largest(logits, allowed)
    else:
        ids = np.flatnonzero(below <= last)
        found = sorted_by_logit(ids, logits[ids])
    share = np.exp(found.logits - found.logits[0]).cumsum() / total
    return found.first(1 + int(np.count_nonzero(share[:-1] < p)))


_BINS, _NATS = 4096, 32.0
"""Tokens are counted before they are sorted, in bins by how much less than the largest logit theirs is."""


def tail_free(found: Candidates, z: float) -> Candidates:
    """Cuts the tail: where the sorted probabilities stop to bend. The second differences, as shares of all, up to z."""
    if len(found.ids) < 3:
        return found
    bends = np.abs(np.diff(found.probabilities(), 2))
    total = bends.sum()
    if not total > 0:
        return found
    over = np.cumsum(bends / total) > z
    return found.first(int(np.argmax(over)) + 1 if over.any() else len(found.ids) - 1)


def typical(found: Candidates, p: float) -> Candidates:
    """Keeps tokens whose information -log(p) is nearest to the entropy, up to the probability p in all."""
    q = found.probabilities()
    with np.errstate(divide="ignore", invalid="ignore"):
        information = -np.log(q)
        distance = np.abs(information - np.nansum(q * information))
    order = np.argsort(distance, kind="stable")
    count = min(int(np.count_nonzero(np.cumsum(q[order]) < p)) + 1, len(order))
    kept = np.sort(order[:count])
    return Candidates(found.ids[kept], found.logits[kept])


def top_p(found: Candidates, p: float) -> Candidates:
    """The most probable tokens that have the probability p together."""
    return found.first(1 + int(np.count_nonzero(np.cumsum(found.probabilities())[:-1] < p)))


def min_p(found: Candidates, p: float) -> Candidates:
    """Tokens with at least the share p of the probability of the most probable one."""
    return found.first(int(np.count_nonzero(np.exp(found.logits - found.logits[0]) >= p)))


def exclude_top(found: Candidates, threshold: float) -> Candidates:
    """XTC: of the tokens with at least the probability `threshold`, only the least probable one stays."""
    over = int(np.count_nonzero(found.probabilities() >= threshold))
    return found if over < 2 else Candidates(found.ids[over - 1 :], found.logits[over - 1 :])


CHAIN: list[tuple[str, float, Callable[[Candidates, float], Candidates]]] = [
    ("tfs_z", 1.0, tail_free),
    ("typical_p", 1.0, typical),
    ("top_p", 1.0, top_p),
    ("min_p", 0.0, min_p),
]
"""The filters after top-k in their order: their option, its value that keeps all, and what they do."""
