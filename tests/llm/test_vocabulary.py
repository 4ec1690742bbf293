"""Vocabularies of other formats: what they become gives the ids that others give for the source."""

from __future__ import annotations

import base64
import json
import random
import struct
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
from mnn_text_files import to_mnn_text
from vocabularies import NAMES, SHARED, random_text, tokenizer_json

from minnow.converter.llm.tokenizer import from_folder
from minnow.converter.llm.tokenizer.gguf import from_gguf
from minnow.converter.llm.tokenizer.llama2c import from_llama2c
from minnow.converter.llm.tokenizer.mnn_text import from_mnn_text
from minnow.converter.llm.tokenizer.sentencepiece import from_sentencepiece
from minnow.converter.llm.tokenizer.split_rule import RULES
from minnow.converter.llm.tokenizer.tiktoken import from_tiktoken
from minnow.llm.tokenizer import Tokenizer
from minnow.llm.tokenizer.alphabet import from_alphabet
from minnow.schema.errors import FormatError, MinnowError, UnsupportedError

STORIES = SHARED / "stories260K"
MODEL = STORIES / "tok512.model"
TEXTS = [text for seed in range(600) if "\ufffd" not in (text := random_text(random.Random(seed), old=True))]
STORY = ["Once upon a time, there was a little girl named Lily. She loved   to play!", " Lily's mom\n\nsaid", ""]


def tokenizer(whole: object) -> Tokenizer:
    return Tokenizer.from_json(json.dumps(whole), engine="minnow")


@pytest.mark.skipif(not MODEL.exists(), reason="the shared models are not there")
def test_a_sentencepiece_model_as_its_package_reads_it() -> None:
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(MODEL))
    ours = tokenizer(from_sentencepiece(MODEL.read_bytes()))
    for text in [*STORY, *TEXTS]:
        # Marks are text for the package, and what stands for a space is one.
        if not any(mark in text for mark in ("<s>", "</s>", "<unk>", "\0", "▁")):
            ids = theirs.encode(text)
            assert ours.encode(text) == ids, text
            assert ours.decode(ids) == theirs.decode(ids), text
    assert tokenizer(from_sentencepiece(MODEL.read_bytes(), adds_bos=True)).encode("One day") == [
        1,
        *theirs.encode("One day"),
    ]


@pytest.mark.skipif(not MODEL.exists(), reason="the shared models are not there")
def test_the_vocabulary_of_llama2c_is_that_of_its_sentencepiece_model() -> None:
    ours = tokenizer(from_llama2c((STORIES / "tok512.bin").read_bytes()))
    same = tokenizer(from_sentencepiece(MODEL.read_bytes(), adds_bos=True))
    texts = [
        text
        for text in [*STORY, *TEXTS]
        if not any(s in text for s in ("  ", "▁", "s>", "<unk>")) and text.strip(" ") == text
    ]
    assert len(texts) > 200
    for text in texts:  # that project leaves spaces as they are
        assert ours.encode(text) == same.encode(text), text


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
@pytest.mark.parametrize("options", [{}, {"byte_fallback": True}, {"add_dummy_prefix": False},
    {"remove_extra_whitespaces": False, "normalization_rule_name": "identity"}], ids=str)  # fmt: skip
def test_trained_sentencepiece_models(kind: str, options: dict[str, object], tmp_path: Path) -> None:
    """ASCII text: the package tokenizers, whose results ours are, normalizes some other characters differently."""
    words = (
        *("the", "quick", "brown", "fox", "jumps", "over", "lazy", "dogs", "while", "banana", "bandana", "ananas"),
        *("eat", "other", "things", "12", "34", "5", ".", ",", "!"),
    )
    rng = random.Random(3)
    corpus = tmp_path / "text"
    corpus.write_text("\n".join(" ".join(rng.choice(words) for _ in range(9)) for _ in range(400)))
    sentencepiece.SentencePieceTrainer.train(
        input=str(corpus), model_prefix=str(tmp_path / "m"), vocab_size=340 if options.get("byte_fallback") else 90,
        model_type=kind, hard_vocab_limit=False, minloglevel=2, **options,
    )  # fmt: skip
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "m.model"))
    ours = tokenizer(from_sentencepiece((tmp_path / "m.model").read_bytes()))
    texts = [" ".join(rng.choice(words) for _ in range(7)) for _ in range(60)]
    texts += ["  two  spaces ", "x", "quickfox", "   ", "banana?!", "a #b"]
    for text in texts:
        assert ours.encode(text) == theirs.encode(text), text


@pytest.mark.skipif("gpt-2" not in NAMES, reason="the shared models are not there")
def test_tiktoken() -> None:
    """The ranks of GPT-2's tokens are their ids but for the bytes: the same splits, in ids by rank."""
    reference = Tokenizer.from_json(tokenizer_json("gpt-2"), engine="tokenizers")
    tokens = {from_alphabet(token): id for token, id in reference.vocabulary().items() if id != 50256}
    lines = b"".join(base64.b64encode(token) + b" %d\n" % id for token, id in tokens.items())
    ours = tokenizer(from_tiktoken(lines, RULES["gpt-2"], {"<|endoftext|>": 50256}))
    for text in [*STORY, *TEXTS[:200]]:
        assert ours.encode(text) == reference.encode(text), text
    with pytest.raises(FormatError, match="line 2"):
        from_tiktoken(b"YQ== 0\n?? 1\n", RULES["gpt-2"])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NAMES)
def test_to_tokenizer_txt_and_back(name: str) -> None:
    source = json.loads(tokenizer_json(name))
    stop = [next(entry["id"] for entry in source["added_tokens"] if entry["special"])]
    back = from_mnn_text(to_mnn_text(source, stop=stop), RULES["gpt-2" if name == "gpt-2" else "starcoder"])
    reference, ours = tokenizer(source), tokenizer(back)
    texts = [*STORY, *TEXTS[:100]] if name != "deepseek-coder" else ["Lily"]  # it has another way to split
    for text in texts:
        assert ours.encode(text, special=False) == reference.encode(text, special=False), text


def test_folders(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no tokenizer"):
        from_folder(tmp_path)
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\nhello\nwor\n##ld\n")
    assert Tokenizer.from_json(from_folder(tmp_path)).encode("Hello, world") == [2, 4, 1, 5, 6, 3]
    (tmp_path / "vocab.json").write_text(json.dumps({"a": 0, "b": 1, "ab": 2, "<end>": 3}))
    with pytest.raises(FormatError, match="merges"):
        from_folder(tmp_path)
    (tmp_path / "merges.txt").write_text("#version: 0.2\na b\n")
    assert Tokenizer.from_json(from_folder(tmp_path)).encode("abba") == [2, 1, 0]
    if MODEL.exists():
        (tmp_path / "tokenizer.model").write_bytes(MODEL.read_bytes())
        assert Tokenizer.from_json(from_folder(tmp_path)).encode("One day")[0] == 1


@pytest.mark.parametrize(
    "data",
    [b"", b"\x0a", b"\x0a\xff\xff\xff\xff\x0f", b"\x0a\x03\x0a\x01\xff", b"\x0a\x05\x15\x00\x00\xc0\x7f", b"\x12\x00"],
)
def test_damaged_sentencepiece_models(data: bytes) -> None:
    with pytest.raises(FormatError):
        from_sentencepiece(data)


DAMAGED = [b"", b"430 0", b"431 0\n0 0 0\n\n0\n", b"430 1\n0 0 0\n\n2\nYQ==\n", b"430 7\n0 0 0\n\n0\n",
    b"430 3\n0 0 1\n9\n1 0\na\n", b"\xff"]  # fmt: skip


@pytest.mark.parametrize("data", DAMAGED)
def test_damaged_tokenizer_txt(data: bytes) -> None:
    with pytest.raises(FormatError):
        from_mnn_text(data)


def test_gguf_vocabularies_that_are_wrong() -> None:
    good = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": ["a", "b", "ab"],
            "tokenizer.ggml.merges": ["a b"]}  # fmt: skip
    assert tokenizer(from_gguf(good)).encode("ab") == [2]
    arrays = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.scores": np.array([0, 0, -1], np.float32),
        "tokenizer.ggml.token_type": np.array([1, 1, 1], np.int32),
        "tokenizer.ggml.add_space_prefix": False,
    }
    assert tokenizer(from_gguf({**good, **arrays})).encode("ab") == [2], "numbers may be arrays"
    for change, error in (
        ({"tokenizer.ggml.model": "rwkv"}, UnsupportedError),
        ({"tokenizer.ggml.pre": "x"}, UnsupportedError),
        ({"tokenizer.ggml.tokens": []}, FormatError),
        ({"tokenizer.ggml.tokens": [1]}, FormatError),
        ({"tokenizer.ggml.token_type": [1]}, FormatError),
        ({"tokenizer.ggml.merges": None}, FormatError),
        ({"tokenizer.ggml.model": "llama"}, FormatError),
        ({"tokenizer.ggml.model": "bert"}, FormatError),
        ({"tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.bos_token_id": 9}, FormatError),
    ):
        with pytest.raises(error):
            from_gguf({**good, **change})


@pytest.mark.skipif(not MODEL.exists(), reason="the shared models are not there")
@pytest.mark.parametrize("kind", ["sentencepiece", "llama2c", "text"])
def test_changed_bytes(kind: str) -> None:
    """Only our errors, whatever is in the files."""
    read = {"sentencepiece": from_sentencepiece, "llama2c": from_llama2c, "text": from_mnn_text}[kind]
    data = MODEL.read_bytes() if kind == "sentencepiece" else (STORIES / "tok512.bin").read_bytes()
    if kind == "text":
        data = to_mnn_text(from_sentencepiece(MODEL.read_bytes()))
    rng = random.Random(5)
    for _ in range(60):
        changed = bytearray(data)
        for _ in range(rng.randint(1, 8)):
            changed[rng.randrange(len(changed))] = rng.choice([0, 255, 10, 32, rng.randrange(256)])
        try:
            tokenizer(read(bytes(changed[: rng.choice([len(changed), rng.randrange(len(changed))])]))).encode("One day")
        except MinnowError:
            continue
        except struct.error as e:
            raise AssertionError from e
