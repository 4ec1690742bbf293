"""A folder of MNN-LLM as a checkpoint: its graph is there already, and becomes that of a step."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from minnow.converter.llm.checkpoint import Checkpoint, Settings
from minnow.converter.llm.folder import read_json
from minnow.converter.llm.mnn.stream import halves, packed_rows
from minnow.converter.llm.mnn.table import LAYOUT
from minnow.converter.llm.mnn.translation import Translation
from minnow.converter.llm.tokenizer import mtok
from minnow.converter.llm.tokenizer.folder import LARGEST
from minnow.converter.llm.tokenizer.form import Json
from minnow.converter.llm.tokenizer.mnn_text import from_mnn_text
from minnow.schema.errors import FormatError, MinnowError, UnsupportedError
from minnow.schema.ir import Blob, DType, LazyBlob, RoundedBlob
from minnow.schema.mnn.decoder import decode

Array = npt.NDArray[Any]

_OTHER = ("is_visual", "is_audio", "is_mrope", "has_talker", "has_deepstack", "ple_embedding_file", "lora_model")
"""Settings of models that are more than text."""
_MASKS = ("float", "int")
_MOST_TOKENS = 1 << 27


def open_mnn(path: Path) -> Checkpoint:
    """Reads a folder, without its numbers.

    Args:
        path: the folder, or the graph in it.

    Raises:
        FormatError, ModelError: it is damaged.
        UnsupportedError: it is of a kind of models, or has operators, that are not read.
    """
    folder = path if path.is_dir() else path.parent
    # What both say is taken from the settings of runs, as MNN's runtime does.
    table = {**read_json(folder / "llm_config.json"), **read_json(folder / "config.json", optional=True)}
    settings = Settings(table, str(folder / "llm_config.json"))
    for name in _OTHER:
        if table.get(name):
            raise UnsupportedError(f"folders of MNN-LLM with '{name}' are not read", where=settings.where)
    if settings.text("attention_mask", default="int") not in _MASKS:
        raise UnsupportedError(f"masks of the kind '{table['attention_mask']}' are not read", where=settings.where)
    graph = _beside(folder, settings, "llm_model", "llm.mnn")
    weights = _beside(folder, settings, "llm_weight", "llm.mnn.weight")
    rows = _table_of(folder, settings, weights)
    source = decode(np.memmap(graph, np.uint8, mode="r"), weights)
    tokens = _Tokens(folder, settings)
    template = _template(table)
    made = Checkpoint(
        folder, settings, {}, name=folder.resolve().name, tokenizer=tokens.read,
        chat_template=tokens.template() if template is None else template,
        bos=tokens.prefix[0] if len(tokens.prefix) == 1 else None, eos=tokens.stop, add_bos=len(tokens.prefix) == 1,
    )  # fmt: skip
    made.settings = Settings(
        {
            "model_type": settings.text("model_type", default="mnn"),
            "hidden_size": settings.integer("hidden_size", most=1 << 20),
            "num_hidden_layers": settings.integer("layer_nums", most=4096),
            "num_attention_heads": 1,
            "vocab_size": rows.shape[0],
            "max_position_embeddings": settings.integer("max_position_embeddings", "max_all_tokens", default=2048),
        },
        settings.where,
    )
    translation = Translation(made, source, rows, settings)
    translation.model(DType.F16)  # which finds out the sizes of heads
    made.settings = Settings({**made.settings.table, **translation.sizes}, settings.where)
    made.graph = translation.model
    return made


def _beside(folder: Path, settings: Settings, name: str, default: str) -> Path:
    """A file whose name a setting has. Raises FormatError if there is none, or it is elsewhere."""
    file = settings.text(name, default=default)
    if Path(file).name != file or file in ("", ".", ".."):
        raise FormatError(f"'{name}' is '{file[:80]}', not the name of a file beside it", where=settings.where)
    if not (folder / file).is_file() or not (folder / file).stat().st_size:
        raise FormatError(f"{file} is missing or empty", where=str(folder), hint="copy all files of the folder")
    return folder / file


def _table_of(folder: Path, settings: Settings, weights: Path) -> Blob:
    """The table of tokens [tokens, hidden]. Raises FormatError if it does not fit its file."""
    hidden = settings.integer("hidden_size", most=1 << 20)
    layout, half = _layout(settings)
    if not layout:
        data = _mapped(_beside(folder, settings, "embedding_file", "embeddings_bf16.bin"))
        count = _rows(data.size, 2 * hidden, settings)
        brain = LazyBlob(lambda: _brains(data), DType.F32, (count, hidden))
        return RoundedBlob(brain, DType.BF16)
    begin, scales, size, bits, block = layout
    file = weights if begin else _beside(folder, settings, "embedding_file", "embeddings_bf16.bin")
    data = _mapped(file)
    if bits == 16:
        end = scales if scales > begin else data.size
        count = _rows(end - begin, 2 * hidden, settings)
        return halves(data[begin:end], (count, hidden))
    if bits not in (4, 8) or not begin <= scales <= scales + size <= data.size:
        raise FormatError(f"'tie_embeddings' is {layout}, which does not fit {file.name}", where=settings.where)
    count = _rows((scales - begin) * 8 // bits, hidden, settings)
    kind = np.float16 if half else np.float32
    if size % np.dtype(kind).itemsize:
        raise FormatError(f"'tie_embeddings' has {size} bytes of scales", where=settings.where)
    alpha = np.frombuffer(data[scales : scales + size].tobytes(), kind)
    groups = count * (hidden // block if block else 1)
    return packed_rows(data[begin:scales], alpha, (count, hidden), bits, alpha.size == 2 * groups, -(1 << (bits - 1)))


def _layout(settings: Settings) -> tuple[list[int], bool]:
    """Where the table is: five numbers, or none; and whether its scales are in float16."""
    found = settings.raw("tie_embeddings")
    half = False
    if isinstance(found, Mapping):
        half = found.get("alpha_dtype") == "fp16"
        found = [found.get(key) for key in LAYOUT]
    if found is None or found is False:
        return [], half
    if not isinstance(found, list) or len(found) != len(LAYOUT) or any(type(n) is not int or n < 0 for n in found):
        raise FormatError("'tie_embeddings' is no list of five numbers", where=settings.where)
    return found, half


def _rows(bytes_: int, each: int, settings: Settings) -> int:
    if bytes_ <= 0 or bytes_ % each or bytes_ // each > _MOST_TOKENS:
        raise FormatError(f"{bytes_} bytes are no table of tokens, with {each} for each", where=settings.where)
    return bytes_ // each


def _mapped(path: Path) -> Array:
    return np.memmap(path, np.uint8, mode="r")


def _brains(data: Array) -> Array:
    found: Array = (np.asarray(data).view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
    return found


def _template(table: Mapping[str, Any]) -> str | None:
    jinja = table.get("jinja")
    found = jinja.get("chat_template") if isinstance(jinja, Mapping) else None
    return found if isinstance(found, str) else None


class _Tokens:
    """The vocabulary of a folder.

    Attributes:
        stop: tokens that end an answer. prefix: those in front of every text.
    """

    def __init__(self, folder: Path, settings: Settings) -> None:
        usual = next(
            (name for name in ("tokenizer.mtok", "tokenizer.txt") if (folder / name).is_file()), "tokenizer.txt"
        )
        self.path = _beside(folder, settings, "tokenizer_file", usual)
        with self.path.open("rb") as file:
            lines = [file.readline(1 << 20) for _ in range(3)]
        try:
            self.kind = int(lines[0].split()[1])
            special, stop, prefix = (int(n) for n in lines[1].split())
            ids = [int(n) for n in lines[2].split()]
        except (ValueError, IndexError):
            raise FormatError("this is no vocabulary of MNN-LLM", where=str(self.path)) from None
        if (
            min(special, stop, prefix) < 0
            or len(ids) != special + stop + prefix
            or any(not 0 <= i < 1 << 31 for i in ids)
        ):
            raise FormatError("the special tokens are cut off", where=str(self.path))
        self.stop = list(dict.fromkeys(ids[special : special + stop]))
        self.prefix = ids[special + stop :]

    def read(self) -> str:
        """The content of a tokenizer.json."""
        own = self.path.with_name("tokenizer.json")
        if own.is_file():
            read_json(own)
            return own.read_text(encoding="utf-8")
        return json.dumps(self._read()[0], ensure_ascii=False) + "\n"

    def template(self) -> str | None:
        """The chat template of a vocabulary that has one."""
        return self._read()[1] if self.kind == mtok.KIND else None

    def _read(self) -> tuple[Json, str | None]:
        if self.path.stat().st_size > LARGEST:
            raise FormatError("the file is too large", where=str(self.path), why=f"more than {LARGEST >> 20} MiB")
        data = self.path.read_bytes()
        try:
            return mtok.from_mtok(data) if self.kind == mtok.KIND else (from_mnn_text(data), None)
        except MinnowError as e:
            e.where = e.where or str(self.path)
            raise
