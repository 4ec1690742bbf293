"""SavedModels and diffusion pipelines, whose files are put into an archive here, and Keras files: one of the files
inside is another."""

from __future__ import annotations

import os
import random
import resource
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path

from fuzz.members import Files, NoCaseError, damaged_document, damaged_tensors, members
from fuzz.messages import damaged_message
from fuzz.probe import Finding
from fuzz.tables import damaged_bytes
from google.protobuf.message import DecodeError

from minnow.converter.tensorflow.file import keras_child
from minnow.schema.errors import FormatError, MinnowError, UnsupportedError

_SECONDS, _MEMORY = 0.25, 70
CONFIG = "config.json"
GRAPH, INDEX, DATA = "saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001"


def saved_models() -> list[bytes]:
    """A SavedModel of a few nodes and a variable, written here."""
    import numpy as np
    from hostile.test_reading import saved_model
    from torch_damage import archive_of

    from minnow.converter.tensorflow.file.checksum import crc32c, mask
    from minnow.converter.tensorflow.message import BundleEntryProto, BundleHeaderProto

    data = np.arange(2, dtype=np.float32).tobytes()
    entry = BundleEntryProto(dtype=1, size=len(data), crc32c=mask(crc32c(data)))
    entry.shape.dim.add(size=2)
    with tempfile.TemporaryDirectory() as place:
        graph = (saved_model(Path(place)).parents[1] / GRAPH).read_bytes()
    rows = {b"": BundleHeaderProto(num_shards=1).SerializeToString(), b"v": entry.SerializeToString()}
    return [archive_of({GRAPH: graph, INDEX: _index_of(rows), DATA: data})]


def saved_model_suite() -> list[bytes]:
    """What TensorFlow has written for the everyday eighth of the suite."""
    from tf_suite.generate import cached
    from torch_damage import archive_of

    folder, _ = cached(sample=True)
    found = []
    for path in sorted(folder.rglob(GRAPH)):
        files = {
            name: (path.parent / name).read_bytes() for name in (GRAPH, INDEX, DATA) if (path.parent / name).is_file()
        }
        if sum(map(len, files.values())) < 1 << 15:
            found.append(archive_of(files))
    return found


def _index_of(rows: dict[bytes, bytes]) -> bytes:
    from hostile.test_reading import Table

    table = Table()
    block = table.block([(0, key, value) for key, value in rows.items()])
    return bytes(table.file(table.block([(0, b"z", block)])))


def _damaged_index(index: bytes, other: bytes, dice: random.Random) -> bytes:
    """Entries of the table are others, or have other keys; all checksums agree."""
    from minnow.converter.tensorflow.file.variables import Variables
    from minnow.converter.tensorflow.message import BundleEntryProto, BundleHeaderProto

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "variables.index")
        path.write_bytes(index)
        rows = dict(Variables(path.with_suffix(""))._table())
    key = dice.choice(sorted(rows))
    what = dice.random()
    if what < 0.7:
        rows[key] = damaged_message(BundleEntryProto if key else BundleHeaderProto, rows[key], dice)
    elif what < 0.8:
        del rows[key]
    elif what < 0.9:
        rows[damaged_bytes(key or b"x", dice)] = rows[key]
    else:
        rows[key] = damaged_bytes(rows[key], dice)
    return _index_of(rows)


def damaged_folder(files: Files, other: Files, dice: random.Random) -> None:
    """One file of a SavedModel is another."""
    from minnow.converter.tensorflow.message import SavedModel

    name = dice.choice([GRAPH, GRAPH, GRAPH, *sorted(files)])
    old, spare = files.get(name, b""), other.get(name, b"")
    if dice.random() < 0.9:
        try:
            if name == GRAPH:
                files[name] = damaged_message(SavedModel, old, dice, spare)
                return
            if name == INDEX:
                files[name] = _damaged_index(old, spare, dice)
                return
        except (DecodeError, MinnowError):  # it is damaged already
            pass
    files[name] = damaged_bytes(old, dice)


def pipelines() -> list[bytes]:
    """A latent diffusion pipeline of a few kilobytes."""
    from torch_damage import archive_of

    folder = Path(__file__).parents[1] / "diffusion" / "tiny"
    return [archive_of({str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()})]


def damaged_pipeline(files: Files, _: Files, dice: random.Random) -> None:
    """The list of parts, the settings of one, or its table of tensors are others."""
    name = dice.choice(sorted(files))
    change = damaged_tensors if name.endswith(".safetensors") else damaged_document
    files[name] = change(files[name], dice)


def keras_files() -> list[bytes]:
    """A network in both forms."""
    from hostile.test_keras import archive, dense, hdf5, module, network

    layers = (dense(), module("keras.layers", "Activation", {"activation": "relu", "name": "a"}))
    return [archive(network(*layers)), hdf5(network(*layers))]


def damaged_keras(data: bytes, _: bytes, dice: random.Random) -> bytes:
    """The configuration of an archive is another one; or bytes are, of which HDF5 makes what it can."""
    from torch_damage import archive_of

    try:
        files = members(data)
    except NoCaseError:
        return damaged_bytes(data, dice)
    if CONFIG not in files or dice.random() < 0.1:
        return damaged_bytes(data, dice)
    files[CONFIG] = damaged_document(files[CONFIG], dice)
    return bytes(archive_of(files))


def check_keras(path: Path) -> object:
    """What the process for Keras files looks at before it imports Keras."""
    if path.read_bytes().startswith(b"PK"):
        code = _checked(path)
    else:  # HDF5 is C, whose faults end a process: there that is one of its own, as here
        code = _apart(lambda: _checked(path))
    if code == -signal.SIGPROF:
        raise UnsupportedError("reading takes too long")  # so it ends in the process for Keras files, too
    if code == _MEMORY:
        raise Finding("memory", "keras_child.config_of")
    if code == keras_child.FOREIGN:
        raise UnsupportedError("the file names what is no part of Keras")
    if code:
        raise FormatError("the process says so, and ends", why=str(code))
    return None


def _checked(path: Path) -> int:
    try:
        keras_child.check_config(keras_child.config_of(path))
    except keras_child.ForeignError:
        return keras_child.FOREIGN
    except MemoryError:
        return _MEMORY
    except Exception:  # noqa: BLE001  (as the process does)
        return keras_child.DAMAGED
    return 0


def _apart(work: Callable[[], int]) -> int:
    child = os.fork()
    if child == 0:
        code = _MEMORY
        try:
            signal.signal(signal.SIGPROF, signal.SIG_DFL)  # of processor time: it ends loops in HDF5, too
            signal.setitimer(signal.ITIMER_PROF, _SECONDS)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            code = work()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
