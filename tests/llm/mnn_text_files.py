"""Writes the tokenizer.txt of MNN-LLM, as its exporter does."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from minnow.converter.llm.tokenizer.form import Json, TokenKind

_SCORED, _RANKED, _BERT, _MERGED = range(4)


def to_mnn_text(whole: Json, *, stop: Sequence[int] = (), prefix: Sequence[int] = ()) -> bytes:
    """The tokenizer.txt for the JSON of a tokenizer.json.

    Args:
        stop: tokens that end an answer.
        prefix: tokens in front of every text.
    """
    model = whole["model"]
    special = [entry["id"] for entry in whole["added_tokens"] if entry["special"]]
    kind, head, rows = _rows(whole, model)
    counts = f"{len(special)} {len(stop)} {len(prefix)}"
    ids = " ".join(map(str, [*special, *stop, *prefix]))
    lines = [f"430 {kind}", counts, ids, head, *rows]
    return ("\n".join(lines) + "\n").encode()


def _rows(whole: Json, model: Json) -> tuple[int, str, list[str]]:
    if model["type"] == "Unigram":
        tokens = [token for token, _ in model["vocab"]]
        rows = _scored_rows(whole, tokens, [score for _, score in model["vocab"]], model["unk_id"])
        return _SCORED, str(len(rows)), rows
    tokens = _tokens(whole)
    if model["type"] == "WordPiece":
        return _BERT, str(len(tokens)), [_encoded(token) for token in tokens]
    pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
    if model.get("byte_fallback"):
        best: dict[str, float] = {}
        for rank, (left, right) in enumerate(pairs):
            best.setdefault(left + right, -float(rank))
        scores = [best.get(token, -1e6) for token in tokens]
        rows = _scored_rows(whole, tokens, scores, model["vocab"].get(model.get("unk_token")))
        return _SCORED, str(len(rows)), rows
    assert not any("\n" in token or "\r" in token for token in tokens)
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
