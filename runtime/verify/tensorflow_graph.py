"""TensorFlow models as TensorFlow runs them: frozen graphs and SavedModels."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from minnow.schema.ir import Model

Array = np.ndarray[Any, Any]


class TensorFlow:
    """TensorFlow on the processor, with its graph optimizer off."""

    def __init__(self, load: Callable[[], Callable[[Mapping[str, Any]], Mapping[str, Any]]]) -> None:
        """
        Args:
            load: gives a fresh model, as a function from inputs to outputs by name.
        """
        tf = _tensorflow()
        self.name = f"tensorflow {tf.__version__}"
        self._load = load
        self._call: Any = load()

    def close(self) -> None:
        self._call = None

    def reset(self) -> None:
        self._call = self._load()

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        import tensorflow as tf

        self._call = self._call or self._load()
        try:
            results = self._call({n: tf.constant(a) for n, a in inputs.items()})
        except (tf.errors.OpError, ValueError, TypeError) as e:
            raise RuntimeError(str(e)) from e
        return {n: np.asarray(v) for n, v in results.items()}

    def run_again(self, inputs: Mapping[str, Array]) -> dict[str, Array] | None:
        return None


def open_tensorflow(path: Path, model: Model, signature: str = "") -> TensorFlow:
    """The model in a file or folder, called with the names of our inputs and outputs.

    Raises:
        ImportError: tensorflow is not installed.
    """
    tf = _tensorflow()
    inputs = [n for n, _ in model.user_inputs]
    outputs = [n for n, _ in model.user_outputs]

    def saved_model() -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
        loaded = tf.saved_model.load(str(path))
        chosen = signature or (
            "serving_default" if "serving_default" in loaded.signatures else next(iter(loaded.signatures))
        )
        entry = loaded.signatures[chosen]

        def call(given: Mapping[str, Any]) -> Mapping[str, Any]:
            keep = loaded  # the variables live as long as this
            results = entry(**given)
            return {n: results[n] for n in outputs if keep is not None}

        return call

    def frozen_graph() -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
        graph = tf.compat.v1.GraphDef()
        graph.ParseFromString(path.read_bytes())

        def imported() -> None:
            tf.graph_util.import_graph_def(graph, name="")

        wrapped = tf.compat.v1.wrap_function(imported, [])
        tensors = [wrapped.graph.as_graph_element(_port(n)) for n in (*inputs, *outputs)]
        pruned = wrapped.prune(tensors[: len(inputs)], tensors[len(inputs) :])

        def call(given: Mapping[str, Any]) -> Mapping[str, Any]:
            return dict(zip(outputs, pruned(*(given[n] for n in inputs)), strict=True))

        return call

    return TensorFlow(saved_model if path.is_dir() else frozen_graph)


def _port(name: str) -> str:
    return name if ":" in name else f"{name}:0"


def _tensorflow() -> Any:
    """The package, told to be quiet and to leave graphs as they are, where it is not in use yet."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    import tensorflow as tf

    return tf
