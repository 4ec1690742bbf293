"""tokenizer.mtok, the vocabulary of newer MNN-LLM folders, as the steps of a tokenizer.json: read, and written.

Three lines of text, then bytes, in which numbers are little-endian:

430 4
SPECIAL STOP PREFIX          how many of each, and in the next line their ids
ids
normalizer, pre-tokenizer    u8: the kind, and what belongs to it; a sequence has u32 parts
model                        u8: the kind, u32: tokens; BPE has merges, too
decoder                      as the normalizer
added tokens                 u32, and for each u32 id, u8 special, u8 lstrip, u8 rstrip, text
chat template                u32 length and text; then u16 length and text of eos, u8 flags, bos as eos

Texts have a length of u16 in front. `mtok_writer` makes such files.
"""

from __future__ import annotations

import math
import struct
import unicodedata
from collections.abc import Callable
from typing import Any, Literal

from minnow.converter.llm.tokenizer import form
from minnow.converter.llm.tokenizer.form import Json
from minnow.schema.errors import FormatError, UnsupportedError

KIND = 4
"""What the first line says, where `mnn_text` has the others."""
BEHAVIORS = ("Isolated", "Removed", "MergedWithPrevious")
_DEEPEST = 8
_MOST_TOKENS = 1 << 22
_LIGATURE, _ANGSTROM = 0xFB01, 0x212B
"""Characters of which one form of Unicode makes others and another does not."""


def from_mtok(data: bytes) -> tuple[Json, str | None]:
    """The JSON of a tokenizer.json for a file, and the chat template in it.

    MNN's runtime does not have all settings of a tokenizer.json, so the file lacks them: they are as usual here.

    Raises:
        FormatError: the file is damaged.
        UnsupportedError: it has a table of characters that is none of Unicode's.
    """
    lines = data.split(b"\n", 3)
    try:
        counts = [int(number) for number in lines[1].split()]
        ids = [int(number) for number in lines[2].split()]
        body = lines[3]
    except (ValueError, IndexError):
        raise FormatError("the head of the .mtok file is damaged") from None
    if len(counts) != 3 or len(ids) != sum(counts) or min(counts) < 0:
        raise FormatError("the special tokens of the .mtok file are cut off")
    try:
        return _Reader(body).whole(ids[counts[0] + counts[1] :])
    except (UnicodeDecodeError, struct.error):
        raise FormatError("the .mtok file is cut off, or its texts are no UTF-8") from None


class _Reader:
    """The bytes behind the lines."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.of_bytes = False  # the model makes bytes of characters, and not a pre-tokenizer

    def whole(self, prefix: list[int]) -> tuple[Json, str | None]:
        normalizer = self._step(_NORMALIZERS, "normalizer")
        pre_tokenizer = self._step(_PRE_TOKENIZERS, "pre-tokenizer")
        kind = self.number("B")
        if kind not in _MODELS:
            raise FormatError(f"the .mtok file has a model of the kind {kind}")
        model = _MODELS[kind](self)
        if self.of_bytes:
            steps = pre_tokenizer["pretokenizers"] if pre_tokenizer and "pretokenizers" in pre_tokenizer else []
            steps = steps or ([pre_tokenizer] if pre_tokenizer else [])
            pre_tokenizer = {"type": "Sequence", "pretokenizers": [*steps, *form.splits([])]}
        decoder = self._step(_DECODERS, "decoder")
        added = [self._added() for _ in range(self.count(9))]
        if len({entry["id"] for entry in added}) != len(added):
            raise FormatError("two added tokens of the .mtok file have one id")
        template = self.raw(self.number("I")).decode() if self.at < len(self.data) else ""
        whole = form.whole(model, added=added, post_processor=form.template(_named(model, added, prefix)))
        return {**whole, "normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "decoder": decoder}, template or None

    def number(self, code: str) -> Any:
        (found,) = struct.unpack_from("<" + code, self.data, self.at)
        self.at += struct.calcsize("<" + code)
        return found

    def raw(self, size: int) -> bytes:
        if size > len(self.data) - self.at:
            raise struct.error
        self.at += size
        return self.data[self.at - size : self.at]

    def text(self) -> str:
        return self.raw(self.number("H")).decode()

    def count(self, each: int) -> int:
        """A number of things that have at least so many bytes."""
        found: int = self.number("I")
        if found > _MOST_TOKENS or found * each > len(self.data) - self.at:
            raise struct.error
        return found

    def flags(self, *names: str) -> Json:
        return {name: bool(self.number("B")) for name in names}

    def _step(self, kinds: dict[int, Callable[[_Reader], Json | None]], what: str, depth: int = 0) -> Json | None:
        kind = self.number("B")
        if kind == _SEQUENCES[what][0]:
            if depth == _DEEPEST:
                raise FormatError(f"a {what} of the .mtok file has too many levels")
            parts = [self._step(kinds, what, depth + 1) for _ in range(self.count(1))]
            return {"type": "Sequence", _SEQUENCES[what][1]: [part for part in parts if part is not None]}
        if kind not in kinds:
            raise FormatError(f"the .mtok file has a {what} of the kind {kind}")
        return kinds[kind](self)

    def _added(self) -> Json:
        id, flags, text = self.number("I"), self.flags("special", "lstrip", "rstrip"), self.text()
        return form.added_token(id, text, **flags)

    def table(self) -> Json:
        """The normalizer that has a table of characters: the form of Unicode's whose table it is."""
        table = {}
        for _ in range(self.count(6)):
            code = self.number("I")
            text = self.text()
            if code >= 0x110000 or 0xD800 <= code < 0xE000:
                raise FormatError("a table of characters of the .mtok file is damaged")
            table[code] = text
        name: Literal["NFC", "NFD", "NFKC"]
        name = "NFKC" if _LIGATURE in table else "NFD" if _ANGSTROM in table and len(table[_ANGSTROM]) > 1 else "NFC"
        # Newer ones than that of this Python have more characters.
        if any(
            unicodedata.normalize(name, chr(c)) != t and unicodedata.category(chr(c)) != "Cn" for c, t in table.items()
        ):
            raise UnsupportedError(
                "the table of characters in the .mtok file is of no form of Unicode's",
                hint="put the tokenizer.json of the checkpoint beside it",
            )
        return {"type": name}

    def bert(self) -> Json:
        flags = self.flags("clean_text", "handle_chinese_chars", "strip_accents", "lowercase")
        return {"type": "BertNormalizer", **flags}

    def bert_with_table(self) -> Json:
        found = self.bert()
        if found["strip_accents"]:
            self.table()
        return found

    def vocabulary(self, most: int) -> dict[str, int]:
        found = {}
        for _ in range(most):
            text = self.text()
            found[text] = self._id()
        if len(found) != most or len(set(found.values())) != most:
            raise FormatError("two tokens of the .mtok file are one")
        return found

    def _id(self) -> int:
        found: int = self.number("I")
        if found >= _MOST_TOKENS:
            raise FormatError(f"a token of the .mtok file has the id {found}")
        return found

    def bpe(self) -> Json:
        count = self.count(6)
        fallback, self.of_bytes, merges = bool(self.number("B")), bool(self.number("B")), self.count(12)
        vocabulary = self.vocabulary(count)
        tokens = {id: token for token, id in vocabulary.items()}
        rows = sorted(struct.iter_unpack("<III", self.raw(12 * merges)), key=lambda row: int(row[2]))
        if any(row[0] not in tokens or row[1] not in tokens for row in rows):
            raise FormatError("a merge of the .mtok file is of tokens that it does not have")
        pairs = [[tokens[row[0]], tokens[row[1]]] for row in rows]
        if any(left + right not in vocabulary for left, right in pairs):
            raise FormatError("a merge of the .mtok file makes a token that it does not have")
        return {**form.byte_level_bpe([], pairs), "vocab": vocabulary, "byte_fallback": fallback}

    def word_piece(self) -> Json:
        count = self.count(6)
        unknown, prefix, longest = self.text(), self.text(), self.number("I")
        vocabulary = self.vocabulary(count)
        if unknown not in vocabulary:
            raise FormatError(f"the .mtok file has no token {unknown[:40]!r}, which stands for unknown words")
        model = {**form.wordpiece([], unknown), "continuing_subword_prefix": prefix, "vocab": vocabulary}
        return {**model, "max_input_chars_per_word": longest}

    def unigram(self) -> Json:
        count = self.count(14)
        unknown, fallback = self.number("I"), bool(self.number("B"))
        rows: dict[int, list[Any]] = {}
        for _ in range(count):
            text, id, score = self.text(), self._id(), self.number("d")
            if not math.isfinite(score):
                raise FormatError("a score of the .mtok file is no number")
            rows[id] = [text, score]
        if sorted(rows) != list(range(count)):
            raise FormatError("the ids of the .mtok file are not those of a vocabulary")
        known = unknown if unknown < count else None
        pairs = [rows[id] for id in range(count)]
        return {"type": "Unigram", "unk_id": known, "vocab": pairs, "byte_fallback": fallback}


def _named(model: Json, added: list[Json], ids: list[int]) -> list[tuple[str, int]]:
    rows = model["vocab"]
    tokens = dict(enumerate(row[0] for row in rows)) if isinstance(rows, list) else {i: t for t, i in rows.items()}
    tokens.update((entry["id"], entry["content"]) for entry in added)
    if not all(id in tokens for id in ids):
        raise FormatError("a token in front of texts is not in the vocabulary")
    return [(tokens[id], id) for id in ids]


def _string(reader: _Reader) -> Json:
    return {"pattern": {"String": reader.text()}, "content": reader.text()}


def _split(reader: _Reader) -> Json:
    pattern, invert, behavior = reader.text(), bool(reader.number("B")), reader.number("B")
    if behavior >= len(BEHAVIORS):
        raise FormatError(f"the .mtok file splits in the way {behavior}")
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": BEHAVIORS[behavior], "invert": invert}


def _metaspace(reader: _Reader) -> Json:
    mark = reader.text()
    scheme = "always" if reader.number("B") else "never"
    return {"type": "Metaspace", "replacement": mark, "prepend_scheme": scheme, "split": True}


_SEQUENCES = {"normalizer": (4, "normalizers"), "pre-tokenizer": (6, "pretokenizers"), "decoder": (7, "decoders")}
_NORMALIZERS: dict[int, Callable[[_Reader], Json | None]] = {
    0: lambda _: None,
    1: lambda _: {"type": "NFKC"},
    2: lambda r: {"type": "Prepend", "prepend": r.text()},
    3: lambda r: {"type": "Replace", **_string(r)},
    5: _Reader.bert,
    6: _Reader.table,
    7: _Reader.bert_with_table,
    8: lambda r: {"type": "Strip", **r.flags("strip_left", "strip_right")},
}
_PRE_TOKENIZERS: dict[int, Callable[[_Reader], Json | None]] = {
    0: lambda _: None,
    1: lambda r: {**form.splits([])[0], **r.flags("use_regex")},
    2: lambda r: {"type": "Digits", **r.flags("individual_digits")},
    3: _metaspace,
    4: _split,
    5: lambda _: {"type": "BertPreTokenizer"},
}
_MODELS: dict[int, Callable[[_Reader], Json]] = {0: _Reader.bpe, 1: _Reader.word_piece, 2: _Reader.unigram}
_DECODERS: dict[int, Callable[[_Reader], Json | None]] = {
    0: lambda _: form.BYTE_LEVEL,
    1: lambda _: {"type": "ByteFallback"},
    2: _metaspace,
    3: lambda r: {"type": "WordPiece", "prefix": r.text(), **r.flags("cleanup")},
    4: lambda _: {"type": "Fuse"},
    5: lambda r: {"type": "Replace", **_string(r)},
    6: lambda r: {"type": "Strip", "content": r.text(), "start": r.number("I"), "stop": r.number("I")},
}
