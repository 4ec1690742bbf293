"""Checkpoints become folders: graph, weights, tokenizer and description, all or none, and the same bytes each time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf_files import write_gguf
from language_families import decoder, encoder, saved
from language_model_files import STORIES

from minnow import convert, quantize
from minnow.cli._app import run
from minnow.llm.description import Description
from minnow.llm.model import LanguageModel
from minnow.optimizer import optimize
from minnow.schema.errors import FormatError, UnsupportedError, UsageError, VerifyError, WriteError
from minnow.schema.ir import Value
from minnow.schema.mnn import read_file

_WIDE: dict[str, Any] = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "num_hidden_layers": 2}


def _names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small checkpoint in the form of Hugging Face."""
    return saved(decoder("llama", **_WIDE), tmp_path_factory.mktemp("small"))


def test_a_folder_is_made(folder: Path, tmp_path: Path) -> None:
    report = convert(folder, output=tmp_path / "out")
    assert _names(tmp_path / "out") == ["llm.json", "model.mnn", "model.mnn.weight", "tokenizer.json"]
    assert report.framework == "llm, llama"
    assert report.output_bytes == sum(p.stat().st_size for p in (tmp_path / "out").iterdir())
    found = Description.read(tmp_path / "out")
    assert (found.architecture, found.layers, found.heads, found.kv_heads, found.head_size) == ("llama", 2, 4, 2, 16)
    assert (found.bos, found.eos, found.vocab_size, found.kind) == (1, [2], 97, "generate")
    model = read_file(tmp_path / "out/model.mnn")
    assert [n for n, _ in model.inputs][:6] == ["input_ids", "positions", "starts", "lengths", "blocks", "rows"]
    assert next(n for n, _ in model.outputs) == "logits"


def test_the_bytes_are_the_same_each_time(folder: Path, tmp_path: Path) -> None:
    for name in "ab":
        convert(folder, output=tmp_path / name)
    for file in _names(tmp_path / "a"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes(), file


def test_packed_weights_stay_packed(tmp_path: Path) -> None:
    """Four bits with the scale and the offset of 32 take 5 bits; the table of tokens takes as much again."""
    path = write_gguf(decoder("llama", **_WIDE, vocab_size=512), tmp_path / "model.gguf", "Q4_1")
    report = convert(path, output=tmp_path / "out")
    source, made = path.stat().st_size, (tmp_path / "out/model.mnn.weight").stat().st_size
    assert made < 1.1 * source
    # What is reported is the graph that runs, not how a file holds packed products.
    assert report.after.nodes["Linear"] == report.before.nodes["Linear"]
    assert report.nodes_after.keys() == report.after.nodes.keys()
    assert report.after.weight_bytes <= report.before.weight_bytes < made
    assert convert(path).output == str(tmp_path / "model")


@pytest.mark.parametrize("kind", ["Q4_1", "F32", "embed"])
def test_packed_weights_are_mapped(kind: str, tmp_path: Path) -> None:
    """With the file beside the model nothing is packed when it runs, and the results are the same bits."""
    if kind == "embed":
        source = saved(encoder("Bert"), tmp_path / "model")
    else:
        source = write_gguf(decoder("llama", **_WIDE, vocab_size=512), tmp_path / "model.gguf", kind)
    tokens = [3, 1, 4, 1, 5]

    def results(folder: Path) -> tuple[np.ndarray[Any, Any], dict[str, int]]:
        model = LanguageModel.load(folder, precision="normal")
        if kind == "embed":
            return model.embed([tokens]), model.session.stats
        sequence = model.sequence()
        prompt = model.step([(tokens, sequence, 5)])
        return np.concatenate([prompt, model.step([([9], sequence, 1)])]), model.session.stats

    convert(source, output=tmp_path / "plain")
    report = convert(source, output=tmp_path / "packed", prepack=True)
    assert _names(tmp_path / "packed") == sorted([*_names(tmp_path / "plain"), "model.mnn.packed"])
    assert any("model.mnn.packed" in notice for notice in report.notices)
    want, plain = results(tmp_path / "plain")
    got, packed = results(tmp_path / "packed")
    np.testing.assert_array_equal(got, want)
    assert plain["packed_bytes"] > 0 == plain["mapped_bytes"]
    assert packed["packed_bytes"] == 0 < packed["mapped_bytes"]
    with pytest.raises(UsageError, match="mnn-llm"):
        convert(source, output=tmp_path / "mnn", prepack=True, mnn_llm=True)


def test_weights_are_made_smaller(folder: Path, tmp_path: Path) -> None:
    plain = convert(folder, output=tmp_path / "plain")
    small = quantize(folder, output=tmp_path / "small", weights="int4", block="32", scale_bits=16, method="rtn")
    assert small.output_bytes < 0.45 * plain.output_bytes
    assert _names(tmp_path / "small") == _names(tmp_path / "plain")
    path = write_gguf(decoder("llama", **_WIDE), tmp_path / "model.gguf", "Q4_0")
    with pytest.raises(UnsupportedError, match="no float weights"):
        quantize(path, output=tmp_path / "again", weights="int4")
    assert not (tmp_path / "again").exists()


def test_an_existing_folder_is_replaced_file_by_file(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    (out / "llm.json").write_text("old")
    convert(folder, output=out)
    assert (out / "notes.txt").read_text() == "mine"
    assert json.loads((out / "llm.json").read_text())["architecture"] == "llama"


def test_a_failure_leaves_nothing(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any, **__: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("minnow.schema.mnn.encoder.save", failing)
    with pytest.raises(WriteError, match="cannot write"):
        convert(folder, output=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_outputs_that_are_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for output, error, message in (
        (tmp_path / "out.mnn", UsageError, "is a file"),
        (tmp_path / "file", WriteError, "cannot write"),
        (tmp_path / "no/out", UsageError, "does not exist"),
        (folder, UsageError, "is the source"),
        (None, UsageError, "is the source"),
    ):
        with pytest.raises(error, match=message):
            convert(folder, output=output)
    for options in ({"inputs": {"input_ids": (3,)}}, {"batch": 2}, {"weights": "int4"}):
        with pytest.raises(UsageError, match="does not apply to language models"):
            convert(folder, output=tmp_path / "out", **options)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("config.json", b"", "JSON is invalid"),
        ("config.json", b"[]", "is no table"),
        ("config.json", b'{"a": 1, "a": 2}', "there twice"),
        ("config.json", b"[" * 100_000, "JSON is invalid"),
        ("model.safetensors", b"", "is empty|cut off"),
        ("model.safetensors", b"\xff" * 64, "cut off"),
        ("model.safetensors", b"\x02" + bytes(7) + b"[]", "no table"),
        ("tokenizer.json", b"{", "JSON is invalid"),
    ],
)
def test_damaged_folders(file: str, content: bytes, message: str, folder: Path, tmp_path: Path) -> None:
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / file).write_bytes(content)
    out = tmp_path / "out"
    with pytest.raises(FormatError, match=message):
        convert(tmp_path, output=out)
    assert not out.exists()


def test_the_command(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([str(folder), "-o", str(tmp_path / "out"), "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["nodes_before"]["PagedAttention"] == 2
    assert run(["check", str(folder)]) == 0
    assert "architecture llama" in capsys.readouterr().out
    (tmp_path / "bad.gguf").write_bytes(b"GGUF\3\0\0\0")
    assert run([str(tmp_path / "bad.gguf"), "-o", str(tmp_path / "bad")]) == FormatError.exit_code
    assert "cut off" in capsys.readouterr().err


def test_an_encoder_says_what_it_is(tmp_path: Path) -> None:
    convert(saved(encoder("Bert"), tmp_path / "bert"), output=tmp_path / "out")
    found = Description.read(tmp_path / "out")
    assert (found.kind, found.pooling, found.normalize) == ("embed", "mean", False)


def test_the_tokenizer_comes_along(tmp_path: Path) -> None:
    convert(STORIES, output=tmp_path / "out")
    found = Description.read(tmp_path / "out")
    assert (found.name, found.layers, found.vocab_size, found.add_bos) == ("stories260K", 5, 512, True)
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(tmp_path / "out/tokenizer.json"))
    assert tokenizer.encode("Once upon a time").ids == [1, 403, 407, 261, 378]


def test_folders_are_verified(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong graph is refused, and nothing is written; without verification it is."""
    report = convert(folder, output=tmp_path / "good")
    assert any(n.startswith("verified: results differ by up to") for n in report.notices)
    assert "verify" in report.seconds
    small = quantize(folder, output=tmp_path / "small", weights="int4")
    assert any("for the weights are smaller" in n for n in small.notices)

    def wrong(model: Any, *_: Any, **__: Any) -> Any:
        summary = optimize(model, target="minnow")
        norm = next(n for n in reversed(list(model.graph)) if n.op == "RMSNorm")
        norm.set_input(1, Value.constant(norm.input(1).array * np.float32(1.01)))
        return summary

    monkeypatch.setattr("minnow.optimizer.optimize", wrong)
    with pytest.raises(VerifyError, match="differ from those of its checkpoint"):
        convert(folder, output=tmp_path / "bad")
    assert not (tmp_path / "bad").exists()
    assert convert(folder, output=tmp_path / "bad", verify=False).output_bytes > 0


def test_encoders_are_verified(tmp_path: Path) -> None:
    for kind, task in (("Bert", "Model"), ("Roberta", "ForSequenceClassification")):
        model = encoder(kind, task, **({"pad_token_id": 1} if kind == "Roberta" else {}))
        report = convert(saved(model, tmp_path / kind), output=tmp_path / f"{kind}-made")
        assert any(n.startswith("verified") for n in report.notices)
