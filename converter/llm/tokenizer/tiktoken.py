"""Files of tiktoken: a line for each token, its bytes in base64 and its rank."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence

from minnow.converter.llm.tokenizer import form
from minnow.converter.llm.tokenizer.form import Json, TokenKind
from minnow.converter.llm.tokenizer.split_rule import SplitRule
from minnow.schema.errors import FormatError

_CHARACTERS: dict[int, str] = {}


def from_tiktoken(data: bytes, rule: SplitRule, special: Mapping[str, int] | None = None) -> Json:
    """The JSON of a tokenizer.json for a file of tiktoken.

    Args:
        rule: how texts are split, which the file does not say: of `split_rule.RULES`.
        special: special tokens and their ids, which it does not say either.

    Raises:
        FormatError: the file is damaged.
    """
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            token, rank = line.split()
            ranks[base64.b64decode(token, validate=True)] = int(rank)
        except (ValueError, binascii.Error):
            raise FormatError("this is not a file of tiktoken", where=f"line {number}") from None
    return from_ranks(ranks, rule, special or {})


def from_ranks(ranks: Mapping[bytes, int], rule: SplitRule, special: Mapping[str, int]) -> Json:
    """The JSON of a tokenizer.json for tokens, as bytes, and their ranks, which are their ids."""
    names = {rank: spelled(token) for token, rank in ranks.items()}
    size = max(names, default=-1) + 1
    if not names or b"" in ranks or size > 2 * len(names) + 1000 or min(names) < 0 or len(names) != len(ranks):
        raise FormatError("the ranks of the tokens are not those of a vocabulary")
    tokens = [names.get(rank, f"<|unused{rank}|>") for rank in range(size)]
    kinds = [TokenKind.NORMAL if rank in names else TokenKind.UNUSED for rank in range(size)]
    merges = form.scored_merges(tokens, [-float(rank) for rank in range(size)], kinds)
    added = [form.added_token(id, text, special=True) for text, id in sorted(special.items(), key=lambda item: item[1])]
    return form.whole(
        form.byte_level_bpe(tokens, merges, ignore_merges=True),
        added=added,
        pre_tokenizer=form.splits(rule.patterns),
        decoder=[form.BYTE_LEVEL],
    )


def spelled(token: Sequence[int] | bytes) -> str:
    """Bytes in the alphabet of byte-level vocabularies: a printable character for each."""
    if not _CHARACTERS:
        seen = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
        hidden = iter(range(0x100, 0x200))
        _CHARACTERS.update({byte: chr(byte if byte in seen else next(hidden)) for byte in range(256)})
    return "".join(_CHARACTERS[byte] for byte in token)
