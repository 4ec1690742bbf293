"""A content-addressed store: files by the hash of their content, and entries by key that name such files.

    <store>/objects/ab/cdef...     the content of a file, named by its sha256
    <store>/entries/ab/cdef...     what is known of a key: a JSON record and its files

The folders after the first two letters keep listings short. Files of an entry are published before the entry, which
makes them visible; both appear at once and complete, or not at all. Everything is compared with its hash when it is
read, so that a damaged store can only cost time: what does not fit is missing.

Nothing is ever changed in place. So any number of processes can use one store at the same time: two that publish the
same key write the same, and the last one counts.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Protocol

from minnow.schema.errors import MinnowError, UsageError, WriteError

SCHEMA = 1
GRACE = 24 * 3600.0
"""Seconds that `gc` leaves new files alone: their entry may still be on its way."""

_OBJECTS, _ENTRIES, _SOURCES = "objects", "entries", "sources"
_PART = ".part"
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Entry:
    """What the store knows of a key.

    Attributes:
        record: JSON-ready values.
        files: sha256 and size in bytes by the name of the file.
    """

    key: str
    record: Mapping[str, Any]
    files: Mapping[str, tuple[str, int]]


@dataclass(frozen=True)
class Swept:
    """What `gc` has removed, and what is left."""

    removed: int
    removed_bytes: int
    kept: int
    kept_bytes: int


class Place(Protocol):
    """Where a store keeps its files: names with "/" in them."""

    def read(self, name: str) -> bytes | None:
        """The content; None if there is none. Raises OSError if it cannot be told."""

    def size(self, name: str) -> int | None:
        """The size in bytes; None if there is no such file."""

    def fetch(self, name: str, path: Path) -> bool:
        """Copies the content to a new local file; whether there is one."""

    def put(self, name: str, data: bytes) -> None:
        """Writes a file, which appears at once."""

    def put_file(self, name: str, path: Path) -> None:
        """Writes the content of a local file, as `put`."""

    def touch(self, name: str) -> bool:
        """Makes a file new for `gc`; False if that needs writing it again."""

    def names(self, folder: str) -> Iterator[tuple[str, int, float]]:
        """Name, size and time of change of all files in a folder and those in it."""

    def remove(self, name: str) -> None:
        """Removes a file, if it is there."""


class Store:
    """A store in a folder, or at a URL that fsspec knows.

    Raises:
        UsageError: the URL is of a kind for which a package is missing.
        WriteError: the folder cannot be made.
    """

    def __init__(self, url: str | os.PathLike[str]) -> None:
        self.url = os.fspath(url)
        self._place = _place(self.url)

    def get(self, key: str) -> Entry | None:
        """The entry of a key; None if there is none, or only a damaged one.

        Raises:
            WriteError: the store cannot be reached.
        """
        with _reaching(self.url):
            data = self._place.read(_name(_ENTRIES, key))
        return None if data is None else _entry(key, data)

    def put(self, key: str, record: Mapping[str, Any], files: Mapping[str, Path]) -> Entry:
        """Publishes an entry with its files.

        Args:
            record: JSON-ready values.
            files: local files by the names that they have in the entry.

        Raises:
            WriteError: it cannot be written.
        """
        described = {}
        with _reaching(self.url):
            for name, path in sorted(files.items()):
                digest, size = _digest(path)
                target = _name(_OBJECTS, digest)
                if self._place.size(target) != size or not self._place.touch(target):
                    self._place.put_file(target, path)
                described[name] = (digest, size)
            body = {"schema": SCHEMA, "key": key, "record": dict(record), "files": described}
            self._place.put(_name(_ENTRIES, key), _with_hash(body))
        return Entry(key, dict(record), described)

    def fetch(self, entry: Entry, name: str, path: Path) -> bool:
        """Copies a file of an entry to a local path; False if it is missing or damaged, then no file is there.

        Args:
            path: of a file that does not exist; its folder does.
        """
        digest, size = entry.files[name]
        with _reaching(self.url):
            found = self._place.fetch(_name(_OBJECTS, digest), path)
        if found and path.stat().st_size == size and _digest(path)[0] == digest:
            return True
        path.unlink(missing_ok=True)
        if found:
            with _reaching(self.url):
                self._place.remove(_name(_OBJECTS, digest))  # else the next `put` would take it for the right one
        return False

    def holds(self, entry: Entry) -> bool:
        """Whether the files of an entry are there, by name and size; their content is not read."""
        with _reaching(self.url):
            return all(self._place.size(_name(_OBJECTS, digest)) == size for digest, size in entry.files.values())

    def remove(self, key: str) -> None:
        """Removes an entry; `gc` removes its files."""
        with _reaching(self.url):
            self._place.remove(_name(_ENTRIES, key))

    def keys(self) -> Iterator[str]:
        """The keys of all entries, damaged ones included."""
        with _reaching(self.url):
            for name, _, _ in self._place.names(_ENTRIES):
                if not name.endswith(_PART):
                    yield "".join(name.split("/")[-2:])

    def source(self, identity: str) -> Any:
        """What `remember_source` was told of a remote source; None if there is nothing, or it is damaged."""
        with _reaching(self.url):
            data = self._place.read(_name(_SOURCES, hashlib.sha256(identity.encode()).hexdigest()))
        return None if data is None else _checked(data)

    def remember_source(self, identity: str, known: Any) -> None:
        """Stores what is known of a remote source, so that it need not be fetched again.

        Args:
            identity: what changes when its content does: its URL with size and time or version.
            known: JSON-ready values.
        """
        with _reaching(self.url):
            self._place.put(_name(_SOURCES, hashlib.sha256(identity.encode()).hexdigest()), _with_hash(known))

    def gc(self, grace: float = GRACE, used: Mapping[str, Any] | frozenset[str] | None = None) -> Swept:
        """Removes what no entry names any more, damaged entries, and unfinished files.

        Args:
            grace: files that are newer than so many seconds stay.
            used: the keys that are still needed; entries of other keys are removed too. None: all are.
        """
        old = time.time() - grace
        named: set[str] = set()
        removed = removed_bytes = kept = kept_bytes = 0
        with _reaching(self.url):
            for folder in (_ENTRIES, _SOURCES, _OBJECTS):  # entries first: they tell which objects are named
                for name, size, changed in list(self._place.names(folder)):
                    if not self._is_kept(folder, name, changed < old, named, used):
                        self._place.remove(name)
                        removed, removed_bytes = removed + 1, removed_bytes + size
                    else:
                        kept, kept_bytes = kept + 1, kept_bytes + size
        return Swept(removed, removed_bytes, kept, kept_bytes)

    def _is_kept(self, folder: str, name: str, old: bool, named: set[str], used: Any) -> bool:
        key = "".join(name.split("/")[-2:])
        if name.endswith(_PART):
            return not old
        if folder == _SOURCES:
            return True
        if folder == _OBJECTS:
            return key in named or not old
        entry = self.get(key)
        if entry is None or (used is not None and key not in used):
            return not old
        named.update(digest for digest, _ in entry.files.values())
        return True


def _name(folder: str, key: str) -> str:
    return f"{folder}/{key[:2]}/{key[2:]}"


def _with_hash(value: Any) -> bytes:
    """A line with the hash of what follows."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
    return hashlib.sha256(text).hexdigest().encode() + b"\n" + text


def _checked(data: bytes) -> Any:
    """The values of `_with_hash`; None for damaged ones."""
    head, _, text = data.partition(b"\n")
    return json.loads(text) if hashlib.sha256(text).hexdigest().encode() == head else None


def _entry(key: str, data: bytes) -> Entry | None:
    body = _checked(data)
    if body is None or body.get("schema") != SCHEMA or body.get("key") != key:
        return None
    return Entry(key, body["record"], {name: (one[0], one[1]) for name, one in body["files"].items()})


def _digest(path: Path) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            size += len(block)
    return digest.hexdigest(), size


@contextlib.contextmanager
def _reaching(url: str) -> Iterator[None]:
    """Turns the errors of file systems, of which each has its own, into one."""
    try:
        yield
    except (MinnowError, MemoryError):
        raise
    except Exception as e:
        why = (e.strerror if isinstance(e, OSError) else None) or f"{type(e).__name__}: {e}"
        raise WriteError(
            "the store cannot be used", where=url, why=why[:300], hint="check the address, the permissions and the disk"
        ) from e


# ---- places


def _place(url: str) -> Place:
    if url.startswith("file://"):
        url = url[len("file://") :]
    if "://" not in url:
        return _Folder(Path(url))
    try:
        import fsspec
    except ImportError:
        raise UsageError(
            f"stores at URLs need the package fsspec: {url}", hint="pip install 'minnow[fleet]', or use a local folder"
        ) from None
    try:
        system, path = fsspec.core.url_to_fs(url)
    except ImportError as e:
        raise UsageError(f"a package for this kind of URL is missing: {url}", why=str(e)[:300]) from None
    except (ValueError, OSError) as e:
        raise UsageError(f"the store is no URL that fsspec knows: {url}", why=str(e)[:300]) from None
    return _Remote(system, path.rstrip("/"))


class _Folder:
    """Files of a local folder, or of one that machines share. They are written beside their place, and renamed."""

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()
        with _reaching(str(root)):
            self._root.mkdir(parents=True, exist_ok=True)

    def read(self, name: str) -> bytes | None:
        try:
            return (self._root / name).read_bytes()
        except FileNotFoundError:
            return None

    def size(self, name: str) -> int | None:
        try:
            return (self._root / name).stat().st_size
        except FileNotFoundError:
            return None

    def fetch(self, name: str, path: Path) -> bool:
        import shutil

        try:
            shutil.copyfile(self._root / name, path)
        except FileNotFoundError:
            return False
        return True

    def put(self, name: str, data: bytes) -> None:
        self._publish(name, [data])

    def put_file(self, name: str, path: Path) -> None:
        with path.open("rb") as file:
            self._publish(name, iter(lambda: file.read(_BLOCK), b""))

    def _publish(self, name: str, blocks: Any) -> None:
        target = self._root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f"{target.name[:16]}.{os.urandom(8).hex()}{_PART}")
        try:
            with part.open("xb") as file:
                for block in blocks:
                    file.write(block)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, target)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # so that the name is there after a power failure, too
        finally:
            os.close(folder)

    def touch(self, name: str) -> bool:
        try:
            os.utime(self._root / name)
        except FileNotFoundError:
            return False
        return True

    def names(self, folder: str) -> Iterator[tuple[str, int, float]]:
        for path in sorted((self._root / folder).rglob("*")):
            try:
                if path.is_file():
                    stat = path.stat()
                    yield path.relative_to(self._root).as_posix(), stat.st_size, stat.st_mtime
            except FileNotFoundError:  # removed meanwhile
                continue

    def remove(self, name: str) -> None:
        (self._root / name).unlink(missing_ok=True)


class _Remote:
    """Objects of an fsspec file system, which appear when they are complete, as those of object stores do."""

    def __init__(self, system: Any, root: str) -> None:
        self._system = system
        self._root = root
        system.use_listings_cache = False

    def read(self, name: str) -> bytes | None:
        try:
            return bytes(self._system.cat_file(self._path(name)))
        except FileNotFoundError:
            return None

    def size(self, name: str) -> int | None:
        try:
            size = self._info(name)["size"]
        except FileNotFoundError:
            return None
        return None if size is None else int(size)

    def fetch(self, name: str, path: Path) -> bool:
        try:
            self._system.get_file(self._path(name), os.fspath(path))
        except FileNotFoundError:
            return False
        return True

    def put(self, name: str, data: bytes) -> None:
        self._make_folder(name)
        self._system.pipe_file(self._path(name), data)

    def put_file(self, name: str, path: Path) -> None:
        self._make_folder(name)
        self._system.put_file(os.fspath(path), self._path(name))

    def touch(self, name: str) -> bool:
        """An object's time cannot be set. It is written again if it may be old enough for `gc`."""
        changed = _time_of(self._info(name))
        return changed is not None and changed > time.time() - GRACE / 2

    def names(self, folder: str) -> Iterator[tuple[str, int, float]]:
        self._system.invalidate_cache()
        try:
            found = self._system.find(self._path(folder), detail=True)
        except FileNotFoundError:
            return
        for path, info in sorted(found.items()):
            yield path[len(self._root) + 1 :], int(info.get("size") or 0), _time_of(info) or time.time()

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._system.rm_file(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _info(self, name: str) -> Mapping[str, Any]:
        self._system.invalidate_cache()
        info: Mapping[str, Any] = self._system.info(self._path(name))
        return info

    def _make_folder(self, name: str) -> None:
        self._system.makedirs(self._path(name).rpartition("/")[0], exist_ok=True)


def _time_of(info: Mapping[str, Any]) -> float | None:
    """When an object was written, of what file systems say of it."""
    for field in ("LastModified", "mtime", "updated", "created", "last_modified"):
        value = info.get(field)
        if isinstance(value, (int, float)):
            return float(value)
        if isinstance(value, datetime):
            return (value if value.tzinfo else value.replace(tzinfo=timezone.utc)).timestamp()
    return None
