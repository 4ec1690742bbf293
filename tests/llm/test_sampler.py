"""Samplers against the processors of transformers, against formulas, and by the distribution of what they draw."""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np
import pytest
import torch
from transformers.generation import logits_process as theirs

from minnow.llm.sampler import Sampler
from minnow.llm.sampler.random import uniform
from minnow.options.sampler import SamplerOptions
from minnow.schema.errors import ModelError, UsageError

Array = np.ndarray[Any, Any]
OPEN = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "seed": 0}
PROMPT = [3, 5, 5, 7, 3, 5, 9, 11, 3]


def sampler(**options: Any) -> Sampler:
    return Sampler(SamplerOptions(**{**OPEN, **options}))


def logits(size: int = 97, seed: int = 0, scale: float = 3.0) -> Array:
    return np.random.default_rng(seed).normal(0, scale, size).astype(np.float32)


def softmax(x: Array) -> Array:
    e = np.exp(x.astype(np.float64) - x.max())
    return np.asarray(e / e.sum())


PROCESSORS: dict[str, tuple[dict[str, Any], Any]] = {
    "temperature": ({"temperature": 0.7}, lambda: theirs.TemperatureLogitsWarper(0.7)),
    "top_k": ({"top_k": 7}, lambda: theirs.TopKLogitsWarper(7)),
    "top_p": ({"top_p": 0.8}, lambda: theirs.TopPLogitsWarper(0.8)),
    "top_p_small": ({"top_p": 1e-6}, lambda: theirs.TopPLogitsWarper(1e-6)),
    "min_p": ({"min_p": 0.1}, lambda: theirs.MinPLogitsWarper(0.1)),
    "typical": ({"typical_p": 0.6}, lambda: theirs.TypicalLogitsWarper(0.6)),
    "repetition": (
        {"repetition_penalty": 1.7, "penalty_window": 0}, lambda: theirs.RepetitionPenaltyLogitsProcessor(1.7)
    ),
    "banned": ({"banned_tokens": [0, 4, 9]}, lambda: theirs.SuppressTokensLogitsProcessor([0, 4, 9])),
    "bias": ({"logit_bias": {3: 2.5, 8: -4}}, lambda: theirs.SequenceBiasLogitsProcessor({(3,): 2.5, (8,): -4.0})),
}  # fmt: skip


@pytest.mark.parametrize(("size", "seed", "scale"), [(97, 0, 3.0), (97, 1, 0.1), (12, 2, 8.0), (5003, 3, 4.0)])
@pytest.mark.parametrize("name", PROCESSORS)
def test_each_step_is_that_of_transformers(name: str, size: int, seed: int, scale: float) -> None:
    options, processor = PROCESSORS[name]
    row = logits(size, seed, scale)
    expected = processor()(torch.tensor([PROMPT]), torch.tensor(row)[None].clone())[0].numpy()
    ours = sampler(**options)
    ours.prime(PROMPT)
    np.testing.assert_allclose(ours.probabilities(row), softmax(expected), atol=2e-6)


@pytest.mark.parametrize("seed", range(6))
def test_the_chain_is_that_of_transformers_in_our_order(seed: int) -> None:
    row = logits(2003, seed, 4.0)
    steps = [
        theirs.RepetitionPenaltyLogitsProcessor(1.3), theirs.TopKLogitsWarper(50), theirs.TypicalLogitsWarper(0.9),
        theirs.TopPLogitsWarper(0.85), theirs.MinPLogitsWarper(0.02), theirs.TemperatureLogitsWarper(0.6),
    ]  # fmt: skip
    expected = torch.tensor(row)[None].clone()
    for step in steps:
        expected = step(torch.tensor([PROMPT]), expected)
    ours = sampler(
        repetition_penalty=1.3, penalty_window=0, top_k=50, typical_p=0.9, top_p=0.85, min_p=0.02, temperature=0.6
    )
    ours.prime(PROMPT)
    np.testing.assert_allclose(ours.probabilities(row), softmax(expected[0].numpy()), atol=2e-6)


def test_presence_and_frequency_penalties() -> None:
    row, expected = logits(), logits()
    for token, count in ((3, 3), (5, 3), (7, 1), (9, 1), (11, 1)):
        expected[token] -= 0.4 + 0.3 * count
    ours = sampler(presence_penalty=0.4, frequency_penalty=0.3)
    ours.prime(PROMPT)
    np.testing.assert_allclose(ours.probabilities(row), softmax(expected), atol=1e-6)


def test_penalties_look_at_the_last_tokens() -> None:
    expected = logits()
    expected[[9, 11, 3]] -= 1
    ours = sampler(presence_penalty=1.0, penalty_window=3)
    ours.prime(PROMPT)
    np.testing.assert_allclose(ours.probabilities(logits()), softmax(expected), atol=1e-6)
    ours.accept(20)
    expected[20], expected[9] = expected[20] - 1, expected[9] + 1
    np.testing.assert_allclose(ours.probabilities(logits()), softmax(expected), atol=1e-6)


def repetition(tokens: list[int], token: int, breakers: tuple[int, ...]) -> int:
    """How many of the last tokens stand in front of an earlier `token`, at most."""
    best = 0
    for at in (i for i, t in enumerate(tokens) if t == token):
        n = 0
        while n < at and tokens[at - 1 - n] == tokens[-1 - n] and tokens[-1 - n] not in breakers:
            n += 1
        best = max(best, n)
    return best


@pytest.mark.parametrize(("seed", "breakers"), itertools.product(range(8), [(), (2,)]))
def test_dry_by_its_formula(seed: int, breakers: tuple[int, ...]) -> None:
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, 4, 60).tolist() + [1, 2, 3, 0] * (seed % 3)
    expected = logits(10, seed)
    for token in range(10):
        n = repetition(tokens, token, breakers)
        if n >= 2:
            expected[token] -= 0.05 * 1.5 ** (n - 2)
    ours = sampler(dry_multiplier=0.05, dry_base=1.5, dry_allowed_length=2, dry_breakers=breakers)
    ours.prime(tokens)
    np.testing.assert_allclose(ours.probabilities(logits(10, seed)), softmax(expected), atol=1e-6)


@pytest.mark.parametrize("z", [0.2, 0.5, 0.9, 0.99])
def test_tail_free_by_its_formula(z: float) -> None:
    row = logits(50)
    order = np.argsort(-row, kind="stable")
    p = softmax(row)[order]
    second = np.abs((p[:-2] - p[1:-1]) - (p[1:-1] - p[2:]))
    removed = np.concatenate([[False], np.cumsum(second / second.sum()) > z, [True]])
    expected = row.copy()
    expected[order[removed]] = -np.inf
    np.testing.assert_allclose(sampler(tfs_z=z).probabilities(row), softmax(expected), atol=1e-9)


def test_xtc_leaves_the_last_of_the_probable_tokens() -> None:
    row = np.log(np.array([0.4, 0.05, 0.3, 0.15, 0.1], np.float32))
    ours = sampler(xtc_probability=1.0, xtc_threshold=0.12)
    np.testing.assert_allclose(ours.probabilities(row), np.array([0, 0.05, 0, 0.15, 0.1]) / 0.3, atol=1e-6)
    np.testing.assert_allclose(
        sampler(xtc_probability=1.0, xtc_threshold=0.35).probabilities(row), softmax(row), atol=1e-6
    )
    sometimes = sampler(xtc_probability=0.25, xtc_threshold=0.12)
    left_out = 0
    for _ in range(2000):
        left_out += sometimes.probabilities(row)[0] == 0
        sometimes.accept(1)
    assert abs(left_out / 2000 - 0.25) < 0.04


CHAINS: list[dict[str, Any]] = [
    {},
    {"temperature": 0.5},
    {"top_k": 5, "temperature": 1.5},
    {"top_p": 0.7},
    {"min_p": 0.2},
    {"typical_p": 0.5, "min_p": 0.05},
    {"tfs_z": 0.6, "top_k": 12, "top_p": 0.9},
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("options", CHAINS, ids=str)
def test_what_is_drawn_has_the_distribution(options: dict[str, Any]) -> None:
    """A chi-squared test with fixed seeds: below what one in 10^5 fair samples exceeds."""
    row, ours, n = logits(20, 4, 1.5), sampler(**options), 6000
    expected = ours.probabilities(row)
    drawn = np.zeros(20)
    for _ in range(n):
        drawn[ours.sample(row)] += 1
        ours.accept(0)
    assert expected.sum() == pytest.approx(1)
    assert not drawn[expected == 0].any()
    kept = expected * n >= 5
    chi = ((drawn - expected * n)[kept] ** 2 / (expected * n)[kept]).sum()
    degrees = kept.sum() - 1
    assert chi < degrees + 4.3 * np.sqrt(2 * degrees) + 12


def test_a_seed_decides_by_the_number_of_the_token_alone() -> None:
    rows = [logits(300, seed) for seed in range(40)]

    def tokens(ours: Sampler, asks: bool = False) -> list[int]:
        found = []
        for row in rows:
            if asks:
                ours.probabilities(row)
                ours.sample(row)
            found.append(ours.sample(row))
            ours.accept(found[-1])
        return found

    first = tokens(sampler(seed=7))
    assert tokens(sampler(seed=7), asks=True) == first
    assert tokens(sampler(seed=8)) != first
    free = {tuple(tokens(Sampler(SamplerOptions(**{**OPEN, "seed": None})))) for _ in range(3)}
    assert len(free) == 3
    numbers = [uniform(1, place) for place in range(2000)]
    assert abs(np.mean(numbers) - 0.5) < 0.03
    assert abs(np.corrcoef(numbers[1:], numbers[:-1])[0, 1]) < 0.08
    assert abs(np.corrcoef(numbers, [uniform(1, place, 1) for place in range(2000)])[0, 1]) < 0.08


def test_temperature_zero_takes_the_first_of_the_largest() -> None:
    row = np.array([1, 5, 2, 5, 3], np.float32)
    ours = sampler(temperature=0)
    assert ours.sample(row) == 1
    assert ours.probabilities(row).tolist() == [0, 1, 0, 0, 0]
    assert sampler(temperature=0, banned_tokens=[1]).sample(row) == 3
    assert sampler(temperature=0, logit_bias={2: 100}).sample(row) == 2


def test_equal_logits() -> None:
    row = np.zeros(10, np.float32)
    assert np.flatnonzero(sampler(top_k=3).probabilities(row)).tolist() == [0, 1, 2]
    assert np.flatnonzero(sampler(top_p=0.35).probabilities(row)).tolist() == [0, 1, 2, 3]
    assert sampler(min_p=1.0).probabilities(row).tolist() == [0.1] * 10


@pytest.mark.parametrize("options", [*CHAINS, {"temperature": 0}], ids=str)
def test_logits_that_are_no_numbers(options: dict[str, Any]) -> None:
    ours = sampler(**options)
    some = np.array([np.nan, -np.inf, 1, np.nan, 0], np.float32)
    assert ours.sample(some) in (2, 4)
    assert ours.sample(np.array([0, np.inf, 1], np.float32)) == 1
    assert ours.sample(np.array([-np.inf, -1e30, -np.inf], np.float32)) == 1
    for bad in (np.full(4, -np.inf), np.full(4, np.nan), np.zeros(0)):
        with pytest.raises(ModelError, match="no token"):
            ours.sample(bad.astype(np.float32))
    assert (some[1], some[2]) == (-np.inf, 1), "the logits of the caller are changed"


def test_one_allowed_token() -> None:
    for options in CHAINS:
        ours = sampler(**options, banned_tokens=[0, 1, 3])
        assert ours.sample(np.array([3, 2, -9, 4], np.float32)) == 2
    with pytest.raises(ModelError, match="banned"):
        sampler(banned_tokens=range(4)).sample(np.zeros(4, np.float32))


@pytest.mark.parametrize(
    "options",
    [{"logit_bias": {"x": 1}}, {"logit_bias": 3}, {"banned_tokens": [-1]}, {"dry_breakers": ["\n"]}, {"top_p": 0}],
    ids=str,
)
def test_wrong_options(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        sampler(**options)


@pytest.mark.slow
def test_large_vocabularies_are_not_sorted() -> None:
    """Against sorting, in turns: the chain of the defaults, and that without top-k, take less than half of its time."""
    row = logits(150_000, 0, 4.0)
    chosen = [Sampler(SamplerOptions(seed=0)), sampler(top_p=0.95), sampler(top_p=0.9, min_p=0.05), sampler(min_p=0.05)]

    def seconds(step: Any) -> float:
        start = time.process_time()
        for _ in range(3):
            step()
        return time.process_time() - start

    for ours in chosen:
        ratios = [
            seconds(lambda ours=ours: ours.sample(row)) / seconds(lambda: np.argsort(-row, kind="stable"))
            for _ in range(5)
        ]
        assert min(ratios) < 0.6, ours.options
    greedy = sampler(temperature=0)
    assert min(seconds(lambda: greedy.sample(row)) / seconds(lambda: np.argsort(row)) for _ in range(5)) < 0.1
