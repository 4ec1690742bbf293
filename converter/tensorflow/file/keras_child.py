"""Runs as a process of its own: has Keras make a SavedModel of a file, after checking that it names no foreign code.

A Keras file says by name which classes and functions build its model, and may hold functions as code. Keras' own safe
mode has let through more than once what it should not; so what a file names is looked at before Keras is imported,
older releases are not used, and the process can open no other files than the model's, and write only into the folder.

`main` takes a file and a folder from the command line. The SavedModel is `FOLDER/saved`; what is wrong goes to stderr,
and its kind is the exit code.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from minnow.converter.file.sandbox import limit_resources, restrict_files

FOREIGN, DAMAGED, REFUSED = 3, 4, 5
OLDEST = (3, 11, 3)
"""Keras before 2.13 ran the code of Lambda layers, before 3.9 called what the configuration named (CVE-2025-1550), and
up to 3.11.2 safe mode could be talked out of it (CVE-2025-8747, CVE-2025-9905, CVE-2025-9906, CVE-2025-49655)."""

SECONDS, MEMORY, _MOST_WRITTEN = 600, 24 << 30, 1 << 40
_LEAST_SECONDS, _LEAST_FOR_CONFIG = 120, 10
"""Processor time, and one second more for each MiB of the file: HDF5 follows some damaged files without end."""
_MOST_TEXT = 1 << 27
_DATA, _DATA_PER_BYTE = 4 << 30, 16
"""Memory that a file may make Keras take: a layer of any size takes a line of its configuration."""
_MODULES = re.compile(
    r"keras(\.(src\.)?(activations|constraints|dtype_policies|initializers|layers|losses|metrics|models|ops|optimizers"
    r"|quantizers|random|regularizers)(\.\w+)*)?"
)
_ACTIVATIONS = re.compile(r"keras\.(src\.)?activations(\.\w+)*")
_LOADING = {"FlaxLayer": "code", "JaxLayer": "code", "TFSMLayer": "another model", "TorchModuleWrapper": "a pickle"}
_READING = ("IntegerLookup", "StringLookup", "TextVectorization")


class ForeignError(Exception):
    """What a file names that is no part of Keras, or that loads something else."""


def check_config(config: Any) -> None:
    """Raises ForeignError where the configuration of a model names what Keras should not be asked to run."""
    for table in _tables(config):
        name, module = table.get("class_name"), table.get("module")
        if not isinstance(name, str):
            continue
        if "lambda" in name.lower():
            raise ForeignError(f"a {name}, which is code in the file")
        if module is not None and not (isinstance(module, str) and _MODULES.fullmatch(module)):
            raise ForeignError(f"'{name}' of {module!r}, which is not part of Keras")
        if name == "function" and not (isinstance(module, str) and _ACTIVATIONS.fullmatch(module)):
            raise ForeignError(f"the function {table.get('config')!r} of {module!r}")
        if name in _LOADING:
            raise ForeignError(f"a {name}, which loads {_LOADING[name]}")
        inner = table.get("config")
        if name in _READING and isinstance(inner, dict) and isinstance(inner.get("vocabulary"), str):
            raise ForeignError(f"a {name} that reads the file {inner['vocabulary']!r}")


def _tables(config: Any) -> Iterator[dict[str, Any]]:
    todo = [config]
    while todo:
        part = todo.pop()
        if isinstance(part, dict):
            yield part
            todo += part.values()
        elif isinstance(part, list):
            todo += part


def config_of(path: Path) -> Any:
    """The configuration in a file. Raises ValueError for one that has none, or that is damaged."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                if info.file_size > 64 * max(info.compress_size, 1 << 16):
                    raise ValueError(f"'{info.filename}' unpacks {info.compress_size} bytes to {info.file_size}")
            if archive.getinfo("config.json").file_size > _MOST_TEXT:
                raise ValueError("its configuration is too long")
            return json.loads(archive.read("config.json"))
    import h5py

    with h5py.File(path, "r") as file:
        text = file.attrs.get("model_config")
    if text is None:
        raise ValueError("it has weights, but no model")
    if len(text) > _MOST_TEXT:
        raise ValueError("its configuration is too long")
    return json.loads(text)


def load(path: Path, target: Path) -> None:
    """Has Keras load the model, and write it down as a SavedModel."""
    import keras
    import tensorflow as tf

    model: Any = keras.saving.load_model(str(path), compile=False, safe_mode=True)
    try:
        model.export(str(target), verbose=False)
    except Exception:  # noqa: BLE001  (it leaves the batch open, which layers with states do not bear)
        tf.saved_model.save(model, str(target))


def version() -> tuple[int, ...] | None:
    """Of the Keras that is installed; None where it, or TensorFlow, is not."""
    try:
        importlib.metadata.version("h5py")
        if not any(_is_there(name) for name in ("tensorflow", "tensorflow-cpu", "tensorflow-intel", "tf-nightly")):
            return None
        return tuple(int(n) for n in re.findall(r"\d+", importlib.metadata.version("keras"))[:3])
    except importlib.metadata.PackageNotFoundError:
        return None


def _is_there(package: str) -> bool:
    try:
        return bool(importlib.metadata.version(package))
    except importlib.metadata.PackageNotFoundError:
        return False


def _end_after(seconds: int) -> None:
    """SIGXCPU ends the process when it has used so much processor time, where the system can."""
    try:
        import resource
    except ImportError:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds if hard == resource.RLIM_INFINITY else min(seconds, hard), hard))


def main() -> int:
    """Gives the kind of what is wrong, 0 for nothing, and says it on stderr."""
    path, folder = Path(sys.argv[1]), Path(sys.argv[2])
    quiet = open(os.devnull, "w")  # noqa: SIM115  (what TensorFlow has to say is no error)
    size = path.stat().st_size
    seconds, data = min(SECONDS, _LEAST_SECONDS + (size >> 20)), min(MEMORY, _DATA + _DATA_PER_BYTE * size)
    limit_resources(seconds + 1, MEMORY, _MOST_WRITTEN, files=4096, data=data)
    restrict_files([path.resolve()], [folder])
    _end_after(min(seconds, _LEAST_FOR_CONFIG + (size >> 20)))
    try:
        check_config(config_of(path))
    except ForeignError as e:
        sys.stderr.write(str(e))
        return FOREIGN
    except Exception as e:  # noqa: BLE001  (whatever h5py finds wrong with a file)
        sys.stderr.write(f"{type(e).__name__}: {e}")
        return DAMAGED
    _end_after(seconds)
    saved, sys.stderr = sys.stderr, quiet
    try:
        load(path, folder / "saved")
    except Exception as e:  # noqa: BLE001  (Keras raises whatever its layers raise)
        lines = [line for line in str(e).splitlines() if line.strip()] or [type(e).__name__]
        saved.write(f"\n{lines[0]}")
        return REFUSED
    return 0
