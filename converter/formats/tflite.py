"""How TFLite files are recognized."""

from __future__ import annotations

from pathlib import Path

from minnow.converter.formats import Format


def _sniff(path: Path, head: bytes) -> bool:
    """A FlatBuffer has its identifier behind the offset of the root."""
    return head[4:8] == b"TFL3" or (path.suffix.lower() in FORMAT.suffixes and len(head) < 8)


FORMAT = Format("tflite", _sniff, (".tflite", ".lite"))
