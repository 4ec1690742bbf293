"""Does what a cell asks for: from the cache or in a child process, and publishes the output with its receipt.

An output is written only if no check of the conversion failed. It is written even if it exceeds a budget: then the file
is what one wants to look at.
"""

from __future__ import annotations

import os
import queue
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minnow.output import replaced, target_of, writing
from minnow.schema.errors import MinnowError, WriteError
from minnow.workflow.cell import Cell, Limits
from minnow.workflow.child import Children, failed_result
from minnow.workflow.convert_cell import failure, local, options_of, reproduce, with_budgets
from minnow.workflow.key import FileHashes, digest_of, key_parts
from minnow.workflow.receipt import COMPANIONS, SUFFIX, receipt_of, receipt_path
from minnow.workflow.result import CellResult, Check
from minnow.workflow.rule import RULES

if TYPE_CHECKING:
    from minnow.workflow.store import Store

_LASTING = (2, 3, 4, 6)
"""Exit codes of failures that would come again: they may be cached."""
_KEPT = ("checks", "sha256", "metrics", "before", "seconds", "reference")
"""Fields of a result that the cache keeps; the others are those of the cell."""
_FILE = "model.mnn"
_LOG = 4000


class Performer:
    """Performs cells, from several threads at the same time.

    Args:
        children: where conversions run.
        store: the cache; None for none.
        cores: the processors for each of the conversions that run at the same time; () for all.
    """

    def __init__(self, children: Children, store: Store | None = None, cores: Sequence[Sequence[int]] = ()) -> None:
        self._children, self._store = children, store
        self._hashes = FileHashes()
        self._cores: queue.SimpleQueue[Sequence[int]] = queue.SimpleQueue()
        for some in cores:
            self._cores.put(some)
        self._shares = bool(cores)

    def perform(self, cell: Cell) -> CellResult:
        """Converts, verifies and measures a cell, compares it with its budgets, and writes its output."""
        result = CellResult(
            model=cell.model, variant=cell.variant, source=cell.source, output=cell.output, checks=(), place=cell.place
        )
        if cell.excluded:
            return replace(result, checks=(Check("convert", "skipped", message=cell.excluded),))
        try:
            result = replace(result, reproduce=reproduce(cell, options_of(cell)))
            with local(cell.source) as source, tempfile.TemporaryDirectory(prefix="minnow-") as scratch:
                parts = key_parts(replace(cell, source=os.fspath(source)), self._hashes)
                result = replace(result, key=digest_of(parts))
                _check_target(Path(cell.output))
                result = self._made(cell, result, source, Path(scratch))
        except MinnowError as e:
            result = replace(result, checks=failure(e))
        return with_budgets(cell, result)

    def time(self, cell: Cell, result: CellResult) -> CellResult:
        """Compares the latency of a cell with its budget; nothing else may run meanwhile."""
        given = cell.as_dict(), asdict(result)
        call = self._children.call("minnow.workflow.time_cell:timed", *given, limits=Limits(cell.limits.seconds))
        if call.items:
            return CellResult.of(call.items[0])
        lost = [replace(c, name="budget:latency") for c in failed_result(cell, call).checks]
        return replace(result, checks=(*result.checks, *lost), log=call.log[-_LOG:])

    def _made(self, cell: Cell, result: CellResult, source: Path, scratch: Path) -> CellResult:
        output = scratch / os.path.basename(cell.output)
        notes: list[Check] = []
        if self._store is not None:
            try:
                if (found := self._cached(self._store, cell, result, source, output)) is not None:
                    self._publish(cell, found, source, output)
                    return found
            except WriteError as e:
                notes = [_unused(e)]
        result = self._converted(cell, result, source, output)
        good = result.status not in ("failed", "error")
        if self._store is not None and not notes and (good or _is_lasting(result)):
            try:
                files = _files(output) if good else {}
                self._store.put(
                    result.key, {n: v for n, v in asdict(result).items() if n in _KEPT} | _names(cell), files
                )
            except WriteError as e:
                notes = [_unused(e)]
        if good:
            self._publish(cell, result, source, output)
        return replace(result, checks=(*result.checks, *notes))

    def _converted(self, cell: Cell, result: CellResult, source: Path, output: Path) -> CellResult:
        """The result of a conversion in a child process, which writes `output`."""
        cores = self._cores.get() if self._shares else ()
        try:
            call = self._children.call(
                "minnow.workflow.convert_cell:converted", cell.as_dict(), os.fspath(output), os.fspath(source),
                limits=cell.limits, scratch=os.fspath(output.parent), cores=cores,
            )  # fmt: skip
        finally:
            if self._shares:
                self._cores.put(cores)
        own: dict[str, Any] = {"key": result.key, "reproduce": result.reproduce}
        if call.ended != "done" or not call.items:
            lost = failed_result(cell, call)
            return replace(lost, **own, log=lost.log[-_LOG:])
        made = CellResult.of(call.items[0])
        return replace(made, **own, log="" if made.status in ("passed", "warning") else call.log[-_LOG:])

    def _cached(self, store: Store, cell: Cell, result: CellResult, source: Path, output: Path) -> CellResult | None:
        """The result of a cell in the store, with its files at `output`; None if it is not there, or damaged.

        Without files if those of the cell are the same already, and so is their receipt: then nothing is to be written.
        """
        entry = store.get(result.key)
        if entry is None or not entry.record.keys() >= set(_KEPT):
            return None
        known = {name: entry.record[name] for name in _KEPT}
        found = replace(CellResult.of({**asdict(result), **known}), cached=True)
        found = replace(found, checks=tuple(_renamed(c, entry.record, cell) for c in found.checks))
        if not (entry.files and self._is_there(cell, found, source, entry.files)):
            for name in entry.files:
                if not store.fetch(entry, name, output.with_name(output.name + name.removeprefix(_FILE))):
                    return None
        return found

    def _is_there(self, cell: Cell, result: CellResult, source: Path, files: Mapping[str, tuple[str, int]]) -> bool:
        """Whether the output of a cell, with its companion files and its receipt, is what a store has."""
        output = Path(cell.output)
        now = {name: (self._hashes.of(path), path.stat().st_size) for name, path in _files(output).items()}
        if now != dict(files):
            return False
        try:
            text = receipt_path(output).read_text(encoding="utf-8")
        except (OSError, ValueError):
            return False
        return text == receipt_of(cell, result, source, output, self._hashes)

    def _publish(self, cell: Cell, result: CellResult, source: Path, output: Path) -> None:
        """Puts an output to its place, with its companion files and its receipt; all of them or none.

        Raises:
            WriteError: it cannot be written.
        """
        if not output.exists():
            return  # a failure from the cache, or a result whose output is there
        receipt = receipt_of(cell, result, source, output, self._hashes)
        target = Path(cell.output)
        with replaced(target, beside=(*COMPANIONS, SUFFIX)) as part, writing(target):
            for suffix in ("", *COMPANIONS):
                made = output.with_name(output.name + suffix)
                if made.exists():
                    shutil.copyfile(made, part.with_name(part.name + suffix))
            part.with_name(part.name + SUFFIX).write_text(receipt, encoding="utf-8")


def _check_target(output: Path) -> None:
    """Makes the folder of an output. Raises UsageError or WriteError if the output cannot be written."""
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise WriteError("cannot make the folder of the output", where=str(output.parent), why=str(e.strerror)) from e
    target_of(output)


def _files(output: Path) -> dict[str, Path]:
    """The files of an output by their names in the store."""
    paths = {_FILE + suffix: output.with_name(output.name + suffix) for suffix in ("", *COMPANIONS)}
    return {name: path for name, path in paths.items() if path.exists()}


def _is_lasting(result: CellResult) -> bool:
    """Whether a failure would come again."""
    bad = [c for c in result.checks if c.status in ("failed", "error")]
    return all(RULES[c.rule].exit_code in _LASTING and c.rule != "out-of-memory" for c in bad)


def _names(cell: Cell) -> dict[str, str]:
    return {"source": cell.source, "output": cell.output}


def _renamed(check: Check, was: Mapping[str, Any], cell: Cell) -> Check:
    """A check of another cell with the same key, about the files of this one."""

    def text(old: str) -> str:
        for name, now in _names(cell).items():
            if isinstance(before := was.get(name), str) and before != now:
                old = old.replace(before, now).replace(os.path.basename(before), os.path.basename(now))
        return old

    return replace(check, message=text(check.message), details=text(check.details))


def _unused(error: MinnowError) -> Check:
    return Check("cache", "passed", "notice", f"the cache was not used: {error.message}: {error.why}", str(error))
