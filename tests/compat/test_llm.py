"""`MNN.llm` of programs that are run with Minnow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_llm import fake_llm

from minnow.compat import llm
from minnow.errors import FormatError, UnsupportedError, UsageError

LETTER = ord("a")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "llm.json").write_text("{}")
    return tmp_path


@pytest.fixture
def model(folder: Path, monkeypatch: pytest.MonkeyPatch) -> llm.LLM:
    monkeypatch.setattr("minnow.llm.load", lambda path, **options: fake_llm())
    made = llm.create(str(folder / "llm.json"))
    made.load()
    made.set_config({"sampler_type": "greedy"})
    return made


def test_a_question_is_answered(model: llm.LLM, capsys: pytest.CaptureFixture[str]) -> None:
    assert model.response("say hello;") == "hello"
    assert capsys.readouterr().out == ""
    assert model.response([("user", "say one;")], True) == model.response([{"role": "user", "content": "say one;"}])
    assert capsys.readouterr().out == "one\n"
    assert model.stoped()
    assert model.response("say hello;", False, 3) == "hel"
    context = model.get_context()
    assert (context["gen_seq_len"], context["generate_str"]) == (3, "hel")
    assert context["status"] == llm.LlmStatus.MAX_TOKENS_FINISHED
    assert context["prompt_len"] == len(model.tokenizer_encode(model.apply_chat_template("say hello;")))
    assert model.get_current_history() == context["prompt_len"] + 3


def test_tokens(model: llm.LLM) -> None:
    ids = model.tokenizer_encode("say abc;")
    assert model.tokenizer_decode(ids) == "say abc;"
    assert model.tokenizer_decode(LETTER) == "a"
    assert model.tokenizer_decode(model.generate(ids)[:3]) == "abc"
    assert model.get_context()["prompt_len"] == len(ids)


def test_logits_one_token_after_the_other(model: llm.LLM) -> None:
    model.generate_init()
    ids = model.tokenizer_encode("say abc;")
    logits = model.forward(ids)
    written = []
    for _ in range(3):
        assert logits.shape == [1, 1, 257]
        token = int(np.asarray(logits).argmax())
        written.append(token)
        logits = model.forward([token])
    assert bytes(written) == b"abc"
    assert model.get_current_history() == len(ids) + 3
    model.erase_history(len(ids), 0)
    assert model.get_current_history() == len(ids)
    with pytest.raises(UsageError, match="cannot be forgotten"):
        model.erase_history(0, 1)
    model.reset()
    assert model.get_current_history() == 0
    with pytest.raises(UsageError, match="400 tokens"):
        model.forward([LETTER] * 401)


def test_settings(model: llm.LLM, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert model.set_config({"max_new_tokens": 2, "topK": 1}) is True
    assert model.dump_config() == {"sampler_type": "greedy", "max_new_tokens": 2, "topK": 1}
    assert model.response("say hello;") == "he"
    with pytest.warns(UserWarning, match="'nope' is unknown"):
        model.set_config({"nope": 1})
    for wrong in ({"temperature": -1}, {"precision": "best"}, 5, "{"):
        with pytest.raises(UsageError):
            model.set_config(wrong)  # type: ignore[arg-type]
    (folder / "config.json").write_text(json.dumps({"thread_num": 2, "precision": "low", "llm_model": "llm.mnn"}))
    given: dict[str, Any] = {}
    monkeypatch.setattr("minnow.llm.load", lambda path, **options: given.update(options) or fake_llm())
    llm.create(folder / "config.json").load()
    assert given == {"threads": 2, "precision": "low"}


def test_vectors_and_scores(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minnow.llm.load", lambda path, **options: fake_llm(kind="embed"))
    vectors = llm.create(folder, embedding=True)
    vectors.load()
    np.testing.assert_array_equal(vectors.txt_embedding("ab"), [[0, 1, 1, 0, 0, 0, 0, 0]])
    monkeypatch.setattr("minnow.llm.load", lambda path, **options: fake_llm(kind="rerank"))
    assert llm.create_reranker(folder).compute_scores("a", ["b", "cd"]) == [2.0, 3.0]


def test_errors_say_what_to_do(model: llm.LLM, folder: Path) -> None:
    with pytest.raises(UsageError, match="not loaded"):
        llm.create(folder).response("a")
    with pytest.raises(FormatError, match="no such file"):
        llm.create(folder / "nothing")
    (folder / "model.mnn").write_text("")
    with pytest.raises(UsageError, match="not a file that describes a model"):
        llm.create(folder / "model.mnn")
    for call in (model.create_lora, model.set_context, model.enable_collection_mode):
        with pytest.raises(UnsupportedError):
            call("x")
    for wrong in ([], [5]):
        with pytest.raises(UsageError):
            model.response(wrong)
    (folder / "config.json").write_text("{")
    with pytest.raises(FormatError, match="no JSON"):
        llm.create(folder)


def test_a_program_finds_it() -> None:
    import subprocess
    import sys

    source = (
        "import minnow.compat; minnow.compat.install()\nimport MNN, MNN.llm as llm\nfrom MNN.llm import create\n"
        "assert MNN.llm is llm and llm.create is create and llm.__name__ == 'minnow.compat.llm'"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False)
    assert done.stderr == ""
