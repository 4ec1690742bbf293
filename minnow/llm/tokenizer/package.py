"""The package `tokenizers`: the same results, faster."""

from __future__ import annotations

import threading
from typing import Any

from minnow.llm.tokenizer.added import AddedToken
from minnow.schema.errors import FormatError, UsageError
from minnow.schema.extra import install


class Package:
    """Encodes with the package. Its errors become FormatError, panics too."""

    def __init__(self, encoder: Any) -> None:
        self._encoder = encoder
        self._lock = threading.Lock()  # how it treats special tokens is a setting of the encoder, not of a call

    @classmethod
    def of(cls, text: str | bytes, added: list[AddedToken], *, required: bool) -> Package | None:
        """The package with a tokenizer.

        Args:
            text: the file; it has been checked.
            added: its added tokens.
            required: raise where the package is not installed, or does not read the file; else it is None then, and
                where the package gives added tokens other ids than the file.
        """
        try:
            import tokenizers
        except ImportError:
            if required:
                raise UsageError("the package tokenizers is not installed", hint=install("tokenizers")) from None
            return None
        try:
            encoder = tokenizers.Tokenizer.from_str(text if isinstance(text, str) else text.decode())
            encoder.no_truncation()
            encoder.no_padding()
        except BaseException as e:
            if not _is_from_package(e):
                raise
            if required:
                raise FormatError("the package tokenizers does not read the file", why=str(e)[:200]) from None
            return None
        if any(encoder.token_to_id(token.content) != token.id for token in added if token.content):
            if required:
                raise FormatError("the package tokenizers gives added tokens other ids than the file")
            return None
        return cls(encoder)

    def encode(self, texts: list[str], special: bool, parse: bool) -> tuple[list[int], list[int]]:
        """The ids of one text or of a pair, and which text each belongs to."""
        try:
            with self._lock:
                self._encoder.encode_special_tokens = not parse
                found = self._encoder.encode(*texts, add_special_tokens=special)
        except BaseException as e:
            if not _is_from_package(e):
                raise
            raise FormatError("the text cannot be split into tokens", why=str(e)[:200]) from None
        return found.ids, found.type_ids


def _is_from_package(error: BaseException) -> bool:
    """Whether it says that the package cannot do it. A panic in it is derived from BaseException alone."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"
