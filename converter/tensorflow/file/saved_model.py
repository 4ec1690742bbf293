"""SavedModels: a folder with graphs, their entry points, and a file of variables."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from minnow.converter.tensorflow.file.restore import captured, restored
from minnow.converter.tensorflow.file.source import Entry, Source, parse
from minnow.converter.tensorflow.file.variables import Variables
from minnow.converter.tensorflow.message import SavedModel
from minnow.converter.tensorflow.symbolic.body import graph_body
from minnow.converter.tensorflow.symbolic.state import Numbers
from minnow.converter.tensorflow.symbolic.translator import Library
from minnow.schema.errors import FormatError, UnsupportedError, UsageError

_NAMES = ("saved_model.pb", "saved_model.pbtxt")
_TAG = "serve"
_DEFAULT = "serving_default"
_INITIALIZER = "__saved_model_init_op"


def find(path: Path) -> Path | None:
    """The file with the graphs of a SavedModel, which is given by its folder or by that file; None if it is none."""
    if path.is_dir():
        return next((path / name for name in _NAMES if (path / name).is_file()), path / _NAMES[0])
    return path if path.name in _NAMES else None


def open_saved_model(path: Path, signature: str = "") -> Source:
    """The graph that serves, as one of its entry points runs it.

    Args:
        path: the file with the graphs; the variables are in the folder `variables` beside it.
        signature: the name of the entry point; by default "serving_default", or the first one.

    Raises:
        FormatError: damaged. UsageError: no such entry point. UnsupportedError: its inputs are no tensors.
    """
    model = parse(path, SavedModel, "SavedModel")
    meta = _serving(model, path)
    signatures = {n: s for n, s in sorted(meta.signature_def.items()) if n != _INITIALIZER and s.outputs}
    source = Source(str(path.parent), meta.graph_def, signatures=list(signatures), meta=meta)
    if version := meta.meta_info_def.tensorflow_version:
        source.producer = f"TensorFlow {version}"
    source.load = _loader(meta, path)
    if signature or signatures:
        chosen = signature or (_DEFAULT if _DEFAULT in signatures else next(iter(signatures)))
        if chosen not in signatures:
            names = ", ".join(signatures) or "none"
            raise UsageError(f"the model has no signature '{chosen}'", where=source.where, hint=f"it has: {names}")
        source.inputs = _entries(signatures[chosen].inputs, source.where)
        source.outputs = _entries(signatures[chosen].outputs, source.where)
    return source


def _serving(model: Any, path: Path) -> Any:
    if not model.meta_graphs:
        raise FormatError("the SavedModel holds no graph", where=str(path))
    serving = [m for m in model.meta_graphs if _TAG in m.meta_info_def.tags]
    plain = [m for m in serving if len(m.meta_info_def.tags) == 1]  # others are for accelerators
    meta = (plain or serving or list(model.meta_graphs))[0]
    if not meta.graph_def.node:
        raise FormatError("the SavedModel holds no graph", where=str(path), why="it has no nodes")
    return meta


def _entries(infos: Any, where: str) -> list[Entry]:
    for name, info in infos.items():
        if not info.name:
            raise UnsupportedError(f"'{name}' is not a single tensor", where=where, why="it is sparse or a composite")
    return [Entry(name, info.name, info) for name, info in sorted(infos.items())]


def _loader(meta: Any, path: Path) -> Callable[[str], Numbers | None]:
    """What finds the numbers of a variable; the files are read when the first one is asked for."""
    opened: list[Any] = []

    @cache  # the numbers are checked when they are loaded
    def load(name: str) -> Numbers | None:
        if not opened:
            prefix = path.parent / "variables" / "variables"
            if not prefix.with_name("variables.index").exists():
                return None
            library, body = Library(meta.graph_def.library.function), graph_body(meta.graph_def.node)
            variables = Variables(prefix)
            stored = captured(meta.object_graph_def, variables, body)
            opened.extend((variables, {**stored, **restored(meta.saver_def.restore_op_name, body, library)}))
        variables, stored = opened
        if name in stored:
            return variables.read(stored[name].key, stored[name].part)
        return variables.read(name) if name in variables else None

    return load
