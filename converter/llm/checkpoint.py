"""A language model as a source has it: hyperparameters, tensors and tokenizer, in the words of Hugging Face."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from minnow.schema.errors import FormatError, ModelError
from minnow.schema.ir import Blob, DType, Model

_MOST = 1 << 31
_LARGEST = 1e30


class Settings:
    """Hyperparameters by name, as they are in a `config.json`; what they must be is checked where they are asked for.

    Args:
        table: them. where: the file, for messages.
    """

    def __init__(self, table: Mapping[str, Any], where: str) -> None:
        self.table, self.where = table, where

    def __contains__(self, name: str) -> bool:
        return self.table.get(name) is not None

    def raw(self, name: str) -> Any:
        """The value as it is; None where there is none."""
        return self.table.get(name)

    def integer(self, *names: str, default: int | None = None, least: int = 1, most: int = _MOST) -> int:
        """A whole number, under the first of its names that is there. Raises ModelError if it is none, or too large."""
        name, value = self._find(names, default)
        if type(value) is not int or not least <= value <= most:
            raise self._wrong(name, value, f"a whole number from {least} to {most}")
        return value

    def real(
        self, *names: str, default: float | None = None, least: float = -_LARGEST, most: float = _LARGEST
    ) -> float:
        """A number. Raises ModelError if it is none, or out of range."""
        name, value = self._find(names, default)
        if type(value) not in (int, float) or not least <= value <= most:
            raise self._wrong(name, value, "a number" if least < 0 else f"a number from {least} to {most}")
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        _, value = self._find((name,), default)
        if type(value) is not bool:
            raise self._wrong(name, value, "true or false")
        return value

    def text(self, *names: str, default: str | None = None) -> str:
        name, value = self._find(names, default)
        if type(value) is not str:
            raise self._wrong(name, value, "a text")
        return value

    def numbers(self, name: str, count: int) -> list[float]:
        """A list of so many numbers."""
        value = self.table.get(name)
        found: list[Any] = value if isinstance(value, list) and len(value) == count else [None]
        if not all(type(v) in (int, float) and -_LARGEST <= v <= _LARGEST for v in found):
            raise self._wrong(name, value, f"a list of {count} numbers")
        return [float(v) for v in found]

    def texts(self, name: str, count: int) -> list[str] | None:
        """A list of so many texts; None where there is none."""
        value = self.table.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) != count or any(type(v) is not str for v in value):
            raise self._wrong(name, value, f"a list of {count} texts")
        return value

    def section(self, name: str) -> Settings | None:
        """Hyperparameters within these; None where there are none."""
        value = self.table.get(name)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self._wrong(name, value, "a table")
        return Settings(value, f"{self.where}, '{name}'")

    def ids(self, name: str) -> list[int]:
        """One token or several."""
        value = self.table.get(name)
        found = [] if value is None else list(value) if isinstance(value, list) else [value]
        if any(type(v) is not int or not 0 <= v < _MOST for v in found):
            raise self._wrong(name, value, "a token or a list of them")
        return found

    def _find(self, names: tuple[str, ...], default: Any) -> tuple[str, Any]:
        for name in names:
            if self.table.get(name) is not None:
                return name, self.table[name]
        if default is None:
            raise ModelError(f"the hyperparameter '{names[0]}' is missing", where=self.where)
        return names[0], default

    def _wrong(self, name: str, value: Any, what: str) -> ModelError:
        return ModelError(f"the hyperparameter '{name}' is {str(value)[:80]!r}, not {what}", where=self.where)


@dataclass
class Sight:
    """What a language model sees images with.

    Attributes:
        tower: the encoder of images, with the tensors of the layers behind it.
        settings: of the whole model.
        preprocessing: how images are made ready for it.
    """

    tower: Checkpoint
    settings: Settings
    preprocessing: dict[str, Any]


@dataclass
class Checkpoint:
    """A language model.

    Attributes:
        path: the file or folder.
        settings: hyperparameters under the names of Hugging Face's `config.json`, whatever the source calls them.
        tensors: by the names that Hugging Face has for them; their numbers are read when they are asked for.
        name: of the model, where the source says it.
        tokenizer: gives the content of `tokenizer.json`; None where the source has no tokenizer.
        chat_template: Jinja2; None without one.
        bos: token that begins a text, or None. eos: those that end one. add_bos: texts begin with `bos`.
        graph: where the source has a graph itself, makes it that of a step, by the element type of the cache and the
            tokens of a block; None: its architecture has a builder.
        pooling, normalize: of embedding models, where files besides `config.json` say them.
        sight: of models that see images.
    """

    path: Path
    settings: Settings
    tensors: Mapping[str, Blob]
    name: str = ""
    tokenizer: Callable[[], str] | None = None
    chat_template: str | None = None
    bos: int | None = None
    eos: list[int] = field(default_factory=list)
    add_bos: bool = False
    pooling: str = ""
    normalize: bool = False
    graph: Callable[[DType, int], Model] | None = None
    sight: Sight | None = None

    @property
    def model_type(self) -> str:
        """The family of models, such as "llama"."""
        return self.settings.text("model_type")


def open_checkpoint(path: Path) -> Checkpoint:
    """Reads what a file or folder says of a language model, without its numbers.

    Raises:
        FormatError, ModelError: it is damaged, or of no kind that is read.
        UnsupportedError: it has tensors of types that are not read.
    """
    from minnow.converter.formats.llm import kind_of

    kind = kind_of(path)
    if kind == "gguf":
        from minnow.converter.llm.gguf.checkpoint import open_gguf

        return open_gguf(path)
    if kind == "folder":
        from minnow.converter.llm.folder import open_folder

        return open_folder(path)
    if kind == "mnn":
        from minnow.converter.llm.mnn.folder import open_mnn

        return open_mnn(path)
    raise FormatError(
        "this is no language model",
        where=str(path),
        hint="a GGUF file, or a folder with config.json and model.safetensors",
    )
