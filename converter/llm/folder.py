"""Hugging Face's folders: config.json, tensors in one safetensors file or several, tokenizer.json."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from minnow.converter.llm import llava
from minnow.converter.llm.checkpoint import Checkpoint, Settings, Sight
from minnow.converter.llm.safetensors import parsed, read_tensors
from minnow.schema.errors import FormatError, UnsupportedError
from minnow.schema.ir import Blob

_TOKENIZER = "tokenizer.json"
_MOST_JSON = 256 << 20
_MOST_SHARDS = 1000


def open_folder(path: Path) -> Checkpoint:
    """Reads what a folder says of a model, without its numbers. Raises FormatError, ModelError, UnsupportedError."""
    config = read_json(path / "config.json")
    settings, tensors, sight = _parts(path, config)
    tokens = read_json(path / "tokenizer_config.json", optional=True)
    generation = read_json(path / "generation_config.json", optional=True)
    said = {} if sight is None else settings.table
    own = Settings({**said, **config, **{k: v for k, v in generation.items() if v is not None}}, settings.where)
    bos = own.ids("bos_token_id")
    pooling, normalize = _pooling(path)
    return Checkpoint(
        path,
        settings,
        tensors,
        name=path.resolve().name,
        tokenizer=partial(_tokenizer, path / _TOKENIZER) if (path / _TOKENIZER).is_file() else None,
        chat_template=_template(path, tokens),
        bos=bos[0] if bos else None,
        eos=own.ids("eos_token_id"),
        add_bos=tokens.get("add_bos_token") is True,
        pooling=pooling,
        normalize=normalize,
        sight=sight,
    )


def _parts(path: Path, config: Mapping[str, Any]) -> tuple[Settings, Mapping[str, Blob], Sight | None]:
    """The settings and tensors of the language model, and what it sees with, if it does."""
    tensors, settings = tensors_of(path), Settings(config, str(path / "config.json"))
    if config.get("model_type") == llava.KIND:
        return llava.parts(config, tensors, path)
    inner = config.get("text_config")
    if not isinstance(inner, Mapping) or "hidden_size" in config:
        return settings, tensors, None
    if "vision_config" in config:
        raise UnsupportedError(
            f"models that see of the kind '{str(config.get('model_type'))[:40]}' are not supported",
            where=settings.where,
            hint=f"supported is {llava.KIND}",
        )
    return Settings({**inner, "architectures": config.get("architectures")}, settings.where), tensors, None


def read_json(path: Path, optional: bool = False) -> dict[str, Any]:
    """A table in a file; an empty one where the file is optional and not there."""
    if not path.is_file():
        if optional:
            return {}
        raise FormatError(f"{path.name} is missing", where=str(path.parent))
    if path.stat().st_size > _MOST_JSON:
        raise FormatError(f"the file has more than {_MOST_JSON >> 20} MiB", where=str(path))
    return parsed(path.read_bytes(), path)


def tensors_of(path: Path, name: str = "model") -> Mapping[str, Blob]:
    """The tensors of a folder, in one file or several. Raises FormatError, UnsupportedError.

    Args:
        path: the folder.
        name: of the file, without its suffix.
    """
    if (path / f"{name}.safetensors").is_file():
        return read_tensors(path / f"{name}.safetensors")
    table = path / f"{name}.safetensors.index.json"
    index, where = read_json(table).get("weight_map"), str(table)
    if not isinstance(index, dict) or not all(isinstance(file, str) for file in index.values()):
        raise FormatError("'weight_map' is no table of file names", where=where)
    files = sorted(set(index.values()))
    if len(files) > _MOST_SHARDS:
        raise FormatError(f"it names {len(files)} files", where=where)
    found: dict[str, Blob] = {}
    for file in files:
        if Path(file).name != file or file in ("", ".", ".."):
            raise FormatError(f"'{file[:80]}' is not the name of a file beside it", where=where)
        if not (path / file).is_file():
            raise FormatError(f"{file} is missing", where=str(path), hint="download all parts of the model")
        for name, blob in read_tensors(path / file).items():
            if name in found:
                raise FormatError(f"the tensor '{name}' is in two files", where=where)
            found[name] = blob
    return found


def _tokenizer(path: Path) -> str:
    read_json(path)
    return path.read_text(encoding="utf-8")


def _template(path: Path, tokens: Mapping[str, Any]) -> str | None:
    """The template of chats: a file of its own, or in the tokenizer's settings, of several the one named "default"."""
    file = path / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    found = read_json(path / "chat_template.json", optional=True).get("chat_template") or tokens.get("chat_template")
    if isinstance(found, list):
        named = {t.get("name"): t.get("template") for t in found if isinstance(t, Mapping)}
        found = named.get("default")
    return found if isinstance(found, str) else None


def _pooling(path: Path) -> tuple[str, bool]:
    """How an embedding model makes one vector of those of all tokens, where files beside the model say so."""
    modules = path / "modules.json"
    if not modules.is_file():
        return "", False
    normalizes = b"models.Normalize" in modules.read_bytes()[:_MOST_JSON]
    table = read_json(path / "1_Pooling" / "config.json", optional=True)
    kinds = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean", "pooling_mode_lasttoken": "last"}
    return next((kind for key, kind in kinds.items() if table.get(key) is True), ""), normalizes
