"""Vocabularies of real models, with texts and the ids that another program gives for them."""

from __future__ import annotations

import functools
import json
import random
import struct
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from minnow.converter.llm.tokenizer.gguf import from_gguf

SHARED = Path(__file__).resolve().parents[3] / "shared" / "models" / "llm"
FOLDER = SHARED / "vocab"
NAMES = sorted(path.name[len("ggml-vocab-") : -len(".gguf")] for path in FOLDER.glob("*.gguf"))

_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


def metadata(path: Path) -> dict[str, Any]:
    """The keys and values of a GGUF file, read as its specification says."""
    data, at = path.read_bytes(), 8

    def number(code: str) -> Any:
        nonlocal at
        (value,) = struct.unpack_from("<" + code, data, at)
        at += struct.calcsize("<" + code)
        return value

    def text() -> str:
        nonlocal at
        size = number("Q")
        at += size
        return data[at - size : at].decode()

    def value(kind: int) -> Any:
        if kind == 8:
            return text()
        if kind == 9:
            inner, count = number("I"), number("Q")
            return [value(inner) for _ in range(count)]
        return number(_NUMBERS[kind])

    _, count = number("Q"), number("Q")
    return {text(): value(number("I")) for _ in range(count)}


@functools.cache
def tokenizer_json(name: str) -> str:
    """The tokenizer.json made of a vocabulary. A test that wants one is skipped without the shared models."""
    if not NAMES:
        pytest.skip("the shared models are not there")
    return json.dumps(from_gguf(metadata(FOLDER / f"ggml-vocab-{name}.gguf")), ensure_ascii=False)


def vectors(name: str) -> list[tuple[str, list[int]]]:
    """Texts with the ids that llama.cpp has recorded, without marks around them."""
    path = FOLDER / f"ggml-vocab-{name}.gguf"
    texts = path.with_suffix(".gguf.inp").read_bytes().decode().split("\n__ggml_vocab_test__\n")
    rows = path.with_suffix(".gguf.out").read_text().split("\n")
    return [(text, [int(id) for id in row.split()]) for text, row in zip(texts, rows, strict=False)]


_KNOWN = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000 and unicodedata.category(chr(c)) != "Cn"]
_OLD = [c for c in _KNOWN if unicodedata.ucd_3_2_0.category(c) == unicodedata.category(c)]
_WORDS = [
    "the", "quick", "brown", "fox", "don't", "I'll", "we've", "THEY'RE", "'s", "123", "4567", "3.14", "é",
    "é", "中文", "日本語", "한국어", "हिन्दी", "العربية", "```", "==", "##ing", "😀", "👨\u200d👩\u200d👧", "ﬁ", "½",
    "²", "İ", "Σ", "ς", "ſ", "ß", "<s>", "</s>", "<|endoftext|>", "<unk>", "[MASK]", "[CLS]", "▁", "▁▁",
    "<0x0A>",
]  # fmt: skip
_SPACES = [" ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", "\u3000", "\xa0", "\u200b", "\u200d", "\x00", "�", "\x1c"]


def random_text(rng: random.Random, old: bool = False) -> str:
    """Words, white space and characters from everywhere; `old`: only characters as Unicode 3.2 has them."""
    size, kind = rng.randint(0, 30), rng.random()
    everything = _OLD if old else _KNOWN
    if kind < 0.3:
        return "".join(rng.choice(everything) for _ in range(size))
    if kind < 0.45:
        return "".join(chr(rng.randint(32, 126)) for _ in range(size))
    if kind < 0.8:
        return rng.choice(["", " "]).join(rng.choice(rng.choice((_WORDS, _WORDS, _SPACES))) for _ in range(size))
    if kind < 0.9:
        return "".join(rng.choice("  \n\r\ta1.,!") for _ in range(size))
    low = rng.choice([0x20, 0x370, 0x3000, 0x1F300])
    return "".join(c for _ in range(size) if (c := chr(low + rng.randint(0, 0x2FF))) in (_OLD_SET if old else _SET))


_SET, _OLD_SET = frozenset(_KNOWN), frozenset(_OLD)
