"""Files of users with ops of their own, and what these are in source models: `--op-plugin`."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from minnow.schema.errors import UsageError

_loaded: set[str] = set()


def load(paths: Iterable[str | os.PathLike[str]]) -> None:
    """Runs the files, each once in a process. Raises UsageError where one cannot be read, or fails."""
    for path in paths:
        place = os.path.realpath(path)
        if place in _loaded:
            continue
        name = f"minnow_op_plugin_{len(_loaded)}_{Path(place).stem}"
        spec = importlib.util.spec_from_file_location(name, place)
        if spec is None or spec.loader is None or not Path(place).is_file():
            raise UsageError("an op plugin is a Python file", where=str(path), hint="give the path of a file, *.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # where decorators look for the types of annotations
        try:
            spec.loader.exec_module(module)
        except Exception as e:
            del sys.modules[name]
            raise UsageError(
                "an op plugin cannot be loaded",
                where=str(path),
                why=f"{type(e).__name__}: {e}",
                hint="docs/custom-ops.md has an example",
            ) from e
        _loaded.add(place)
