"""The steps of a tokenizer.json as a tokenizer.mtok, which MNN's runtime reads."""

from __future__ import annotations

import re
import struct
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

from minnow.converter.llm.tokenizer.form import Json
from minnow.converter.llm.tokenizer.mnn_text import MAGIC
from minnow.converter.llm.tokenizer.mtok import BEHAVIORS, KIND
from minnow.schema.errors import UnsupportedError

_PUNCTUATION = r"[\p{P}$+<=>^`|~]"
_CASE = re.compile(r"\\p\{L[a-z]\}")
_CHARACTERS = 0x110000
_UNUSED = 1000
"""Ids without a token that any vocabulary may have."""


class Mtok:
    """A vocabulary as MNN's runtime has it.

    Attributes:
        lost: what MNN does otherwise than the source, as parts of a sentence.
    """

    def __init__(self, whole: Json) -> None:
        """Args:
            whole: the JSON of a tokenizer.json, which has been checked.

        Raises:
            UnsupportedError: MNN has no form for one of its steps.
        """
        self.lost: list[str] = []
        self._whole = whole
        self._tokens = [entry for entry in whole.get("added_tokens") or () if entry["content"]]
        self._body = b"".join(
            (
                self._step(whole.get("normalizer"), _NORMALIZERS, 4),
                self._step(whole.get("pre_tokenizer"), _PRE_TOKENIZERS, 6),
                self._model(),
                self._step(whole.get("decoder"), _DECODERS, 7, empty=b"\4"),
                self._added(),
            )
        )

    def content(
        self, *, stop: Sequence[int] = (), prefix: Sequence[int] = (), template: str = "", eos: str = "", bos: str = ""
    ) -> bytes:
        """The bytes of the file.

        Args:
            stop: tokens that end an answer.
            prefix: tokens in front of every text.
            template: of chats. eos, bos: texts that it uses.
        """
        special = [entry["id"] for entry in self._tokens if entry.get("special")]
        counts, ids = f"{len(special)} {len(stop)} {len(prefix)}", " ".join(map(str, [*special, *stop, *prefix]))
        chat = template.encode()
        end = struct.pack("<I", len(chat)) + chat + _text(eos) + b"\0" + _text(bos)
        return f"{MAGIC} {KIND}\n{counts}\n{ids}\n".encode() + self._body + end

    def _step(self, part: Json | None, kinds: Mapping[str, _Step], sequence: int, empty: bytes = b"\0") -> bytes:
        if part is None:
            return empty
        if part["type"] == "Sequence":
            steps = next(value for value in part.values() if isinstance(value, list))
            made = [self._step(step, kinds, sequence, b"") for step in steps]
            made = [step for step in made if step not in (b"", b"\0" * (kinds is not _DECODERS))]
            return struct.pack("<BI", sequence, len(made)) + b"".join(made)
        if part["type"] not in kinds:
            raise _no_form(f"the step {part['type']}")
        return kinds[part["type"]](self, part)

    def _model(self) -> bytes:
        model = self._whole["model"]
        if model["type"] == "Unigram":
            scored = [(row[0], id, float(row[1])) for id, row in enumerate(model["vocab"])]
            scored.sort(key=lambda row: row[0].encode())
            unknown = len(scored) if model.get("unk_id") is None else model["unk_id"]
            head = struct.pack("<BIIB", 2, len(scored), unknown, bool(model.get("byte_fallback")))
            return head + b"".join(_text(text) + struct.pack("<Id", id, score) for text, id, score in scored)
        vocabulary = model["vocab"]
        # MNN's own table has a row for each id, so none may be missing.
        texts = {id: token for token, id in vocabulary.items()}
        texts = {entry["id"]: entry["content"] for entry in self._tokens} | texts
        count = max(texts, default=-1) + 1
        if count > 2 * len(texts) + _UNUSED:
            raise _no_form(f"{len(texts)} tokens with ids up to {count - 1}")
        texts = {id: texts.get(id, f"<|unused{id}|>") for id in range(count)}
        order = sorted(texts.items(), key=lambda item: (item[1].encode(), vocabulary.get(item[1]) != item[0]))
        rows = b"".join(_text(text) + struct.pack("<I", id) for id, text in order)
        if model["type"] == "WordPiece":
            unknown, inner = model.get("unk_token", "[UNK]"), model.get("continuing_subword_prefix", "##")
            longest = min(model.get("max_input_chars_per_word", 100), (1 << 31) - 1)
            return struct.pack("<BI", 1, count) + _text(unknown) + _text(inner) + struct.pack("<I", longest) + rows
        if model["type"] != "BPE" or model.get("continuing_subword_prefix") or model.get("end_of_word_suffix"):
            raise _no_form("this kind of vocabulary")
        return self._bpe(model, count, rows)

    def _bpe(self, model: Json, count: int, rows: bytes) -> bytes:
        vocabulary = model["vocab"]
        ranks = {}
        for rank, merge in enumerate(model["merges"]):
            left, right = _pair(merge)
            if left in vocabulary and right in vocabulary and left + right in vocabulary:
                ranks[vocabulary[left], vocabulary[right]] = rank
        if model.get("ignore_merges"):
            made = {"".join(_pair(merge)) for merge in model["merges"]}
            marks = {entry["content"] for entry in self._tokens}
            if any(len(token) > 1 and token not in made and token not in marks for token in vocabulary):
                self.lost.append("makes tokens by merges only")
        of_bytes = any(part["type"] == "ByteLevel" for part in _parts(self._whole.get("normalizer")))
        head = struct.pack("<BIBBI", 0, count, bool(model.get("byte_fallback")), of_bytes, len(ranks))
        merges = b"".join(struct.pack("<III", *pair, rank) for pair, rank in sorted(ranks.items()))
        return head + rows + merges

    def _added(self) -> bytes:
        rows = []
        for entry in self._tokens:
            flags = (bool(entry.get(name)) for name in ("special", "lstrip", "rstrip"))
            rows.append(struct.pack("<IBBB", entry["id"], *flags) + _text(entry["content"]))
        return struct.pack("<I", len(rows)) + b"".join(rows)


_Step = Callable[[Mtok, Json], bytes]


def _no_form(what: str) -> UnsupportedError:
    return UnsupportedError(f"MNN's runtime has no form for {what} of the tokenizer", hint="leave out `--mnn-llm`")


def _text(text: str) -> bytes:
    data = text.encode()
    if len(data) >= 1 << 16:
        raise _no_form(f"a text of {len(data)} bytes")
    return struct.pack("<H", len(data)) + data


def _pair(merge: Any) -> list[str]:
    return merge.split(" ") if isinstance(merge, str) else list(merge)


def _parts(step: Json | None) -> list[Json]:
    if step is None:
        return []
    return next(value for value in step.values() if isinstance(value, list)) if step["type"] == "Sequence" else [step]


@lru_cache(2)
def _table(form: Literal["NFD", "NFKC"]) -> bytes:
    """The characters that a form of Unicode's changes, each by itself."""
    changed = ((code, unicodedata.normalize(form, chr(code))) for code in _valid())
    rows = [struct.pack("<I", code) + _text(text) for code, text in changed if text != chr(code)]
    return struct.pack("<I", len(rows)) + b"".join(rows)


def _valid() -> list[int]:
    return [*range(0xD800), *range(0xE000, _CHARACTERS)]


def _compatible(mtok: Mtok, _: Json) -> bytes:
    mtok.lost.append("normalizes characters one by one")
    return b"\6" + _table("NFKC")


def _composed(mtok: Mtok, _: Json) -> bytes:
    # MNN's own table makes a space of what joins characters, in emoji and many scripts; most texts are composed.
    mtok.lost.append("does not compose characters (NFC)")
    return b"\0"


def _replaced(mtok: Mtok, part: Json) -> bytes:
    if not part["content"] and part["pattern"].get("Regex", "").startswith(r"\A +|"):  # of `form.clean`
        mtok.lost.append("keeps spaces at the beginning, and several of them")
        return b"\0"
    return b"\3" + _text(_literal(part)) + _text(part["content"])


def _bert(_: Mtok, part: Json) -> bytes:
    lower = part.get("lowercase", True)
    strip = lower if part.get("strip_accents") is None else part["strip_accents"]
    flags = bytes([part.get("clean_text", True), part.get("handle_chinese_chars", True), strip, lower])
    return b"\7" + flags + _table("NFD") if strip else b"\5" + flags


_NORMALIZERS: dict[str, _Step] = {
    "Prepend": lambda _, part: b"\2" + _text(part["prepend"]),
    "Replace": _replaced,
    "NFC": _composed,
    "NFKC": _compatible,
    "Precompiled": _compatible,
    "BertNormalizer": _bert,
    "Lowercase": lambda _, part: b"\5\0\0\0\1",
    "ByteLevel": lambda _, part: b"\0",  # the model does it
}


def _split(pattern: str, behavior: str = "Isolated", invert: bool = False) -> bytes:
    if behavior not in BEHAVIORS:
        raise _no_form(f"the way to split '{behavior}'")
    return b"\4" + _text(pattern) + bytes([invert, BEHAVIORS.index(behavior)])


def _split_step(mtok: Mtok, part: Json) -> bytes:
    pattern = part["pattern"]
    text = pattern["Regex"] if "Regex" in pattern else re.escape(pattern["String"]).replace("\\ ", " ")
    if _CASE.search(text):
        mtok.lost.append("takes capital and small letters for the same")
    elif not text.isascii() and "\\s" in text:
        mtok.lost.append("takes the white space of ASCII only for such")
    return _split(text, part["behavior"], bool(part.get("invert")))


def _byte_level(mtok: Mtok, part: Json) -> bytes:
    if part.get("add_prefix_space", True):
        mtok.lost.append("puts no space in front of texts")
    return bytes([1, part.get("use_regex", True)])


def _metaspace(mtok: Mtok, part: Json) -> bytes:
    scheme = part.get("prepend_scheme") or ("always" if part.get("add_prefix_space", True) else "never")
    if scheme == "first":
        mtok.lost.append("puts a space behind each special token")
    return b"\3" + _text(part.get("replacement", "▁")) + bytes([scheme != "never"])


_PRE_TOKENIZERS: dict[str, _Step] = {
    "ByteLevel": _byte_level,
    "Digits": lambda _, part: _split(
        r"\p{N}" if part.get("individual_digits") else r"\p{N}+"
    ),  # MNN's knows ASCII only
    "Metaspace": _metaspace,
    "Split": _split_step,
    "Punctuation": lambda _, part: _split(_PUNCTUATION, part.get("behavior", "Isolated")),
    "Whitespace": lambda _, part: _split(r"\w+|[^\w\s]+", "Removed", True),
    "WhitespaceSplit": lambda _, part: _split(r"\s+", "Removed"),
    "BertPreTokenizer": lambda _, part: b"\5",
}

_DECODERS: dict[str, _Step] = {
    "ByteLevel": lambda _, part: b"\0",
    "ByteFallback": lambda _, part: b"\1",
    "Metaspace": lambda mtok, part: b"\2" + _metaspace(mtok, {**part, "prepend_scheme": _begins(part)})[1:],
    "WordPiece": lambda _, part: b"\3" + _text(part.get("prefix", "##")) + bytes([part.get("cleanup", True)]),
    "Fuse": lambda _, part: b"\4",
    "Replace": lambda _, part: b"\5" + _text(_literal(part)) + _text(part["content"]),
    "Strip": lambda _, part: b"\6" + _text(part["content"]) + struct.pack("<II", part["start"], part["stop"]),
}


def _literal(part: Json) -> str:
    if "String" not in part["pattern"]:
        raise _no_form("a replacement by an expression")
    found: str = part["pattern"]["String"]
    return found


def _begins(part: Json) -> str:
    never = part.get("prepend_scheme") == "never" or part.get("add_prefix_space") is False
    return "never" if never else "always"
