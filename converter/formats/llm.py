"""How language models are recognized: GGUF files, folders with hyperparameters and tensors, and folders of MNN-LLM."""

from __future__ import annotations

from pathlib import Path

from minnow.converter.formats import Format

_GGUF = b"GGUF"
_TENSORS = ("model.safetensors", "model.safetensors.index.json")
_MNN_GRAPH, _MNN_FACTS = "llm.mnn", "llm_config.json"


def kind_of(path: Path, head: bytes | None = None) -> str:
    """ "gguf" for a GGUF file, "folder" for a folder of Hugging Face's, "mnn" for one of MNN-LLM, else "".

    Args:
        head: the first bytes, where they are known.
    """
    if is_mnn_llm(path):
        return "mnn"
    if path.is_dir():
        return "folder" if (path / "config.json").is_file() and any((path / t).is_file() for t in _TENSORS) else ""
    if head is None:
        with path.open("rb") as file:
            head = file.read(len(_GGUF))
    return "gguf" if head[: len(_GGUF)] == _GGUF else ""


def is_mnn_llm(path: Path) -> bool:
    """Whether a path is that of a folder that MNN's exporter of language models has written, or of the graph in it."""
    folder = path.parent if path.name == _MNN_GRAPH else path
    return (folder / _MNN_GRAPH).is_file() and (folder / _MNN_FACTS).is_file()


def _sniff(path: Path, head: bytes) -> bool:
    return bool(kind_of(path, head))


FORMAT = Format("llm", _sniff, (".gguf",), makes_folders=True)
