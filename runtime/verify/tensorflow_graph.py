"""Runs TensorFlow models with TensorFlow: frozen graphs, SavedModels, and Keras models exported as SavedModels."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from minnow.runtime.verify.tensorflow_effect import check_frozen, check_saved_model
from minnow.schema.ir import Model

Array = np.ndarray[Any, Any]
Loaded = tuple[Callable[[Mapping[str, Any]], Mapping[str, Any]], Callable[[], None] | None]
"""A model as a function from inputs to outputs by name, and a function that restores the variables of the file.

The second is None if only loading the model again restores them.
"""
_REFERENCES = {"Variable", "VariableV2"}  # live in TensorFlow itself and are not passed to functions


class TensorFlow:
    """TensorFlow on the CPU, with its graph optimizer off."""

    def __init__(self, load: Callable[[], Loaded]) -> None:
        """
        Args:
            load: returns a newly loaded model.
        """
        tf = _tensorflow()
        self.name = f"tensorflow {tf.__version__}"
        self._load = load
        self._loaded: Loaded | None = load()

    def close(self) -> None:
        self._loaded = None

    def reset(self) -> None:
        if self._loaded is not None and self._loaded[1] is not None:
            self._loaded[1]()
        else:
            self._loaded = None

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        import tensorflow as tf

        self._loaded = self._loaded or self._load()
        try:
            results = self._loaded[0]({n: tf.constant(a) for n, a in inputs.items()})
            return {n: np.asarray(v) for n, v in results.items()}
        except (tf.errors.OpError, ValueError, TypeError) as e:
            raise RuntimeError(str(e)) from e

    def run_again(self, inputs: Mapping[str, Array]) -> dict[str, Array] | None:
        return None


def open_tensorflow(path: Path, model: Model, signature: str = "") -> TensorFlow:
    """The model in a file or folder, called with the names of our inputs and outputs.

    Raises:
        ImportError: tensorflow is not installed. LookupError: the entry point has other inputs or outputs.
    """
    from minnow.converter.formats.tensorflow import is_keras
    from minnow.converter.tensorflow.file.keras import exported
    from minnow.converter.tensorflow.file.saved_model import find, open_saved_model

    _tensorflow()
    inputs = [n for n, _ in model.user_inputs]
    outputs = [n for n, _ in model.user_outputs]
    if (saved := find(path)) is not None:
        declared = open_saved_model(saved, signature)
        known = {e.name for e in (*(declared.inputs or ()), *(declared.outputs or ()))}
        # A model that is cut starts or ends at tensors that no entry point has.
        if strange := sorted({*inputs, *outputs} - known):
            raise LookupError(f"'{strange[0]}' is not in its signature")
        check_saved_model(declared.meta, str(path))
        if any(node.op in _REFERENCES for node in declared.graph.node):
            return TensorFlow(lambda: (_saved_model(saved.parent, inputs, outputs, signature)[0], None))
        return TensorFlow(lambda: _saved_model(saved.parent, inputs, outputs, signature))
    with path.open("rb") as file:
        if not is_keras(path, file.read(8)):
            return TensorFlow(lambda: _frozen_graph(path, inputs, outputs))

    return TensorFlow(lambda: _saved_model(exported(path), inputs, outputs, signature))


def _saved_model(folder: Path, inputs: Sequence[str], outputs: Sequence[str], signature: str) -> Loaded:
    tf = _tensorflow()
    loaded = tf.saved_model.load(str(folder))
    names = list(loaded.signatures)
    entry = loaded.signatures[signature or ("serving_default" if "serving_default" in names else sorted(names)[0])]
    given = entry.structured_input_signature[1]
    # Inputs that no output depends on are not inputs of our model.
    unused = {
        n: tf.zeros([1 if d is None else d for d in s.shape], s.dtype) for n, s in given.items() if n not in inputs
    }

    def call(arrays: Mapping[str, Any], keep: Any = loaded) -> Mapping[str, Any]:
        results = entry(**arrays, **unused)  # the variables live as long as `keep`
        return {n: results[n] for n in outputs}

    kept = _variables(entry)

    def reset() -> None:
        for handle, value in kept:
            tf.raw_ops.AssignVariableOp(resource=handle, value=value)

    return call, reset


def _variables(entry: Any) -> list[tuple[Any, Any]]:
    """The variables that a function has captured, and what is in them now."""
    tf = _tensorflow()
    found = []
    for handle in entry.captured_inputs:
        data = getattr(handle, "_handle_data", None)  # of a table it says nothing
        if handle.dtype == tf.resource and data is not None and data.shape_and_type:
            read = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.as_dtype(data.shape_and_type[0].dtype))
            found.append((handle, tf.identity(read)))
    return found


def _frozen_graph(path: Path, inputs: Sequence[str], outputs: Sequence[str]) -> Loaded:
    from minnow.converter.tensorflow.file.source import is_text, parse
    from minnow.converter.tensorflow.message import GraphDef

    tf = _tensorflow()
    data = path.read_bytes()
    if is_text(data):
        data = parse(path, GraphDef, "graph").SerializeToString()
    check_frozen(GraphDef.FromString(data), outputs, str(path))
    graph = tf.compat.v1.GraphDef.FromString(data)

    def imported() -> None:
        tf.graph_util.import_graph_def(graph, name="")

    wrapped = tf.compat.v1.wrap_function(imported, [])
    tensors = [wrapped.graph.as_graph_element(_port(n)) for n in (*inputs, *outputs)]
    pruned = wrapped.prune(tensors[: len(inputs)], tensors[len(inputs) :])

    def call(given: Mapping[str, Any]) -> Mapping[str, Any]:
        return dict(zip(outputs, pruned(*(given[n] for n in inputs)), strict=True))

    return call, lambda: None


def _port(name: str) -> str:
    return name if ":" in name else f"{name}:0"


def _tensorflow() -> Any:
    """The package, set to be quiet and not to change graphs, unless it has been imported already."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    fresh = "tensorflow" not in sys.modules
    import tensorflow as tf

    if fresh:
        tf.get_logger().setLevel("ERROR")
    return tf
