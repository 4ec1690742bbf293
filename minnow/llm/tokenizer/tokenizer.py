"""Tokenizers from a tokenizer.json: text to ids and back."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from minnow.converter.file.door import guarded
from minnow.llm.tokenizer import bpe, unigram, wordpiece  # noqa: F401  # they add themselves to MODELS
from minnow.llm.tokenizer.added import AddedToken, Search
from minnow.llm.tokenizer.alphabet import from_alphabet
from minnow.llm.tokenizer.decoder import DECODERS, Chain, Words, byte_of
from minnow.llm.tokenizer.model import MODELS
from minnow.llm.tokenizer.normalizer import NORMALIZERS
from minnow.llm.tokenizer.package import Package
from minnow.llm.tokenizer.part import Part
from minnow.llm.tokenizer.postprocessor import POST_PROCESSORS, Row
from minnow.llm.tokenizer.pretokenizer import PRE_TOKENIZERS
from minnow.schema.errors import FormatError, UsageError

Engine = Literal["auto", "minnow", "tokenizers"]
_LARGEST = 1 << 28


class Tokenizer:
    """Splits text into tokens, as the file says, and puts them together again.

    Attributes:
        size: one more than the largest id.
        special: the ids of marks for the model, which decoded text leaves out.
    """

    def __init__(self, text: str | bytes, where: str = "tokenizer.json", engine: Engine = "auto") -> None:
        try:
            root = Part(json.loads(text), where)
        except (ValueError, RecursionError) as e:
            raise FormatError("the tokenizer is not JSON", where=where, why=str(e)[:200]) from None
        self._normalize = _optional(NORMALIZERS, root.part("normalizer"), lambda text: text)
        self._split = _optional(PRE_TOKENIZERS, root.part("pre_tokenizer"), lambda pieces: pieces)
        self._around = _optional(POST_PROCESSORS, root.part("post_processor"), None)
        self._decoder = _optional(DECODERS, root.part("decoder"), [lambda fused, streams: Words()])
        model = root.part("model")
        if model is None:
            raise root.error("'model' is missing")
        if "type" not in model.value:  # as in old files
            model.value["type"] = "BPE" if "merges" in model.value else "WordPiece"
        self._model = MODELS.read(model)
        added = (
            [AddedToken.read(part) for part in root.parts("added_tokens")] if root.items("added_tokens", None) else []
        )
        self._read_tokens(added, _types(root.part("decoder")))
        self._raw = Search([token for token in added if not token.normalized], lambda text: text)
        self._normalized = Search([token for token in added if token.normalized], self._normalize)
        self._package = Package.of(text, added, required=True) if engine == "tokenizers" else None
        # The package takes twice as long to read a file as all of the above: it does when the first text comes.
        self._unread = (text, added) if engine == "auto" else None
        self._reading = threading.Lock()

    @classmethod
    def from_file(cls, path: str | Path, engine: Engine = "auto") -> Tokenizer:
        """Reads a tokenizer.json, or the one of a folder.

        Args:
            engine: "tokenizers", the package; "minnow", no package but `regex`; "auto", the package where it is
                installed, which is faster.

        Raises:
            FormatError: the file cannot be read, or is damaged.
            UnsupportedError: it has a kind of step that is not supported.
            UsageError: a package is needed that is not installed.
        """
        path = Path(path)
        path = path / "tokenizer.json" if path.is_dir() else path
        try:
            if path.stat().st_size > _LARGEST:
                raise FormatError("the tokenizer is too large", where=str(path), why=f"more than {_LARGEST >> 20} MiB")
            data = path.read_bytes()
        except OSError as e:
            raise FormatError("the tokenizer cannot be read", where=str(path), why=e.strerror or str(e)) from None
        return cls.from_json(data, str(path), engine)

    @classmethod
    def from_json(cls, text: str | bytes, where: str = "tokenizer.json", engine: Engine = "auto") -> Tokenizer:
        """Reads the text of a tokenizer.json; `where` is for errors, which are those of `from_file`."""
        if engine not in ("auto", "minnow", "tokenizers"):
            raise UsageError(f"unknown engine {engine!r}", hint="use auto, minnow or tokenizers")
        with guarded(Path(where)):
            return cls(text, where, engine)

    @property
    def engine(self) -> Engine:
        """What encodes: "minnow", the code here, or "tokenizers", the package, with the same results."""
        return "minnow" if self._encoder() is None else "tokenizers"

    def encode(self, text: str, pair: str | None = None, *, special: bool = True, parse: bool = True) -> list[int]:
        """The ids of a text.

        Args:
            pair: a second text, for models that compare two.
            special: put the tokens around it that the file says, such as a begin mark.
            parse: texts of special tokens within the text are these tokens; else they are ordinary text, as is right
                for what strangers have written.
        """
        return self.encode_pair(text, pair, special=special, parse=parse)[0]

    def encode_pair(
        self, text: str, pair: str | None = None, *, special: bool = True, parse: bool = True
    ) -> tuple[list[int], list[int]]:
        """As `encode`; and for each id whether it belongs to the first text, 0, or the second, 1."""
        texts = [_valid(t) for t in (text, pair) if t is not None]
        if (package := self._encoder()) is not None:
            return package.encode(texts, special, parse)
        rows: list[Row] = [[(id, kind) for id in self._ids(text, parse)] for kind, text in enumerate(texts)]
        rows = self._around(rows, special) if self._around else rows
        return [id for row in rows for id, _ in row], [kind for row in rows for _, kind in row]

    def decode(self, ids: Iterable[int], *, skip_special: bool = True) -> str:
        """The text of ids. Unknown ids are left out."""
        chain = Chain(self._decoder, streams=False)
        return chain.push(self._shown(ids, skip_special)) + chain.finish()

    def stream(self, *, skip_special: bool = True) -> Stream:
        """Decodes ids that come one after the other."""
        return Stream(self, Chain(self._decoder, streams=True), skip_special)

    def token(self, id: int) -> str | None:
        """A token as it is in the file; None for an unknown id."""
        return self._tokens.get(int(id))

    def id(self, token: str) -> int | None:
        """The id of a token as it is in the file; None if there is none."""
        return self._added.get(token, self._model.vocabulary.get(token))

    def vocabulary(self) -> dict[str, int]:
        """The id of each token as it is in the file."""
        return {**self._model.vocabulary, **self._added}

    def token_bytes(self, id: int) -> bytes:
        """The bytes that a token adds to a text, but for what only the first one does; b"" for special tokens."""
        token = self._tokens.get(id)
        if token is None or id in self.special:
            return b""
        if token in self._added:
            return _valid(token).encode()
        if self._alphabet:
            return from_alphabet(token)
        byte = byte_of(token)
        if byte is not None and self._fallback:
            return bytes([byte])
        chain = Chain(self._decoder, streams=False)
        return _valid((chain.push(["x", token]) + chain.finish())[1:]).encode()

    def _encoder(self) -> Package | None:
        """What encodes instead of the code here, if anything."""
        with self._reading:
            if self._unread is not None:
                self._package = Package.of(*self._unread, required=False)
                self._unread = None
        return self._package

    def _read_tokens(self, added: list[AddedToken], kinds: list[str]) -> None:
        self._added = {token.content: token.id for token in added}
        self._tokens = {id: token for token, id in self._model.vocabulary.items()}
        self._tokens.update((token.id, token.content) for token in added)
        self.special = frozenset(token.id for token in added if token.special)
        self.size = max(self._tokens, default=-1) + 1
        self._alphabet, self._fallback = "ByteLevel" in kinds, "ByteFallback" in kinds

    def _shown(self, ids: Iterable[int], skip_special: bool) -> list[str]:
        skipped = self.special if skip_special else ()
        return [token for id in ids if id not in skipped and (token := self._tokens.get(int(id))) is not None]

    def _ids(self, text: str, parse: bool) -> list[int]:
        def skip(token: AddedToken) -> bool:
            return token.special and not parse

        ids: list[int] = []
        for raw, start, id in self._raw.split(text, skip):
            if id is not None:
                ids.append(id)
                continue
            normal = self._normalize(raw)
            for part, begin, id in self._normalized.split(normal, skip):
                if id is not None:
                    ids.append(id)
                else:
                    first = start == 0 and begin == 0
                    ids += self._model.encode([piece for piece, _ in self._split([(part, first)])])
        return ids


class Stream:
    """Text from ids that come one after the other; it never ends within a character."""

    def __init__(self, tokenizer: Tokenizer, chain: Chain, skip_special: bool) -> None:
        self._tokenizer, self._chain, self._skip = tokenizer, chain, skip_special

    def push(self, *ids: int) -> str:
        """The text that is certain after the next ids: "" while a character is not complete."""
        return self._chain.push(self._tokenizer._shown(ids, self._skip))

    def finish(self) -> str:
        """The rest of the text: what never became a character is U+FFFD."""
        return self._chain.finish()


def _optional(kinds: Any, part: Part | None, otherwise: Any) -> Any:
    return otherwise if part is None else kinds.read(part)


def _types(part: Part | None) -> list[str]:
    """The types of a decoder and of the decoders in it."""
    if part is None:
        return []
    inner = part.parts("decoders") if part.text("type") == "Sequence" else []
    return [part.text("type"), *(name for step in inner for name in _types(step))]


def _valid(text: str) -> str:
    """A text that can be UTF-8: halves of surrogate pairs are joined, or become U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
