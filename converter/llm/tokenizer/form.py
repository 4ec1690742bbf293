"""Builds the JSON of a tokenizer.json from what other formats have: vocabularies, scores, merges, kinds of tokens."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

import numpy as np

from minnow.schema.errors import FormatError

MARK = "▁"
"""What stands for a space in the vocabularies of SentencePiece."""

Json = dict[str, Any]


class TokenKind(IntEnum):
    """What a token is, in the numbers of SentencePiece and GGUF."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


def whole(
    model: Json,
    *,
    added: Sequence[Json] = (),
    normalizer: Sequence[Json] = (),
    pre_tokenizer: Sequence[Json] = (),
    post_processor: Json | None = None,
    decoder: Sequence[Json] = (),
) -> Json:
    """The JSON of a tokenizer; steps that follow each other become one of the type Sequence."""
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": list(added),
        "normalizer": _sequence(normalizer, "normalizers"),
        "pre_tokenizer": _sequence(pre_tokenizer, "pretokenizers"),
        "post_processor": post_processor,
        "decoder": _sequence(decoder, "decoders"),
        "model": model,
    }


def _sequence(steps: Sequence[Json], key: str) -> Json | None:
    if len(steps) < 2:
        return steps[0] if steps else None
    return {"type": "Sequence", key: list(steps)}


def added_token(id: int, content: str, *, special: bool, normalized: bool = False, **more: bool) -> Json:
    """An entry of `added_tokens`; `more` are single_word, lstrip and rstrip."""
    flags = {"single_word": False, "lstrip": False, "rstrip": False, **more}
    return {"id": id, "content": content, **flags, "normalized": normalized, "special": special}


def added_tokens(tokens: Sequence[str], kinds: Sequence[int]) -> list[Json]:
    """The entries for tokens that are marks or that users have defined."""
    found = {}
    for id, (token, kind) in enumerate(zip(tokens, kinds, strict=True)):
        if kind in (TokenKind.UNKNOWN, TokenKind.CONTROL, TokenKind.USER_DEFINED) and token:
            found[token] = added_token(id, token, special=kind != TokenKind.USER_DEFINED)
    return sorted(found.values(), key=lambda entry: int(entry["id"]))


def byte_level_bpe(tokens: Sequence[str], merges: Sequence[Any], *, ignore_merges: bool = False) -> Json:
    """The model of GPT-2's kind: bytes in their alphabet."""
    return _bpe(tokens, merges, ignore_merges=ignore_merges)


def scored_bpe(tokens: Sequence[str], scores: Sequence[float], kinds: Sequence[int]) -> Json:
    """The model of Llama's kind: two tokens merge if the result has the best score of all that are possible."""
    unknown = next((tokens[i] for i, kind in enumerate(kinds) if kind == TokenKind.UNKNOWN), None)
    merges = scored_merges(tokens, scores, kinds)
    fallback = any(kind == TokenKind.BYTE for kind in kinds)
    return _bpe(tokens, merges, unk_token=unknown, fuse_unk=True, byte_fallback=fallback)


def unigram(tokens: Sequence[str], scores: Sequence[float], kinds: Sequence[int]) -> Json:
    """The model of T5's kind."""
    unknown = next((i for i, kind in enumerate(kinds) if kind == TokenKind.UNKNOWN), None)
    fallback = any(kind == TokenKind.BYTE for kind in kinds)
    pairs = [[token, float(score)] for token, score in zip(tokens, scores, strict=True)]
    return {"type": "Unigram", "unk_id": unknown, "vocab": pairs, "byte_fallback": fallback}


def wordpiece(tokens: Sequence[str], unknown: str) -> Json:
    """The model of BERT's kind."""
    model = {"type": "WordPiece", "unk_token": unknown, "continuing_subword_prefix": "##"}
    return {**model, "max_input_chars_per_word": 100, "vocab": vocabulary(tokens)}


def vocabulary(tokens: Sequence[str]) -> dict[str, int]:
    """The id of each token; of equal ones the first."""
    found: dict[str, int] = {}
    for id, token in enumerate(tokens):
        found.setdefault(token, id)
    return found


def _bpe(tokens: Sequence[str], merges: Sequence[Any], **more: Any) -> Json:
    plain = {"dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None}
    flags = {"fuse_unk": False, "byte_fallback": False, "ignore_merges": False}
    return {"type": "BPE", **plain, **flags, **more, "vocab": vocabulary(tokens), "merges": list(merges)}


def scored_merges(tokens: Sequence[str], scores: Sequence[float], kinds: Sequence[int]) -> list[list[str]]:
    """All pairs of tokens that make a token, those with the best scores first."""
    joins = (TokenKind.NORMAL, TokenKind.USER_DEFINED, TokenKind.UNUSED)
    ids = {token: id for id, token in enumerate(tokens) if kinds[id] in joins}
    found = []
    for token, id in ids.items():
        for at in range(1, min(len(token), _LONGEST_MERGED)):
            left, right = token[:at], token[at:]
            if left in ids and right in ids:
                found.append((-scores[id], -at, at - len(token), ids[left], ids[right], left, right))
    found.sort()
    return [[left, right] for *_, left, right in found]


_LONGEST_MERGED = 1024


def template(before: Sequence[tuple[str, int]], after: Sequence[tuple[str, int]] = ()) -> Json | None:
    """The post-processor that puts tokens around each text; None if there are none."""
    if not before and not after:
        return None
    ids = {token: {"id": token, "ids": [id], "tokens": [token]} for token, id in (*before, *after)}

    def around(text: str, kind: int) -> list[Json]:
        row = [{"SpecialToken": {"id": token, "type_id": kind}} for token, _ in before]
        row.append({"Sequence": {"id": text, "type_id": kind}})
        return row + [{"SpecialToken": {"id": token, "type_id": kind}} for token, _ in after]

    single = around("A", 0)
    return {"type": "TemplateProcessing", "single": single, "pair": single + around("B", 1), "special_tokens": ids}


def bert_template(cls: tuple[str, int], sep: tuple[str, int]) -> Json:
    """The post-processor of BERT: a mark at the beginning, and one after each text."""
    found = template([cls], [sep])
    assert found is not None
    del found["pair"][len(found["single"])]
    return found


def spaces_as_marks(*, prefix: bool) -> tuple[list[Json], list[Json]]:
    """The normalizers and decoders of vocabularies where a mark stands for a space.

    Args:
        prefix: a text, and what follows a special token, begins with a mark.
    """
    before: list[Json] = [{"type": "Prepend", "prepend": MARK}] if prefix else []
    before.append({"type": "Replace", "pattern": {"String": " "}, "content": MARK})
    after: list[Json] = [{"type": "Replace", "pattern": {"String": MARK}, "content": " "}]
    after += [{"type": "ByteFallback"}, {"type": "Fuse"}]
    if prefix:
        after.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    return before, after


def clean(*, charsmap: bytes = b"", single: bool = False) -> list[Json]:
    """The normalizers that come before all others.

    Args:
        charsmap: a table of replacements, as SentencePiece has it.
        single: leave out spaces at both ends, and all but one of several.
    """
    steps: list[Json] = []
    if charsmap:
        steps.append({"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode()})
    if single:
        steps.append({"type": "Replace", "pattern": {"Regex": r"\A +| +(?![^ ])"}, "content": ""})
    return steps


def metaspace(*, prefix: bool) -> Json:
    """The pre-tokenizer, and the decoder, of vocabularies where a mark stands for a space and begins words."""
    scheme = "always" if prefix else "never"
    return {"type": "Metaspace", "replacement": MARK, "prepend_scheme": scheme, "split": True}


def bert(tokens: Sequence[str], kinds: Sequence[int] = (), *, lowercase: bool = True) -> Json:
    """The tokenizer of BERT for its vocabulary, whose special tokens have BERT's names."""
    ids = vocabulary(tokens)
    marks = [token for token in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]") if token in ids]
    if not {"[UNK]", "[CLS]", "[SEP]"} <= set(marks):
        raise FormatError("the vocabulary has no [UNK], [CLS] or [SEP]")
    added = [added_token(ids[token], token, special=True) for token in sorted(marks, key=ids.__getitem__)]
    return whole(
        wordpiece(tokens, "[UNK]"),
        added=added_tokens(tokens, kinds) if kinds else added,
        normalizer=[bert_normalizer(lowercase=lowercase)],
        pre_tokenizer=[{"type": "BertPreTokenizer"}],
        post_processor=bert_template(("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])),
        decoder=[{"type": "WordPiece", "prefix": "##", "cleanup": True}],
    )


def clip(ids: Mapping[str, int], merges: Sequence[str]) -> Json:
    """The tokenizer of CLIP for its vocabulary: words without the spaces between them, in small letters."""
    marks = ("<|startoftext|>", "<|endoftext|>")
    if not all(type(ids.get(mark)) is int for mark in marks):
        raise FormatError(f"the vocabulary has no {' or '.join(marks)}")
    words = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
    pattern = "|".join([*(re.escape(mark) for mark in marks), words])
    model = _bpe([], merges, unk_token=marks[1], continuing_subword_prefix="", end_of_word_suffix="</w>")
    return whole(
        {**model, "vocab": dict(ids)},
        added=[added_token(ids[mark], mark, special=True) for mark in marks],
        normalizer=[
            {"type": "NFC"},
            {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "},
            {"type": "Lowercase"},
        ],
        pre_tokenizer=[
            {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Removed", "invert": True},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        ],
        post_processor=template([(marks[0], ids[marks[0]])], [(marks[1], ids[marks[1]])]),
        decoder=[BYTE_LEVEL],
    )


def splits(patterns: Sequence[str], *, prefix: bool = False) -> list[Json]:
    """The pre-tokenizers that split by each expression in turn, and make bytes of the parts."""
    steps: list[Json] = [
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
        for pattern in patterns
    ]
    return [*steps, {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": False}]


BYTE_LEVEL: Json = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
"""The decoder of byte-level vocabularies; its settings are for other uses of the type."""


def bert_normalizer(*, lowercase: bool) -> Json:
    """The normalizer of BERT."""
    flags = {"clean_text": True, "handle_chinese_chars": True, "strip_accents": None}
    return {"type": "BertNormalizer", **flags, "lowercase": lowercase}


def checked(values: Mapping[str, Any], key: str, kind: type, count: int | None = None) -> list[Any]:
    """A list of metadata, all of one type. Raises FormatError for what is not."""
    found = values.get(key)
    if found is None:
        raise FormatError(f"the tokenizer has no '{key}'")
    items = found.tolist() if isinstance(found, np.ndarray) else list(found)
    if count is not None and len(items) != count:
        raise FormatError(f"'{key}' has {len(items)} entries, but there are {count} tokens")
    allowed = (int, float) if kind is float else kind
    if not all(isinstance(item, allowed) for item in items):
        raise FormatError(f"'{key}' has entries of the wrong type", why=f"{kind.__name__} is expected")
    return items
