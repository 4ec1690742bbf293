"""Keras files: `.keras`, which are archives, and `.h5`. Keras itself makes a SavedModel of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import zipfile
from pathlib import Path

from minnow.converter.tensorflow.file import keras_child
from minnow.converter.tensorflow.file.source import Source
from minnow.converter.tensorflow.symbolic.state import Numbers
from minnow.schema.errors import FormatError, UnsupportedError
from minnow.schema.extra import install
from minnow.schema.ir import ArrayBlob

_SIGXCPU = getattr(signal, "SIGXCPU", 24)  # which not all systems have
_lock = threading.Lock()
_last: tuple[tuple[object, ...], tempfile.TemporaryDirectory[str]] | None = None


def exported(path: Path) -> Path:
    """A folder with the SavedModel that Keras makes of a file. It stays until another file is asked for.

    Keras runs in a process of its own, and only on files that name nothing but parts of Keras. That takes seconds, and
    a conversion asks three times.

    Raises:
        UnsupportedError: TensorFlow is not installed, Keras is too old, or refuses the file; or the file holds code.
        FormatError: it is damaged, or holds weights alone.
    """
    global _last
    _check_version(str(path))
    known = path.stat()
    key = (path.resolve(), known.st_ino, known.st_size, known.st_mtime_ns, known.st_ctime_ns)
    with _lock:
        if _last is None or _last[0] != key:
            _last = None
            _last = key, _export(path)
        return Path(_last[1].name) / "saved"


def _export(path: Path) -> tempfile.TemporaryDirectory[str]:
    made = tempfile.TemporaryDirectory(prefix="minnow-keras-")
    suffix = ".keras" if zipfile.is_zipfile(path) else ".h5"  # Keras goes by the name
    named = path.resolve()
    if path.suffix.lower() != suffix:
        named = Path(made.name) / f"model{suffix}"
        named.symlink_to(path.resolve())
    command = [sys.executable, "-W", "ignore", "-c", _PROGRAM, str(named), made.name]
    told = _environment(made.name)
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=told, check=False)
    if done.returncode:
        made.cleanup()
        raise _error(done.returncode, done.stderr.decode("utf-8", "replace").strip(), str(path))
    return made


# Python looks for modules in the current folder first, which may be the model's.
_PROGRAM = f"""import sys
if sys.path[0] == "":
    del sys.path[0]
from {keras_child.__name__} import main
sys.exit(main())"""


def _environment(folder: str) -> dict[str, str]:
    """What the process is told: to be quiet, and to keep its files where they are thrown away."""
    told = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0", "KERAS_BACKEND": "tensorflow"}
    return {**told, **os.environ, "KERAS_HOME": folder, "TMPDIR": folder, "CUDA_VISIBLE_DEVICES": "-1"}


def _check_version(where: str) -> None:
    found, needed = keras_child.version(), ".".join(map(str, keras_child.OLDEST))
    if found is None:
        raise UnsupportedError(
            "Keras files are read by Keras and TensorFlow, which are not installed",
            where=where,
            hint=f"{install('keras')}; or save the model as a SavedModel, which needs nothing",
        )
    if found < keras_child.OLDEST:
        raise UnsupportedError(
            f"Keras {'.'.join(map(str, found))} is too old to be trusted with files from others",
            where=where,
            why="older releases can be tricked into running code of a file, even in safe mode",
            hint=f"pip install 'keras>={needed}'; or save the model as a SavedModel, which needs nothing",
        )


def _error(code: int, why: str, where: str) -> FormatError | UnsupportedError:
    if code == keras_child.FOREIGN:
        return UnsupportedError(
            f"the Keras file holds {why}",
            where=where,
            why="building such a model runs code that is in the file, or that it names",
            hint="load it with the program that defines it, and export it as a SavedModel",
        )
    if code == keras_child.DAMAGED:
        return FormatError(
            "the Keras file is damaged, or holds no model",
            where=where,
            why=why[:300],
            hint="a file of weights alone is not a model: save the whole model",
        )
    if code == -_SIGXCPU:
        return UnsupportedError(
            "reading the Keras file takes too long",
            where=where,
            why="it has used the processor time that a file of its size may",
            hint="if Keras loads it, save it as a SavedModel, which has no such limit",
        )
    reason = why.splitlines()[-1][:300] if why else f"its process ended with the code {code}"
    return UnsupportedError(
        "Keras cannot load the file",
        where=where,
        why=reason,
        hint="a model with custom layers must be exported as a SavedModel by the program that defines them",
    )


def open_keras(path: Path, signature: str = "") -> Source:
    """The graph in a Keras file; its numbers are read at once. Raises what `exported` raises, and FormatError."""
    from minnow.converter.tensorflow.file.saved_model import find, open_saved_model

    file = find(exported(path))
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
