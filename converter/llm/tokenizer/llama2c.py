"""Vocabularies of llama2.c: `tokenizer.bin`, beside models of that project."""

from __future__ import annotations

import struct

from minnow.converter.llm.tokenizer import form
from minnow.converter.llm.tokenizer.form import Json, TokenKind
from minnow.schema.errors import FormatError

_BOS, _EOS = 1, 2


def from_llama2c(data: bytes) -> Json:
    """The JSON of a tokenizer.json for such a file: for each token a float32 (score), an int32 (length), and bytes.

    The first number is the length of the longest token. Texts begin with the mark for their beginning.

    Raises:
        FormatError: the file is damaged.
    """
    tokens: list[str] = []
    scores: list[float] = []
    at = 4
    while at < len(data):
        try:
            score, size = struct.unpack_from("<fi", data, at)
            token = data[at + 8 : at + 8 + size]
            if size < 0 or len(token) != size or score != score or abs(score) > 1e30:
                raise ValueError
            byte = len(tokens) - 3  # the bytes follow the marks, as texts that stand for themselves
            tokens.append(f"<0x{byte:02X}>" if 0 <= byte < 256 else token.decode().replace(" ", form.MARK))
        except (struct.error, ValueError):
            raise FormatError("the vocabulary is damaged", where=f"token {len(tokens)}") from None
        scores.append(score)
        at += 8 + size
    if len(tokens) < 259:
        raise FormatError("the vocabulary has too few tokens", why="the marks and all bytes come first")
    tokens[:3] = ["<unk>", "<s>", "</s>"]
    kinds = [TokenKind.UNKNOWN, TokenKind.CONTROL, TokenKind.CONTROL]
    kinds += [TokenKind.BYTE] * 256 + [TokenKind.NORMAL] * (len(tokens) - 259)
    normalizer, decoder = form.spaces_as_marks(prefix=True)
    return form.whole(
        form.scored_bpe(tokens, scores, kinds),
        added=form.added_tokens(tokens, kinds),
        normalizer=normalizer,
        post_processor=form.template([(tokens[_BOS], _BOS)]),
        decoder=decoder,
    )
