"""A small language model whose caches stay in a GPU's memory, beside the same in plain numpy."""

from __future__ import annotations

import numpy as np
import pytest
from llm.small_llama import Llama

import minnow
from minnow.llm.model import LanguageModel
from minnow.schema.mnn import encode
from tests.kernels.gpu.test_ops_on_gpu import device  # noqa: F401

LLAMA = Llama.random(layers=2)
ROOM = {"f32": 2e-4, "f16": 5e-3, "int8": 5e-2}


@pytest.fixture(params=ROOM)
def cache(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def on(device: str, cache: str, monkeypatch: pytest.MonkeyPatch) -> LanguageModel:  # noqa: F811
    monkeypatch.setenv("MINNOW_PLACEMENT", "greedy")
    return LanguageModel(minnow.load(encode(LLAMA.model()), device=device), LLAMA.description(), cache=cache)


def test_sequences_are_continued(device: str, cache: str, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """Two at once, of which one is forked; the cache grows meanwhile."""
    model, rng = on(device, cache, monkeypatch), np.random.default_rng(2)
    texts = [[int(t) for t in rng.integers(0, LLAMA.vocabulary, n)] for n in (70, 41)]
    wanted = [LLAMA.logits(tokens) for tokens in texts]
    sequences = [model.sequence() for _ in texts]

    def close(got: np.ndarray, want: np.ndarray) -> None:
        np.testing.assert_allclose(got, want, atol=ROOM[cache] * np.abs(want).max(), rtol=0)

    got = model.step([(texts[0][:60], sequences[0], 60), (texts[1][:37], sequences[1], 1)])
    close(got, np.concatenate([wanted[0][:60], wanted[1][36:37]]))
    for i in range(4):
        work = [(tokens[n + i : n + i + 1], s, 1) for tokens, n, s in zip(texts, (60, 37), sequences, strict=True)]
        close(model.step(work), np.concatenate([wanted[0][60 + i : 61 + i], wanted[1][37 + i : 38 + i]]))
    placed = {row["op"]: row["device"] for row in model.session.placement()}
    assert placed["PagedAttention"] != "cpu"
    fork = sequences[0].fork()
    for sequence in (fork, sequences[0]):  # each writes into a block of its own
        for i in range(64, 70):
            close(model.step([(texts[0][i : i + 1], sequence, 1)]), wanted[0][i : i + 1])
    sequences[0].rewind(20)
    close(model.step([(texts[0][20:50], sequences[0], 30)]), wanted[0][20:50])
    close(model.step([(texts[0][64:65], fork, 0), (texts[0][50:51], sequences[0], 1)]), wanted[0][50:51])
