"""Continuous batching gives each request the answer that it would get alone."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from fake_model import FakeModel, FakeSampler, Heard

from minnow.llm.batch import Batch, QueueFullError
from minnow.llm.request import Request
from minnow.llm.speculative import ModelDraft, NgramDraft
from minnow.schema.errors import UsageError


def request(tokens: list[int], *, max_tokens: int = 12, enough: int | None = None, **more) -> Request:
    sampler = more.pop("sampler", None) or FakeSampler()
    return Request(tokens, sampler, Heard(enough), max_tokens, **more)


def alone(tokens: list[int], max_tokens: int = 12, model: FakeModel | None = None) -> list[int]:
    """The greedy answer, computed without any batching."""
    model, out = model or FakeModel(), list(tokens)
    for _ in range(max_tokens):
        out.append(int(model.logits(out).argmax()))
    return out[len(tokens) :]


def prompts(number: int, longest: int = 40) -> list[list[int]]:
    random = np.random.default_rng(number)
    return [random.integers(0, 50, random.integers(1, longest)).tolist() for _ in range(number)]


def test_answers_are_those_of_single_requests() -> None:
    model = FakeModel()
    batch = Batch(model, context=64, sequences=4, chunk=16)
    requests = [request(tokens) for tokens in prompts(23)]
    batch.add(*requests)
    batch.run()
    for r in requests:
        assert r.listener.tokens == alone(r.tokens)
        assert r.listener.ends == [("length", None)]
    assert not model.sequences
    assert max(map(len, model.work)) == 4
    assert max(sum(n for n, _ in step) for step in model.work) <= 16 + 4


def test_requests_join_and_leave_at_any_step() -> None:
    batch = Batch(FakeModel(), context=64, sequences=8, chunk=8)
    random = np.random.default_rng(1)
    requests = [request(tokens, max_tokens=int(random.integers(1, 20))) for tokens in prompts(30)]
    left = list(requests)
    while batch.step() or left:
        if left and random.random() < 0.4:
            batch.add(left.pop())
    for r in requests:
        assert r.listener.tokens == alone(r.tokens, r.max_tokens)


def test_a_short_prompt_does_not_wait_for_a_long_one() -> None:
    batch = Batch(FakeModel(), context=4096, sequences=4, chunk=32)
    long, short = request(list(range(50)) * 60), request([1, 2, 3], max_tokens=2)
    batch.add(long)
    batch.step()
    batch.add(short)
    batch.step()
    batch.step()
    assert short.listener.ends
    assert not long.listener.tokens


def test_prefill_runs_beside_decoding() -> None:
    model = FakeModel()
    batch = Batch(model, context=4096, sequences=4, chunk=32)
    writing, coming = request([5], max_tokens=10), request(list(range(50)) * 4)
    batch.add(writing)
    batch.step()
    batch.add(coming)
    batch.step()
    assert sorted(model.work[-1]) == [(1, 1), (32, 0)]


def test_clients_take_turns() -> None:
    batch = Batch(FakeModel(), context=64, sequences=1)
    many = [request([i], client="many", max_tokens=1) for i in range(10)]
    one = request([20], client="one", max_tokens=1)
    batch.add(*many)
    batch.add(one)
    for _ in range(2):
        batch.step()
    assert one.listener.ends
    assert sum(bool(r.listener.ends) for r in many) == 1


def test_the_queue_has_an_end() -> None:
    batch = Batch(FakeModel(), context=64, sequences=2, queue=3)
    batch.add(*(request([i]) for i in range(5)))
    with pytest.raises(QueueFullError, match="too many requests wait"):
        batch.add(request([9]))
    batch.step()
    assert (batch.running, batch.waiting) == (2, 3)
    with pytest.raises(QueueFullError):
        batch.add(request([9]))


@pytest.mark.parametrize(
    ("tokens", "more", "message"),
    [
        ([], {}, "no tokens"),
        ([1] * 64, {}, "too long"),
        ([1] * 40, {"max_tokens": 20}, "cache has 50"),
        ([1], {"max_tokens": 0}, "max_tokens"),
    ],
)
def test_what_can_never_run_is_refused_at_once(tokens: list[int], more: dict, message: str) -> None:
    batch = Batch(FakeModel(), context=64, cached=50)
    with pytest.raises(UsageError, match=message):
        batch.add(request([1]), request(tokens, **more))
    assert not batch.waiting, "all or none"


def test_the_cache_bounds_what_runs_together() -> None:
    model = FakeModel()
    batch = Batch(model, context=64, sequences=8, cached=40)
    requests = [request([i] * 8, max_tokens=8) for i in range(5)]
    batch.add(*requests)
    while batch.step():
        assert sum(map(len, model.sequences)) <= 40
        assert batch.running <= 2
    assert all(r.listener.tokens == alone(r.tokens, 8) for r in requests)


def test_an_answer_ends_with_the_context() -> None:
    batch = Batch(FakeModel(), context=10)
    r = request([1, 2, 3], max_tokens=100)
    batch.add(r)
    batch.run()
    assert r.listener.tokens == alone([1, 2, 3], 7)
    assert r.listener.ends == [("length", None)]


def test_stop_tokens_and_listeners_end_an_answer() -> None:
    whole = alone([3, 4])
    batch = Batch(FakeModel(), context=64)
    stopped = request([3, 4], stop=frozenset({whole[5]}))
    enough = request([3, 4], enough=3)
    batch.add(stopped, enough)
    batch.run()
    assert stopped.listener.tokens == whole[: whole.index(whole[5])]
    assert enough.listener.tokens == whole[:3]
    assert stopped.listener.ends == enough.listener.ends == [("stop", None)]


def test_cancelling_waiting_and_running_requests() -> None:
    model = FakeModel()
    batch = Batch(model, context=64, sequences=1)
    first, second, third = (request([i]) for i in range(3))
    batch.add(first, second, third)
    batch.step()
    batch.cancel(first)
    batch.cancel(second)
    batch.run()
    batch.cancel(third)  # has ended
    batch.run()
    assert first.listener.ends == second.listener.ends == [("cancelled", None)]
    assert len(first.listener.tokens) == 1
    assert third.listener.tokens == alone([2])
    assert third.listener.ends == [("length", None)]
    assert not model.sequences


def test_closing_ends_all() -> None:
    model = FakeModel()
    batch = Batch(model, context=64, sequences=1)
    requests = [request([i]) for i in range(3)]
    batch.add(*requests)
    batch.step()
    batch.close()
    assert all(r.listener.ends == [("cancelled", None)] for r in requests)
    assert not model.sequences


def test_an_error_of_the_model_ends_the_answers_of_its_step() -> None:
    model = FakeModel()
    batch = Batch(model, context=64, sequences=2)
    requests = [request([i]) for i in range(3)]
    batch.add(*requests)
    batch.step()
    model.fails = RuntimeError("no memory")
    batch.run()
    assert [r.listener.ends[0][0] for r in requests] == ["error", "error", "length"]
    assert str(requests[0].listener.ends[0][1]) == "no memory"
    assert requests[2].listener.tokens == alone([2])
    assert not model.sequences


def test_a_sampler_that_fails_ends_its_own_answer() -> None:
    class Failing(FakeSampler):
        def sample(self, logits):
            raise ValueError("nothing is allowed")

    batch = Batch(FakeModel(), context=64)
    good, bad = request([1]), request([2], sampler=Failing())
    batch.add(good, bad)
    batch.run()
    assert good.listener.tokens == alone([1])
    assert bad.listener.ends[0][0] == "error"


def test_later_requests_reuse_cached_prefixes() -> None:
    model = FakeModel()
    batch = Batch(model, context=256)
    first = request(list(range(30)), max_tokens=4)
    batch.add(first)
    batch.run()
    second = request([*range(30), *first.listener.tokens, 7, 7], max_tokens=4)
    batch.add(second)
    batch.run()
    assert first.cached == 0
    assert second.cached == 32  # whole blocks of 4; the last token of an answer is never fed
    assert second.listener.tokens == alone(second.tokens, 4)


def test_samples_of_one_prompt_share_it() -> None:
    class Sharing(FakeModel):
        def sequence(self, tokens=()):
            self.closed = [list(s.tokens) for s in self.sequences]
            return super().sequence(tokens)

    batch = Batch(Sharing(), context=256, chunk=8)
    first = request(list(range(30)), max_tokens=4)
    others = [request(list(range(30)), max_tokens=4, after=first) for _ in range(3)]
    batch.add(first, *others)
    batch.run()
    assert [r.cached for r in (first, *others)] == [0, 28, 28, 28]
    assert {tuple(r.listener.tokens) for r in (first, *others)} == {tuple(alone(first.tokens, 4))}


def test_log_probabilities() -> None:
    batch = Batch(FakeModel(), context=64)
    r = request([1, 2], max_tokens=3, logprobs=4)
    batch.add(r)
    batch.run()
    tokens = [1, 2]
    for sampled in r.listener.sampled:
        x = FakeModel().logits(tokens).astype(np.float64)
        expected = x - np.log(np.exp(x).sum())
        assert sampled.logprob == pytest.approx(expected[sampled.token], abs=1e-5)
        order = np.argsort(-x)[:4]
        assert [i for i, _ in sampled.top] == order.tolist()
        assert [p for _, p in sampled.top] == pytest.approx(expected[order].tolist(), abs=1e-5)
        tokens.append(sampled.token)


def test_a_draft_that_fails_is_only_a_help() -> None:
    model, small = FakeModel(repeats=6), FakeModel(repeats=6)
    batch, draft = Batch(model, context=128, sequences=2), ModelDraft(small)
    requests = [request([i, i + 1], max_tokens=40, draft=draft) for i in range(2)]
    batch.add(*requests)
    while batch.step():
        if batch.steps % 2:
            small.fails = UsageError("the context is too short")
    assert all(r.listener.tokens == alone(r.tokens, 40, model) for r in requests)
    assert all(r.accepted > 0 for r in requests)
    assert not small.sequences


@pytest.mark.parametrize("draft", ["ngram", "same", "other"])
def test_drafts_keep_greedy_answers(draft: str) -> None:
    model = FakeModel(repeats=6)
    small = FakeModel(repeats=6, seed=int(draft == "other"))
    drafts = NgramDraft() if draft == "ngram" else ModelDraft(small)
    batch = Batch(model, context=128, sequences=4, chunk=16)
    requests = [request(tokens, max_tokens=60, draft=drafts) for tokens in prompts(9, 20)]
    batch.add(*requests)
    batch.run()
    for r in requests:
        assert r.listener.tokens == alone(r.tokens, 60, model)
    drafted, accepted = sum(r.drafted for r in requests), sum(r.accepted for r in requests)
    assert 0 < accepted <= drafted
    if draft == "same":
        assert accepted == drafted
    assert not model.sequences
    assert not small.sequences


def test_threads_may_add_while_another_steps() -> None:
    batch = Batch(FakeModel(), context=64, sequences=4)
    requests = [request(tokens) for tokens in prompts(40)]
    stop = threading.Event()

    def stepping() -> None:
        while not stop.is_set() or batch.running or batch.waiting:
            batch.step()

    thread = threading.Thread(target=stepping)
    thread.start()
    adders = [threading.Thread(target=batch.add, args=requests[i::4]) for i in range(4)]
    for adder in adders:
        adder.start()
    for adder in adders:
        adder.join()
    stop.set()
    thread.join()
    assert all(r.listener.tokens == alone(r.tokens) for r in requests)
