"""How ONNX files are recognized."""

from __future__ import annotations

from pathlib import Path

from minnow.converter.formats import Format


def _sniff(path: Path, head: bytes) -> bool:
    """ONNX is a protobuf without a magic number: it starts with the field ir_version (a small varint)."""
    if len(head) > 2 and head[0] == 0x08 and head[1] < 0x20:
        return head[2] in (0x12, 0x1A, 0x22, 0x28, 0x32, 0x3A, 0x42)
    return path.suffix.lower() == ".onnx" and not head.startswith(b"PK\x03\x04")


FORMAT = Format("onnx", _sniff, (".onnx",))
