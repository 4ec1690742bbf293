"""SentencePiece models: `tokenizer.model`, `spiece.model`. They are read here, without a package."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

from minnow.converter.file.wire import NUMBER, fields, signed
from minnow.converter.llm.tokenizer import form
from minnow.converter.llm.tokenizer.form import Json, TokenKind
from minnow.schema.errors import FormatError, UnsupportedError

_UNIGRAM, _BPE = 1, 2
_MOST_TOKENS = 1 << 22


@dataclass
class Model:
    """What a file says.

    Attributes:
        kind: 1 Unigram, 2 BPE.
        charsmap: the table of replacements of the normalizer.
        prefix: a text begins with a space.
        single: spaces at both ends, and all but one of several, are left out.
        marks: the ids of unk, bos, eos and pad, below 0 where there is none.
    """

    tokens: list[str] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)
    kind: int = _UNIGRAM
    charsmap: bytes = b""
    prefix: bool = True
    single: bool = True
    marks: dict[str, int] = field(default_factory=lambda: {"unk": 0, "bos": 1, "eos": 2, "pad": -1})


def from_sentencepiece(data: bytes, *, adds_bos: bool = False, adds_eos: bool = False) -> Json:
    """The JSON of a tokenizer.json for a SentencePiece model.

    Args:
        data: the file.
        adds_bos, adds_eos: put the mark for the beginning, or the end, around texts. The file does not say that.

    Raises:
        FormatError: the file is damaged.
        UnsupportedError: its model is neither Unigram nor BPE.
    """
    model = read(data)
    if model.kind not in (_UNIGRAM, _BPE):
        raise UnsupportedError("the SentencePiece model is one of words or characters", hint="use Unigram or BPE")
    before, after = form.spaces_as_marks(prefix=model.prefix)
    steps = form.clean(charsmap=model.charsmap, single=model.single)
    around = form.template(_mark(model, "bos", adds_bos), _mark(model, "eos", adds_eos))
    added = form.added_tokens(model.tokens, model.kinds)
    if model.kind == _BPE or not model.single:
        make = form.scored_bpe if model.kind == _BPE else form.unigram
        pieces = make(model.tokens, model.scores, model.kinds)
        return form.whole(pieces, added=added, normalizer=steps + before, post_processor=around, decoder=after)
    marks = form.metaspace(prefix=model.prefix)
    return form.whole(
        form.unigram(model.tokens, model.scores, model.kinds),
        added=added,
        normalizer=steps,
        pre_tokenizer=[marks],
        post_processor=around,
        decoder=after if any(kind == TokenKind.BYTE for kind in model.kinds) else [marks],
    )


def _mark(model: Model, name: str, wanted: bool) -> list[tuple[str, int]]:
    id = model.marks[name]
    return [(model.tokens[id], id)] if wanted and 0 <= id < len(model.tokens) else []


def read(data: bytes) -> Model:
    """Reads the protobuf message `ModelProto`. Raises FormatError for one that is damaged."""
    model = Model()
    try:
        for number, _, value in fields(memoryview(data)):
            if number == 1:
                _read_token(model, value)
            elif number == 2:
                _read_trainer(model, value)
            elif number == 3:
                _read_normalizer(model, value)
    except (ValueError, TypeError, struct.error) as e:
        raise FormatError("the SentencePiece model is damaged", why=str(e)[:200]) from None
    if not model.tokens:
        raise FormatError("the SentencePiece model has no tokens")
    return model


def _read_token(model: Model, message: Any) -> None:
    token, score, kind = "", 0.0, int(TokenKind.NORMAL)
    for number, _, value in fields(message):
        if number == 1:
            token = bytes(value).decode()
        elif number == 2:
            (score,) = struct.unpack("<f", value)
        elif number == 3:
            kind = int(value)
    if len(model.tokens) >= _MOST_TOKENS or score != score or abs(score) > 1e30:
        raise ValueError("too many tokens, or a score that is no number")
    model.tokens.append(token)
    model.scores.append(score)
    model.kinds.append(kind)


def _read_trainer(model: Model, message: Any) -> None:
    names = {40: "unk", 41: "bos", 42: "eos", 43: "pad"}
    for number, kind, value in fields(message):
        if number == 3 and kind == NUMBER:
            model.kind = value
        elif number in names and kind == NUMBER:
            model.marks[names[number]] = signed(value)


def _read_normalizer(model: Model, message: Any) -> None:
    for number, kind, value in fields(message):
        if number == 2:
            model.charsmap = bytes(value)
        elif number == 3 and kind == NUMBER:
            model.prefix = bool(value)
        elif number == 4 and kind == NUMBER:
            model.single = bool(value)
