"""Speculative decoding draws from the distribution of decoding without it."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from fake_model import FakeModel, FakeSampler, Heard

from minnow.llm.batch import Batch
from minnow.llm.request import Request
from minnow.llm.speculative import ModelDraft, NgramDraft, Proposal, checked, probabilities


def chi_square(counts: Counter[int], p: np.ndarray, total: int) -> float:
    """How unlikely the counts are, in standard deviations of the statistic."""
    expected = p * total
    rare = expected < 5
    observed = np.array([counts[i] for i in range(len(p))], float)
    terms = ((observed - expected) ** 2 / np.maximum(expected, 1e-12))[~rare].sum()
    if rare.any() and expected[rare].sum() > 0:
        terms += (observed[rare].sum() - expected[rare].sum()) ** 2 / expected[rare].sum()
    freedom = (~rare).sum() + rare.any() - 1
    return float((terms - freedom) / np.sqrt(2 * freedom))


def first_tokens(rows: np.ndarray, q: np.ndarray, number: int, temperature: float) -> list[tuple[int, ...]]:
    """What follows when guesses are drawn from q, many times."""
    random, out = np.random.default_rng(5), []
    sampler = FakeSampler(temperature, seed=6)
    for _ in range(number):
        guesses = [int(random.choice(len(row), p=row)) for row in q]
        out.append(tuple(checked(rows, Proposal(guesses, q), sampler, random)))
    return out


@pytest.mark.parametrize("alike", [0.0, 0.7, 1.0])
def test_each_token_has_the_distribution_of_the_model(alike: float) -> None:
    random = np.random.default_rng(0)
    rows = random.normal(0, 1.5, (3, 12)).astype(np.float32)
    other = random.normal(0, 1.5, (2, 12)).astype(np.float32)
    q = np.stack([probabilities(alike * a + (1 - alike) * b, 0.8) for a, b in zip(rows, other, strict=False)])
    number = 10_000
    found = first_tokens(rows, q, number, 0.8)
    for place in range(3):
        # A later token is there where all guesses before it were kept. Here its logits do not depend on them.
        tokens = [t[place] for t in found if len(t) > place]
        p = probabilities(rows[place], 0.8)
        assert abs(chi_square(Counter(tokens), p, len(tokens))) < 5
    if alike == 1.0:
        assert all(len(t) == 3 for t in found)


def test_the_statistic_finds_a_wrong_distribution() -> None:
    """Keeping each guess, as a wrong implementation would."""
    random = np.random.default_rng(0)
    rows = random.normal(0, 1.5, (2, 12)).astype(np.float32)
    q = probabilities(random.normal(0, 1.5, 12), 0.8)
    tokens = random.choice(12, 20_000, p=q)
    assert chi_square(Counter(tokens.tolist()), probabilities(rows[0], 0.8), 20_000) > 50


def test_pairs_of_tokens_have_the_distribution_of_the_model() -> None:
    """The whole way through the batch: answers of two tokens, with a draft model that is another one."""
    model, small = FakeModel(vocabulary=4, seed=1), FakeModel(vocabulary=4, seed=2)
    draft, counts, number = ModelDraft(small, tokens=3), Counter(), 6000
    batch = Batch(model, context=16, sequences=64, queue=number)
    requests = [
        Request([1, 2], FakeSampler(1.0, seed=i), Heard(), 3, draft=draft, temperature=1.0, seed=i)
        for i in range(number)
    ]
    batch.add(*requests)
    batch.run()
    assert 0 < sum(r.accepted for r in requests) < sum(r.drafted for r in requests)
    p = np.zeros((4, 4, 4))
    for a in range(4):
        for b in range(4):
            of_a, of_b = (probabilities(model.logits(t), 1.0) for t in ([1, 2], [1, 2, a]))
            p[a, b] = of_a[a] * of_b[b] * probabilities(model.logits([1, 2, a, b]), 1.0)
    for r in requests:
        a, b, c = r.listener.tokens
        counts[a * 16 + b * 4 + c] += 1
    assert abs(chi_square(counts, p.reshape(-1), number)) < 5


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_answers_with_a_seed_are_the_same_with_ngrams(temperature: float) -> None:
    def answers(draft: NgramDraft | None) -> list[list[int]]:
        batch = Batch(FakeModel(vocabulary=9, repeats=5), context=128)
        samplers = [FakeSampler(temperature, seed=i, penalty=0.3) for i in range(6)]
        requests = [Request([i, i + 1, i + 2, i], s, Heard(), 50, draft=draft) for i, s in enumerate(samplers)]
        batch.add(*requests)
        batch.run()
        if draft is not None:
            assert sum(r.accepted for r in requests) > 20
        return [r.listener.tokens for r in requests]

    assert answers(NgramDraft()) == answers(None)


def test_ngrams_are_found_where_they_were_last() -> None:
    draft, request = NgramDraft(tokens=3, longest=3), Request([0], FakeSampler(), Heard(), 9)
    tokens = [1, 2, 3, 4, 9, 2, 3, 5, 6, 7, 2, 3]

    def guess(of: list[int], most: int = 9) -> list[int]:
        return draft.propose([(request, of, most)])[0].tokens

    assert guess(tokens) == [5, 6, 7]
    assert guess([*tokens, 4]) == [9, 2, 3]  # three tokens agree there
    assert guess([*tokens, 4, 9, 2], most=1) == [3]
    assert guess([*tokens, 4, 9, 2, 8]) == []
    draft.forget(request)
    assert guess([1, 2]) == []


def test_a_guess_of_probability_zero_is_never_kept() -> None:
    rows = np.array([[0, -np.inf, 1.0], [0, 0, 0]], np.float32)
    q = np.array([[0.0, 1.0, 0.0]])
    random = np.random.default_rng(0)
    sampler = FakeSampler(1.0)
    assert 1 not in {next(checked(rows, Proposal([1], q), sampler, random)) for _ in range(200)}
