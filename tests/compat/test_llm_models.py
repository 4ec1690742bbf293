"""MNN's names for language models, with trained ones: the known story, and answers of a model for chats."""

from __future__ import annotations

import io
import json
import shutil
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from language_model_files import STORIES, STORY, smollm2

import minnow
import minnow.llm
from minnow.compat import llm as mnn
from minnow.schema.errors import FormatError, UsageError

BEGINNING = "Once upon a time"
GREEDY = {"sampler_type": "greedy", "thread_num": 1, "precision": "high"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model, with the settings that programs for MNN keep beside it."""
    target = tmp_path_factory.mktemp("stories") / "model"
    minnow.convert(STORIES, output=target, verify=False)
    (target / "config.json").write_text(json.dumps({**GREEDY, "max_new_tokens": 40, "llm_model": "llm.mnn"}))
    return target


@pytest.fixture(scope="module")
def story(folder: Path) -> mnn.LLM:
    made = mnn.create(str(folder / "config.json"))
    made.load()
    return made


def test_a_response_is_the_known_story(story: mnn.LLM) -> None:
    text = BEGINNING + story.response(BEGINNING, False, 200)
    assert len(text) > 300
    assert STORY.startswith(text) or text.startswith(STORY)
    context = story.get_context()
    assert (context["gen_seq_len"], context["status"]) == (200, mnn.LlmStatus.MAX_TOKENS_FINISHED)
    assert context["prompt_len"] == len(story.tokenizer_encode(BEGINNING))
    assert BEGINNING + context["generate_str"] == text


def test_a_stream_prints_what_it_returns(story: mnn.LLM) -> None:
    printed = io.StringIO()
    with redirect_stdout(printed):
        text = story.response(BEGINNING, stream=True)
    assert printed.getvalue() == text + "\n"
    assert story.get_context()["gen_seq_len"] == 40


def test_tokens_one_at_a_time_are_those_of_generate(story: mnn.LLM) -> None:
    """`forward` with single tokens, as MNN's examples decode, gives what `generate` and `minnow.llm` do."""
    prompt = story.tokenizer_encode(BEGINNING)
    story.generate_init()
    logits = story.forward(prompt)
    answer = []
    for _ in range(20):
        answer.append(int(np.argmax(logits.read())))
        logits = story.forward([answer[-1]])
    assert story.get_current_history() == len(prompt) + 20
    assert answer == story.generate(prompt, 20)
    text = story.tokenizer_decode(answer)
    assert (BEGINNING + text)[:60] == STORY[:60]


def test_history_that_is_erased_does_not_matter(story: mnn.LLM) -> None:
    prompt = story.tokenizer_encode(BEGINNING)
    story.reset()
    want = np.array(story.forward(prompt).read())
    story.reset()
    story.forward(prompt[:2])
    story.forward([100, 200, 300])
    story.erase_history(2)
    assert story.get_current_history() == 2
    np.testing.assert_allclose(story.forward(prompt[2:]).read(), want, rtol=0, atol=1e-2 * np.abs(want).max())


def test_a_model_without_a_template_says_so(story: mnn.LLM) -> None:
    with pytest.raises(UsageError, match="no chat template"):
        story.apply_chat_template("Hello")


@pytest.mark.parametrize("file", ["model.mnn", "tokenizer.json", "llm.json"])
def test_a_file_that_is_missing(file: str, folder: Path, tmp_path: Path) -> None:
    other = shutil.copytree(folder, tmp_path / "other")
    (other / file).unlink()
    with pytest.raises(FormatError):
        mnn.create(str(other / "config.json")).load()


@pytest.mark.slow
def test_a_model_for_chats(tmp_path: Path) -> None:
    """Questions, messages and templates of SmolLM2, as `minnow.llm` answers them, and the answer that is known."""
    minnow.convert(smollm2(), output=tmp_path / "model", verify=False)
    question = "What is the capital of France?"
    own = minnow.llm.load(tmp_path / "model", threads=1, precision="high")
    want: Any = own.generate(question, temperature=0, max_tokens=24).result
    made = mnn.create(str(tmp_path / "model"))
    made.set_config({**GREEDY, "max_new_tokens": 24})
    made.load()
    assert made.response(question) == want.text
    assert "Paris" in want.text
    prompt = made.apply_chat_template([("user", question)])
    assert prompt == made.apply_chat_template(question)
    assert prompt.endswith(f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n")
    assert made.response([{"role": "user", "content": question}]) == want.text
    assert made.generate(own.prompt_tokens(question), 24) == list(want.tokens)
