"""Runs the graph of a language model's step by the numpy references: caches, blocks, sequences of different lengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from minnow.schema.ir import Model
from minnow.schema.registry.interpreter import evaluate


class Stepping:
    """A model with the state of its sequences.

    Args:
        model: the step, with caches in f32 for exact comparisons.
        blocks: of the cache. block: tokens of one.
    """

    def __init__(self, model: Model, blocks: int = 24) -> None:
        self.model = model
        caches = [(n, t) for n, t in model.inputs if "_cache." in n]
        key_cache = next(t for n, t in caches if n.startswith("key"))
        self.block = int(key_cache.shape[3])
        # What a cache holds behind its tokens must not matter.
        self.caches = {n: np.full((blocks, *t.shape[1:]), 3e4, t.dtype.numpy) for n, t in caches}
        self.free = list(np.random.default_rng(0).permutation(blocks))
        self.places: dict[str, list[int]] = {}
        self.lengths: dict[str, int] = {}

    def step(self, new: Mapping[str, Sequence[int]], rows: Sequence[int] | None = None) -> np.ndarray:
        """The logits of new tokens of some sequences, by name; of all of them, or of some rows."""
        names = list(new)
        counts = [len(new[n]) for n in names]
        lengths = [self.lengths.get(n, 0) for n in names]
        for name, length, count in zip(names, lengths, counts, strict=True):
            places = self.places.setdefault(name, [])
            while len(places) * self.block < length + count:
                places.append(int(self.free.pop()))
            self.lengths[name] = length + count
        most = max(len(self.places[n]) for n in names) + 1
        tokens = [t for n in names for t in new[n]]
        inputs = {
            "input_ids": tokens,
            "positions": [length + i for length, count in zip(lengths, counts, strict=True) for i in range(count)],
            "starts": np.cumsum([0, *counts]),
            "lengths": lengths,
            "blocks": [self.places[n] + [0] * (most - len(self.places[n])) for n in names],
            "rows": range(len(tokens)) if rows is None else rows,
        }
        arrays = [self.caches.get(n, np.asarray(inputs.get(n), t.dtype.numpy)) for n, t in self.model.inputs]
        made = dict(zip((n for n, _ in self.model.outputs), evaluate(self.model.graph, arrays), strict=True))
        self.caches = {n: made[f"{n}.next"] for n in self.caches}
        return made["logits"]
