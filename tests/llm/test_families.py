"""The engine and every architecture: small models with random weights, as files and with the cache of the engine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from language_families import FAMILIES, VOCABULARY, decoder, encoder, quiet, saved

from minnow import convert
from minnow.llm.model import LanguageModel

CLOSE = 2e-4


def _tokens(count: int, seed: int) -> list[int]:
    return np.random.default_rng(seed).integers(0, VOCABULARY, count).tolist()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("family", FAMILIES)
def test_logits_are_those_of_transformers(family: str, tmp_path: Path) -> None:
    """Of a prompt, and of two sequences in turns."""
    model = decoder(family)
    convert(saved(model, tmp_path / "source"), output=tmp_path / "made")
    made = LanguageModel.load(tmp_path / "made", cache="f32", threads=1)
    a, c = _tokens(13, 1), _tokens(7, 2)
    want_a, want_c = (quiet(lambda t=t: model(torch.tensor([t])).logits[0].numpy()) for t in (a, c))
    one = made.sequence()
    np.testing.assert_allclose(made.step([(a, one, len(a))]), want_a, atol=CLOSE, rtol=0)
    if "dynamic" in family or "longrope" in family:
        return  # keys in the cache are turned as their sequence was when they came
    first, second = made.sequence(), made.sequence()
    got = made.step([(a[:9], first, 9), (c[:2], second, 2)])
    np.testing.assert_allclose(got, np.concatenate([want_a[:9], want_c[:2]]), atol=CLOSE, rtol=0)
    for i in range(4):
        got = made.step([([c[2 + i]], second, 1), ([a[9 + i]], first, 1)])
        np.testing.assert_allclose(got, np.stack([want_c[2 + i], want_a[9 + i]]), atol=CLOSE, rtol=0)


@pytest.mark.parametrize(
    ("kind", "task"),
    [("Bert", "Model"), ("CLIPText", "ModelWithProjection"), ("XLMRoberta", "ForSequenceClassification")],
)
def test_encoders(kind: str, task: str, tmp_path: Path) -> None:
    more = {"num_labels": 1} if kind == "XLMRoberta" else {}
    model = encoder(kind, task, pad_token_id=0 if kind == "Bert" else 1, **more)
    convert(saved(model, tmp_path / "source"), output=tmp_path / "made")
    made = LanguageModel.load(tmp_path / "made", threads=1)
    texts = [[t + 3 for t in _tokens(n, n)] for n in (9, 4)]
    texts = [[min(t, VOCABULARY - 1) for t in text] for text in texts]
    for i, text in enumerate(texts):
        out = quiet(lambda t=text: model(torch.tensor([t])))
        if task == "Model":
            np.testing.assert_allclose(made.embed(texts)[i], out.last_hidden_state[0].mean(0), atol=1e-5, rtol=0)
        elif kind == "CLIPText":
            np.testing.assert_allclose(made.embed(texts)[i], out.text_embeds[0], atol=1e-5, rtol=0)
        else:
            pairs = [(t, [0] * len(t)) for t in texts]
            np.testing.assert_allclose(made.score(pairs)[i], out.logits[0, 0], atol=1e-5, rtol=0)
