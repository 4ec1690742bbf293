"""Tokenizers of libminnow_text: the ids and texts that the package `tokenizers` gives, and llama.cpp has recorded."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import test_tokenizer as parts
import tokenizers
from text_library import MARKS, PARSE, CTokenizer, Library, built
from vocabularies import NAMES, random_text, tokenizer_json, vectors

from minnow.converter.llm.tokenizer.sentencepiece import from_sentencepiece
from minnow.llm.tokenizer import Tokenizer

SETS_WITHIN_SETS = "&&"


@pytest.fixture(scope="module")
def library() -> Library:
    return Library(built())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NAMES)
def test_ids_and_text_are_those_of_the_package(library: Library, name: str, tmp_path: Path) -> None:
    ours = compare(library, tokenizer_json(name), 300, tmp_path)
    assert len(vectors(name)) > 40
    for text, ids in vectors(name):
        assert ours.encode(text, flags=PARSE) == ids, text
    ours.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_hundred_thousand_random_texts(library: Library, name: str, tmp_path: Path) -> None:
    compare(library, tokenizer_json(name), 100_000, tmp_path).close()


@pytest.mark.sampled(20)
@pytest.mark.parametrize(
    "part",
    [
        *({"normalizer": part} for part in parts.NORMALIZERS),
        *({"pre_tokenizer": part} for part in parts.PRE_TOKENIZERS if SETS_WITHIN_SETS not in json.dumps(part)),
        *({"decoder": part} for part in parts.DECODERS),
        {"post_processor": {"type": "BertProcessing", "sep": ["b", 98], "cls": ["a", 97]}},
    ],
    ids=lambda part: "-".join(f"{key}-{value['type']}" for key, value in part.items()),
)
def test_steps(library: Library, part: dict[str, Any], tmp_path: Path) -> None:
    compare(library, parts.built(**part), 200, tmp_path).close()


def test_roberta_puts_its_marks_around_a_text(library: Library, tmp_path: Path) -> None:
    part = {"type": "RobertaProcessing", "sep": ["b", 98], "cls": ["a", 97], "trim_offsets": True,
            "add_prefix_space": True}  # fmt: skip
    compare(library, parts.built(post_processor=part), 50, tmp_path).close()


@pytest.mark.parametrize("normal", [{"normalization_rule_name": "identity"}, {}], ids=["identity", "nmt_nfkc"])
@pytest.mark.parametrize("fallback", [True, False])
def test_unigram(library: Library, fallback: bool, normal: dict[str, str], tmp_path: Path) -> None:
    """With a table of replacements, and without."""
    compare(library, trained(fallback, normal, tmp_path), 300, tmp_path).close()


@pytest.mark.slow
def test_a_hundred_thousand_random_texts_of_unigram(library: Library, tmp_path: Path) -> None:
    compare(library, trained(False, {}, tmp_path), 100_000, tmp_path).close()
    compare(library, trained(True, {}, tmp_path), 20_000, tmp_path).close()


def trained(fallback: bool, options: dict[str, str], folder: Path) -> str:
    """A tokenizer.json of a model of SentencePiece that knows a few hundred texts."""
    texts = [random_text(random.Random(seed), old=True) for seed in range(300)] + ["banana bandana ananas"] * 9
    corpus = folder / "text"
    corpus.write_text("\n".join("".join(c for c in text if c.isprintable()) for text in texts), encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(corpus), model_prefix=str(folder / "m"), vocab_size=2500, model_type="unigram", minloglevel=2,
        hard_vocab_limit=False, byte_fallback=fallback, **options,
    )  # fmt: skip
    return json.dumps(from_sentencepiece((folder / "m.model").read_bytes()))


def test_wordpiece(library: Library, tmp_path: Path) -> None:
    trained = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
    trained.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    trained.decoder = tokenizers.decoders.WordPiece()
    trainer = tokenizers.trainers.WordPieceTrainer(vocab_size=500, show_progress=False, special_tokens=["[UNK]"])
    trained.train_from_iterator([*parts.TEXTS[:100], "banana bandana ananas " * 3], trainer)
    ours = compare(library, trained.to_str(), 300, tmp_path)
    for text in ("banana" * 30, "a" * 101, "a" * 100, "\u00e9" * 100):
        assert ours.encode(text) == trained.encode(text).ids, text
    ours.close()


def test_normal_forms_and_expressions(library: Library, tmp_path: Path) -> None:
    """What Qwen and Llama 3 have: NFC, possessive and scoped expressions."""
    whole = json.loads(tokenizer_json("gpt-2"))
    whole["normalizer"] = {"type": "NFC"}
    regex = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}"
    regex += r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    whole["pre_tokenizer"]["pretokenizers"][0]["pattern"] = {"Regex": regex}
    (tmp_path / "tokenizer.json").write_text(json.dumps(whole))
    ours, theirs = CTokenizer(library, tmp_path), Tokenizer.from_file(tmp_path, engine="tokenizers")
    for text in ["e\u0301te\u0301", "I'LL GO", *(random_text(random.Random(seed), old=True) for seed in range(200))]:
        assert ours.encode(text) == theirs.encode(text), text
    ours.close()


def compare(library: Library, whole: str, count: int, folder: Path) -> CTokenizer:
    """Ids, texts of any ids, and texts that stream, for random texts."""
    path = folder / "tokenizer.json"
    path.write_text(whole, encoding="utf-8")
    ours, theirs = CTokenizer(library, path), Tokenizer.from_file(path, engine="tokenizers")
    plain, rng = Tokenizer.from_file(path, engine="minnow"), random.Random(0)
    for _ in range(count):
        text = random_text(rng, old=True)  # PCRE2 has a newer Unicode than the package
        special, parse = rng.random() < 0.5, rng.random() < 0.5
        ids = theirs.encode(text, special=special, parse=parse)
        assert ours.encode(text, flags=MARKS * special | PARSE * parse) == ids, text
        if rng.random() < 0.3:
            ids = [rng.randrange(plain.size) for _ in range(rng.randint(0, 12))]
        assert ours.decode(ids) == plain.decode(ids), ids
        stream = plain.stream()
        assert ours.pieces(ids) == [*(stream.push(id) for id in ids), stream.finish()], ids
    return ours
