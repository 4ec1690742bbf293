"""The content key of a cell: a hash of everything that its output depends on, and of nothing else.

That is the bytes of all source files, the options, the bytes of the data files that they name, and the build of Minnow.
Where files lie, when they were changed and what they are called is no part of it, except for the suffix of the source,
which decides about its format where the content does not.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import mmap
import os
import platform
import threading
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from minnow.schema.errors import FormatError, MinnowError
from minnow.workflow.cell import Cell

VERSION = 1
"""Of the key itself: a change of how it is computed makes all old keys invalid."""

_APART = ("output", "progress")
"""Options that do not change what is written."""
_CODE = ("schema", "converter", "optimizer", "runtime", "options")
"""The packages that decide about the bytes of an output, and about its verification."""
_BLOCK = 1 << 20
_REMEMBERED = 10_000
"""Files whose hashes are remembered."""


class FileHashes:
    """Hashes of files by path. A file is read again only if its size, times, or place on the disk have changed."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[int, ...], str]] = {}
        self._lock = threading.Lock()

    def of(self, path: Path) -> str:
        """The sha256 of a file's content, in hexadecimal digits. Raises FormatError if it cannot be read."""
        try:
            with path.open("rb") as file:
                stat = os.fstat(file.fileno())
                state = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
                name = os.fspath(path)
                with self._lock:
                    known = self._known.get(name)
                if known is not None and known[0] == state:
                    return known[1]
                digest = hashlib.sha256()
                while block := file.read(_BLOCK):
                    digest.update(block)
        except OSError as e:
            raise FormatError("cannot read the file", where=str(path), why=e.strerror or str(e)) from None
        with self._lock:
            if len(self._known) >= _REMEMBERED:
                self._known.pop(next(iter(self._known)))
            self._known[name] = state, digest.hexdigest()
        return digest.hexdigest()


def key_of(cell: Cell, hashes: FileHashes | None = None, source: Mapping[str, Any] | None = None) -> str:
    """The key of a cell, 64 hexadecimal digits. Arguments and errors are those of `key_parts`."""
    return digest_of(key_parts(cell, hashes, source))


def key_parts(cell: Cell, hashes: FileHashes | None = None, source: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What the key is the hash of, as JSON-ready values: "sources" and "data" (hashes by name), "options", "build".

    Args:
        hashes: of files that were read before.
        source: the `source_parts`, if they are known. The source need not be there then.

    Raises:
        FormatError: a file is missing or cannot be read.
        UsageError: an option has a value out of range.
    """
    hashes = hashes or FileHashes()
    options = canonical_options(cell.options)
    if source is None:
        source = source_parts(Path(cell.source), options, hashes)
    data = take_files(options, hashes)
    parts: dict[str, Any] = {"version": VERSION, **source, "data": data, "build": build()}
    if options.get("prepack"):
        parts["machine"] = _machine()  # packed weights are for one kind of processor
    return {**parts, "options": options}


def take_files(options: dict[str, Any], hashes: FileHashes) -> dict[str, list[str]]:
    """Takes the options that name files or folders out of the others; gives the hashes of what they name.

    Raises:
        FormatError: a file is missing or cannot be read.
    """
    from minnow.options.convert import ConvertOptions
    from minnow.options.option import file_options

    found: dict[str, list[str]] = {}
    for name in file_options(ConvertOptions):
        value = options.pop(name, None)
        paths = [value] if isinstance(value, (str, os.PathLike)) else list(value or ())
        if paths:
            found[name] = [_hash_of(Path(path), hashes) for path in paths]
    return found


def _hash_of(path: Path, hashes: FileHashes) -> str:
    """Of a file, or of all files in a folder with their names."""
    if not path.is_dir():
        return hashes.of(path)
    return digest_of({name: hashes.of(file) for name, file in _tree(path, path)})


def source_parts(source: Path, options: Mapping[str, Any], hashes: FileHashes | None = None) -> dict[str, Any]:
    """The part of `key_parts` that comes from the files of the source. Raises FormatError."""
    hashes = hashes or FileHashes()
    return {
        "suffix": source.suffix.lower(),
        "sources": {name: hashes.of(path) if path else None for name, path in source_files(source, options).items()},
        "tools": _tools(source, options),
    }


def digest_of(value: Any) -> str:
    """The sha256 of JSON-ready values; the order of keys does not matter."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def canonical_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that differ from their defaults and change the output: equal meanings give equal values.

    Raises:
        UsageError: a value is out of range.
    """
    from dataclasses import fields

    from minnow.options.convert import ConvertOptions
    from minnow.options.option import plain_type

    kinds = {f.name: plain_type(f) for f in fields(ConvertOptions)}
    changed = ConvertOptions(**options).changed()
    return {
        name: kinds[name](value) if kinds[name] in (int, float) else _plain(value)
        for name, value in sorted(changed.items())
        if name not in _APART
    }


def source_files(source: Path, options: Mapping[str, Any]) -> dict[str, Path | None]:
    """All files of a source by their names relative to it, without those that options name; None for missing ones.

    Args:
        source: a file, or the folder of a SavedModel.
        options: of the conversion.

    Raises:
        FormatError: the source is missing or cannot be read.
    """
    from minnow.converter.formats import find_format, is_mnn

    framework = options.get("framework")
    if source.is_dir():
        return dict(_tree(source, source))
    found: dict[str, Path | None] = {"": source}
    if is_mnn(source, framework):
        side = source.with_name(source.name + ".weight")
        return {**found, ".weight": side if side.is_file() else None}
    try:
        format = find_format(source, framework).name
    except FormatError:
        if not source.is_file():
            raise
        return found  # no format of ours: the conversion says so, whatever lies beside it
    if format == "onnx":
        found.update(_external(source))
    elif source.name.startswith("saved_model.pb"):
        found.update(_tree(source.parent / "variables", source.parent))
    elif format == "caffe" and not (options.get("weights") or options.get("prototxt")):
        from minnow.converter.caffe.source import find_partner, is_text

        partner = find_partner(source, is_text(source.read_bytes()))
        found["partner"] = partner
    return found


def _tree(folder: Path, root: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path.relative_to(root).as_posix(), path


# ---- external data of ONNX

# By the message that a field is in: its number, and the message that it holds.
_MESSAGES: dict[str, dict[int, str]] = {
    "model": {7: "graph", 25: "function"},
    "function": {7: "node"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {13: "entry"},
}
_KEY, _VALUE = 1, 2


def _external(source: Path) -> dict[str, Path | None]:
    """The files with external data; None for one that is missing, or that the reader refuses: no plain file beside."""
    with source.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data.find(b"location") < 0:
            return {}
        with memoryview(data) as view:
            names = sorted(_locations(view))
    folder, found = source.resolve().parent, dict[str, Path | None]()
    for name in names:
        path = Path(os.path.normpath(folder / name))
        plain = path.is_relative_to(folder) and not path.is_symlink() and path.is_file()
        found[name] = path if plain else None
    return found


def _locations(model: memoryview) -> set[str]:
    """The values of "location" in the external data of all tensors; of a damaged file those before the damage."""
    from minnow.converter.file.wire import BYTES, fields

    names: set[str] = set()
    stack = [("model", model)]
    while stack:
        kind, message = stack.pop()
        try:
            if kind == "entry":
                entry = {number: bytes(value) for number, wire, value in fields(message) if wire == BYTES}
                if entry.get(_KEY) == b"location" and b"\0" not in entry.get(_VALUE, b""):
                    names.add(entry.get(_VALUE, b"").decode("utf-8", "surrogateescape"))
                continue
            below = _MESSAGES[kind]
            stack += [(below[n], value) for n, wire, value in fields(message) if wire == BYTES and n in below]
        except ValueError:
            continue
    return names


# ---- the build


@cache
def build() -> dict[str, str]:
    """What this installation is: version, and hashes of its code, of the engine's library and of the op schema."""
    import minnow

    folders = [Path(p) for name in _CODE for p in _places(f"minnow.{name}")]
    code, schema = hashlib.sha256(), hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            _add(code, folder, path)
    for name in ("convert", "output"):
        spec = importlib.util.find_spec(f"minnow.{name}")
        if spec is not None and spec.origin:
            _add(code, Path(spec.origin).parent, Path(spec.origin))
    for name in ("ops", "mnn"):
        for place in _places(f"minnow.schema.{name}"):
            for path in sorted(Path(place).rglob("*")):
                if path.suffix in (".py", ".fbs"):
                    _add(schema, Path(place), path)
    engine = importlib.util.find_spec("minnow.runtime._engine")
    library = "" if engine is None or not engine.origin else FileHashes().of(Path(engine.origin))
    return {
        "minnow": minnow.__version__,
        "code": code.hexdigest(),
        "engine": library,
        "schema": schema.hexdigest(),
        "numpy": _installed("numpy"),
    }


def _places(package: str) -> list[str]:
    spec = importlib.util.find_spec(package)
    return sorted(spec.submodule_search_locations or ()) if spec is not None else []


def _add(digest: Any, folder: Path, path: Path) -> None:
    data = path.read_bytes()
    digest.update(f"{path.relative_to(folder).as_posix()}\0{len(data)}\0".encode())
    digest.update(data)


def _tools(source: Path, options: Mapping[str, Any]) -> dict[str, str]:
    """Versions of the packages that read a source for us."""
    from minnow.converter.formats import check_readable, find_format, is_mnn
    from minnow.converter.formats.tensorflow import is_keras

    framework = options.get("framework")
    try:
        if source.is_dir() or is_mnn(source, framework):
            return {}
        format = find_format(source, framework).name
        names: tuple[str, ...] = {"torch": ("torch",), "onnx": ("onnx",)}.get(format, ())
        if format == "tensorflow" and is_keras(source, check_readable(source)):
            names = ("keras", "tensorflow")
    except MinnowError:
        return {}
    return {name: _installed(name) for name in names}


@cache
def _installed(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


@cache
def _machine() -> str:
    """The instruction sets of this processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    flags = next((line for line in lines if line.lower().startswith(("flags", "features"))), "")
    return f"{platform.machine()} {hashlib.sha256(flags.encode()).hexdigest()[:16]}"


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return os.fspath(value) if isinstance(value, os.PathLike) else value
