"""Keras files: `.keras`, which are archives, and `.h5`. Keras itself makes a SavedModel of them."""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from minnow.converter.tensorflow.source import Source
from minnow.converter.tensorflow.state import Numbers
from minnow.schema.errors import FormatError, UnsupportedError
from minnow.schema.ir import ArrayBlob


@contextmanager
def exported(path: Path) -> Iterator[Path]:
    """A folder with the SavedModel that Keras makes of a file, for as long as the block runs.

    Raises:
        UnsupportedError: TensorFlow is not installed, or Keras refuses the file.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    try:
        import tensorflow as tf
    except ImportError as e:
        raise UnsupportedError(
            "Keras files are read by TensorFlow, which is not installed",
            where=str(path),
            why=str(e),
            hint="pip install minnow[tensorflow]; or save the model as a SavedModel, which needs nothing",
        ) from None
    with tempfile.TemporaryDirectory(prefix="minnow-keras-") as folder:
        suffix = ".keras" if zipfile.is_zipfile(path) else ".h5"  # Keras goes by the name
        named = path
        if path.suffix.lower() != suffix:
            named = Path(folder) / f"model{suffix}"
            named.symlink_to(path.resolve())
        target = Path(folder) / "saved"
        try:
            model: Any = tf.keras.models.load_model(str(named), compile=False)
            try:
                model.export(str(target), verbose=False)
            except Exception:  # noqa: BLE001  (it leaves the batch open, which layers with states do not bear)
                tf.saved_model.save(model, str(target))
        except Exception as e:  # noqa: BLE001  (Keras raises whatever its layers raise)
            lines = [line for line in str(e).splitlines() if line.strip()] or [type(e).__name__]
            raise UnsupportedError(
                "Keras cannot load the file",
                where=str(path),
                why=lines[0][:300],
                hint="a file of weights alone is no model; one with layers of its own has to be exported as a "
                "SavedModel by the program that knows them",
            ) from None
        yield target


def open_keras(path: Path, signature: str = "") -> Source:
    """The graph in a Keras file; its numbers are read at once. Raises what `exported` raises, and FormatError."""
    from minnow.converter.tensorflow.saved_model import find, open_saved_model

    with exported(path) as folder:
        file = find(folder)
        if file is None:
            raise FormatError("Keras has made no SavedModel of the file", where=str(path))
        source = open_saved_model(file, signature)
        numbers: dict[str, Numbers] = {}
        for name in (node.name for node in source.graph.node if node.op == "VarHandleOp"):
            if (known := source.load(name)) is not None:
                dtype, shape, blob = known
                numbers[name] = (dtype, shape, ArrayBlob(blob.numpy()))  # mapped, also when the file has gone
    source.where, source.load = str(path), numbers.get
    return source
