"""tokenizer.mtok: written for MNN's runtime, which gives the tokens of the source; and read again."""

from __future__ import annotations

import json
import random
import struct
import unicodedata
from pathlib import Path
from typing import Any

import mnn_llm_oracle
import pytest
import test_tokenizer as parts
from language_model_files import STORIES
from mnn_oracle import needs_mnn
from vocabularies import NAMES, random_text, tokenizer_json

from minnow import convert
from minnow.converter.llm.checkpoint import open_checkpoint
from minnow.converter.llm.tokenizer import form
from minnow.converter.llm.tokenizer.mtok import from_mtok
from minnow.converter.llm.tokenizer.mtok_writer import Mtok
from minnow.converter.llm.tokenizer.split_rule import RULES
from minnow.llm.tokenizer import Tokenizer
from minnow.schema.errors import FormatError, MinnowError, UnsupportedError

TEXTS = [random_text(random.Random(seed)) for seed in range(400)]
PAIRS = ["ab", "ba", "abab"]


def _tokenizer(whole: Any) -> Tokenizer:
    return Tokenizer.from_json(json.dumps(whole), engine="minnow")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NAMES)
def test_there_and_back(name: str) -> None:
    whole = json.loads(tokenizer_json(name))
    back, template = from_mtok(Mtok(whole).content(stop=[1], prefix=[1], template="{{ messages }}", eos="a", bos="b"))
    assert template == "{{ messages }}"
    source, ours = _tokenizer(whole), _tokenizer(back)
    for text in TEXTS[:120]:
        ids = source.encode(text, special=False)
        assert ours.encode(text, special=False) == ids, text
        assert ours.decode(ids) == source.decode(ids), text
    assert ours.encode("a")[0] == 1


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, of which MNN needs the vocabulary only."""
    made = tmp_path_factory.mktemp("mtok") / "mnn"
    convert(STORIES, output=made, mnn_llm=True, verify=False)
    return made


def _of_mnn(whole: Any, folder: Path, work: Path, texts: list[str]) -> list[list[int]]:
    (folder / "tokenizer.mtok").write_bytes(Mtok(whole).content())
    found: list[list[int]] = mnn_llm_oracle.run(folder, work, texts=texts).texts
    return found


@needs_mnn
@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", [name for name in NAMES if name != "bert-bge"])
def test_mnn_gives_the_tokens_of_the_source(name: str, folder: Path, tmp_path: Path) -> None:
    whole = json.loads(tokenizer_json(name))
    texts = [text for text in TEXTS if "\0" not in text]
    ours = _tokenizer(whole)
    assert _of_mnn(whole, folder, tmp_path, texts) == [ours.encode(text, special=False) for text in texts]


INEXACT = {"gpt3-finnish", "llama4", "tekken", "viking"}
"""Rules whose expressions MNN's runtime does not take quite as they are, which is said."""


@needs_mnn
@pytest.mark.slow
@pytest.mark.parametrize("rule", sorted({id(rule): name for name, rule in RULES.items()}.values()))
def test_mnn_splits_by_each_rule(rule: str, folder: Path, tmp_path: Path) -> None:
    """With a vocabulary of bytes and all pairs of letters, which shows where texts are split."""
    letters = [chr(c) for c in (*range(33, 127), *range(161, 173), *range(174, 324))]
    small = [a + b for a in letters for b in letters[:94]]
    merges = [[pair[0], pair[1]] for pair in small]
    whole = form.whole(
        form.byte_level_bpe([*letters, *small], merges),
        pre_tokenizer=form.splits(RULES[rule].patterns), decoder=[form.BYTE_LEVEL],
    )  # fmt: skip
    texts = [text for text in TEXTS if "\0" not in text]
    ours = _tokenizer(whole)
    same = _of_mnn(whole, folder, tmp_path, texts) == [ours.encode(text) for text in texts]
    assert same == (rule not in INEXACT) == (not Mtok(whole).lost)


def test_each_step_there_and_back() -> None:
    """What has a form does the same again; all others are refused, or said to be lost."""
    texts, kept, refused = [text for text in TEXTS[:40] if "\0" not in text], 0, 0
    for normalizer, split in [(n, None) for n in parts.NORMALIZERS] + [(None, p) for p in parts.PRE_TOKENIZERS]:
        whole = json.loads(parts.built(normalizer=normalizer, pre_tokenizer=split))
        try:
            mtok = Mtok(whole)
        except UnsupportedError:
            refused += 1
            continue
        if mtok.lost:
            continue
        back, _ = from_mtok(mtok.content())
        source, ours = _tokenizer(whole), _tokenizer(back)
        assert [ours.encode(text) for text in texts] == [source.encode(text) for text in texts], (normalizer, split)
        kept += 1
    assert kept > 8
    assert refused > 3


def test_models_there_and_back() -> None:
    models = [
        {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["a", -1.0], ["b", -2.5], ["ab", -0.5]]},
        {"type": "WordPiece", "unk_token": "a", "vocab": {"a": 0, "##b": 1}, "max_input_chars_per_word": 9},
        {"type": "BPE", "vocab": {"a": 0, "b": 7, "ab": 2}, "merges": ["a b"]},
    ]
    for model in models:
        whole = form.whole(model)
        back, template = from_mtok(Mtok(whole).content())
        assert template is None
        assert [_tokenizer(back).encode(t) for t in PAIRS] == [_tokenizer(whole).encode(t) for t in PAIRS]


def _head(body: bytes) -> bytes:
    return b"430 4\n0 0 0\n\n" + body


def _table(changed: dict[str, str]) -> bytes:
    rows = b"".join(struct.pack("<IH", ord(c), len(t.encode())) + t.encode() for c, t in changed.items())
    return b"\6" + struct.pack("<I", len(changed)) + rows


_EMPTY = b"\0" + struct.pack("<BIBBI", 0, 0, 0, 0, 0) + b"\0" + bytes(4)


def test_tables_of_characters() -> None:
    """A table is that of a form of Unicode's, whatever its version, or refused."""
    for name in ("NFC", "NFKC"):
        table = {c: unicodedata.normalize(name, c) for c in "ﬁÅ½é" if unicodedata.normalize(name, c) != c}
        assert from_mtok(_head(_table(table) + _EMPTY))[0]["normalizer"] == {"type": name}
    with pytest.raises(UnsupportedError, match="no form of Unicode's"):
        from_mtok(_head(_table({"a": "b"}) + _EMPTY))


def test_a_model_that_makes_the_bytes() -> None:
    """Its vocabulary has bytes in their alphabet, but no step before it makes them."""
    row = struct.pack("<H", 2) + "Ġ".encode() + struct.pack("<I", 0)
    body = b"\0\0" + struct.pack("<BIBBI", 0, 1, 0, 1, 0) + row + b"\0" + bytes(4)
    assert _tokenizer(from_mtok(_head(body))[0]).encode("  ") == [0, 0]


DAMAGED = {
    "nothing": b"",
    "no ids": b"430 4\n2 0 0\n1\n" + bytes(20),
    "a negative count": b"430 4\n-1 1 0\n\n" + bytes(20),
    "no body": _head(b""),
    "a kind of step": _head(b"\x09"),
    "a kind of model": _head(b"\0\0\7" + bytes(40)),
    "levels": _head((b"\4" + struct.pack("<I", 1)) * 5000 + bytes(40)),
    "a count": _head(b"\0\0" + struct.pack("<BIBBI", 0, 1 << 31, 0, 0, 0) + bytes(40)),
    "a merge": _head(b"\0\0" + struct.pack("<BIBBI", 0, 0, 0, 0, 1) + bytes(40)),
    "an id": _head(b"\0\0" + struct.pack("<BIBBIH", 0, 1, 0, 0, 0, 1) + b"a" + b"\xff" * 4 + bytes(40)),
    "a way to split": _head(b"\0\4" + struct.pack("<HBB", 0, 0, 3) + _EMPTY[1:]),
    "a mark": b"430 4\n0 0 1\n9\n\0" + _EMPTY,
}  # fmt: skip


@pytest.mark.parametrize("what", DAMAGED)
def test_damage_is_named(what: str) -> None:
    with pytest.raises(FormatError):
        from_mtok(DAMAGED[what])


def test_changed_bytes() -> None:
    """Only our errors, whatever is in the file."""
    dice, read = random.Random(3), 0
    good = Mtok(json.loads(parts.built(decoder=parts.DECODERS[0]))).content(stop=[1], template="x")
    for _ in range(400):
        bad = bytearray(good if dice.random() < 0.7 else good[: dice.randrange(len(good))])
        for _ in range(dice.randint(1, 4)):
            bad[dice.randrange(len(bad)) if bad else 0 :][:1] = bytes([dice.choice([0, 1, 255, dice.randrange(256)])])
        try:
            _tokenizer(from_mtok(bytes(bad))[0]).encode("abab")
            read += 1
        except MinnowError:
            pass
    assert read > 20


def test_a_folder_has_its_chat_template_there(folder: Path) -> None:
    """Where `llm_config.json` has none."""
    assert open_checkpoint(folder).chat_template is None
    content = Mtok(form.whole(form.byte_level_bpe(["a"], []))).content(template="{{ 1 }}", prefix=[0])
    (folder / "tokenizer.mtok").write_bytes(content)
    checkpoint = open_checkpoint(folder)
    assert checkpoint.chat_template == "{{ 1 }}"
    assert checkpoint.bos == 0
    assert checkpoint.tokenizer is not None
    assert Tokenizer.from_json(checkpoint.tokenizer()).encode("a") == [0, 0]


def test_what_is_lost_is_said() -> None:
    """Forms that MNN's runtime has not, or not quite."""
    letters = form.byte_level_bpe(["a", "b", "ab", "abab"], ["a b"], ignore_merges=True)
    assert Mtok(form.whole(letters)).lost == ["makes tokens by merges only"]
    assert "NFC" in Mtok(form.whole(letters, normalizer=[{"type": "NFC"}])).lost[0]
    with pytest.raises(UnsupportedError, match="no form for the step Punctuated"):
        Mtok(form.whole(letters, pre_tokenizer=[{"type": "Punctuated"}]))
    with pytest.raises(UnsupportedError, match="kind of vocabulary"):
        Mtok(form.whole({**letters, "end_of_word_suffix": "</w>"}))
    with pytest.raises(UnsupportedError, match="ids up to 99999999"):
        Mtok(form.whole(form.byte_level_bpe([], []) | {"vocab": {"a": 99_999_999}}))
