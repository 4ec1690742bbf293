"""How language models are recognized: GGUF files, and folders with hyperparameters and tensors."""

from __future__ import annotations

from pathlib import Path

from minnow.converter.formats import Format

_GGUF = b"GGUF"
_TENSORS = ("model.safetensors", "model.safetensors.index.json")


def kind_of(path: Path, head: bytes | None = None) -> str:
    """ "gguf" for a GGUF file, "folder" for a folder of Hugging Face's, else "".

    Args:
        head: the first bytes, where they are known.
    """
    if path.is_dir():
        return "folder" if (path / "config.json").is_file() and any((path / t).is_file() for t in _TENSORS) else ""
    if head is None:
        with path.open("rb") as file:
            head = file.read(len(_GGUF))
    return "gguf" if head[: len(_GGUF)] == _GGUF else ""


def _sniff(path: Path, head: bytes) -> bool:
    return bool(kind_of(path, head))


FORMAT = Format("llm", _sniff, (".gguf",), makes_folders=True)
