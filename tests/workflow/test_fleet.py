"""Fleets on the local pool: what is converted once is taken from the store, with the same bytes; failures too."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fleet_models
import pytest

from minnow.convert import convert, shared_prefix
from minnow.schema.errors import FormatError, InternalError, UsageError
from minnow.workflow.cell import Cell
from minnow.workflow.child import Outcome
from minnow.workflow.fleet import unit, work
from minnow.workflow.fleet.run import run_plan, scheduler
from minnow.workflow.fleet.sweep import sweep
from minnow.workflow.fleet.unit import absolute, units
from minnow.workflow.fleet.work import MODEL, Settings, build_digest, is_final, run_unit
from minnow.workflow.result import CellResult, Check, Results
from minnow.workflow.run import check_cells
from minnow.workflow.schedule import LocalPool
from minnow.workflow.store import Store

VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {}, "side": {"side_file": True, "biz_code": "x"}, "quick": {"verify": False}, "packed": {"prepack": True},
    "own": {"target": "minnow"},
}  # fmt: skip


def cells_of(folder: Path, numbers: list[int], variants: dict[str, dict[str, Any]], out: str = "out") -> list[Cell]:
    paths = [fleet_models.save(folder, number) for number in numbers]
    return [
        Cell(model=f"m.{path.stem}", variant=name, source=str(path), options=options,
             output=str(folder / out / f"{path.stem}-{name}.mnn"))
        for path in paths
        for name, options in variants.items()
    ]  # fmt: skip


def run(cells: list[Cell], store: Path | str, **settings: Any) -> Results:
    return run_plan(cells, "plan.toml", Settings(store=str(store), **settings), LocalPool(1))


@pytest.fixture(scope="module", autouse=True)
def ended() -> Iterator[None]:
    yield
    work.close()


def files_in(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir()) if p.suffix != ".json"}


def serial(cells: list[Cell], folder: Path) -> dict[str, bytes]:
    """The files that conversions one after the other give."""
    folder.mkdir()
    for cell in cells:
        convert(cell.source, **{**cell.options, "output": folder / Path(cell.output).name})
    return files_in(folder)


# ---- units


def test_cells_that_differ_only_in_writing_make_a_unit(tmp_path: Path) -> None:
    cells = cells_of(tmp_path, [0, 1], VARIANTS)
    found = list(units(cells))
    assert [[c.variant for c in u.cells] for u in found] == [["plain", "side", "quick", "packed"], ["own"]] * 2
    assert len({u.name for u in found}) == 4


@pytest.mark.parametrize(
    "options",
    [{"optimize": 1}, {"inputs": {"x": [2, 4]}}, {"int64": "keep"}, {"framework": "onnx"}, {"cut_outputs": ["a0"]}],
)
def test_cells_that_differ_in_reading_or_optimizing_do_not(tmp_path: Path, options: dict[str, Any]) -> None:
    assert len(list(units(cells_of(tmp_path, [0], {"a": {}, "b": options})))) == 2


def test_cells_with_other_limits_or_wrong_options_are_units_of_their_own(tmp_path: Path) -> None:
    first, second, third = cells_of(tmp_path, [0], {"a": {}, "b": {}, "c": {"optimize": 9}})
    limited = Cell.of({**second.as_dict(), "limits": {"seconds": 3.0, "memory": 1 << 20}})
    found = list(units([first, limited, third]))
    assert len(found) == 3
    assert found[1].memory == 1 << 20 < found[0].memory


def test_excluded_cells_are_in_no_unit(tmp_path: Path) -> None:
    (cell,) = cells_of(tmp_path, [0], {"a": {}})
    assert list(units([Cell.of({**cell.as_dict(), "excluded": "why"})])) == []


def test_the_size_of_a_remote_source_is_in_the_listing_of_its_folder() -> None:
    fsspec = pytest.importorskip("fsspec")
    fsspec.filesystem("memory").pipe_file("/sizes/a.onnx", bytes(1234))
    assert unit.source_bytes("memory://sizes/a.onnx") == 1234
    assert unit.source_bytes("memory://sizes/none.onnx") == unit.UNKNOWN_BYTES


def test_paths_are_made_absolute_for_other_processes() -> None:
    cell = Cell(model="m", variant="", source="a.onnx", output="b.mnn", options={"data": ["x.npz"], "weights": "w"})
    found = absolute(cell)
    assert [found.source, *found.options["data"]] == [os.path.abspath("a.onnx"), os.path.abspath("x.npz")]
    assert absolute(Cell(model="m", variant="", source="s3://b/a.onnx", output="")).source == "s3://b/a.onnx"


@pytest.mark.parametrize("number", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 40))])
def test_a_shared_prefix_gives_the_same_bytes(tmp_path: Path, number: int) -> None:
    cells = cells_of(tmp_path, [number], VARIANTS)
    expected = serial(cells, tmp_path / "serial")
    (tmp_path / "shared").mkdir()
    read = []
    with shared_prefix():
        for cell in [*cells, *reversed(cells)]:
            steps: list[str] = []
            output = tmp_path / "shared" / Path(cell.output).name
            convert(cell.source, **{**cell.options, "output": output, "progress": steps.append})
            read.append("read" in steps)
    assert read == [True, False, False, False, True, False, True, False, False, False]
    assert files_in(tmp_path / "shared") == expected


# ---- runs


@pytest.mark.slow
def test_a_run_gives_the_bytes_of_a_serial_run_and_the_next_one_takes_them_from_the_store(tmp_path: Path) -> None:
    cells = cells_of(tmp_path, [0], VARIANTS)
    seen = []
    results = run_plan(
        cells, "plan.toml", Settings(store=str(tmp_path / "store")), LocalPool(1), lambda *a: seen.append(a[1:])
    )
    assert [c.status for c in results.cells] == ["passed"] * 5
    assert [c.name for c in results.cells] == [c.name for c in cells]
    assert seen == [(i + 1, 5) for i in range(5)]
    expected = serial(cells, tmp_path / "serial")
    assert files_in(tmp_path / "out") == expected
    assert {c.sha256 for c in results.cells} == {work.sha256_of(tmp_path / "out" / Path(c.output).name) for c in cells}

    shutil.rmtree(tmp_path / "out")
    again = run(cells, tmp_path / "store")
    assert all(c.cached for c in again.cells)
    assert files_in(tmp_path / "out") == expected
    assert [(c.key, c.metrics, c.checks) for c in again.cells] == [(c.key, c.metrics, c.checks) for c in results.cells]

    assert check_cells(cells, "").counts["passed"] == 5  # the receipts
    one = tmp_path / "out" / Path(cells[0].output).name
    one.write_bytes(b"changed by somebody")
    os.utime(tmp_path / "out" / Path(cells[1].output).name, (5, 5))
    assert run(cells, tmp_path / "store").counts["passed"] == 5
    assert files_in(tmp_path / "out") == expected
    assert (tmp_path / "out" / Path(cells[1].output).name).stat().st_mtime == 5  # it was right


def test_damage_in_the_store_only_costs_time(tmp_path: Path) -> None:
    cells = cells_of(tmp_path, [0], {"plain": {}})
    run(cells, tmp_path / "store")
    expected = files_in(tmp_path / "out")
    (damaged,) = [p for p in (tmp_path / "store" / "objects").rglob("*") if p.is_file()]
    damaged.write_bytes(bytes(damaged.stat().st_size))
    shutil.rmtree(tmp_path / "out")
    assert [c.cached for c in run(cells, tmp_path / "store").cells] == [False]
    assert files_in(tmp_path / "out") == expected
    assert [c.cached for c in run(cells, tmp_path / "store").cells] == [True]


def test_lasting_failures_are_kept_and_tried_again_if_asked(tmp_path: Path) -> None:
    good, bad = tmp_path / "a.onnx", tmp_path / "b.onnx"
    shutil.copy(fleet_models.save(tmp_path, 0), good)
    bad.write_bytes(good.read_bytes()[:-50])
    cells = [Cell(model=p.stem, variant="", source=str(p), output=str(p.with_suffix(".mnn"))) for p in (good, bad)]
    first = run(cells, tmp_path / "store")
    assert [c.status for c in first.cells] == ["passed", "error"]
    assert first.exit_code == 6
    assert [c.cached for c in run(cells, tmp_path / "store").cells] == [True, True]
    assert run(cells, tmp_path / "store").cells[1].checks == first.cells[1].checks
    assert [c.cached for c in run(cells, tmp_path / "store", retry_failed=True).cells] == [True, False]
    assert not bad.with_suffix(".mnn").exists()


def test_failures_that_may_pass_are_not_kept(tmp_path: Path) -> None:
    (cell,) = cells_of(tmp_path, [1], {"plain": {}})
    limited = Cell.of({**cell.as_dict(), "limits": {"seconds": 0.001}})
    results = run([limited], tmp_path / "store")
    assert [c.checks[0].rule for c in results.cells] == ["stopped"]
    assert list(Store(tmp_path / "store").keys()) == []
    assert run([cell], tmp_path / "store").counts["passed"] == 1
    missing = Cell(model="n", variant="", source=str(tmp_path / "none.onnx"), output="")
    assert run([missing], tmp_path / "store").cells[0].checks[0].rule == "unreadable-source"


@pytest.mark.parametrize(
    ("rule", "final"),
    [("", True), ("invalid-model", True), ("verification-failed", True), ("out-of-memory", False), ("crashed", False),
     ("internal-error", False), ("stopped", False), ("output-not-written", False), ("device-unavailable", False)],
)  # fmt: skip
def test_which_failures_last(rule: str, final: bool) -> None:
    check = Check("convert", "error", rule) if rule else Check("convert", "passed")
    assert is_final(CellResult(model="m", variant="", source="", output="", checks=(check,))) == final


def test_a_crash_takes_only_its_own_cell_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process of a unit crashes at its second cell, once and twice; the others are converted."""
    variants = {name: {"biz_code": name} for name in "abcd"}
    cells = cells_of(tmp_path, [0], variants)
    real = work._children()
    asked = []

    class Crashing:
        def __init__(self, times: int) -> None:
            self.left = times

        def call(
            self, function: str, source: str, given: list[dict[str, Any]], outputs: list[str], **more: Any
        ) -> Outcome:
            asked.append([c["variant"] for c in given])
            if self.left and any(c["variant"] == "b" for c in given):
                self.left -= 1
                at = next(i for i, c in enumerate(given) if c["variant"] == "b")
                done = real.call(function, source, given[:at], outputs[:at], **more) if at else Outcome((), "done")
                return Outcome(done.items, "crashed", "signal 11", "log", 11)
            return real.call(function, source, given, outputs, **more)

    for times, statuses in ((1, ["passed"] * 4), (9, ["passed", "error", "passed", "passed"])):
        asked.clear()
        children = Crashing(times)
        monkeypatch.setattr(work, "_children", lambda children=children: children)
        results = run(cells, tmp_path / f"store{times}")
        assert [c.status for c in results.cells] == statuses, times
    assert asked == [["a", "b", "c", "d"], ["b", "c", "d"], ["c", "d"]]
    assert (results.cells[1].checks[0].rule, results.cells[1].attempts) == ("crashed", 2)


def test_budgets_are_those_of_today(tmp_path: Path) -> None:
    (cell,) = cells_of(tmp_path, [0], {"plain": {}})
    assert run([cell], tmp_path / "store").exit_code == 0
    limited = Cell.of({**cell.as_dict(), "budgets": [{"metric": "bytes", "limit": 10}]})
    result = run([limited], tmp_path / "store").cells[0]
    assert (result.cached, result.exit_code, result.checks[-1].rule) == (True, 5, "budget-bytes")


def test_an_entry_serves_cells_of_other_names(tmp_path: Path) -> None:
    (cell,) = cells_of(tmp_path, [0], {"plain": {}})
    run([cell], tmp_path / "store")
    copy = tmp_path / "copy.onnx"
    shutil.copy(cell.source, copy)
    other = Cell(model="other", variant="v", source=str(copy), output=str(tmp_path / "copy.mnn"))
    result = run([other], tmp_path / "store").cells[0]
    assert (result.cached, result.model, result.source, result.output) == (True, "other", str(copy), other.output)
    assert "copy.onnx" in result.reproduce
    assert Path(other.output).read_bytes() == Path(cell.output).read_bytes()


def test_looking_converts_nothing(tmp_path: Path) -> None:
    cells = cells_of(tmp_path, [0, 1], {"plain": {}})
    run(cells[:1], tmp_path / "store")
    shutil.rmtree(tmp_path / "out")
    results = run(cells, tmp_path / "store", look=True, outputs=False)
    assert [c.status for c in results.cells] == ["passed", "skipped"]
    assert not (tmp_path / "out").exists()


def test_without_outputs_the_models_are_only_in_the_store(tmp_path: Path) -> None:
    (cell,) = cells_of(tmp_path, [0], {"side": {"side_file": True}})
    result = run([cell], tmp_path / "store", outputs=False).cells[0]
    assert not (tmp_path / "out").exists()
    store = Store(tmp_path / "store")
    entry = store.get(result.key)
    assert entry is not None
    assert MODEL in entry.files
    assert store.fetch(entry, MODEL, tmp_path / "copy")


def test_sources_and_store_at_urls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec = pytest.importorskip("fsspec")
    (local,) = cells_of(tmp_path, [2], {"plain": {}})
    fsspec.filesystem("memory").pipe_file("/models/a.onnx", Path(local.source).read_bytes())
    cell = Cell(model="m", variant="", source="memory://models/a.onnx", output=str(tmp_path / "a.mnn"))
    store = f"memory://store{os.getpid()}"
    result = run([cell], store).cells[0]
    assert (result.status, result.source) == ("passed", "memory://models/a.onnx")
    assert Path(cell.output).read_bytes() == serial([local], tmp_path / "serial")[Path(local.output).name]
    with monkeypatch.context() as patched:  # its hash is known: it is not fetched again
        patched.setattr("minnow.workflow.fetch.fetched", lambda *a: pytest.fail("fetched"))
        assert run([cell], store).cells[0].cached
    fsspec.filesystem("memory").pipe_file("/models/a.onnx", fleet_models.save(tmp_path, 3).read_bytes())
    changed = run([cell], store).cells[0]
    assert not changed.cached
    assert changed.sha256 != result.sha256
    gone = Cell(model="n", variant="", source="memory://models/none.onnx", output=str(tmp_path / "b.mnn"))
    failed = run([gone], store).cells[0]
    assert (failed.exit_code, failed.key) == (6, "")
    assert run([gone], store).cells[0].cached is False


def test_a_source_that_changes_during_its_conversion_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cell,) = cells_of(tmp_path, [0], {"plain": {}})
    real = work._children().call

    def call(*args: Any, **more: Any) -> Outcome:
        outcome = real(*args, **more)
        Path(cell.source).write_bytes(fleet_models.save(tmp_path, 9).read_bytes())
        return outcome

    monkeypatch.setattr(work._children(), "call", call)
    result = run([cell], tmp_path / "store").cells[0]
    assert result.key == ""
    assert list(Store(tmp_path / "store").keys()) == []


def test_other_builds_are_refused(tmp_path: Path) -> None:
    (cell,) = cells_of(tmp_path, [0], {"plain": {}})
    with pytest.raises(InternalError, match="another build"):
        run_unit([cell.as_dict()], {"store": str(tmp_path / "store"), "build": "0" * 64})
    assert len(build_digest()) == 64


def test_sweeping_keeps_what_the_plan_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = cells_of(tmp_path, [0, 1], {"plain": {}})
    run(cells, tmp_path / "store")
    for path in (tmp_path / "store").rglob("*"):
        os.utime(path, (1, 1))
    assert sweep(cells, str(tmp_path / "store")).removed == 0
    assert sweep(cells[:1], str(tmp_path / "store")).removed == 2
    assert run(cells[:1], tmp_path / "store").cells[0].cached
    Path(cells[0].source).unlink()
    with pytest.raises(FormatError):
        sweep(cells, str(tmp_path / "store"))


def test_schedulers_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with scheduler("local", 3) as (pool, jobs):
        assert isinstance(pool, LocalPool)
        assert jobs == 3
    with pytest.raises(UsageError, match="unknown scheduler"), scheduler("ray"):
        pass
    with pytest.raises(UsageError, match="workers' threads"), scheduler("dask://127.0.0.1:1", 3):
        pass
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UsageError, match="distributed") as caught, scheduler("dask"):
        pass
    assert "minnow[fleet]" in caught.value.hint
