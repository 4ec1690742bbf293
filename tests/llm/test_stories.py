"""A small trained model from its GGUF file to text: through Python, the command line and the server."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import openai
import pytest
from fake_llm import served

import minnow
import minnow.llm
from minnow.cli._app import run
from minnow.llm.llm import LLM
from minnow.llm.perplexity import perplexity

STORIES = Path(__file__).parents[1] / "models/stories260K.gguf"
BEGINNING = "Once upon a time, there was a little girl named Lily. She loved to play outside in the park."
PROMPTS = ["Once upon a time", "Tom had a big", "The dog", "Lily and Ben", "One day, a cat", "Mom said", "It was", "A"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    target = tmp_path_factory.mktemp("stories") / "model"
    minnow.convert(STORIES, output=target, verify=False)
    return str(target)


@pytest.fixture(scope="module")
def llm(folder: str) -> LLM:
    return minnow.llm.load(folder, threads=1)


def greedy(llm: LLM, prompt: str, length: int) -> list[int]:
    """The most probable tokens, each computed from all tokens before it, without a cache that is used again."""
    tokens = llm.encode(prompt)
    begun = len(tokens)
    for _ in range(length):
        sequence = llm.model.sequence()
        tokens.append(int(llm.model.step([(tokens, sequence, 1)])[0].argmax()))
        sequence.close()
    return tokens[begun:]


def test_the_known_story(llm: LLM) -> None:
    answer = llm.generate("Once upon a time", temperature=0, max_tokens=60)
    assert ("Once upon a time" + "".join(answer)).startswith(BEGINNING)


def test_answers_together_and_with_guesses_are_those_alone(folder: str, llm: LLM) -> None:
    alone = [llm.generate(prompt, temperature=0, max_tokens=40).result.tokens for prompt in PROMPTS]
    assert alone[0] == greedy(llm, PROMPTS[0], 40)
    together = [llm.generate(prompt, temperature=0, max_tokens=40) for prompt in PROMPTS]
    assert [answer.result.tokens for answer in together] == alone
    for draft in ("ngram", folder):
        guessing = minnow.llm.load(folder, threads=1, draft=draft)
        answers = [guessing.generate(prompt, temperature=0, max_tokens=40) for prompt in PROMPTS]
        assert [answer.result.tokens for answer in answers] == alone
        assert sum(answer.result.usage.accepted for answer in answers) > (100 if draft == folder else 0)


def test_a_seed_gives_the_same_answer_in_any_company(llm: LLM) -> None:
    def answer(prompt: str, seed: int):
        return llm.generate(prompt, temperature=1.2, top_k=0, seed=seed, max_tokens=30)

    alone = answer(PROMPTS[1], 3).result.tokens
    company = [answer(prompt, i) for i, prompt in enumerate(PROMPTS)]
    assert answer(PROMPTS[1], 3).result.tokens == alone
    assert answer(PROMPTS[1], 4).result.tokens != alone
    assert company[3].result.tokens != alone


def test_a_prompt_that_continues_an_earlier_one_is_not_computed_again(llm: LLM) -> None:
    text = BEGINNING * 3
    first = llm.generate(text, temperature=0, max_tokens=8).result
    again = llm.generate(text + first.text, temperature=0, max_tokens=8).result
    block = llm.description.block
    assert again.usage.cached >= first.usage.prompt // block * block - block
    assert again.tokens == greedy(llm, text + first.text, 8)


def test_penalties_and_bias(llm: LLM) -> None:
    plain = llm.generate(PROMPTS[0], temperature=0, max_tokens=60).result.tokens
    less = llm.generate(PROMPTS[0], temperature=0, max_tokens=60, repetition_penalty=1.5).result.tokens
    assert len(set(less)) > len(set(plain))
    banned = plain[0]
    assert banned not in llm.generate(PROMPTS[0], temperature=0, max_tokens=60, banned_tokens=[banned]).result.tokens


def test_an_answer_in_json(llm: LLM) -> None:
    schema = {"type": "object", "properties": {"age": {"enum": [3, 45]}, "good": {"type": "boolean"}}}
    schema |= {"required": ["age", "good"], "additionalProperties": False}
    result = llm.generate(PROMPTS[0], temperature=0, json_schema=schema, max_tokens=100).result
    made = json.loads(result.text)
    assert result.reason == "stop"
    assert made["age"] in (3, 45)
    assert made["good"] in (True, False)


def test_the_perplexity_of_a_story(llm: LLM) -> None:
    text = BEGINNING * 4
    found = perplexity(llm, text, window=64, stride=32)
    ids, losses = llm.encode(text), {}
    for begin in range(0, len(ids), 32):
        end = min(begin + 64, len(ids))
        sequence = llm.model.sequence()
        logits = llm.model.step([(ids[begin:end], sequence, end - begin)]).astype(np.float64)
        sequence.close()
        for place in range(begin + 1, end):
            x = logits[place - 1 - begin]
            losses.setdefault(place, np.log(np.exp(x - x.max()).sum()) + x.max() - x[ids[place]])
    assert found.predicted == len(ids) - 1
    assert found.perplexity == pytest.approx(math.exp(np.mean(list(losses.values()))), rel=1e-4)
    assert found.perplexity < perplexity(llm, BEGINNING[::-1] * 4, window=64).perplexity / 10


def test_the_command_line(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run(["llm", "run", folder, "-p", "Once upon a time", "--temperature", "0", "-n", "60", "--threads", "1"]) == 0
    )
    assert ("Once upon a time" + capsys.readouterr().out).startswith(BEGINNING)
    assert run(["llm", "bench", folder, "-p", "32", "-n", "4", "--runs", "1", "--format", "json"]) == 0
    assert [row["test"] for row in json.loads(capsys.readouterr().out)["tests"]] == ["pp32", "tg4"]
    assert run(["llm", "chat", folder]) == 2
    assert "no chat template" in capsys.readouterr().err


def test_the_server(folder: str, llm: LLM) -> None:
    schema = {"type": "object", "properties": {"age": {"enum": [3, 45]}}, "required": ["age"]}
    schema["additionalProperties"] = False
    with served(llm) as url:
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
        name = client.models.list().data[0].id
        made = client.completions.create(
            model=name, prompt="Once upon a time", temperature=0, max_tokens=60, logprobs=1
        )
        assert ("Once upon a time" + made.choices[0].text).startswith(BEGINNING)
        logprobs = made.choices[0].logprobs
        assert logprobs is not None
        assert "".join(logprobs.tokens or []) == made.choices[0].text
        with pytest.raises(openai.BadRequestError, match="no chat template"):
            client.chat.completions.create(model=name, messages=[{"role": "user", "content": "Hi"}])
        llm._template = lambda messages, **variables: messages[-1]["content"]
        answer = client.chat.completions.create(
            model=name, messages=[{"role": "user", "content": "Once"}], temperature=0,
            response_format={"type": "json_schema", "json_schema": {"name": "age", "schema": schema}},
        )  # fmt: skip
        assert json.loads(answer.choices[0].message.content or "")["age"] in (3, 45)
        tools = [{"type": "function", "function": {"name": "look", "parameters": schema}}]
        call = client.chat.completions.create(
            model=name, messages=[{"role": "user", "content": "Once"}], temperature=0, tools=tools,
            tool_choice="required",
        )  # type: ignore[call-overload]  # fmt: skip
        assert call.choices[0].finish_reason == "tool_calls"
        assert json.loads(call.choices[0].message.tool_calls[0].function.arguments)["age"] in (3, 45)
        llm._template = None
