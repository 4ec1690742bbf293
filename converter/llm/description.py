"""What a checkpoint says of itself, without its numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from minnow.converter.base import Description, Port
from minnow.converter.llm.build import build
from minnow.converter.llm.checkpoint import open_checkpoint
from minnow.schema.ir import TensorType


def describe(path: Path) -> Description:
    """The step graph of a checkpoint. Raises FormatError, ModelError, UnsupportedError."""
    checkpoint = open_checkpoint(path)
    model = build(checkpoint)
    files = [path] if path.is_file() else [p for p in path.iterdir() if p.suffix in (".safetensors", ".json")]
    return Description(
        versions={},
        producer="",
        operators=dict(Counter(node.op for node in model.graph).most_common()),
        inputs=_ports(model.user_inputs),
        outputs=_ports(model.user_outputs),
        size=sum(p.stat().st_size for p in files),
        versioned=f"architecture {checkpoint.model_type}",
    )


def _ports(values: Sequence[tuple[str, TensorType]]) -> list[Port]:
    return [Port(name, type.dtype.value, list(type.shape or ())) for name, type in values]
