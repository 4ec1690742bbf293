"""The vocabulary of a GGUF file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from minnow.converter.llm.tokenizer import form
from minnow.converter.llm.tokenizer.form import Json, TokenKind
from minnow.converter.llm.tokenizer.split_rule import RULES
from minnow.schema.errors import FormatError, UnsupportedError

_KEY = "tokenizer.ggml."


def from_gguf(metadata: Mapping[str, Any]) -> Json:
    """The JSON of a tokenizer.json for the vocabulary in the metadata of a GGUF file.

    Args:
        metadata: the values by their whole keys, such as `tokenizer.ggml.tokens`; lists may be of any sequence type.

    Raises:
        FormatError: entries are missing, or contradict each other.
        UnsupportedError: the kind of vocabulary, or the way that texts are split, is not known.
    """
    values = {key[len(_KEY) :]: value for key, value in metadata.items() if key.startswith(_KEY)}
    kind = values.get("model")
    if kind not in _READERS:
        raise UnsupportedError(
            f"the vocabulary has the kind {str(kind)[:40]!r}", hint=f"supported are {', '.join(_READERS)}"
        )
    tokens = form.checked(values, "tokens", str)
    if not tokens:
        raise FormatError("the vocabulary has no tokens")
    kinds = form.checked(values, "token_type", int, len(tokens)) if "token_type" in values else [1] * len(tokens)
    return _READERS[kind](values, tokens, kinds)


def _byte_level(values: Mapping[str, Any], tokens: list[str], kinds: list[int]) -> Json:
    name = values.get("pre", "default")
    if name not in RULES:
        raise UnsupportedError(
            f"texts are split in the unknown way {str(name)[:40]!r}", hint=f"known are {', '.join(sorted(RULES))}"
        )
    rule = RULES[name]
    merges = form.checked(values, "merges", str)
    return form.whole(
        form.byte_level_bpe(tokens, merges, ignore_merges=rule.ignore_merges),
        added=form.added_tokens(tokens, kinds),
        pre_tokenizer=form.splits(rule.patterns, prefix=bool(values.get("add_space_prefix", False))),
        post_processor=_marks(values, tokens, adds_bos=rule.adds_bos),
        decoder=[form.BYTE_LEVEL],
    )


def _scored(values: Mapping[str, Any], tokens: list[str], kinds: list[int]) -> Json:
    scores = form.checked(values, "scores", float, len(tokens))
    normalizer, decoder = form.spaces_as_marks(prefix=bool(values.get("add_space_prefix", True)))
    return form.whole(
        form.scored_bpe(tokens, scores, kinds),
        added=form.added_tokens(tokens, kinds),
        normalizer=normalizer,
        post_processor=_marks(values, tokens, adds_bos=True),
        decoder=decoder,
    )


def _unigram(values: Mapping[str, Any], tokens: list[str], kinds: list[int]) -> Json:
    scores = form.checked(values, "scores", float, len(tokens))
    charsmap = (
        bytes(v & 0xFF for v in form.checked(values, "precompiled_charsmap", int)) if _has_charsmap(values) else b""
    )
    prefix = bool(values.get("add_space_prefix", True))
    single = bool(values.get("remove_extra_whitespaces", True))
    return form.whole(
        form.unigram(tokens, scores, kinds),
        added=form.added_tokens(tokens, kinds),
        normalizer=form.clean(charsmap=charsmap, single=single),
        pre_tokenizer=[form.metaspace(prefix=prefix)],
        post_processor=_marks(values, tokens, adds_bos=False, adds_eos=True),
        decoder=[form.metaspace(prefix=prefix)],
    )


def _has_charsmap(values: Mapping[str, Any]) -> bool:
    found = values.get("precompiled_charsmap")
    return found is not None and len(found) > 0


def _bert(values: Mapping[str, Any], tokens: list[str], kinds: list[int]) -> Json:
    """GGUF marks the tokens that begin a word, BERT those that do not."""
    marked = any(token.startswith(form.MARK) for token in tokens)
    if marked:
        tokens = [_unmarked(token, kind) for token, kind in zip(tokens, kinds, strict=True)]
    unknown = _token(values, tokens, ("unknown_token_id",), "[UNK]")
    cls = _token(values, tokens, ("cls_token_id", "bos_token_id"), "[CLS]")
    sep = _token(values, tokens, ("seperator_token_id", "separator_token_id", "eos_token_id"), "[SEP]")
    return form.whole(
        form.wordpiece(tokens, unknown[0]),
        added=form.added_tokens(tokens, kinds),
        normalizer=[form.bert_normalizer(lowercase=True)],
        pre_tokenizer=[{"type": "BertPreTokenizer"}],
        post_processor=form.bert_template(cls, sep),
        decoder=[{"type": "WordPiece", "prefix": "##", "cleanup": True}],
    )


def _unmarked(token: str, kind: int) -> str:
    if token.startswith(form.MARK) and len(token) > 1:
        return token[1:]
    special = kind != TokenKind.NORMAL or (token[:1], token[-1:]) == ("[", "]")
    return token if special else "##" + token


def _token(values: Mapping[str, Any], tokens: Sequence[str], keys: Sequence[str], text: str) -> tuple[str, int]:
    """A special token and its id, which one of the keys names, or which has that text."""
    for key in keys:
        id = values.get(key)
        if id is not None:
            if not isinstance(id, int) or not 0 <= id < len(tokens):
                raise FormatError(f"'{key}' is {str(id)[:40]}, but there are {len(tokens)} tokens")
            return tokens[id], id
    if text not in tokens:
        raise FormatError(f"the vocabulary has no token {text}")
    return text, tokens.index(text)


def _marks(values: Mapping[str, Any], tokens: list[str], *, adds_bos: bool, adds_eos: bool = False) -> Json | None:
    before, after = [], []
    if values.get("add_bos_token", adds_bos) and values.get("bos_token_id") is not None:
        before.append(_token(values, tokens, ("bos_token_id",), ""))
    if values.get("add_eos_token", adds_eos) and values.get("eos_token_id") is not None:
        after.append(_token(values, tokens, ("eos_token_id",), ""))
    return form.template(before, after)


_READERS = {"gpt2": _byte_level, "llama": _scored, "t5": _unigram, "bert": _bert}
"""The kinds of vocabularies, `tokenizer.ggml.model`."""
