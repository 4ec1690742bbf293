"""tokenizer.txt, the vocabulary of older MNN-LLM folders: read, and written.

430 TYPE
SPECIAL STOP PREFIX          how many of each, and in the next line their ids
ids
SIZE                         how many tokens; for the type 3: tokens and merges
a line for each token        0: base64, score, kind; 1 and 2: base64; 3: as in tokenizer.json
a line for each merge        type 3 only
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any

from minnow.converter.llm.tokenizer import form
from minnow.converter.llm.tokenizer.form import Json, TokenKind
from minnow.converter.llm.tokenizer.split_rule import RULES, SplitRule
from minnow.converter.llm.tokenizer.tiktoken import from_ranks
from minnow.schema.errors import FormatError, UnsupportedError

MAGIC = 430
_SCORED, _RANKED, _BERT, _MERGED = range(4)
_RULE = RULES["qwen2"]


def from_mnn_text(data: bytes, rule: SplitRule = _RULE) -> Json:
    """The JSON of a tokenizer.json for a tokenizer.txt.

    Args:
        rule: how texts are split before byte-level BPE: the file does not say, and most are of Qwen's family.

    Raises:
        FormatError: the file is damaged.
    """
    try:
        return _read(data.decode().split("\n"), rule)
    except UnicodeDecodeError:
        raise FormatError("tokenizer.txt is no text in UTF-8") from None
    except (ValueError, IndexError, binascii.Error) as e:
        raise FormatError("tokenizer.txt is damaged", why=str(e)[:200]) from None


def _read(lines: list[str], rule: SplitRule) -> Json:
    magic, kind = map(int, lines[0].split())
    if magic != MAGIC or kind not in range(4):
        raise FormatError("this is no tokenizer.txt", why=f"its first line is {lines[0][:40]!r}")
    counts = [int(number) for number in lines[1].split()]
    ids = [int(number) for number in lines[2].split()]
    special, prefix = set(ids[: counts[0] + counts[1]]), ids[sum(counts[:2]) : sum(counts)]
    size, *more = map(int, lines[3].split())
    rows = lines[4 : 4 + size]
    if len(rows) != size or len(ids) < sum(counts):
        raise FormatError("tokenizer.txt is cut off")
    if kind == _SCORED:
        return _scored(rows, special, prefix)
    if kind == _BERT:
        return form.bert([_decoded(row).decode() for row in rows])
    if kind == _RANKED:
        texts = {_decoded(row): rank for rank, row in enumerate(rows)}
        named = {text.decode(errors="replace"): id for text, id in texts.items() if id in special}
        ranks = {text: id for text, id in texts.items() if id not in special}
        return _with_prefix(from_ranks(ranks, rule, named), prefix)
    merges = [line for line in lines[4 + size : 4 + size + more[0]] if line and not line.startswith("#version")]
    kinds = [TokenKind.CONTROL if id in special else TokenKind.NORMAL for id in range(size)]
    whole = form.whole(
        form.byte_level_bpe(rows, merges),
        added=form.added_tokens(rows, kinds),
        pre_tokenizer=form.splits(rule.patterns),
        decoder=[form.BYTE_LEVEL],
    )
    return _with_prefix(whole, prefix)


def _scored(rows: list[str], special: set[int], prefix: list[int]) -> Json:
    tokens, scores, kinds = [], [], []
    for id, row in enumerate(rows):
        text, score, kind = row.split()
        tokens.append(_decoded(text).decode())
        scores.append(float(score))
        kinds.append(TokenKind.CONTROL if id in special and int(kind) == TokenKind.NORMAL else int(kind))
    before, after = form.spaces_as_marks(prefix=True)
    whole = form.whole(
        form.scored_bpe(tokens, scores, kinds), added=form.added_tokens(tokens, kinds), normalizer=before, decoder=after
    )
    return _with_prefix(whole, prefix)


def _with_prefix(whole: Json, prefix: list[int]) -> Json:
    tokens = {id: token for token, id in whole["model"]["vocab"].items()}
    tokens.update((entry["id"], entry["content"]) for entry in whole["added_tokens"])
    if not all(id in tokens for id in prefix):
        raise FormatError("a token in front of texts is not in the vocabulary")
    return {**whole, "post_processor": form.template([(tokens[id], id) for id in prefix])}


def _decoded(row: str) -> bytes:
    return base64.b64decode(row.strip(), validate=True)


def to_mnn_text(whole: Json, *, stop: Sequence[int] = (), prefix: Sequence[int] = ()) -> bytes:
    """The tokenizer.txt for the JSON of a tokenizer.json.

    Args:
        stop: tokens that end an answer.
        prefix: tokens in front of every text.

    Raises:
        UnsupportedError: the file has no form for such a vocabulary.
    """
    model = whole["model"]
    special = [entry["id"] for entry in whole["added_tokens"] if entry["special"]]
    kind, head, rows = _rows(whole, model)
    counts = f"{len(special)} {len(stop)} {len(prefix)}"
    ids = " ".join(map(str, [*special, *stop, *prefix]))
    lines = [f"{MAGIC} {kind}", counts, ids, head, *rows]
    return ("\n".join(lines) + "\n").encode()


def _rows(whole: Json, model: Json) -> tuple[int, str, list[str]]:
    if model["type"] == "Unigram":
        tokens = [token for token, _ in model["vocab"]]
        rows = _scored_rows(whole, tokens, [score for _, score in model["vocab"]], model["unk_id"])
        return _SCORED, str(len(rows)), rows
    tokens = _tokens(whole)
    if model["type"] == "WordPiece":
        return _BERT, str(len(tokens)), [_encoded(token) for token in tokens]
    if model["type"] != "BPE" or model.get("continuing_subword_prefix") or model.get("end_of_word_suffix"):
        raise UnsupportedError("tokenizer.txt has no form for this vocabulary", hint="write tokenizer.json")
    pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
    if model.get("byte_fallback"):
        best: dict[str, float] = {}
        for rank, (left, right) in enumerate(pairs):
            best.setdefault(left + right, -float(rank))
        scores = [best.get(token, -1e6) for token in tokens]
        rows = _scored_rows(whole, tokens, scores, model["vocab"].get(model.get("unk_token")))
        return _SCORED, str(len(rows)), rows
    if any("\n" in token or "\r" in token for token in tokens):
        raise UnsupportedError("tokenizer.txt has no form for tokens with line breaks", hint="write tokenizer.json")
    return _MERGED, f"{len(tokens)} {len(pairs)}", [*tokens, *(f"{left} {right}" for left, right in pairs)]


def _tokens(whole: Json) -> list[str]:
    found = {id: token for token, id in whole["model"]["vocab"].items()}
    found.update((entry["id"], entry["content"]) for entry in whole["added_tokens"])
    return [found.get(id, f"<|unused{id}|>") for id in range(max(found, default=-1) + 1)]


def _scored_rows(whole: Json, tokens: list[str], scores: Sequence[float], unknown: Any) -> list[str]:
    added = {entry["id"]: entry["special"] for entry in whole["added_tokens"]}

    def kind(id: int, token: str) -> TokenKind:
        if id == unknown:
            return TokenKind.UNKNOWN
        if id in added:
            return TokenKind.CONTROL if added[id] else TokenKind.USER_DEFINED
        is_byte = len(token) == 6 and token.startswith("<0x") and token.endswith(">")
        return TokenKind.BYTE if is_byte else TokenKind.NORMAL

    rows = zip(tokens, scores, strict=False)
    return [f"{_encoded(token)} {score:g} {int(kind(id, token))}" for id, (token, score) in enumerate(rows)]


def _encoded(token: str) -> str:
    return base64.b64encode(token.encode()).decode()
