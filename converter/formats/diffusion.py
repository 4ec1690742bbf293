"""How pipelines of diffusers are recognized: folders with the list of their parts."""

from __future__ import annotations

from pathlib import Path

from minnow.converter.formats import Format

INDEX = "model_index.json"
"""The list of the parts."""


def _sniff(path: Path, head: bytes) -> bool:
    return path.is_dir() and (path / INDEX).is_file()


FORMAT = Format("diffusion", _sniff, (), makes_folders=True)
