"""Folders of MNN-LLM that a conversion writes: MNN's own runtime gives the logits of transformers with them.

Needs an environment with MNN, whose Python MINNOW_MNN_PYTHON names.
"""

from __future__ import annotations

import io
import json
import struct
from dataclasses import replace
from pathlib import Path

import mnn_llm_oracle
import numpy as np
import pytest
import torch
from gguf_files import write_gguf
from language_families import FAMILIES, VOCABULARY, decoder, quiet, saved
from language_model_files import STORIES, STORY, smollm2
from mnn_oracle import needs_mnn
from stepping import Stepping

from minnow import convert
from minnow.cli._app import run
from minnow.converter.llm.build import build
from minnow.converter.llm.checkpoint import open_checkpoint
from minnow.converter.llm.mnn import table
from minnow.converter.llm.tokenizer import form, mtok_writer
from minnow.llm.model import LanguageModel
from minnow.llm.tokenizer import Tokenizer
from minnow.schema.errors import UnsupportedError, UsageError, VerifyError
from minnow.schema.ir import DType
from minnow.schema.mnn import wire
from minnow.schema.mnn.side_file import SideFile, attach, detach

REFUSED = {
    "llama dynamic": "rotary positions that depend on the length",
    "phi3 longrope": "rotary positions that depend on the length",
    "gemma2": "no limit of scores",
    "mixtral": "ScatterND has no form",
    "qwen3 moe": "ScatterND has no form",
}
"""What MNN's runtime does not have."""
_LETTERS = [chr(c) for c in (*range(33, 127), *range(161, 173))]
"""Bytes as byte-level vocabularies spell them."""
CLOSE = 2e-4
"""The most that logits may differ; they are about 3. The tables of tokens are rounded to float16 before."""


def _tokenizer(folder: Path) -> Path:
    """A vocabulary of single bytes beside a model."""
    whole = form.whole(
        form.byte_level_bpe(_LETTERS[:VOCABULARY], []), pre_tokenizer=form.splits([" "]), decoder=[form.BYTE_LEVEL]
    )
    (folder / "tokenizer.json").write_text(json.dumps(whole))
    return folder


def _rounded(model: torch.nn.Module) -> torch.nn.Module:
    """With a table of tokens that 16 bits hold."""
    table = model.get_input_embeddings()
    table.weight.data = table.weight.data.half().float()
    return model


def _tokens(count: int, seed: int) -> list[int]:
    return np.random.default_rng(seed).integers(0, VOCABULARY, count).tolist()


@needs_mnn
@pytest.mark.sampled(4)
@pytest.mark.parametrize("family", FAMILIES)
def test_mnn_gives_the_logits_of_transformers(family: str, tmp_path: Path) -> None:
    model = _rounded(decoder(family))
    folder = _tokenizer(saved(model, tmp_path / "source"))
    if family in REFUSED:
        with pytest.raises(UnsupportedError, match=REFUSED[family]):
            convert(folder, output=tmp_path / "mnn", mnn_llm=True)
        assert not (tmp_path / "mnn").exists()
        return
    convert(folder, output=tmp_path / "mnn", mnn_llm=True)
    a, c = _tokens(13, 1), _tokens(7, 2)
    found = mnn_llm_oracle.run(tmp_path / "mnn", tmp_path, [[a[:5], a[5:12], a[12:]], [c]], length=3)
    for tokens, cuts, logits, answer in zip((a, c), ([5, 12, 13], [7]), found.logits, found.answers, strict=True):
        whole = [*tokens, *answer]
        wanted = quiet(lambda t=whole: model(torch.tensor([t])).logits[0].numpy())
        rows = [*(cut - 1 for cut in cuts), *range(len(tokens), len(whole))]
        np.testing.assert_allclose(logits, wanted[rows], atol=CLOSE, rtol=0)


_SPELLED = [*_LETTERS[: VOCABULARY - 1], "ab"]


def _packed(kind: str, folder: Path) -> Path:
    """A GGUF file with matrices of a type, and a head that is the table of tokens."""
    sizes = {"hidden_size": 256, "intermediate_size": 256, "num_attention_heads": 4, "num_hidden_layers": 2}
    model = decoder("llama tied, with biases", **sizes, head_dim=64, attention_bias=False, mlp_bias=False)
    if kind == "F16":
        _rounded(model)
    vocabulary = {
        "tokenizer__ggml__add_bos_token": False,
        "tokenizer__ggml__model": "gpt2",
        "tokenizer__ggml__pre": "gpt-2",
        "tokenizer__ggml__merges": ["a b"],
    }
    return write_gguf(model, folder / "model.gguf", kind, tokenizer__ggml__tokens=_SPELLED, **vocabulary)


@needs_mnn
@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "F16", "BF16"])
def test_weights_of_few_bits_stay_as_they_are(kind: str, tmp_path: Path) -> None:
    """With the table of tokens packed, too; the same file in Minnow's engine is the other side."""
    source = _packed(kind, tmp_path)
    convert(source, output=tmp_path / "mnn", mnn_llm=True)
    convert(source, output=tmp_path / "ours", verify=False)
    prompt = _tokens(9, 3)
    found = mnn_llm_oracle.run(tmp_path / "mnn", tmp_path, [[prompt]], length=4, texts=["abba"])
    assert found.texts == [[VOCABULARY - 1, _SPELLED.index("b"), _SPELLED.index("a")]]
    engine = LanguageModel.load(tmp_path / "ours", cache="f32", threads=1, precision="high")
    whole = [*prompt, *found.answers[0]]
    ours = engine.step([(whole, engine.sequence(), 5)])
    np.testing.assert_allclose(found.logits[0], ours, atol=5e-3, rtol=0)
    shared = kind in ("Q4_0", "Q8_0")  # codes of the table mean there what they mean in a layer
    assert any((tmp_path / "mnn").glob("embeddings_*")) != shared
    if kind != "BF16":
        size = sum(f.stat().st_size for f in (tmp_path / "mnn").iterdir() if f.suffix in (".weight", ".bin"))
        assert size < (1.1 if shared else 1.4) * source.stat().st_size


def _as_exported(folder: Path) -> None:
    """What MNN's exporter writes: offsets of code 0, scales in float32, the table of tokens among the weights, and no
    word of what wrote it."""
    net = wire.read((folder / "llm.mnn").read_bytes())
    attach(net, folder / "llm.mnn.weight")
    net["extraInfo"] = {"version": "3.6.1"}
    table = None
    for op in net["oplists"]:
        stored = op.get("main", {}).get("quanParameter")
        if stored is None:
            continue
        alpha = np.asarray(stored.pop("alphaFp16")).view(np.float16).astype(np.float32)
        stored.pop("scaleStorage")
        if stored.get("readType"):
            alpha[::2] -= alpha[1::2] * stored["aMin"]
            stored["aMin"] = 1
        stored["alpha"] = alpha
        table = op["main"]
    assert table is not None  # of the head, the last layer, which is that of the tokens
    weights = io.BytesIO()  # the old ones are mapped
    detach(net, SideFile(weights))
    (folder / "llm.mnn.weight").write_bytes(weights.getvalue())
    (folder / "llm.mnn").write_bytes(wire.write(net))
    begin, codes, scales = table["external"][:3]
    bits = table["quanParameter"]["aMaxOrBits"]
    head = 6 + (1 << bits)
    facts = json.loads((folder / "llm_config.json").read_text())
    tied = [int(n) for n in (begin + head, begin + codes, scales, bits, 32)]
    (folder / "llm_config.json").write_text(json.dumps({**facts, "tie_embeddings": tied}))
    for file in folder.glob("embeddings_*"):
        file.unlink()


@needs_mnn
@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q8_0"])
def test_what_an_exporter_writes_is_read(kind: str, tmp_path: Path) -> None:
    """MNN's runtime and Minnow's engine give the same for the same folder."""
    source = _packed(kind, tmp_path)
    convert(source, output=tmp_path / "mnn", mnn_llm=True)
    _as_exported(tmp_path / "mnn")
    convert(tmp_path / "mnn", output=tmp_path / "ours")
    prompt = _tokens(9, 3)
    found = mnn_llm_oracle.run(tmp_path / "mnn", tmp_path, [[prompt]], length=4)
    engine = LanguageModel.load(tmp_path / "ours", cache="f32", threads=1, precision="high")
    ours = engine.step([([*prompt, *found.answers[0]], engine.sequence(), 5)])
    np.testing.assert_allclose(found.logits[0], ours, atol=5e-3, rtol=0)
    assert ours.argmax(-1).tolist()[:4] == found.answers[0]


@needs_mnn
def test_the_known_story(tmp_path: Path) -> None:
    convert(STORIES, output=tmp_path / "mnn", mnn_llm=True)
    names = ["config.json", "embeddings_f16.bin", "llm.mnn", "llm.mnn.weight", "llm_config.json", "tokenizer.mtok"]
    assert sorted(p.name for p in (tmp_path / "mnn").iterdir()) == names
    text = "Once upon a time, there was a little girl"
    found = mnn_llm_oracle.run(tmp_path / "mnn", tmp_path, [[[1]]], length=100, texts=[text])
    convert(STORIES, output=tmp_path / "ours")
    tokenizer = Tokenizer.from_file(tmp_path / "ours/tokenizer.json")
    told = tokenizer.decode(found.answers[0]).strip()
    assert len(told) > 150
    assert STORY.startswith(told)
    assert found.texts == [[1, *tokenizer.encode(text, special=False)]]


@needs_mnn
@pytest.mark.slow
def test_answers_of_a_real_model_are_ours(tmp_path: Path) -> None:
    source = smollm2()
    convert(source, output=tmp_path / "mnn", mnn_llm=True)
    convert(source, output=tmp_path / "ours", verify=False)
    tokenizer = Tokenizer.from_file(tmp_path / "ours/tokenizer.json")
    texts = ["The capital of France is", "def fibonacci(n):", "Once upon a time", "Water boils at"]
    prompts = [tokenizer.encode(text) for text in texts]
    found = mnn_llm_oracle.run(tmp_path / "mnn", tmp_path, [[p] for p in prompts], length=48, texts=texts)
    assert found.texts == prompts
    engine = LanguageModel.load(tmp_path / "ours", cache="f32", threads=1, precision="high")
    for prompt, answer in zip(prompts, found.answers, strict=True):
        logits = engine.step([([*prompt, *answer[:-1]], engine.sequence(), len(answer))])
        assert logits.argmax(-1).tolist() == answer


@pytest.mark.parametrize("what", ["numbers", "tokens"])
def test_a_folder_that_is_not_the_checkpoint_is_not_written(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read again before it is there."""
    folder = _tokenizer(saved(_rounded(decoder("llama")), tmp_path / "source"))
    report = convert(folder, output=tmp_path / "mnn", mnn_llm=True)
    assert "verified: " in report.notices[-1]
    (tmp_path / "mnn/config.json").write_text("as it was")
    if what == "numbers":
        made = table.table_of
        monkeypatch.setattr(table, "table_of", lambda blob: replace(made(blob), content=made(blob).content[::-1]))
    else:
        monkeypatch.setattr(mtok_writer.Mtok, "_added", lambda self: struct.pack("<IIBBBH", 1, 3, 0, 0, 0, 1) + b"I")
    with pytest.raises(VerifyError, match=what if what == "tokens" else "results"):
        convert(folder, output=tmp_path / "mnn", mnn_llm=True)
    with pytest.raises(VerifyError):
        convert(folder, output=tmp_path / "other", mnn_llm=True)
    assert (tmp_path / "mnn/config.json").read_text() == "as it was"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mnn", "source"]
    convert(folder, output=tmp_path / "other", mnn_llm=True, verify=False)


def test_weights_are_made_smaller(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of float weights, by `quantize`."""
    folder = _tokenizer(saved(_rounded(decoder("llama")), tmp_path / "source"))
    command = ["quantize", str(folder), "-o", str(tmp_path / "mnn"), "--mnn-llm", "--weights", "int8"]
    assert run(command) == 0, capsys.readouterr().err
    convert(folder, output=tmp_path / "float", mnn_llm=True, verify=False)
    sizes = [(tmp_path / name / "llm.mnn.weight").stat().st_size for name in ("mnn", "float")]
    assert sizes[0] < 0.6 * sizes[1]
    model = build(open_checkpoint(tmp_path / "mnn"), cache=DType.F32)
    tokens = _tokens(9, 4)
    wanted = quiet(lambda: decoder("llama")(torch.tensor([tokens])).logits[0].numpy())
    found = Stepping(model).step({"a": tokens})
    assert np.abs(found - wanted).max() < 0.05 * np.abs(wanted).max()


def test_what_cannot_be_written_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = saved(decoder("llama"), tmp_path / "source")
    with pytest.raises(UnsupportedError, match="no tokenizer, which MNN's runtime needs"):
        convert(folder, output=tmp_path / "mnn", mnn_llm=True)
    with pytest.raises(UsageError, match="is for language models"):
        convert(STORIES.parents[2] / "examples/digits/digits.onnx", output=tmp_path / "x.mnn", mnn_llm=True)
    assert run(["convert", str(folder), "-o", str(tmp_path / "mnn"), "--mnn-llm"]) == 3
    assert "no tokenizer" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["source"]
