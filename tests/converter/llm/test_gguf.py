"""GGUF files as checkpoints: the models of transformers that they were written from, and files that are damaged."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gguf import GGUFReader
from gguf_files import write_gguf
from language_families import VOCABULARY, decoder, encoder, quiet
from stepping import Stepping

from minnow.converter import read
from minnow.converter.llm.build import build
from minnow.converter.llm.checkpoint import open_checkpoint
from minnow.converter.llm.gguf.reader import GgufFile
from minnow.schema.errors import FormatError, ModelError, UnsupportedError
from minnow.schema.ir import DType, QuantizedBlob
from minnow.schema.registry.interpreter import evaluate

# What a GGUF file does not say of a family is what llama.cpp takes for granted.
_SETTINGS: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen2": {"use_sliding_window": False},
    "qwen3": {},
    "phi3": {},
    "gemma2": {"query_pre_attn_scalar": 16},
    "gemma3": {"query_pre_attn_scalar": 16},
    "gpt2": {},
    "mixtral": {},
    "qwen3 moe": {"mlp_only_layers": []},
}


def _tokens(count: int) -> list[int]:
    return np.random.default_rng(1).integers(0, VOCABULARY, count).tolist()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("family", _SETTINGS)
def test_logits_are_those_of_the_model(family: str, tmp_path: Path) -> None:
    model = decoder(family, **_SETTINGS[family])
    path = write_gguf(model, tmp_path / "model.gguf")
    want = quiet(lambda: model(torch.tensor([_tokens(11)])).logits[0].numpy())
    made = build(open_checkpoint(path), cache=DType.F32, block=4)
    np.testing.assert_allclose(Stepping(made).step({"a": _tokens(11)}), want, atol=1e-4, rtol=0)


def _logits(path: Path, count: int) -> np.ndarray:
    made = build(open_checkpoint(path), cache=DType.F32, block=4)
    return Stepping(made).step({"a": _tokens(count)})


def test_factors_of_rotary_positions_are_tensors(tmp_path: Path) -> None:
    """Llama 3 has what the steps are divided by, Phi-3 those of short and of long texts."""
    model = decoder("llama3")
    plain = 500.0 ** -(np.arange(0, 8, 2) / 8)
    scaled = model.model.rotary_emb.inv_freq.numpy()
    path = write_gguf(model, tmp_path / "llama.gguf", tensors={"rope_freqs.weight": plain / scaled})
    want = quiet(lambda: model(torch.tensor([_tokens(13)])).logits[0].numpy())
    np.testing.assert_allclose(_logits(path, 13), want, atol=1e-4, rtol=0)
    model = decoder("phi3 longrope")
    rope = model.config.rope_parameters
    factors = {f"rope_factors_{k}.weight": np.array(rope[f"{k}_factor"]) for k in ("short", "long")}
    scale = float(model.model.rotary_emb.attention_scaling)
    more = {"phi3__rope__scaling__original_context_length": 8, "phi3__rope__scaling__attn_factor": scale}
    path = write_gguf(model, tmp_path / "phi3.gguf", tensors=factors, **more)
    for count in (7, 13):
        want = quiet(lambda n=count: model(torch.tensor([_tokens(n)])).logits[0].numpy())
        np.testing.assert_allclose(_logits(path, count), want, atol=1e-4, rtol=0)


def test_embeddings_are_those_of_the_model(tmp_path: Path) -> None:
    model = encoder("Bert")
    path = write_gguf(model, tmp_path / "model.gguf", bert__pooling_type=2)
    tokens = torch.tensor([_tokens(9)])
    want = quiet(lambda: model(tokens).last_hidden_state[:, 0].numpy())
    made = build(open_checkpoint(path))
    inputs = (tokens.numpy(), np.ones((1, 9)), np.zeros((1, 9)))
    got = evaluate(made.graph, [x.astype(np.int32) for x in inputs])[0]
    np.testing.assert_allclose(got, want / np.linalg.norm(want, axis=1, keepdims=True), atol=1e-5, rtol=0)


@pytest.fixture(scope="module")
def wide() -> torch.nn.Module:
    """A model whose matrices hold whole blocks."""
    return decoder("llama", hidden_size=64, intermediate_size=96, num_attention_heads=4, num_hidden_layers=1)


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"])
def test_blocks_are_kept_without_loss(kind: str, wide: torch.nn.Module, tmp_path: Path) -> None:
    """Of products, of the joined ones for queries, keys and values, and of tables."""
    path = write_gguf(wide, tmp_path / "model.gguf", kind)
    checkpoint = open_checkpoint(path)
    entries = GgufFile(path).entries
    for name, gguf_name in (
        ("model.embed_tokens.weight", "token_embd.weight"),
        ("model.layers.0.self_attn.v_proj.weight", "blk.0.attn_v.weight"),
        ("model.layers.0.mlp.down_proj.weight", "blk.0.ffn_down.weight"),
    ):
        blob = checkpoint.tensors[name]
        assert isinstance(blob, QuantizedBlob)
        assert np.array_equal(blob.numpy(), GgufFile(path).floats(entries[gguf_name]))
    made = build(checkpoint)
    packed = [v.data for v in made.graph.constants() if isinstance(v.data, QuantizedBlob)]
    joined = next(b for b in packed if b.shape == (64 + 32 + 32, 64))
    parts = [checkpoint.tensors[f"model.layers.0.self_attn.{n}_proj.weight"].numpy() for n in "qkv"]
    assert np.array_equal(joined.numpy(), np.concatenate(parts))
    assert len(packed) == 6  # the table, four products, the logits
    # Rows of queries and keys come back to where Hugging Face has them.
    query = dict(wide.state_dict())["model.layers.0.self_attn.q_proj.weight"].numpy()
    assert np.abs(parts[0] - query).max() < np.abs(query).max() / 7


def test_products_of_different_kinds_are_not_joined(wide: torch.nn.Module, tmp_path: Path) -> None:
    path = write_gguf(wide, tmp_path / "model.gguf", {"attn_v": "Q8_0", "attn": "Q4_0", "ffn": "F16"})
    made = build(open_checkpoint(path), cache=DType.F32)
    assert sum(n.op == "Linear" for n in made.graph) == 3 + 1 + 1 + 1 + 1
    want = quiet(lambda: wide(torch.tensor([_tokens(5)])).logits[0].numpy())
    got = Stepping(made).step({"a": _tokens(5)})
    assert np.abs(got - want).max() < 1.5


def test_what_a_file_says_is_what_gguf_reads(wide: torch.nn.Module, tmp_path: Path) -> None:
    path = write_gguf(wide, tmp_path / "model.gguf", "Q8_0", a__list="x", a__number=3, a__flag=True)
    ours, theirs = GgufFile(path), GGUFReader(path)
    for name, field in theirs.fields.items():
        if not name.startswith("GGUF."):
            assert ours.metadata[name] == field.contents(), name
    assert set(ours.entries) == {t.name for t in theirs.tensors}
    for tensor in theirs.tensors:
        entry = ours.entries[tensor.name]
        assert (entry.offset, entry.size) == (tensor.data_offset, tensor.n_bytes)


def _file(tensors: bytes = b"", keys: bytes = b"", counts: tuple[int, int] = (0, 0), data: bytes = b"") -> bytes:
    head = b"GGUF" + struct.pack("<IQQ", 3, *counts) + keys + tensors
    return head + bytes(-len(head) % 32) + data


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def _tensor(name: str = "a", shape: tuple[int, ...] = (32,), kind: int = 0, offset: int = 0) -> bytes:
    return _text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


_DAMAGED: dict[str, tuple[bytes, str]] = {
    "version 1": (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "cannot be read"),
    "big-endian": (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian"),
    "no counts": (b"GGUF\3\0\0\0\0", "cut off"),
    "many keys": (_file(counts=(0, 1 << 60)), "cannot hold"),
    "many tensors": (_file(counts=(1 << 60, 0)), "cannot hold"),
    "a long key": (_file(keys=struct.pack("<Q", 1 << 62) + bytes(16), counts=(0, 1)), "cut off"),
    "a long list": (
        _file(keys=_text("k") + struct.pack("<IIQ", 9, 4, 1 << 61) + bytes(16), counts=(0, 1)),
        "cut off",
    ),
    "a long list of texts": (
        _file(keys=_text("k") + struct.pack("<IIQ", 9, 8, 1 << 61) + bytes(16), counts=(0, 1)),
        "cannot hold",
    ),
    "a key of no type": (_file(keys=_text("k") + struct.pack("<I", 13) + bytes(16), counts=(0, 1)), "unknown type 13"),
    "lists in lists": (
        _file(keys=_text("k") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 9 + bytes(99), counts=(0, 1)),
        "unknown type",
    ),
    "no text": (_file(keys=struct.pack("<Q", 1) + b"\xff" + bytes(16), counts=(0, 1)), "is no text"),
    "no text in a list": (
        _file(keys=_text("k") + struct.pack("<IIQQ", 9, 8, 1, 1) + b"\xff" + bytes(16), counts=(0, 1)),
        "is no text",
    ),
    "a key twice": (_file(keys=(_text("k") + struct.pack("<IB", 0, 1)) * 2, counts=(0, 2)), "there twice"),
    "a tensor twice": (_file(_tensor() * 2, counts=(2, 0), data=bytes(128)), "there twice"),
    "a tensor of no type": (_file(_tensor(kind=99), counts=(1, 0), data=bytes(128)), "unknown type 99"),
    "half a block": (_file(_tensor(shape=(33,), kind=8), counts=(1, 0), data=bytes(128)), "does not fit its type"),
    "no dimensions": (_file(_tensor(shape=()), counts=(1, 0), data=bytes(128)), "does not fit its type"),
    "many dimensions": (_file(_tensor(shape=(1,) * 9), counts=(1, 0), data=bytes(128)), "9 dimensions"),
    "a huge shape": (_file(_tensor(shape=(1 << 63, 1 << 63)), counts=(1, 0), data=bytes(128)), "not within the file"),
    "data cut off": (_file(_tensor(), counts=(1, 0), data=bytes(127)), "not within the file"),
    "a far place": (_file(_tensor(offset=1 << 63), counts=(1, 0), data=bytes(128)), "not within the file"),
    "a crooked place": (_file(_tensor(offset=4), counts=(1, 0), data=bytes(256)), "not within the file"),
    "no alignment": (
        _file(_tensor(), _text("general.alignment") + struct.pack("<II", 4, 0), (1, 1), bytes(128)),
        "alignment",
    ),
    "an alignment of 3": (
        _file(_tensor(), _text("general.alignment") + struct.pack("<II", 4, 3), (1, 1), bytes(128)),
        "alignment",
    ),
}


@pytest.mark.parametrize("damage", _DAMAGED)
def test_damaged_files_are_refused(damage: str, tmp_path: Path) -> None:
    content, message = _DAMAGED[damage]
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=message) as caught:
        read(path)
    assert str(path) in caught.value.where


def test_types_that_are_not_read_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(_file(_tensor("a", (256,), 16) + _tensor("b", (256,), 29), counts=(2, 0), data=bytes(4096)))
    with pytest.raises(UnsupportedError, match="types that are not supported") as caught:
        read(path)
    assert caught.value.items == ("IQ2_XXS: 1 tensors, such as a", "IQ1_M: 1 tensors, such as b")


def test_every_cut_file_is_refused(wide: torch.nn.Module, tmp_path: Path) -> None:
    whole = write_gguf(wide, tmp_path / "whole.gguf", "Q8_0").read_bytes()
    path = tmp_path / "model.gguf"
    for size in (*range(4, 1500, 13), len(whole) // 2, len(whole) - 64):
        path.write_bytes(whole[:size])
        with pytest.raises((FormatError, ModelError)):
            read(path)


@pytest.mark.parametrize(
    ("key", "value", "error", "message"),
    [
        ("general__architecture", "llama", None, ""),
        ("llama__block_count", 1 << 31, ModelError, "'num_hidden_layers'"),
        ("llama__attention__head_count", 0, ModelError, "'num_attention_heads'"),
        ("llama__embedding_length", "wide", ModelError, "'hidden_size'"),
        ("llama__rope__scaling__type", "spiral", UnsupportedError, "'spiral'"),
    ],
)
def test_wrong_hyperparameters(
    key: str, value: Any, error: type[Exception] | None, message: str, wide: torch.nn.Module, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    path = write_gguf(wide, tmp_path / "model.gguf")
    changed: Callable[..., None] = GgufFile.__init__

    def altered(self: GgufFile, path: Path) -> None:
        changed(self, path)
        self.metadata[key.replace("__", ".")] = value

    monkeypatch.setattr(GgufFile, "__init__", altered)
    if error is None:
        build(open_checkpoint(path))
        return
    with pytest.raises(error, match=message):
        build(open_checkpoint(path))
