"""Answers of a given form: JSON of a schema, or texts of a grammar. The package `llguidance` says what may come.

It is small, needs no other package, and has wheels for all common systems; `xgrammar` needs PyTorch, and
`outlines-core` has regular expressions only.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np

from minnow.llm.tokenizer import Tokenizer
from minnow.schema.errors import UsageError
from minnow.schema.extra import install

Array = np.ndarray[Any, Any]


class Constraint(Protocol):
    """What an answer may be.

    Attributes:
        complete: nothing more may come.
    """

    @property
    def complete(self) -> bool: ...

    def allowed(self) -> Array:
        """Which tokens may come next, bool [vocabulary]."""

    def accept(self, token: int) -> None:
        """Takes note of the next token."""


def json_constraint(schema: Any, tokenizer: Tokenizer, eos: Sequence[int], vocabulary: int) -> Constraint:
    """An answer that is JSON of a schema.

    Args:
        schema: a JSON schema as a table or as text; {} is any JSON.
        tokenizer: of the model.
        eos: tokens that end an answer.
        vocabulary: how many logits there are.

    Raises:
        UsageError: the schema is wrong, or has what is not supported; or llguidance is not installed.
    """
    text = schema if isinstance(schema, str) else json.dumps(schema)
    package = _package()
    try:
        grammar = package.LLMatcher.grammar_from_json_schema(text, overrides={"whitespace_flexible": False})
    except ValueError as e:
        raise UsageError("the JSON schema cannot be used", why=str(e)[:300]) from None
    return _Matched(grammar, tokenizer, eos, vocabulary, "the JSON schema cannot be used")


def grammar_constraint(grammar: str, tokenizer: Tokenizer, eos: Sequence[int], vocabulary: int) -> Constraint:
    """An answer that a grammar in Lark's form derives from its rule `start`. The other arguments are as above."""
    package = _package()
    try:
        checked = package.LLMatcher.grammar_from_lark(grammar)
    except ValueError as e:
        raise UsageError("the grammar cannot be used", why=str(e)[:300]) from None
    return _Matched(checked, tokenizer, eos, vocabulary, "the grammar cannot be used")


class _Matched:
    """A constraint that llguidance computes."""

    def __init__(self, grammar: Any, tokenizer: Tokenizer, eos: Sequence[int], vocabulary: int, message: str) -> None:
        if not eos:
            raise UsageError(message, why="the model has no token that ends a text")
        self._eos = frozenset(eos)
        self._matcher = _package().LLMatcher(_vocabulary(tokenizer, tuple(eos), vocabulary), grammar)
        self._ended = False
        if self._matcher.is_error():
            raise UsageError(message, why=str(self._matcher.get_error())[:300])

    @property
    def complete(self) -> bool:
        """Nothing more may come."""
        return self._ended or bool(self._matcher.is_stopped())

    def allowed(self) -> Array:
        """Which tokens may come next, bool [vocabulary]."""
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        if self._matcher.is_error():
            raise UsageError("the grammar cannot be followed", why=str(self._matcher.get_error())[:300])
        return np.unpackbits(bits, bitorder="little").astype(bool)

    def accept(self, token: int) -> None:
        """Takes note of the next token."""
        if token in self._eos or self.complete:
            self._ended = True
        elif not self._matcher.consume_token(token):
            raise UsageError("a token does not fit the grammar", why=str(self._matcher.get_error())[:300])


_known: WeakKeyDictionary[Tokenizer, Any] = WeakKeyDictionary()
_lock = threading.Lock()


def _vocabulary(tokenizer: Tokenizer, eos: tuple[int, ...], size: int) -> Any:
    """The package's form of a vocabulary: the bytes of each token. It is kept as long as the tokenizer."""
    with _lock:
        if tokenizer not in _known:
            _known[tokenizer] = _package().LLTokenizer(_package().TokenizerWrapper(_Bytes(tokenizer, eos, size)))
        return _known[tokenizer]


class _Bytes:
    """A tokenizer as llguidance asks for it. Special tokens have bytes that no text has."""

    def __init__(self, tokenizer: Tokenizer, eos: tuple[int, ...], size: int) -> None:
        self._tokenizer = tokenizer
        self.eos_token_id, self.bos_token_id = eos[0], None
        texts = [tokenizer.token_bytes(id) for id in range(size)]
        special = {*eos, *tokenizer.special, *(id for id, text in enumerate(texts) if not text)}
        self.tokens = [b"\xff<%d>" % id if id in special else text for id, text in enumerate(texts)]
        self.special_token_ids = sorted(special)
        self._ids = {text: id for id, text in enumerate(self.tokens)}
        self._longest = max(map(len, texts), default=0)
        self._before = self._plain(_MARK)

    def __call__(self, text: bytes | str) -> list[int]:
        """The tokens of text in the middle of an answer."""
        data = text.encode() if isinstance(text, str) else bytes(text)
        found = self._plain(_MARK + data.decode(errors="replace"))[len(self._before) :]
        return found if b"".join(self.tokens[id] for id in found) == data else self._greedy(data)

    def _plain(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, special=False, parse=False)

    def _greedy(self, data: bytes) -> list[int]:
        """The longest token each time; bytes without one are left out."""
        ids, at = [], 0
        while at < len(data):
            ends = range(min(len(data), at + self._longest), at, -1)
            end = next((end for end in ends if data[at:end] in self._ids), 0)
            if end:
                ids.append(self._ids[data[at:end]])
            at = end or at + 1
        return ids


_MARK = "\x02"
"""Stands in front of a text to be split: many tokenizers put a space in front of the first word. No token begins so."""


def _package() -> Any:
    try:
        import llguidance
    except ImportError:
        raise UsageError("JSON schemas and grammars need the package llguidance", hint=install("llguidance")) from None
    return llguidance
