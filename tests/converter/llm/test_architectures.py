"""Every architecture, compared with transformers on random weights: prompts, single tokens, several sequences."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from language_families import FAMILIES, VOCABULARY, decoder, encoder, quiet, saved
from stepping import Stepping

from minnow.converter.llm.architecture import architectures
from minnow.converter.llm.build import build
from minnow.converter.llm.checkpoint import Checkpoint, open_checkpoint
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import DType, Model
from minnow.schema.registry.interpreter import evaluate

CLOSE = 1e-4
"""The most that logits may differ; they are about 3."""


def _tokens(count: int, seed: int) -> list[int]:
    return np.random.default_rng(seed).integers(0, VOCABULARY, count).tolist()


def _wanted(model: torch.nn.Module, tokens: list[int]) -> np.ndarray:
    return quiet(lambda: model(torch.tensor([tokens])).logits[0].numpy())


def _wanted_by_steps(model: torch.nn.Module, tokens: list[int], cuts: list[int]) -> np.ndarray:
    """With a cache of transformers' own, in parts."""
    past, parts = None, []
    for begin, end in zip([0, *cuts], [*cuts, len(tokens)], strict=True):
        out = quiet(
            lambda b=begin, e=end, p=past: model(torch.tensor([tokens[b:e]]), past_key_values=p, use_cache=True)
        )
        past = out.past_key_values
        parts.append(out.logits[0].numpy())
    return np.concatenate(parts)


def _built(model: torch.nn.Module, folder: Path) -> Model:
    return build(open_checkpoint(saved(model, folder)), cache=DType.F32, block=4)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("family", FAMILIES)
def test_logits_are_those_of_transformers(family: str, tmp_path: Path) -> None:
    model = decoder(family)
    made = _built(model, tmp_path)
    a, c = _tokens(13, 1), _tokens(7, 2)
    whole = Stepping(made).step({"a": a})
    np.testing.assert_allclose(whole, _wanted(model, a), atol=CLOSE, rtol=0)
    # Two sequences, in parts of different lengths and in changing order.
    steps = Stepping(made)
    first = steps.step({"a": a[:5], "c": c[:3]})
    second = steps.step({"c": c[3:4], "a": a[5:9]})
    third = steps.step({"c": c[4:], "a": a[9:10]})
    singles = [steps.step({"a": [t]}) for t in a[10:]]
    got_a = np.concatenate([first[:5], second[1:], third[3:], *singles])
    got_c = np.concatenate([first[5:], second[:1], third[:3]])
    np.testing.assert_allclose(got_a, _wanted_by_steps(model, a, [5, 9, 10, 11, 12]), atol=CLOSE, rtol=0)
    np.testing.assert_allclose(got_c, _wanted_by_steps(model, c, [3, 4]), atol=CLOSE, rtol=0)


def test_only_the_wanted_rows_are_given(tmp_path: Path) -> None:
    made = _built(decoder("llama"), tmp_path)
    tokens = _tokens(9, 3)
    every = Stepping(made).step({"a": tokens})
    some = Stepping(made).step({"a": tokens}, rows=[8, 2])
    assert some.shape == (2, VOCABULARY)
    np.testing.assert_allclose(some, every[[8, 2]], atol=1e-6)


def test_several_files_and_halves(tmp_path: Path) -> None:
    """A folder of several files in bfloat16 has the numbers that transformers rounds to."""
    from transformers import AutoModelForCausalLM

    folder = saved(decoder("qwen2"), tmp_path, shards="40KB", dtype=torch.bfloat16)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    assert len(list(folder.glob("*.safetensors"))) > 2
    made = build(open_checkpoint(folder), cache=DType.F32)
    tokens = _tokens(6, 4)
    np.testing.assert_allclose(Stepping(made).step({"a": tokens}), _wanted(model, tokens), atol=CLOSE, rtol=0)


def _texts() -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens of three texts with padding behind, and where they are."""
    mask = torch.ones(3, 11, dtype=torch.int64)
    mask[1, 7:], mask[2, 3:] = 0, 0
    tokens = torch.tensor(np.random.default_rng(5).integers(3, VOCABULARY, (3, 11)))
    return tokens, mask


@pytest.mark.parametrize("kind", ["Bert", "Roberta"])
@pytest.mark.parametrize("pooling", ["mean", "cls", "last"])
def test_embeddings_are_those_of_transformers(kind: str, pooling: str, tmp_path: Path) -> None:
    padding = 1 if kind == "Roberta" else 0
    model = encoder(kind, pad_token_id=padding)
    tokens, mask = _texts()
    tokens[mask == 0] = padding
    hidden = quiet(lambda: model(tokens, attention_mask=mask).last_hidden_state.numpy())
    weight = mask.numpy()[..., None]
    want = {
        "mean": (hidden * weight).sum(1) / weight.sum(1),
        "cls": hidden[:, 0],
        "last": hidden[np.arange(3), mask.numpy().sum(1) - 1],
    }[pooling]
    checkpoint = open_checkpoint(saved(model, tmp_path))
    for normalize in (False, True):
        checkpoint.pooling, checkpoint.normalize = pooling, normalize
        got = _encoded(build(checkpoint), tokens, mask)
        norm = np.linalg.norm(want, axis=1, keepdims=True) if normalize else 1
        np.testing.assert_allclose(got, want / norm, atol=1e-5, rtol=0)


@pytest.mark.parametrize("task", ["Model", "ModelWithProjection"])
@pytest.mark.parametrize("end", [2, 90])
def test_texts_of_clip(task: str, end: int, tmp_path: Path) -> None:
    """The end is the largest token in old settings, where `eos_token_id` is 2; else the first that is it."""
    model = encoder("CLIPText", task, eos_token_id=end, projection_dim=20)
    tokens, mask = _texts()
    tokens[:, 1:] = tokens[:, 1:].clamp(max=89)
    tokens[0, 8], tokens[0, 10], tokens[1, 6], tokens[2, 2] = 90, 90, 90, 90
    tokens[mask == 0] = 0
    tokens[:, 0] = 89
    out = quiet(lambda: model(tokens, attention_mask=mask))
    want = (out.pooler_output if task == "Model" else out.text_embeds).numpy()
    checkpoint = open_checkpoint(saved(model, tmp_path))
    for normalize in (False, True):
        checkpoint.normalize = normalize
        got = _encoded(build(checkpoint), tokens, mask)
        norm = np.linalg.norm(want, axis=1, keepdims=True) if normalize else 1
        np.testing.assert_allclose(got, want / norm, atol=1e-5, rtol=0)


@pytest.mark.parametrize(("kind", "labels"), [("Bert", 1), ("XLMRoberta", 1), ("Roberta", 3)])
def test_scores_are_those_of_transformers(kind: str, labels: int, tmp_path: Path) -> None:
    padding = 0 if kind == "Bert" else 1
    model = encoder(kind, "ForSequenceClassification", num_labels=labels, pad_token_id=padding)
    tokens, mask = _texts()
    tokens[mask == 0] = padding
    kinds = (torch.arange(11) > 4).int().expand(3, 11) if kind == "Bert" else torch.zeros(3, 11, dtype=torch.int32)
    want = quiet(lambda: model(tokens, attention_mask=mask, token_type_ids=kinds).logits.numpy())
    got = _encoded(build(open_checkpoint(saved(model, tmp_path))), tokens, mask, kinds)
    np.testing.assert_allclose(got, want[:, 0] if labels == 1 else want, atol=1e-5, rtol=0)


def _encoded(model: Model, tokens: torch.Tensor, mask: torch.Tensor, kinds: torch.Tensor | None = None) -> np.ndarray:
    kinds = torch.zeros_like(tokens) if kinds is None else kinds
    inputs = {"input_ids": tokens, "attention_mask": mask, "token_type_ids": kinds}
    return np.asarray(evaluate(model.graph, [inputs[n].numpy().astype(np.int32) for n, _ in model.inputs])[0])


def _changed(checkpoint: Checkpoint, **settings: object) -> Checkpoint:
    checkpoint.settings.table = {**checkpoint.settings.table, **settings}  # type: ignore[misc]
    return checkpoint


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    folder = saved(decoder("llama"), tmp_path)
    for settings, error, message in (
        ({"model_type": "mamba"}, UnsupportedError, "'mamba' are not supported"),
        ({"hidden_act": "sine"}, UnsupportedError, "the activation 'sine'"),
        ({"rope_parameters": {"rope_type": "spiral"}}, UnsupportedError, "of the kind 'spiral'"),
        ({"num_hidden_layers": 4}, ModelError, "'model.layers.3.input_layernorm.weight' is missing"),
        ({"num_hidden_layers": 2}, UnsupportedError, "tensors that llama does not use"),
        ({"intermediate_size": 81}, ModelError, "has the shape"),
        ({"num_key_value_heads": 4}, ModelError, "6 heads cannot share 4"),
        ({"hidden_size": "48"}, ModelError, "'hidden_size' is '48', not a whole number"),
        ({"hidden_size": 1 << 40}, ModelError, "'hidden_size'"),
        ({"num_hidden_layers": None}, ModelError, "'num_hidden_layers' is missing"),
    ):
        with pytest.raises(error, match=re.escape(message)):
            build(_changed(open_checkpoint(folder), **settings))


def test_all_families_are_tested() -> None:
    tested = {"llama", "mistral", "qwen2", "qwen3", "phi3", "gemma2", "gemma3_text", "gpt2", "mixtral", "qwen3_moe",
              "bert", "roberta", "xlm-roberta", "clip_text_model"}  # fmt: skip
    assert set(architectures()) == tested
