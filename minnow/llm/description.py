"""`llm.json`: what a folder says of its language model. A conversion writes it, loading reads it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

from minnow.description import read_description
from minnow.llm.image.description import ImageDescription
from minnow.schema.errors import FormatError

FORMAT = 1
"""Version of the file."""
DESCRIPTION, MODEL, TOKENIZER, VISION = "llm.json", "model.mnn", "tokenizer.json", "vision.mnn"
"""The files of a folder; the last one is that of a model that sees."""

Kind = Literal["generate", "embed", "rerank"]
Pooling = Literal["", "cls", "mean", "last"]

_MOST = 1 << 31
_MOST_BYTES = 64 << 20


@dataclass(frozen=True)
class Description:
    """A language model.

    Attributes:
        architecture: the family of models, as Hugging Face calls it ("llama").
        name: of the model.
        vocab_size, hidden_size, layers, heads, kv_heads, head_size: its sizes.
        context: the most tokens of a sequence.
        block: tokens of a block of the cache.
        bos: the token that begins a text, or None. eos: the tokens that end one.
        add_bos: texts begin with `bos`.
        chat_template: Jinja2, or None.
        kind: "generate": it continues texts; "embed": it gives a vector for each; "rerank": a score for each pair.
        pooling, normalize: of "embed": how the graph has made one vector, and whether it is of length 1.
        image: of models that see.
    """

    architecture: str
    name: str
    vocab_size: int
    hidden_size: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    context: int
    block: int = 32
    bos: int | None = None
    eos: list[int] = field(default_factory=list)
    add_bos: bool = False
    chat_template: str | None = None
    kind: Kind = "generate"
    pooling: Pooling = ""
    normalize: bool = False
    image: ImageDescription | None = None

    def text(self) -> str:
        """The content of the file."""
        table = {"format": FORMAT, **asdict(self)}
        if self.kind == "generate":
            del table["pooling"], table["normalize"]
        if self.image is None:
            del table["image"]
        return json.dumps(table, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def read(cls, folder: str | Path) -> Description:
        """What the file in a folder says. Raises FormatError if it is missing, or invalid."""
        path = Path(folder) / DESCRIPTION
        hint = "`mnnconvert MODEL -o FOLDER` makes the folder of a GGUF file, a Hugging Face or MNN-LLM folder"
        table = read_description(path, _MOST_BYTES, "language model", hint)
        return cls.of(table, str(path))

    @classmethod
    def of(cls, table: Any, where: str = "") -> Description:
        """What a table says; keys that are not known are passed over. Raises FormatError."""
        if not isinstance(table, Mapping):
            raise FormatError("the file is no table", where=where)
        if table.get("format") != FORMAT:
            why = f"it is {table.get('format')!r}, and {FORMAT} is known"
            raise FormatError("the file is of another format", where=where, why=why, hint="convert the model again")
        known = {f.name: table[f.name] for f in fields(cls) if f.name in table}
        for name, value in known.items():
            if what := _wrong(name, value):
                raise FormatError(f"'{name}' is {str(value)[:80]!r}, not {what}", where=where)
        if known.get("image") is not None:
            known["image"] = ImageDescription.of(known["image"], where)
        try:
            made = cls(**known)
        except TypeError as e:
            raise FormatError("something is missing", where=where, why=str(e).partition("() ")[2]) from None
        if made.heads % made.kv_heads or any(t is not None and t >= made.vocab_size for t in (made.bos, *made.eos)):
            raise FormatError("numbers of heads do not fit, or a token is not in the vocabulary", where=where)
        if made.image is not None and (made.kind != "generate" or made.image.token >= made.vocab_size):
            raise FormatError("'image' does not fit the model", where=where)
        return made


_SIZES = ("vocab_size", "hidden_size", "layers", "heads", "kv_heads", "head_size", "context", "block")


def _is_token(value: Any) -> bool:
    return type(value) is int and 0 <= value < _MOST


def _wrong(name: str, value: Any) -> str:
    """What the value should be; "" if it is that."""
    if name in _SIZES:
        return "" if type(value) is int and 0 < value < _MOST else "a whole number from 1 on"
    if name in ("architecture", "name"):
        return "" if isinstance(value, str) else "a text"
    if name in ("add_bos", "normalize"):
        return "" if isinstance(value, bool) else "true or false"
    if name in ("kind", "pooling"):
        known = get_args(Kind if name == "kind" else Pooling)
        return "" if value in known else f"one of {', '.join(filter(None, known))}"
    if name == "bos":
        return "" if value is None or _is_token(value) else "a token"
    if name == "eos":
        return "" if isinstance(value, list) and all(map(_is_token, value)) else "a list of tokens"
    if name == "chat_template":
        return "" if value is None or isinstance(value, str) else "a text"
    return "" if value is None or isinstance(value, dict) else "a table"
