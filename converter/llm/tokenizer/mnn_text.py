"""tokenizer.txt, the vocabulary of older MNN-LLM folders.

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

from minnow.converter.llm.tokenizer import form
from minnow.converter.llm.tokenizer.form import Json, TokenKind
from minnow.converter.llm.tokenizer.split_rule import RULES, SplitRule
from minnow.converter.llm.tokenizer.tiktoken import from_ranks
from minnow.schema.errors import FormatError

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
