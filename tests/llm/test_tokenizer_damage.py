"""A tokenizer.json with something wrong in it: read and used as it is, or refused with our errors, and soon."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest
import test_tokenizer as parts

from minnow.llm.tokenizer import Tokenizer, pattern
from minnow.schema.errors import FormatError, UnsupportedError

VALUES = [
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        2**31,
        2**70,
        1.5,
        float("nan"),
        "",
        "a",
        "▁",
        "(",
        "a" * 5000,
        "\ud800",
        [],
        {},
        [[]],
    ),
    *({"type": "Sequence"}, [["a"]], "Regex", "ByteLevel", "(a+)+$", "[", "\\", "<0x41>"),
]
MODELS: list[dict[str, Any]] = [
    {"type": "Unigram", "unk_id": 0, "vocab": [["a", -1.0], ["b", -2], ["ab", -0.5]], "byte_fallback": False},
    {"type": "WordPiece", "unk_token": "a", "vocab": {"a": 0, "##b": 1}, "max_input_chars_per_word": 9},
    {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "abab": 3}, "merges": ["a b", ["ab", "ab"]], "unk_token": "a"},
]
MARK = {"id": 4, "content": "<x>", "special": True, "lstrip": True, "single_word": True, "normalized": False}


def files() -> list[dict[str, Any]]:
    pipelines = zip(parts.NORMALIZERS * 3, parts.PRE_TOKENIZERS, parts.DECODERS * 5, strict=False)
    made = [
        {"normalizer": normalizer, "pre_tokenizer": split, "decoder": decoder, "post_processor": parts.TEMPLATE}
        for normalizer, split, decoder in pipelines
    ]
    made += [{"model": model, "added_tokens": [MARK]} for model in MODELS]
    return [json.loads(parts.built(**more)) for more in made]


def places(value: Any, rng: random.Random) -> Iterator[tuple[Any, Any]]:
    """All objects and lists within a value, each with a key; of large ones some keys."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    for key in rng.sample(keys, min(len(keys), 40)):
        yield value, key
        yield from places(value[key], rng)


def damaged(whole: dict[str, Any], rng: random.Random) -> str:
    for _ in range(rng.randint(1, 3)):
        inside, key = rng.choice(list(places(whole, rng)))
        kind, copy = rng.random(), json.loads(json.dumps(inside[key]))
        if kind < 0.6:
            inside[key] = json.loads(json.dumps(rng.choice(VALUES)))
        elif kind < 0.8:
            del inside[key]
        elif isinstance(inside, dict):
            inside[rng.choice(["type", "pattern", "content", "id"])] = copy
        else:
            inside.append(copy)
        if not whole:
            break
    text = json.dumps(whole)
    at = rng.randrange(len(text))
    return text if rng.random() < 0.9 else text[:at] + rng.choice('{}[]",:x') + text[at + 1 :]


def use(seed: int, count: int) -> None:
    rng, sources, read = random.Random(seed), [json.dumps(file) for file in files()], 0
    for _ in range(count):
        text, start = damaged(json.loads(rng.choice(sources)), rng), time.process_time()
        try:
            tokenizer = Tokenizer.from_json(text, engine="minnow")
            for sample in ("ab <x> abab 中 é", "a" * 50):
                ids = tokenizer.encode(sample, sample)
                tokenizer.decode(ids)
                stream = tokenizer.stream()
                assert isinstance(stream.push(*ids) + stream.finish(), str)
                assert all(isinstance(tokenizer.token_bytes(id), bytes) for id in ids)
            read += 1
        except (FormatError, UnsupportedError):
            pass
        assert time.process_time() - start < 5, text
    assert 0 < read < count


def test_damaged_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pattern, "SECONDS", 0.5)
    use(0, 150)


@pytest.mark.slow
def test_ten_thousand_damaged_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pattern, "SECONDS", 0.5)
    use(1, 10_000)


@pytest.mark.parametrize("special", [{}, {"added_tokens": [{"id": 1, "content": "b\udfff", "special": False}]}])
def test_the_bytes_of_half_a_surrogate_pair_are_a_replacement_character(special: dict[str, Any]) -> None:
    model = {"type": "BPE", "vocab": {"a\ud800": 0}, "merges": []}
    tokenizer = Tokenizer.from_json(
        json.dumps({"model": model, "decoder": {"type": "Fuse"}, **special}), engine="minnow"
    )
    assert tokenizer.token_bytes(0) == "a\ufffd".encode()
    assert tokenizer.token_bytes(1) == ("b\ufffd".encode() if special else b"")
