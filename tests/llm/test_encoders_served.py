"""Embeddings and ranking through the server, with encoders of random weights, against transformers."""

from __future__ import annotations

from pathlib import Path

import httpx
import numpy as np
import openai
import torch
import transformers
from fake_llm import served
from language_families import VOCABULARY, encoder, quiet, saved

import minnow.llm
from minnow import convert

_WORDS = ("a", "boat", "by", "cat", "red", "river", "sails", "sleeps", "the", "warm")
TEXTS = ["the red boat sails by the river", "a cat", "warm boat, sleeps!", "the river sleeps by a warm red cat"]


def _folder(model: torch.nn.Module, path: Path) -> transformers.PreTrainedTokenizerBase:
    """Writes the folder of a model, with a vocabulary of a few words and letters; gives its tokenizer."""
    saved(model, path)
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    tokens = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        ",",
        "!",
        *_WORDS[1:],
        *letters,
        *(f"##{c}" for c in letters),
    ]
    assert len(tokens) <= VOCABULARY
    tokens += [f"[unused{i}]" for i in range(VOCABULARY - len(tokens))]
    (path / "vocab.txt").write_text("\n".join(tokens) + "\n")
    transformers.BertTokenizerFast(str(path / "vocab.txt")).save_pretrained(path)
    return transformers.AutoTokenizer.from_pretrained(path)


def test_embeddings(tmp_path: Path) -> None:
    model = encoder("Bert")
    tokenizer = _folder(model, tmp_path / "source")
    convert(tmp_path / "source", output=tmp_path / "made")
    with served(minnow.llm.load(tmp_path / "made", threads=1, precision="high")) as url:
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
        made = client.embeddings.create(model=client.models.list().data[0].id, input=TEXTS)
    counts = 0
    for text, row in zip(TEXTS, made.data, strict=True):
        given = tokenizer(text, return_tensors="pt")
        counts += given["input_ids"].shape[1]
        want = quiet(lambda g=given: model(**g)).last_hidden_state[0].mean(0)
        np.testing.assert_allclose(row.embedding, want, atol=1e-5, rtol=0)
    assert made.usage.prompt_tokens == counts


def test_ranking(tmp_path: Path) -> None:
    model = encoder("Bert", "ForSequenceClassification", num_labels=1)
    tokenizer = _folder(model, tmp_path / "source")
    convert(tmp_path / "source", output=tmp_path / "made")
    query = "sails the boat?"
    given = [tokenizer(query, text, return_tensors="pt") for text in TEXTS]
    want = [float(quiet(lambda g=g: model(**g)).logits[0, 0]) for g in given]
    order = sorted(range(len(TEXTS)), key=lambda i: -want[i])
    with (
        served(minnow.llm.load(tmp_path / "made", threads=1, precision="high")) as url,
        httpx.Client(timeout=60) as http,
    ):
        made = http.post(f"{url}/v1/rerank", json={"query": query, "documents": TEXTS}).json()
        documents = [{"text": text} for text in TEXTS]
        body = {"query": query, "documents": documents, "top_n": 2, "return_documents": True}
        best = http.post(f"{url}/v1/rerank", json=body).json()
    assert [found["index"] for found in made["results"]] == order
    np.testing.assert_allclose([r["relevance_score"] for r in made["results"]], sorted(want)[::-1], atol=1e-5, rtol=0)
    assert made["usage"]["total_tokens"] == sum(g["input_ids"].shape[1] for g in given)
    assert best["results"] == [r | {"document": {"text": TEXTS[r["index"]]}} for r in made["results"][:2]]
