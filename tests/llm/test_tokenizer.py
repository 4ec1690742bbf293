"""Tokenizers: the same ids and texts as llama.cpp has recorded, and as the package `tokenizers` gives."""

from __future__ import annotations

import itertools
import json
import random
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import tokenizers
import vocabularies
from sampling import one_in
from vocabularies import NAMES, random_text, tokenizer_json, vectors

from minnow.llm.tokenizer import Tokenizer
from minnow.schema.errors import FormatError, UnsupportedError

TEXTS = [random_text(random.Random(seed), old=True) for seed in range(400)]


def built(**parts: Any) -> str:
    """A tokenizer.json; the model has a token for each character up to U+00FF, if no other is given."""
    model = {"type": "BPE", "vocab": {chr(c): c for c in range(256)}, "merges": []}
    return json.dumps({"version": "1.0", "added_tokens": [], "model": model, **parts})


def same(text: str, texts: list[str] = TEXTS, **more: Any) -> None:
    """Ours and the package's tokenizer agree on texts, and so does the text of each id alone."""
    ours, theirs = Tokenizer.from_json(text, engine="minnow"), tokenizers.Tokenizer.from_str(text)
    for sample in texts:
        found = theirs.encode(sample, **more)
        assert ours.encode(sample, special=more.get("add_special_tokens", True)) == found.ids, sample
        if '"normalized": true' not in text:  # the package decodes those tokens to what the normalizer makes of them
            assert ours.decode(found.ids) == theirs.decode(found.ids), sample


@pytest.mark.sampled(4)
@pytest.mark.parametrize("engine", ["minnow", "tokenizers"])
@pytest.mark.parametrize("name", NAMES)
def test_recorded_vectors(name: str, engine: Any) -> None:
    tokenizer = Tokenizer.from_json(tokenizer_json(name), name, engine)
    assert tokenizer.engine == engine
    pairs = vectors(name)
    assert len(pairs) > 40
    for text, ids in pairs:
        assert tokenizer.encode(text, special=False) == ids, text


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NAMES)
def test_random_texts_as_the_package_has_them(name: str) -> None:
    compare(name, 300)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_hundred_thousand_random_texts(name: str) -> None:
    compare(name, 100_000)


def compare(name: str, count: int) -> None:
    """Ids, texts of any ids, and texts that stream."""
    text = tokenizer_json(name)
    ours, theirs = Tokenizer.from_json(text, name, "minnow"), Tokenizer.from_json(text, name, "tokenizers")
    reference, rng = tokenizers.Tokenizer.from_str(text), random.Random(0)
    for _ in range(count):
        sample = random_text(rng, old="bert" in name)  # the package's classes for BERT are of an older Unicode
        special, parse = rng.random() < 0.5, rng.random() < 0.5
        ids = ours.encode(sample, special=special, parse=parse)
        assert ids == theirs.encode(sample, special=special, parse=parse), sample
        if rng.random() < 0.3:
            ids = [rng.randrange(ours.size) for _ in range(rng.randint(0, 12))]
        whole = ours.decode(ids, skip_special=special)
        assert whole == reference.decode(ids, skip_special_tokens=special), ids
        stream = ours.stream(skip_special=special)
        parts = [stream.push(id) for id in ids] + [stream.finish()]
        if "<0x" not in "".join(ours.token(id) or "" for id in ids):
            assert "".join(parts) == whole, ids


STRIP = {"type": "Strip", "strip_left": True, "strip_right": True}
NORMALIZERS: list[dict[str, Any]] = [
    *({"type": kind} for kind in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "ByteLevel")),
    {"type": "Prepend", "prepend": "_"},
    {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
    {"type": "Replace", "pattern": {"Regex": r"\s+|\d"}, "content": "$1\\"},
    {"type": "Strip", "strip_left": True, "strip_right": False},
    STRIP,
    *(
        {"type": "BertNormalizer", "clean_text": a, "handle_chinese_chars": b, "strip_accents": c, "lowercase": d}
        for a, b, c, d in itertools.product((True, False), (True, False), (None, True, False), (True, False))
    ),
    {"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Lowercase"}, STRIP]},
]
BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
SPLITS = [
    *(r"^ +", r" +$", r"\s+\z", r"\h+", r"[\hx中]+", r"\A ", r"\s+\Z", r"(?m:a.b)", r"[a-z&&[^aeiou]]+"),
    r"\s+(?!\S)|\s+",
    r"\p{N}{1,3}",
    r"(?i:'s|'t|'re)| ?\p{L}+",
    r"[^\r\n\p{L}\p{N}]?\p{L}+",
    "[一-龥ぁ-ゟ]+",
    r"\p{Lu}",
]
PRE_TOKENIZERS: list[dict[str, Any]] = [
    *({"type": kind} for kind in ("BertPreTokenizer", "Whitespace", "WhitespaceSplit")),
    *({"type": "Digits", "individual_digits": flag} for flag in (True, False)),
    *({"type": "Punctuation", "behavior": behavior} for behavior in BEHAVIORS),
    {"type": "CharDelimiterSplit", "delimiter": "a"},
    *(
        {"type": "ByteLevel", "add_prefix_space": a, "trim_offsets": True, "use_regex": b}
        for a, b in itertools.product((True, False), (True, False))
    ),
    *(
        {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split}
        for scheme, split in itertools.product(("always", "first", "never"), (True, False))
    ),
    *(
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert}
        for pattern, behavior, invert in itertools.product(SPLITS, BEHAVIORS, (True, False))
    ),
    {"type": "Split", "pattern": {"String": "."}, "behavior": "Isolated", "invert": False},
    {
        "type": "Sequence",
        "pretokenizers": [{"type": "Whitespace"}, {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first"}],
    },
]
FALLBACK = [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]
DECODERS: list[dict[str, Any]] = [
    {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
    *({"type": kind} for kind in ("ByteFallback", "Fuse")),
    *({"type": "WordPiece", "prefix": "##", "cleanup": flag} for flag in (True, False)),
    *({"type": "Metaspace", "replacement": "▁", "prepend_scheme": s} for s in ("always", "first", "never")),
    *({"type": "Strip", "content": "▁", "start": a, "stop": b} for a, b in ((0, 0), (1, 0), (0, 2), (2, 1))),
    {"type": "Replace", "pattern": {"Regex": "[ab]+"}, "content": "-"},
    *(
        {"type": "Sequence", "decoders": [*FALLBACK, {"type": "Strip", "content": " ", "start": a, "stop": b}]}
        for a, b in ((1, 0), (0, 1), (2, 2))
    ),
    {
        "type": "Sequence",
        "decoders": [{"type": "Fuse"}, {"type": "Replace", "pattern": {"String": "▁a"}, "content": "X"}],
    },
    {
        "type": "Sequence",
        "decoders": [{"type": "Fuse"}, {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}],
    },
    {
        "type": "Sequence",
        "decoders": [{"type": "Fuse"}, {"type": "ByteFallback"}, {"type": "WordPiece", "prefix": "x", "cleanup": True}],
    },
]


def _name(part: dict[str, Any]) -> str:
    return str(part["type"])


@pytest.mark.parametrize("part", NORMALIZERS, ids=_name)
def test_normalizers(part: dict[str, Any]) -> None:
    text = built(normalizer=part)
    ours, theirs = Tokenizer.from_json(text, engine="minnow"), tokenizers.Tokenizer.from_str(text).normalizer
    for sample in TEXTS:
        assert ours._normalize(sample) == theirs.normalize_str(sample), sample


@pytest.mark.sampled(4)
@pytest.mark.parametrize("part", PRE_TOKENIZERS, ids=_name)
def test_pre_tokenizers(part: dict[str, Any]) -> None:
    text = built(pre_tokenizer=part)
    ours, theirs = Tokenizer.from_json(text, engine="minnow"), tokenizers.Tokenizer.from_str(text).pre_tokenizer
    for sample in filter(None, TEXTS[:: one_in(4)]):
        found = [piece for piece, _ in ours._split([(sample, True)]) if piece]
        assert found == [piece for piece, _ in theirs.pre_tokenize_str(sample) if piece], sample


@pytest.mark.parametrize("part", DECODERS, ids=lambda part: "-".join(map(_name, part.get("decoders", [part]))))
def test_decoders(part: dict[str, Any]) -> None:
    tokens = [
        "a",
        "▁",
        "▁a",
        "ab▁",
        "##b",
        "<0xE4>",
        "<0xB8>",
        "<0xAD>",
        "<0x41>",
        "Ġ",
        "é",
        ".",
        "'s",
        "n't",
        "▁▁",
        "x",
    ]
    text = built(decoder=part, model={"type": "BPE", "vocab": {t: i for i, t in enumerate(tokens)}, "merges": []})
    ours, theirs = Tokenizer.from_json(text, engine="minnow"), tokenizers.Tokenizer.from_str(text)
    rng = random.Random(1)
    compared = 0
    for _ in range(300):
        ids = [rng.randrange(len(tokens)) for _ in range(rng.randint(0, 9))]
        try:
            expected = theirs.decode(ids)
        except BaseException as e:
            if type(e).__name__ == "PanicException":  # the package's Strip cannot strip more than there is
                continue
            raise
        assert ours.decode(ids) == expected, [tokens[id] for id in ids]
        compared += 1
    assert compared > 10


def test_no_decoder_puts_spaces_between_tokens() -> None:
    same(built(), [sample.encode("latin-1", "ignore").decode("latin-1") for sample in TEXTS[:50]])


MARKS = ["<s>", "</s>", "<unk>", "foo", "foo bar", "Bar", " x", "中", "<|a|>"]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("normalizer", [None, NORMALIZERS[4], NORMALIZERS[7], NORMALIZERS[8]], ids=str)
@pytest.mark.parametrize("flags", list(itertools.product((True, False), repeat=4)), ids=str)
def test_added_tokens(flags: tuple[bool, ...], normalizer: dict[str, Any] | None) -> None:
    keys = ("single_word", "lstrip", "rstrip", "normalized")
    added = [
        {"id": 256 + i, "content": mark, "special": i < 3, **dict(zip(keys, flags, strict=True))}
        for i, mark in enumerate(MARKS)
    ]
    rng = random.Random(2)
    parts = [*MARKS, " ", "  ", "\n", "a", "FOO", "_", "é", "foofoo", "bar", "."]
    samples = ["".join(rng.choice(parts) for _ in range(rng.randint(0, 8))) for _ in range(150)]
    same(built(added_tokens=added, normalizer=normalizer), samples)


@pytest.mark.parametrize("kind", ["bpe", "prefix", "whole", "fallback", "unknown", "fused"])
def test_trained_bpe(kind: str) -> None:
    more = {"prefix": {"continuing_subword_prefix": "##"}, "whole": {"ignore_merges": True}}.get(kind, {})
    more |= {"unknown": {"unk_token": "<u>"}, "fused": {"unk_token": "<u>", "fuse_unk": True}}.get(kind, {})
    trained = tokenizers.Tokenizer(tokenizers.models.BPE(**more))
    trained.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)] if kind == "fallback" else []
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=700, show_progress=False, special_tokens=["<u>"], initial_alphabet=[],
        **({"continuing_subword_prefix": "##"} if kind == "prefix" else {}),
    )  # fmt: skip
    trained.train_from_iterator([*TEXTS[:100], "banana bandana ananas " * 3], trainer)
    data = json.loads(trained.to_str())
    for byte in bytes_:
        data["model"]["vocab"].setdefault(byte, len(data["model"]["vocab"]))
    data["model"]["byte_fallback"] = bool(bytes_)
    for split in ({"type": "WhitespaceSplit"}, None):
        text = json.dumps({**data, "pre_tokenizer": split})
        same(text, [*TEXTS, "banana" * 40, "ananabandana " * 20, "💥banana" * 9])


@pytest.mark.parametrize("fallback", [True, False])
def test_trained_unigram(fallback: bool) -> None:
    trained = tokenizers.Tokenizer(tokenizers.models.Unigram())
    trained.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    marks = ["<u>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = tokenizers.trainers.UnigramTrainer(
        vocab_size=2500, show_progress=False, special_tokens=marks if fallback else marks[:1], unk_token="<u>"
    )
    trained.train_from_iterator([*TEXTS[:100], "banana bandana ananas " * 3], trainer)
    data = json.loads(trained.to_str())
    data["model"]["byte_fallback"], data["added_tokens"] = fallback, data["added_tokens"][:1]
    same(json.dumps(data), [*TEXTS, "banana" * 40, "ananabandana " * 20])
    data["pre_tokenizer"] = None
    same(json.dumps(data))


def test_trained_wordpiece() -> None:
    trained = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
    trained.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    trained.decoder = tokenizers.decoders.WordPiece()
    trainer = tokenizers.trainers.WordPieceTrainer(vocab_size=500, show_progress=False, special_tokens=["[UNK]"])
    trained.train_from_iterator([*TEXTS[:100], "banana bandana ananas " * 3], trainer)
    same(trained.to_str(), [*TEXTS, "banana" * 30, "a" * 101])


TEMPLATE = {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 1}}],
    "pair": [{"Sequence": {"id": "B", "type_id": 1}}, {"SpecialToken": {"id": "<s>", "type_id": 2}},
             {"Sequence": {"id": "A", "type_id": 0}}],
    "special_tokens": {"<s>": {"id": "<s>", "ids": [1, 2], "tokens": ["a", "b"]}},
}  # fmt: skip


@pytest.mark.parametrize(
    "part",
    [
        TEMPLATE,
        {"type": "BertProcessing", "sep": ["b", 98], "cls": ["a", 97]},
        {
            "type": "RobertaProcessing",
            "sep": ["b", 98],
            "cls": ["a", 97],
            "trim_offsets": True,
            "add_prefix_space": True,
        },
        {
            "type": "Sequence",
            "processors": [{"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True}, TEMPLATE],
        },
        None,
    ],
    ids=str,
)
def test_post_processors(part: dict[str, Any] | None) -> None:
    text = built(post_processor=part)
    ours, theirs = Tokenizer.from_json(text, engine="minnow"), tokenizers.Tokenizer.from_str(text)
    package = Tokenizer.from_json(text, engine="tokenizers")
    for texts in itertools.product(("", "xy", "z"), (None, "", "uv")):
        for special in (True, False):
            given = [t for t in texts if t is not None]
            found = theirs.encode(*given, add_special_tokens=special)
            assert ours.encode_pair(*given, special=special) == (found.ids, found.type_ids), texts
            assert package.encode_pair(*given, special=special) == (found.ids, found.type_ids), texts


@pytest.mark.parametrize("name", [n for n in NAMES if n in ("gpt-2", "llama-spm")])
def test_a_stream_never_ends_within_a_character(name: str) -> None:
    tokenizer = Tokenizer.from_json(tokenizer_json(name), engine="minnow")
    text = "naïve 中文字 👨\u200d👩\u200d👧 🏳️\u200d🌈 हिन्दी 𓀀𓀁 done"
    ids = tokenizer.encode(text, special=False)
    stream = tokenizer.stream()
    parts = [stream.push(id) for id in ids]
    assert "".join(parts) + stream.finish() == text
    assert not any("\ufffd" in part for part in parts)
    assert len([part for part in parts if not part]) > 5, "no character has several tokens"
    cut = tokenizer.encode("𓀀", special=False)[:-1]
    stream = tokenizer.stream()
    assert [stream.push(id) for id in cut][-1] in ("", " ")
    assert set(stream.finish()) == {"\ufffd"}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NAMES)
def test_the_bytes_of_tokens_make_up_the_text(name: str) -> None:
    tokenizer = Tokenizer.from_json(tokenizer_json(name), engine="minnow")
    text = "naïve 中文字 👨\u200d👩 x" if "bert" not in name else "the quick brown fox"
    found = b"".join(map(tokenizer.token_bytes, tokenizer.encode(text, special=False))).decode()
    assert found.removeprefix(" ") == text


@pytest.mark.parametrize("engine", ["minnow", "tokenizers"])
def test_halves_of_surrogate_pairs_are_no_error(engine: Any) -> None:
    tokenizer = Tokenizer.from_json(
        built(pre_tokenizer={"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}), engine=engine
    )
    assert tokenizer.encode("a\ud83d\ude00") == tokenizer.encode("a😀")
    assert tokenizer.encode("\ud83d!") == tokenizer.encode("\ufffd!")


def test_special_tokens_in_the_texts_of_strangers() -> None:
    for engine in ("minnow", "tokenizers"):
        tokenizer = Tokenizer.from_json(tokenizer_json("gpt-2"), engine=engine)  # type: ignore[arg-type]
        assert tokenizer.encode("<|endoftext|>") == [50256]
        spelled = tokenizer.encode("<|endoftext|>", parse=False)
        assert 50256 not in spelled
        assert tokenizer.decode(spelled) == "<|endoftext|>"
        assert tokenizer.decode([50256]) == ""
        assert tokenizer.decode([50256], skip_special=False) == "<|endoftext|>"


@pytest.mark.sampled(6)
@pytest.mark.parametrize("piece", ["a", "ab", "=", "中", "\n", " "])
@pytest.mark.parametrize("name", [n for n in NAMES if n in ("gpt-2", "llama-spm", "bert-bge")])
def test_time_grows_with_the_length(name: str, piece: str) -> None:
    """A long run of one character is a single piece for most expressions; merging all of it takes n log n."""
    tokenizer = Tokenizer.from_json(tokenizer_json(name), engine="minnow")
    tokenizer.encode(piece * 100)

    def seconds(n: int) -> float:
        start = time.process_time()
        assert tokenizer.encode(piece * n)
        return time.process_time() - start

    small = min(seconds(4000) for _ in range(3))
    assert min(seconds(32_000) for _ in range(2)) < 24 * small + 0.05


def test_expressions_that_never_end_are_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minnow.llm.tokenizer.pattern.SECONDS", 0.2)
    split = {"type": "Split", "pattern": {"Regex": "(a|aa)+$"}, "behavior": "Isolated", "invert": False}
    tokenizer = Tokenizer.from_json(built(pre_tokenizer=split), engine="minnow")
    with pytest.raises(FormatError, match="too long"):
        tokenizer.encode("a" * 60 + "b")


@pytest.mark.parametrize(
    ("part", "error"),
    [
        ({"normalizer": {"type": "Nmt2"}}, UnsupportedError),
        ({"normalizer": {"type": "Sequence", "normalizers": [{"type": "Replace", "pattern": {}}]}}, FormatError),
        ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAA"}}, FormatError),
        ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "////fw=="}}, FormatError),
        ({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated"}}, FormatError),
        ({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "a"}, "behavior": "Merged"}}, FormatError),
        ({"added_tokens": [{"id": -1, "content": "x"}]}, FormatError),
        ({"added_tokens": [{"id": 1 << 40, "content": "x"}]}, FormatError),
        ({"model": {"type": "BPE", "vocab": {"a": "b"}, "merges": []}}, FormatError),
        ({"model": {"type": "BPE", "vocab": {"a": 1}, "merges": ["a b"]}}, FormatError),
        ({"model": {"type": "BPE", "vocab": {"a": 1}, "merges": [["a"]]}}, FormatError),
        ({"model": {"type": "WordPiece", "vocab": {"a": 1}}}, FormatError),
        ({"model": {"type": "Unigram", "vocab": [["a", "b"]]}}, FormatError),
        ({"model": {"type": "Unigram", "vocab": [["a", 1.0]], "unk_id": 7}}, FormatError),
        ({"model": None}, FormatError),
        ({"post_processor": {**TEMPLATE, "special_tokens": {}}}, FormatError),
    ],
    ids=str,
)
def test_bad_files(part: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error) as raised:
        Tokenizer.from_json(built(**part), engine="minnow").encode("a")
    assert "tokenizer.json" in str(raised.value)


def test_text_that_is_no_tokenizer() -> None:
    for text in (b"", b"[]", b"\xff", b"[" * 100_000, b'{"model": 1}', b'{"added_tokens": [1], "model": {}}'):
        with pytest.raises((FormatError, UnsupportedError)):
            Tokenizer.from_json(text, engine="minnow")


def test_the_package_reads_real_files_that_are_ours() -> None:
    assert Tokenizer.from_json(tokenizer_json("gpt-2")).engine == "tokenizers"
    assert {"gpt-2", "llama-spm", "bert-bge"} <= set(vocabularies.NAMES)


def test_threads_that_bring_the_first_texts() -> None:
    """One of them waits while the other has the package read the file."""
    tokenizer = Tokenizer.from_json(tokenizer_json("gpt-2"))
    want = Tokenizer.from_json(tokenizer_json("gpt-2"), engine="tokenizers").encode("two threads")
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(tokenizer.encode, ["two threads"] * 8))
    assert found == [want] * 8
    assert tokenizer.engine == "tokenizers"
