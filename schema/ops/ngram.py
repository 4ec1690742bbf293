"""Counting n-grams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from minnow.schema.errors import ModelError
from minnow.schema.ir import UNKNOWN, Dim, DType, TensorType
from minnow.schema.registry.dimension import agree, contents
from minnow.schema.registry.op import Arg, Float, Int, op

Array = np.ndarray[Any, Any]


@op()
def TfIdf(
    x: Int,
    pool: Int,
    starts: Int,
    places: Int,
    weights: Float | None = None,
    *,
    mode: Literal["TF", "IDF", "TFIDF"],
    shortest: int,
    longest: int,
    most_skipped: int = 0,
):
    """How often known n-grams occur in each row of x[C] or x[B, C], as float32[max(places) + 1] per row.

    `pool` holds the known n-grams one after the other, those of n elements from starts[n - 1] on; the i-th of all is
    counted at places[i], and one that stands there twice as the last of its kind. Those of `shortest` to `longest`
    elements are looked for, with 0 to `most_skipped` elements left out between each two; single ones count once. "TF"
    gives the counts, "TFIDF" the sum of the weights of all occurrences (one weight per n-gram, 1 without `weights`),
    "IDF" the weight of the last one.
    """
    grams = enumerate(_grams(pool.tolist(), starts.tolist()))
    known = {gram: i for i, gram in grams if shortest <= len(gram) <= longest}
    scale = np.ones(len(places), np.float32) if weights is None or mode == "TF" else weights
    rows = x if x.ndim == 2 else x.reshape(1, -1)
    y = np.zeros((len(rows), max(places.tolist()) + 1), np.float32)
    for row, out in zip(rows.tolist(), y, strict=True):
        for step, first in np.ndindex(most_skipped + 1, len(row)):
            for n in range(max(shortest, 2 if step else 1), longest + 1):
                end = first + (step + 1) * (n - 1)
                i = known.get(tuple(row[first : end + 1 : step + 1])) if end < len(row) else None
                if i is not None:
                    out[places[i]] = scale[i] + (0 if mode == "IDF" else out[places[i]])
    return y if x.ndim == 2 else y[0]


def _grams(pool: list[int], starts: list[int]) -> Iterator[tuple[int, ...]]:
    for n, (begin, end) in enumerate(zip(starts, [*starts[1:], len(pool)], strict=True), 1):
        for i in range(begin, end - n + 1, n):
            yield tuple(pool[i : i + n])


@TfIdf.shape
def _(x: Arg, pool: Arg, starts: Arg, places: Arg, weights: Arg | None, mode: str, shortest: int, longest: int,
      most_skipped: int) -> TensorType:  # fmt: skip
    if x.rank is not None and x.rank > 2:
        raise ModelError(f"{x.type} is neither one sequence nor a batch of them")
    if not 1 <= shortest <= longest or most_skipped < 0:
        raise ModelError(f"cannot count n-grams of {shortest} to {longest} elements with {most_skipped} skipped")
    if weights is not None and weights.dtype is not DType.F32:
        raise ModelError(f"the weights are {weights.dtype}, not f32")
    begins, chosen = contents(starts), contents(places)
    if begins is not None and pool.shape is not None:
        ends = [*begins[1:], pool.shape[0]]
        if begins[:1] != (0,) or any(isinstance(e, int) and not b <= e for b, e in zip(begins, ends, strict=True)):
            raise ModelError(f"the n-grams of each length start at {begins} in {pool.type}", why="starts must ascend")
        grams = [(e - b) // n for n, (b, e) in enumerate(zip(begins, ends, strict=True), 1) if isinstance(e, int)]
        if len(grams) == len(ends) and chosen is not None and len(chosen) < sum(grams):
            raise ModelError(f"there are {sum(grams)} n-grams, and {len(chosen)} places for their counts")
    if weights is not None:
        agree([*(a.shape[0] for a in (places, weights) if a.shape)], "the weights and the places of the n-grams")
    size: Dim = UNKNOWN
    if chosen is not None:
        if min(chosen, default=-1) < 0:
            raise ModelError(f"the places of the n-grams are {chosen}")
        size = max(chosen) + 1
    return TensorType(DType.F32, None if x.shape is None else (*x.shape[:-1], size))


@TfIdf.samples
def _(rng):
    def row(x, pool, starts, places, weights=None):
        numbers = (np.array(v, np.int64) for v in (pool, starts, places))
        return (x, *numbers, None if weights is None else np.array(weights, np.float32))

    x = np.array([[1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8]], np.int32)
    grams = ([2, 3, 5, 4, 5, 6, 7, 8, 6, 7], [0, 4], [0, 1, 2, 3, 4, 5, 6])
    for mode in ("TF", "IDF", "TFIDF"):
        for skipped in (0, 1, 5):
            for shortest, longest in ((1, 1), (1, 2), (2, 2)):
                attrs = {"mode": mode, "shortest": shortest, "longest": longest, "most_skipped": skipped}
                yield row(x, *grams), attrs
                yield row(x[1].astype(np.int64), *grams, rng.random(7)), attrs
    places = rng.permutation(12)
    tokens = rng.integers(0, 3, (4, 17))
    longer = ([0, 1, 2, 0, 0, 1, 1, 0, 2, 0, 1, 2, 1, 1, 1], [0, 3, 9], places[:8])
    yield row(tokens, *longer), {"mode": "TF", "shortest": 1, "longest": 3, "most_skipped": 2}
    yield row(tokens, *longer, rng.random(8)), {"mode": "TFIDF", "shortest": 3, "longest": 3, "most_skipped": 3}
    yield row(tokens[0], *longer[:2], [3, 3, 0, 1, 3, 0, 4, 2], rng.random(8)), {
        "mode": "IDF", "shortest": 1, "longest": 3, "most_skipped": 2,
    }  # fmt: skip
    yield row(np.zeros((2, 0), np.int64), *longer), {"mode": "TF", "shortest": 1, "longest": 2}
    yield row(np.array(7), [7], [0], [0]), {"mode": "TF", "shortest": 1, "longest": 1}
    repeated = ([1, 2, 1, 2], [0, 0], [0, 1])
    yield row(np.array([1, 2, 1, 2]), *repeated), {"mode": "TF", "shortest": 2, "longest": 2}
