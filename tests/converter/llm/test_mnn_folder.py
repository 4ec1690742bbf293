"""Folders of MNN-LLM, and the graphs in them: read, they give the logits of transformers; damaged ones are refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from language_families import VOCABULARY, decoder, quiet, saved
from language_model_files import STORIES
from stepping import Stepping

from minnow import convert
from minnow.cli._app import run
from minnow.converter.file.door import guarded
from minnow.converter.formats import detect, is_mnn
from minnow.converter.llm.build import build
from minnow.converter.llm.checkpoint import open_checkpoint
from minnow.converter.llm.mnn.stream import matrix_of
from minnow.converter.llm.tokenizer import form
from minnow.schema.errors import FormatError, MinnowError, UnsupportedError
from minnow.schema.ir import DType
from minnow.schema.mnn import wire

FOREIGN = {"llama tied, with biases": 12, "llama": 8, "mistral": 8, "qwen3": 16, "gemma3": 16, "gpt2": 8, "phi3": 8}
"""Families that are written, and the sizes of their heads."""


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small trained model."""
    folder = tmp_path_factory.mktemp("stories") / "mnn"
    convert(STORIES, output=folder, mnn_llm=True)
    return folder


@pytest.fixture
def folder(stories: Path, tmp_path: Path) -> Path:
    """A copy that may be changed."""
    return Path(shutil.copytree(stories, tmp_path / "folder"))


def _changed(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def _rewired(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Changes the graph of a folder."""
    path = folder / "llm.mnn"
    net = wire.read(path.read_bytes())
    change(net)
    path.write_bytes(wire.write(net))


def _as_of_mnn(net: dict[str, Any]) -> None:
    """Without what only our files say: so the file is read as one of MNN's converter."""
    net["extraInfo"] = {"version": "3.6.1"}


def _logits(folder: Path, parts: list[list[int]]) -> np.ndarray:
    steps = Stepping(build(open_checkpoint(folder), cache=DType.F32, block=4))
    return np.concatenate([steps.step({"a": part}) for part in parts])


def test_the_folder_and_its_graph_are_named(folder: Path) -> None:
    for path in (folder, folder / "llm.mnn"):
        assert detect(path).name == "llm"
        assert not is_mnn(path)
    assert is_mnn(folder / "llm.mnn", "mnn")
    (folder / "llm_config.json").unlink()
    assert is_mnn(folder / "llm.mnn")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("foreign", [False, True])
@pytest.mark.parametrize("family", FOREIGN)
def test_logits_are_those_of_transformers(family: str, foreign: bool, tmp_path: Path) -> None:
    model = decoder(family)
    table = model.get_input_embeddings()
    table.weight.data = table.weight.data.half().float()
    source = saved(model, tmp_path / "source")
    letters = [chr(c) for c in (*range(33, 127), *range(161, 173))][:VOCABULARY]
    whole = form.whole(form.byte_level_bpe(letters, []), pre_tokenizer=form.splits([" "]), decoder=[form.BYTE_LEVEL])
    (source / "tokenizer.json").write_text(json.dumps(whole))
    convert(source, output=tmp_path / "mnn", mnn_llm=True)
    if foreign:
        _rewired(tmp_path / "mnn", _as_of_mnn)
    tokens = np.random.default_rng(1).integers(0, VOCABULARY, 13).tolist()
    wanted = quiet(lambda: model(torch.tensor([tokens])).logits[0].numpy())
    found = _logits(tmp_path / "mnn", [tokens[:7], tokens[7:8], tokens[8:]])
    np.testing.assert_allclose(found, wanted, atol=1e-4, rtol=0)
    own = open_checkpoint(tmp_path / "mnn").settings
    assert own.integer("head_dim") == FOREIGN[family]
    assert own.integer("num_attention_heads") == 6


@pytest.mark.parametrize("bits", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("kind", ["around 0", "from the least", "from code 0", "from code 0, halves"])
def test_weights_are_what_exporters_mean(bits: int, kind: str) -> None:
    """By the formulas of the format, for a matrix of odd sizes in blocks."""
    dice = np.random.default_rng(bits)
    rows, columns, block, half = 7, 96, 32, 1 << (bits - 1)
    codes = dice.integers(-half, half, (rows * columns // block, block))
    scale, offset = (dice.standard_normal(len(codes)).astype(np.float16).astype(np.float32) for _ in range(2))
    least = {"around 0": 0, "from the least": -half}.get(kind, 1)
    shifted = least != 0
    if least < 0:
        wanted = (codes - least) * scale[:, None] + offset[:, None]
    else:
        wanted = codes * scale[:, None] + (offset[:, None] if shifted else 0)
    fields = np.unpackbits((codes + half).astype(np.uint8).reshape(-1, 1), axis=1)[:, 8 - bits :]
    head = bytes([2, rows, 0, columns, 0, 2 * half % 256]) + np.arange(-half, half).astype(np.int8).tobytes()
    stream = np.frombuffer(head + np.packbits(fields.reshape(-1)).tobytes(), np.int8)
    alpha = np.stack([offset, scale], 1).reshape(-1) if shifted else scale
    stored = {"type": 1, "buffer": stream, "aMin": least, "readType": len(codes) if shifted else 0, "quantScale": 1.0}
    if kind.endswith("halves"):
        stored |= {"alphaFp16": alpha.astype(np.float16).view(np.uint16), "scaleStorage": "FP16"}
    else:
        stored["alpha"] = alpha
    found = matrix_of({"quanParameter": stored}, rows, columns).numpy()
    np.testing.assert_allclose(found, wanted.reshape(rows, columns), rtol=1e-5, atol=1e-5)
    with pytest.raises(FormatError, match="packed weights"):
        matrix_of({"quanParameter": {**stored, "buffer": stream[:-1]}}, rows, columns)
    key = "alphaFp16" if kind.endswith("halves") else "alpha"
    with pytest.raises(FormatError, match="scales do not fit"):
        matrix_of({"quanParameter": {**stored, key: stored[key][:-1]}}, rows, columns)


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "no graph": (lambda f: _changed(f / "config.json", llm_model="other.mnn"), "other.mnn is missing"),
    "another folder": (lambda f: _changed(f / "config.json", llm_model="../x.mnn"), "not the name of a file beside it"),
    "no weights": (lambda f: (f / "llm.mnn.weight").unlink(), "llm.mnn.weight is missing"),
    "cut weights": (lambda f: (f / "llm.mnn.weight").write_bytes(b"12345678"), "too short"),
    "cut graph": (lambda f: (f / "llm.mnn").write_bytes((f / "llm.mnn").read_bytes()[:5000]), ""),
    "cut table": (lambda f: (f / "embeddings_f16.bin").write_bytes(bytes(1001)), "no table of tokens"),
    "far table": (lambda f: _changed(f / "llm_config.json", tie_embeddings=[1, 1 << 41, 8, 8, 32]), "does not fit"),
    "odd table": (lambda f: _changed(f / "llm_config.json", tie_embeddings=[0, 0, -1, 8, 32]), "no list of five"),
    "no size": (lambda f: _changed(f / "llm_config.json", hidden_size="many"), "'hidden_size' is 'many'"),
    "other layers": (lambda f: _changed(f / "llm_config.json", layer_nums=4), "layers of attention"),
    "no JSON": (lambda f: (f / "llm_config.json").write_text("{"), ""),
    "no vocabulary": (lambda f: (f / "tokenizer.mtok").write_text("430"), "no vocabulary of MNN-LLM"),
}  # fmt: skip


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_named(what: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damage, said = DAMAGE[what]
    damage(folder)
    assert run(["convert", str(folder), "-o", str(tmp_path / "out")]) == 6
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("field", ["inputIndexes", "outputIndexes"])
def test_operators_with_other_operands_are_named(
    field: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Attention of two results; rows chosen of nothing."""

    def change(net: dict[str, Any]) -> None:
        if field == "outputIndexes":
            op = next(op for op in net["oplists"] if op["type"] == "Attention")
            net["tensorName"] = [*net["tensorName"], "more"]
            op[field] = [*op[field], len(net["tensorName"]) - 1]
        else:
            op = next(op for op in net["oplists"] if op["type"] == "Convolution" and len(op[field]) == 1)
            op[field] = []

    _rewired(folder, change)
    assert run(["convert", str(folder), "-o", str(tmp_path / "out")]) == 6
    assert not (tmp_path / "out").exists()
    assert capsys.readouterr().err


def test_other_kinds_of_models_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="already"):
        convert(folder, output=tmp_path / "out", mnn_llm=True)
    _rewired(folder, lambda net: net["oplists"][-1].update(type="FusedLinear", main_type="NONE", main=None))
    with pytest.raises(UnsupportedError, match="operators that are not read"):
        open_checkpoint(folder)
    _changed(folder / "llm_config.json", is_visual=True)
    with pytest.raises(UnsupportedError, match="'is_visual'"):
        open_checkpoint(folder)


@pytest.mark.parametrize("name", ["llm.mnn", "llm.mnn.weight", "llm_config.json", "config.json", "tokenizer.mtok"])
def test_no_bytes_crash_the_reader(name: str, folder: Path) -> None:
    path = folder / name
    good = path.read_bytes()
    dice = np.random.default_rng(len(name))
    for _ in range(12):
        bad = bytearray(good[: dice.integers(1, len(good))] if dice.random() < 0.3 else good)
        for place in dice.integers(0, len(bad), 3):
            bad[place] = dice.integers(256)
        path.write_bytes(bad)
        try:
            with guarded(folder):
                checkpoint = open_checkpoint(folder)
                build(checkpoint)
                assert checkpoint.tokenizer is not None
                checkpoint.tokenizer()
        except MinnowError:
            pass
