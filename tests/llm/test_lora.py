"""Adapters of low rank: logits are those of transformers with the sum of the matrices in place of the layer's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gguf_files import write_gguf
from language_families import decoder, quiet, saved
from safetensors.torch import save_file

import minnow.llm
from minnow import convert
from minnow.cli._app import run
from minnow.schema.errors import MinnowError

CLOSE = 1e-4
"""The most that logits may differ; they are about 3."""
_WIDE: dict[str, Any] = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "num_hidden_layers": 2}
_EVERY = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def _adapter(model: torch.nn.Module, folder: Path, targets: tuple[str, ...], rank: int = 3, **config: Any) -> Path:
    """An adapter with random matrices for all layers whose names end so."""
    folder.mkdir()
    generator = torch.Generator().manual_seed(rank)
    tensors = {}
    for name, layer in model.named_modules():
        if name.rpartition(".")[2] in targets:
            inputs, outputs = _sizes(layer)
            own = config.get("rank_pattern", {}).get(name.rpartition(".")[2], rank)
            for part, shape in (("A", (own, inputs)), ("B", (outputs, own))):
                tensors[f"base_model.model.{name}.lora_{part}.weight"] = 0.3 * torch.randn(shape, generator=generator)
    save_file(tensors, folder / "adapter_model.safetensors")
    settings = {"peft_type": "LORA", "r": rank, "lora_alpha": 6, "target_modules": list(targets), "bias": "none"}
    (folder / "adapter_config.json").write_text(json.dumps({**settings, **config}))
    return folder


def _converted(checkpoint: Path, folder: Path) -> Path:
    """The folder of a model, with a tokenizer."""
    convert(checkpoint, output=folder)
    tokenizer = {"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}, "added_tokens": []}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    return folder


def _sizes(layer: torch.nn.Module) -> tuple[int, int]:
    shape = tuple(layer.weight.shape)
    return shape if type(layer).__name__ == "Conv1D" else shape[::-1]


def _merge(model: torch.nn.Module, folder: Path, factor: Any) -> None:
    """Adds factor * B A to the matrices of a model of transformers."""
    from safetensors.torch import load_file

    tensors = load_file(folder / "adapter_model.safetensors")
    layers = dict(model.named_modules())
    for key, a in tensors.items():
        if ".lora_A." in key:
            name = key.removeprefix("base_model.model.").removesuffix(".lora_A.weight")
            change = factor(name, len(a)) * tensors[key.replace("lora_A", "lora_B")] @ a
            with torch.no_grad():
                layers[name].weight += change.T if type(layers[name]).__name__ == "Conv1D" else change


def _check(model: torch.nn.Module, folder: Path, adapter: Path, scale: float = 1.0) -> None:
    """A prompt, and the same in steps, of two sequences together."""
    tokens = np.random.default_rng(5).integers(0, 97, 13).tolist()
    want = quiet(lambda: model(torch.tensor([tokens])).logits[0].numpy())
    loaded = minnow.llm.load(folder, lora=adapter, lora_scale=scale, cache="f32", precision="high")
    step, sequence = loaded.model.step, loaded.model.sequence
    np.testing.assert_allclose(step([(tokens, sequence(), 13)]), want, atol=CLOSE, rtol=0)
    a, b = sequence(), sequence()
    first = step([(tokens[:4], a, 4), (tokens[:9], b, 9)])
    np.testing.assert_allclose(first, np.concatenate([want[:4], want[:9]]), atol=CLOSE, rtol=0)
    for i, token in enumerate(tokens[4:], 4):
        np.testing.assert_allclose(step([([token], a, 1)])[0], want[i], atol=CLOSE, rtol=0)
    loaded.close()


@pytest.mark.parametrize("family", ["llama", "qwen2", "llama tied, with biases", "phi3", "gpt2", "mixtral"])
@pytest.mark.parametrize("targets", [("q_proj", "v_proj"), (*_EVERY, "qkv_proj", "gate_up_proj", "c_attn", "c_fc")])
@pytest.mark.sampled(3)
def test_float_matrices(family: str, targets: tuple[str, ...], tmp_path: Path) -> None:
    if family in ("phi3", "gpt2") and "qkv_proj" not in targets:
        targets = ("o_proj", "c_proj")
    model = decoder(family)
    _converted(saved(model, tmp_path / "checkpoint"), tmp_path / "model")
    adapter = _adapter(model, tmp_path / "adapter", targets)
    _merge(model, adapter, lambda name, rank: 6 / rank)
    _check(model, tmp_path / "model", adapter)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("family", ["llama", "qwen2"])
@pytest.mark.parametrize("targets", [("k_proj", "up_proj"), _EVERY])
def test_packed_matrices(family: str, targets: tuple[str, ...], tmp_path: Path) -> None:
    """transformers gets the numbers that the codes stand for."""
    from transformers import AutoModelForCausalLM

    path = write_gguf(decoder(family, **_WIDE), tmp_path / "model.gguf", "Q4_0")
    model = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file=path.name, dtype=torch.float32).eval()
    _converted(path, tmp_path / "model")
    adapter = _adapter(model, tmp_path / "adapter", targets)
    _merge(model, adapter, lambda name, rank: 6 / rank)
    _check(model, tmp_path / "model", adapter)


def test_scales(tmp_path: Path) -> None:
    """Ranks and factors of single layers, the root of the rank, and how much is added."""
    model = decoder("llama")
    _converted(saved(model, tmp_path / "checkpoint"), tmp_path / "model")
    tables = {"rank_pattern": {"o_proj": 5}, "alpha_pattern": {"layers.1.self_attn.q_proj": 2}, "use_rslora": True}
    adapter = _adapter(model, tmp_path / "adapter", _EVERY, **tables)

    def factor(name: str, rank: int) -> float:
        return 0.5 * (2 if name.endswith("layers.1.self_attn.q_proj") else 6) / rank**0.5

    _merge(model, adapter, factor)
    _check(model, tmp_path / "model", adapter, scale=0.5)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("family", ["llama", "qwen2", "phi3", "gpt2"])
@pytest.mark.parametrize("settings", [{}, {"use_rslora": True}], ids=["plain", "rslora"])
def test_adapters_that_peft_has_written(family: str, settings: dict[str, Any], tmp_path: Path) -> None:
    """Its own file, and its own logits, which it computes beside the layers, without a sum of matrices."""
    import peft

    model = decoder(family)
    _converted(saved(model, tmp_path / "checkpoint"), tmp_path / "model")
    own = "c_proj" if family == "gpt2" else "o_proj"
    settings = {**settings, "rank_pattern": {own: 2}, "alpha_pattern": {own: 5}}
    config = peft.LoraConfig(r=4, lora_alpha=6, target_modules="all-linear", init_lora_weights=False, **settings)
    adapted = peft.get_peft_model(model, config).eval()
    adapted.save_pretrained(tmp_path / "adapter")
    _check(adapted, tmp_path / "model", tmp_path / "adapter")


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> tuple[torch.nn.Module, Path]:
    model = decoder("llama")
    folder = tmp_path_factory.mktemp("llama")
    return model, _converted(saved(model, folder / "checkpoint"), folder / "model")


def test_what_does_not_fit_is_refused(llama: tuple[torch.nn.Module, Path], tmp_path: Path) -> None:
    model, folder = llama
    other = _adapter(decoder("llama", num_hidden_layers=5), tmp_path / "layers", ("q_proj",))
    wide = _adapter(decoder("llama", hidden_size=60), tmp_path / "wide", ("down_proj",))
    head = _adapter(model, tmp_path / "head", ("embed_tokens",))
    ranks = _adapter(model, tmp_path / "ranks", ("q_proj",), r=4)
    kind = _adapter(model, tmp_path / "kind", ("q_proj",), peft_type="IA3")
    dora = _adapter(model, tmp_path / "dora", ("q_proj",), use_dora=True)
    regex = _adapter(model, tmp_path / "regex", ("q_proj",), alpha_pattern={"(a+)+$": 2})
    extra = _adapter(model, tmp_path / "extra", ("q_proj",))
    save_file({"base_model.model.x.lora_magnitude_vector": torch.zeros(3)}, extra / "adapter_model.safetensors")
    cut = _adapter(model, tmp_path / "cut", ("q_proj",))
    (cut / "adapter_model.safetensors").write_bytes((cut / "adapter_model.safetensors").read_bytes()[:-1])
    bare = _adapter(model, tmp_path / "bare", ("q_proj",))
    (bare / "adapter_model.safetensors").unlink()
    for adapter, code, message in (
        (other, 6, "there is no product 'model.layers.3.self_attn.q_proj', and 1 more"),
        (wide, 6, "has 80 inputs and 48 outputs, in the adapter 80 and 60"),
        (head, 6, "there is no product 'model.embed_tokens'"),
        (ranks, 6, "is not of the rank 4"),
        (kind, 3, "of the kind 'IA3'"),
        (dora, 3, "DoRA"),
        (regex, 3, "an expression in alpha_pattern"),
        (extra, 3, "the adapter's tensor 'base_model.model.x.lora_magnitude_vector'"),
        (cut, 6, "the tensor is not within the file"),
        (bare, 6, "adapter_model.safetensors is missing"),
        (tmp_path / "nothing", 6, "the adapter is no folder"),
    ):
        with pytest.raises(MinnowError) as caught:
            minnow.llm.load(folder, lora=adapter)
        assert message in str(caught.value)
        assert caught.value.exit_code == code


def test_the_command(llama: tuple[torch.nn.Module, Path], tmp_path: Path) -> None:
    _, folder = llama
    assert run(["llm", "run", str(folder), "-p", "x", "--lora", str(tmp_path / "none")]) == 6
