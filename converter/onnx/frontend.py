"""The ONNX frontend object, to which the families register, and the test for the format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from minnow.converter.base import Frontend
from minnow.schema.ir import Model


def _sniff(path: Path, head: bytes) -> bool:
    """ONNX is a protobuf without a magic number: it starts with the field ir_version (a small varint)."""
    if len(head) > 2 and head[0] == 0x08 and head[1] < 0x20:
        return head[2] in (0x12, 0x1A, 0x22, 0x28, 0x32, 0x3A, 0x42)
    return path.suffix.lower() == ".onnx"


def _read(path: Path, **options: Any) -> Model:
    from minnow.converter.onnx.reader import read

    return read(path, **options)


frontend = Frontend("onnx", _sniff, _read, (".onnx",))
"""Mappings register with `@frontend.op(...)`; operators of other domains are named "domain::Op"."""
