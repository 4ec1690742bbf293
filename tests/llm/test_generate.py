"""`LLM.generate`: pieces, results, several answers at a time."""

from __future__ import annotations

import threading

import pytest
from fake_llm import fake_llm
from fake_model import FakeSampler

from minnow.schema.errors import UsageError


def test_pieces_and_result() -> None:
    llm = fake_llm()
    generation = llm.generate("say hello wörld;", temperature=0)
    pieces = list(generation)
    result = generation.result
    assert "".join(pieces) == result.text == "hello wörld"
    assert len(pieces) == 11, "a piece for each character"
    assert bytes(result.tokens).decode() == result.text
    assert (result.reason, result.stop) == ("stop", None)
    assert (result.usage.prompt, result.usage.answer) == (len("user\nsay hello wörld;\nassistant\n".encode()), 12)
    assert 0 < result.times.first <= result.times.total
    assert result.times.decode_rate > 0
    assert result.as_dict()["usage"]["answer"] == 12


def test_the_forms_of_a_prompt() -> None:
    llm = fake_llm()

    def answer(prompt, **more) -> str:
        return llm.generate(prompt, temperature=0, max_tokens=20, **more).result.text

    assert answer("say a;") == answer([{"role": "user", "content": "say a;"}]) == "a"
    assert answer("say a;", raw=True) == answer(list(b"say a;")) == "a"
    assert answer("hm", raw=True) != answer("hm")
    for wrong in ([], "", [{"role": "user"}, 5], [300], [-1], "\ud800"):
        with pytest.raises(UsageError):
            llm.generate(wrong, raw=True)


def test_limits_and_stop_strings() -> None:
    llm = fake_llm()
    short = llm.generate("say hello;", temperature=0, max_tokens=3).result
    assert (short.text, short.reason) == ("hel", "length")
    stopped = llm.generate("say one, two, three;", temperature=0, stop=[", tw", "three"]).result
    assert (stopped.text, stopped.reason, stopped.stop) == ("one", "stop", ", tw")
    endless = llm.generate("x" * 350, temperature=0).result
    assert (endless.reason, endless.usage.prompt + endless.usage.answer) == ("length", 400)


def test_several_answers_are_written_together() -> None:
    llm = fake_llm()
    alone = [llm.generate(f"say {text};", temperature=0).result.text for text in ("abc", "de", "fghi")]
    before = llm.batch.steps
    together = [llm.generate(f"say {text};", temperature=0) for text in ("abc", "de", "fghi")]
    assert [g.result.text for g in together] == alone == ["abc", "de", "fghi"]
    assert llm.batch.steps - before == 5


def test_threads_share_a_model() -> None:
    llm, found = fake_llm(sequences=4), {}

    def ask(i: int) -> None:
        found[i] = "".join(llm.generate(f"say number {i};", temperature=0))

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {i: f"number {i}" for i in range(12)}


def test_an_answer_that_is_not_wanted_any_more() -> None:
    llm = fake_llm()
    with llm.generate("say hello;", temperature=0) as generation:
        assert next(generation) == "h"
    assert (generation.result.text, generation.result.reason) == ("h", "cancelled")
    forgotten = llm.generate("say hello;")
    next(forgotten)
    assert llm.batch.running == 1
    del forgotten
    assert llm.batch.running == 0


def test_an_error_is_raised_where_the_answer_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    llm = fake_llm()
    monkeypatch.setattr(FakeSampler, "accept", lambda self, token: 1 // 0)
    generation = llm.generate("say hello;", temperature=0)
    with pytest.raises(ZeroDivisionError):
        next(generation)
    with pytest.raises(ZeroDivisionError):
        generation.result  # noqa: B018


def test_log_probabilities_come_with_tokens() -> None:
    result = fake_llm().generate("say hi;", temperature=0, logprobs=2).result
    assert [s.token for s in result.sampled] == list(b"hi")
    for s in result.sampled:
        assert s.top[0] == (s.token, s.logprob)
        assert s.logprob is not None
        assert s.logprob <= 0


def test_embeddings_and_scores() -> None:
    vectors = fake_llm(kind="embed").embed(["ab", "abc"])
    assert vectors.shape == (2, 8)
    assert fake_llm(kind="embed").embed("ab").tolist() == vectors[:1].tolist()
    assert fake_llm(kind="rerank").rerank("q", ["a", "bbb"]) == [2.0, 4.0]
    with pytest.raises(UsageError, match="too long"):
        fake_llm(kind="embed", context=4).embed(["abcde"])
    for kind, call in (("embed", "generate"), ("generate", "embed")):
        with pytest.raises(UsageError, match="not what was asked for"):
            getattr(fake_llm(kind=kind), call)("text")
