"""The ONNX frontend object, to which the families register."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from minnow.converter.base import Description, Frontend
from minnow.converter.formats.onnx import FORMAT
from minnow.schema.ir import Model


def _read(path: Path, **options: Any) -> Model:
    from minnow.converter.onnx.reader import read

    return read(path, **options)


def _describe(path: Path) -> Description:
    from minnow.converter.onnx.description import describe

    return describe(path)


def _bodies() -> Mapping[str, int]:
    from minnow.converter.onnx.function import standard_bodies

    return standard_bodies()


frontend = Frontend(FORMAT, _read, _describe, _bodies, options=("cut_inputs", "cut_outputs", "custom_ops"))
"""Mappings register with `@frontend.op(...)`; operators of other domains are named "domain::Op"."""
