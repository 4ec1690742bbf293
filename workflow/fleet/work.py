"""What is done on a worker: the cells of a unit are taken from the store, or converted and put there."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from minnow.schema.errors import FormatError, InternalError, MinnowError
from minnow.workflow.cell import Cell, Limits
from minnow.workflow.child import Children, Outcome, failed_result
from minnow.workflow.convert_cell import (
    companions,
    convert_cell,
    failure,
    is_url,
    options_of,
    reproduce,
    sha256_of,
    with_budgets,
)
from minnow.workflow.key import FileHashes, build, digest_of, key_of, source_parts
from minnow.workflow.receipt import COMPANIONS, SUFFIX, receipt_of
from minnow.workflow.result import CellResult, Check
from minnow.workflow.rule import RULES
from minnow.workflow.store import Entry, Store

MODEL = "model.mnn"
"""The name of the output in an entry; companion files have its suffixes."""

_TRANSIENT = frozenset({"stopped", "out-of-memory", "crashed", "internal-error", "output-not-written"})
"""Rules of failures that another try, or another machine, may not have."""
_FINAL = frozenset({2, 3, 4, 6})
"""Exit codes of failures that every try has."""
_LOG_OF_SUCCESS = 2000
"""Characters of the log of a success that are kept: a million of them have to be kept."""


@dataclass(frozen=True)
class Settings:
    """What all units of a run share.

    Attributes:
        store: folder or URL.
        retry_failed: failures in the store are tried again.
        outputs: the outputs are also written to the paths that the plan gives them.
        look: nothing is converted; what is not in the store is "skipped".
        tries: how often a cell is tried whose process has crashed.
        build: the `build_digest` of the process that has made the plan.
        jobs: how many units run at once on this machine, which share its processors; 0: what the worker says.
    """

    store: str
    retry_failed: bool = False
    outputs: bool = True
    look: bool = False
    tries: int = 2
    build: str = ""
    jobs: int = 0


def key_in(store: Store, cell: Cell) -> str:
    """The key of a cell. Raises FormatError if its source is missing, and UsageError."""
    with _scratch() as scratch:
        return key_of(cell, _hashes, _Source(cell.source, store, scratch).parts(cell))


@lru_cache(maxsize=1)
def build_digest() -> str:
    """A hash of this installation of Minnow: keys of different ones differ."""
    return digest_of(build())


def run_unit(cells: Sequence[Mapping[str, Any]], settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The results of the cells of a unit, as JSON values; failures are results.

    Raises:
        InternalError: this process has another build of Minnow than the one that has made the plan.
        UsageError, WriteError: the store cannot be used.
    """
    own = Settings(**settings)
    if own.build not in ("", build_digest()):
        raise InternalError(
            "this worker has another build of Minnow",
            why=f"its build is {build_digest()[:12]}, that of the client {own.build[:12]}",
            hint="install the same version everywhere",
        )
    return [asdict(result) for result in _Work([Cell.of(c) for c in cells], own).results()]


class _Work:
    """One unit."""

    def __init__(self, cells: Sequence[Cell], settings: Settings) -> None:
        self._cells, self._settings = cells, settings
        self._store = _store(settings.store)
        self._keys: dict[str, str] = {}
        self._results: dict[str, CellResult] = {}

    def results(self) -> list[CellResult]:
        with _scratch() as scratch:
            source = _Source(self._cells[0].source, self._store, scratch)
            for cell in self._cells:
                self._look_up(cell, source)
            left = [cell for cell in self._cells if cell.name not in self._results]
            if self._settings.look:
                self._results |= {
                    c.name: _with(c, (Check("convert", "skipped", message="not yet converted"),)) for c in left
                }
            elif left:
                self._convert(left, source, scratch)
        return [with_budgets(cell, self._results[cell.name]) for cell in self._cells]

    def _look_up(self, cell: Cell, source: _Source) -> None:
        """Takes the result from the store, if it is there."""
        try:
            options_of(cell)
            self._keys[cell.name] = key = key_of(cell, _hashes, source.parts(cell))
        except MinnowError as e:
            self._results[cell.name] = _with(cell, failure(e))
            return
        entry = self._store.get(key)
        if entry is None:
            return
        known = _result(cell, entry)
        if known.exit_code:
            if not self._settings.retry_failed:
                self._results[cell.name] = known
        elif self._write(cell, entry, known) if self._settings.outputs else self._store.holds(entry):
            self._results[cell.name] = known

    def _convert(self, cells: Sequence[Cell], source: _Source, scratch: Path) -> None:
        """Converts what is not in the store. A cell whose process crashes does not take the others with it."""
        try:
            path = source.path()
        except MinnowError as e:
            self._results |= {cell.name: _with(cell, failure(e)) for cell in cells}
            return
        left, tries = list(cells), 0
        while left:
            folders = [Path(tempfile.mkdtemp(dir=scratch)) for _ in left]
            arguments = [cell.as_dict() for cell in left]
            limits = Limits(left[0].limits.seconds, left[0].limits.memory)
            with _share(self._settings.jobs) as cores:
                outcome = _children().call(
                    f"{__name__}:convert_all", os.fspath(path), arguments, [os.fspath(f / MODEL) for f in folders],
                    limits=limits, scratch=os.fspath(scratch), cores=cores,
                )  # fmt: skip
            for cell, folder, item in zip(left, folders, outcome.items, strict=False):
                self._finish(cell, CellResult.of(item), folder / MODEL, outcome, path)
            left = left[len(outcome.items) :]
            tries = 1 if outcome.items else tries + 1
            if left and (outcome.ended != "crashed" or tries >= self._settings.tries):
                cell, left = left[0], left[1:]
                failed = replace(failed_result(cell, outcome), attempts=tries, key=self._keys[cell.name])
                self._results[cell.name], tries = failed, 0

    def _finish(self, cell: Cell, result: CellResult, output: Path, outcome: Outcome, source: Path) -> None:
        """Publishes the result of a conversion, and writes the output."""
        worker = _worker_name()
        log = outcome.log if result.exit_code else outcome.log[-_LOG_OF_SUCCESS:]
        result = replace(result, log=log, worker=worker, seconds={**result.seconds, **_process(outcome)})
        if is_final(result) and self._is_unchanged(cell):
            result = replace(result, key=self._keys[cell.name])
            files = {} if result.exit_code else _files(output)
            receipt = receipt_of(cell, result, source, output, _hashes) if files else ""
            entry = self._store.put(result.key, {**_record(result), "receipt": receipt}, files)
            if files and self._settings.outputs and not self._write(cell, entry, result, output):
                result = _with(cell, failure(InternalError("the output was not published")))
        self._results[cell.name] = result

    def _is_unchanged(self, cell: Cell) -> bool:
        """Whether the source is still what its key says. A local file can be replaced while it is converted."""
        if is_url(cell.source):
            return True
        try:
            return key_of(cell, _hashes) == self._keys[cell.name]
        except MinnowError:
            return False

    def _write(self, cell: Cell, entry: Entry, result: CellResult, made: Path | None = None) -> bool:
        """Writes the files of an entry to the paths that the plan gives; whether the store has them.

        Args:
            made: where they still are, after a conversion.
        """
        from minnow.output import replaced, writing

        target = Path(cell.output)
        names = {name: target.with_name(target.name + name[len(MODEL) :]) for name in entry.files}
        receipt = str(entry.record.get("receipt", ""))
        if _is_there(names, entry, target.with_name(target.name + SUFFIX), receipt):
            return True
        with writing(target):
            target.parent.mkdir(parents=True, exist_ok=True)
        with suppress(_MissingError), replaced(target, beside=(*COMPANIONS, SUFFIX)) as part, writing(target):
            for name in entry.files:
                place = part.with_name(part.name + name[len(MODEL) :])
                if made is not None:
                    shutil.copyfile(made.with_name(name), place)
                elif not self._store.fetch(entry, name, place):
                    raise _MissingError
            if receipt:
                part.with_name(part.name + SUFFIX).write_text(receipt, encoding="utf-8")
            return True
        return False


def time_unit(cell: Mapping[str, Any], result: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The result of a cell with the comparison of its latency, for which its output is taken from the store.

    Raises:
        UsageError, WriteError: the store cannot be used.
    """
    own, known = Cell.of(cell), CellResult.of(result)
    store = _store(Settings(**settings).store)
    with _scratch() as scratch:
        entry, output = store.get(known.key), scratch / MODEL
        if entry is None or not all(store.fetch(entry, name, scratch / name) for name in entry.files):
            return asdict(_with(own, failure(InternalError("the output is no longer in the store", where=store.url))))
        given = replace(own, output=os.fspath(output)).as_dict(), asdict(replace(known, output=os.fspath(output)))
        limits = Limits(own.limits.seconds)
        outcome = _children().call("minnow.workflow.time_cell:timed", *given, limits=limits, scratch=os.fspath(scratch))
    if not outcome.items:
        checks = tuple(replace(c, name="budget:latency") for c in failed_result(own, outcome).checks)
        return asdict(replace(known, checks=(*known.checks, *checks)))
    return asdict(replace(CellResult.of(outcome.items[0]), output=own.output))


class _MissingError(Exception):
    """The store does not have a file, or only a damaged one."""


def convert_all(source: str, cells: Sequence[Mapping[str, Any]], outputs: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Converts cells of one source one after the other, in a child process. What they share is done once."""
    from minnow.convert import shared_prefix

    with shared_prefix():
        for values, output in zip(cells, outputs, strict=True):
            yield asdict(convert_cell(Cell.of(values), Path(output), Path(source)))


def is_final(result: CellResult) -> bool:
    """Whether every further try would have the same result."""
    if not result.exit_code:
        return True
    rules = {c.rule for c in result.checks if c.status in ("failed", "error")}
    return not rules & _TRANSIENT and all(RULES[rule].exit_code in _FINAL for rule in rules)


class _Source:
    """The source of a unit. One at a URL is fetched only if it is needed, and its hash is remembered in the store."""

    def __init__(self, source: str, store: Store, scratch: Path) -> None:
        self._source, self._store, self._scratch = source, store, scratch
        self._path: Path | None = None if is_url(source) else Path(source)

    def path(self) -> Path:
        """Where it is, on this machine. Raises as `fetched`."""
        if self._path is None:
            from minnow.workflow.fetch import fetched

            folder = Path(tempfile.mkdtemp(dir=self._scratch))
            self._path = fetched(self._source, folder)
        return self._path

    def parts(self, cell: Cell) -> Mapping[str, Any] | None:
        """Its part of the key; None for a local one, whose files are at hand. Raises as `fetched`, and FormatError."""
        if not is_url(self._source):
            return None
        identity = self._identity(cell)
        known = self._store.source(identity) if identity else None
        if isinstance(known, dict):
            return known
        found = source_parts(self.path(), cell.options, _hashes)
        if identity and all(found["sources"].values()):
            self._store.remember_source(identity, found)
        return found

    def _identity(self, cell: Cell) -> str:
        """What changes with the content. "" if there is no such thing, or if other files may belong to the source."""
        from fsspec.core import url_to_fs

        try:
            files, path = url_to_fs(self._source)
            info = files.info(path)
        except Exception as e:
            raise FormatError(
                "the source cannot be downloaded", where=self._source, why=f"{type(e).__name__}: {e}"[:300]
            ) from e
        marks = [str(info[n]) for n in ("ETag", "etag", "VersionId", "mtime", "LastModified", "created") if info.get(n)]
        if info.get("type") != "file" or not marks or self._source.lower().endswith(_SEVERAL):
            return ""
        options = {n: cell.options.get(n) for n in ("framework", "weights", "prototxt")}
        return digest_of([self._source, info.get("size"), marks, options, build_digest()])


_SEVERAL = (".prototxt", ".caffemodel", "saved_model.pb")
"""Suffixes of sources to which other files belong that they do not name."""


def empty_result(cell: Cell) -> CellResult:
    """The result of a cell of which nothing is known."""
    return CellResult(
        model=cell.model, variant=cell.variant, source=cell.source, output=cell.output, checks=(), place=cell.place
    )


def _with(cell: Cell, checks: tuple[Check, ...]) -> CellResult:
    return replace(empty_result(cell), checks=checks)


def _is_there(names: Mapping[str, Path], entry: Entry, receipt_path: Path, receipt: str) -> bool:
    """Whether the files of an entry are already where they belong."""
    if not all(p.is_file() and p.stat().st_size == entry.files[n][1] for n, p in names.items()):
        return False
    if receipt and not (receipt_path.is_file() and receipt_path.read_text(errors="replace") == receipt):
        return False
    return all(sha256_of(path) == entry.files[name][0] for name, path in names.items())


def _files(output: Path) -> dict[str, Path]:
    return {path.name: path for path in (output, *companions(output)) if path.is_file()}


def _process(outcome: Outcome) -> dict[str, float]:
    return {"process": outcome.seconds / max(1, len(outcome.items))}


def _record(result: CellResult) -> dict[str, Any]:
    """What an entry keeps of a result: not where it is in a plan."""
    apart = ("model", "variant", "place", "cached", "reproduce")
    return {name: value for name, value in asdict(result).items() if name not in apart}


def _result(cell: Cell, entry: Entry) -> CellResult:
    """The result of an entry for a cell, which may have another name than the one that was converted."""
    own = {"model": cell.model, "variant": cell.variant, "place": asdict(cell.place)}
    record = {n: v for n, v in entry.record.items() if n in CellResult.__dataclass_fields__}
    known = CellResult.of({"source": cell.source, "output": cell.output, **record, **own})
    known = _moved(known, known.source, known.output, cell)
    return replace(known, cached=True, reproduce=reproduce(cell, options_of(cell)))


def _moved(result: CellResult, source: str, output: str, cell: Cell) -> CellResult:
    """A result whose texts name the source and the output of a cell."""
    names = {old: new for old, new in ((source, cell.source), (output, cell.output)) if old != new and len(old) > 4}
    result = replace(result, source=cell.source, output=cell.output)
    if not names:
        return result
    old = re.compile("|".join(re.escape(name) for name in sorted(names, key=len, reverse=True)))

    def text(value: str) -> str:
        return old.sub(lambda found: names[found.group()], value)

    checks = tuple(replace(c, message=text(c.message), details=text(c.details)) for c in result.checks)
    return replace(result, checks=checks, reproduce=text(result.reproduce), log=text(result.log))


# ---- what a process has once

_hashes = FileHashes()
_lock = threading.Lock()
_own: dict[int, Children] = {}


@lru_cache(maxsize=4)
def _store(url: str) -> Store:
    return Store(url)


def _children() -> Children:
    """The children of this process; those of the process that has forked it are not ours."""
    with _lock:
        if os.getpid() not in _own:
            _own.clear()
            _own[os.getpid()] = Children()
        return _own[os.getpid()]


@contextmanager
def _share(jobs: int) -> Iterator[Sequence[int]]:
    """The processors for one of several units at a time: each would start threads for all of them otherwise."""
    own, first, count = _share_of_process(jobs)
    with _lock:
        taken = _taken.setdefault(jobs, set())
        index = next(i for i in range(first, first + count + len(taken) + 1) if i not in taken)
        taken.add(index)
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    try:
        yield cores[index % max(1, len(cores)) :: own] or cores if own > 1 else ()
    finally:
        with _lock:
            taken.discard(index)


_taken: dict[int, set[int]] = {}


@lru_cache(maxsize=4)
def _share_of_process(jobs: int) -> tuple[int, int, int]:
    """How many shares there are, and the first of this process and their number: it may be one of several workers."""
    worker = _worker()
    if worker is None:
        return max(1, jobs), 0, max(1, jobs)
    threads, name = worker.state.nthreads, str(worker.name)
    return (jobs, int(name) * threads, threads) if jobs and name.isdigit() else (threads, 0, threads)


def close() -> None:
    """Ends all child processes of this process."""
    with _lock:
        children = _own.pop(os.getpid(), None)
    if children is not None:
        children.close()


_PREFIX = "minnow-fleet-"
_DAY = 24 * 3600.0


@contextmanager
def _scratch() -> Iterator[Path]:
    """A folder for the files of a unit. Old ones that killed processes have left are removed on the way."""
    _remove_left()
    path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@lru_cache(maxsize=1)
def _remove_left() -> None:
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        pid = path.name[len(_PREFIX) :].partition("-")[0]
        with suppress(OSError):
            old = path.stat().st_mtime < time.time() - _DAY  # it may be of a process that is not visible here
            if old and pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
                shutil.rmtree(path, ignore_errors=True)


def _worker() -> Any:
    """The Dask worker that this process is; None if it is none."""
    import sys

    if "distributed.worker" not in sys.modules:
        return None
    from distributed import get_worker

    try:
        return get_worker()
    except ValueError:
        return None


def _worker_name() -> str:
    worker = _worker()
    return "" if worker is None else str(worker.name)
