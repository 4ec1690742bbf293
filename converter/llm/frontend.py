"""The frontend of language models: their graph is built, not translated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from minnow.converter.base import Description, Frontend
from minnow.converter.formats.llm import FORMAT
from minnow.schema.ir import Model


def _read(path: Path, **options: Any) -> Model:
    from minnow.converter.llm.build import build
    from minnow.converter.llm.checkpoint import open_checkpoint

    inputs = options["inputs"]
    if inputs.say_more or options.get("batch") is not None:
        from minnow.schema.errors import UsageError

        raise UsageError("the inputs of a language model are fixed: `--input` and `--batch` do not apply to it")
    return build(open_checkpoint(path))


def _describe(path: Path) -> Description:
    from minnow.converter.llm.description import describe

    return describe(path)


frontend = Frontend(FORMAT, _read, _describe)
