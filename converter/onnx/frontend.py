"""The ONNX frontend object, to which the families register, and the test for the format."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from minnow.converter.base import Description, Frontend
from minnow.schema.ir import Model


def _sniff(path: Path, head: bytes) -> bool:
    """ONNX is a protobuf without a magic number: it starts with the field ir_version (a small varint)."""
    if len(head) > 2 and head[0] == 0x08 and head[1] < 0x20:
        return head[2] in (0x12, 0x1A, 0x22, 0x28, 0x32, 0x3A, 0x42)
    return path.suffix.lower() == ".onnx"


def _read(path: Path, **options: Any) -> Model:
    from minnow.converter.onnx.reader import read

    return read(path, **options)


def _describe(path: Path) -> Description:
    from minnow.converter.onnx.description import describe

    return describe(path)


def _bodies() -> Mapping[str, int]:
    from minnow.converter.onnx.function import standard_bodies

    return standard_bodies()


frontend = Frontend("onnx", _sniff, _read, _describe, (".onnx",), _bodies)
"""Mappings register with `@frontend.op(...)`; operators of other domains are named "domain::Op"."""
