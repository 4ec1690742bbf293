"""Budgets of latency: what becomes of a comparison with a baseline."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from minnow.runtime.benchmark import latency
from minnow.runtime.benchmark.latency import LatencyComparison
from minnow.schema.errors import ModelError
from minnow.workflow.cell import Budget, Cell
from minnow.workflow.convert_cell import convert_cell
from minnow.workflow.result import CellResult, Check
from minnow.workflow.run import Settings, run_cells, timeless
from minnow.workflow.time_cell import time_cell

DIGITS = Path(__file__).parents[2] / "examples/digits/digits.onnx"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copy(DIGITS, tmp_path)
    return tmp_path


def cell(*budgets: Budget, name: str = "m") -> Cell:
    return Cell(model=name, variant="", source="digits.onnx", output=f"{name}.mnn", budgets=budgets)


DONE = CellResult(model="m", variant="", source="digits.onnx", output="m.mnn", checks=(Check("convert", "passed"),))


@pytest.mark.parametrize(
    ("low", "high", "status", "code", "said"),
    [
        (1.05, 1.2, "passed", 0, "within the limit"),
        (1.05, 1.4, "passed", 0, "inconclusive"),
        (1.35, 1.4, "failed", 5, "above the limit of 1.3"),
    ],
)
def test_a_comparison_becomes_a_check(
    here: Path, monkeypatch: pytest.MonkeyPatch, low: float, high: float, status: str, code: int, said: str
) -> None:
    asked: list[Any] = []

    def compared(model: Path, baseline: Any, limit: float, retries: int, **more: Any) -> LatencyComparison:
        asked.append((model, baseline.model, baseline.runtime, limit, retries, list(more["inputs"])))
        return LatencyComparison(baseline.name, (low + high) / 2, low, high, limit, low > limit, 1, 2e-3, 1e-3)

    monkeypatch.setattr(latency, "compare_latency", compared)
    convert_cell(cell())
    budgets = Budget("latency", 1.3, "onnxruntime", retries=4)
    result = time_cell(cell(budgets), DONE)
    assert asked == [(Path("m.mnn"), Path("digits.onnx"), "onnxruntime", 1.3, 4, ["image"])]
    check = result.checks[-1]
    assert (check.name, check.status, result.exit_code, check.limit) == ("budget:latency", status, code, 1.3)
    assert said in check.message
    assert (result.interval, result.metrics["latency"]) == ((low, high), pytest.approx((low + high) / 2))


def test_without_a_baseline_it_passes_with_a_note(here: Path) -> None:
    result = time_cell(cell(Budget("latency", 1.1, "base/m.mnn")), DONE)
    assert [(c.status, c.message) for c in result.checks[1:]] == [("passed", "no baseline: base/m.mnn does not exist")]


@pytest.mark.parametrize("baseline", ["", "base.mnn"])
def test_another_build_runs_the_baseline(here: Path, monkeypatch: pytest.MonkeyPatch, baseline: str) -> None:
    asked: list[Any] = []

    def compared(model: Path, baseline: Any, limit: float, retries: int, **more: Any) -> LatencyComparison:
        asked.append((baseline.entry(model).model, baseline.python, more["session"].threads))
        return LatencyComparison(baseline.name, 1.0, 0.9, 1.1, limit, False, 1, 1e-3, 1e-3)

    monkeypatch.setattr(latency, "compare_latency", compared)
    convert_cell(cell())
    shutil.copy("m.mnn", "base.mnn")
    budget = Budget("latency", 1.3, baseline, python="base/bin/python", threads=2)
    missing = time_cell(cell(budget), DONE)
    assert missing.checks[-1].message == "no baseline: base/bin/python does not exist"
    Path("base/bin").mkdir(parents=True)
    Path("base/bin/python").touch()
    assert time_cell(cell(budget), DONE).checks[-1].status == "passed"
    assert asked == [(Path(baseline or "m.mnn"), Path("base/bin/python"), 2)]


def test_a_baseline_that_does_not_run_is_an_error(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def compared(*args: Any, **more: Any) -> None:
        raise ModelError("the baseline does not run")

    monkeypatch.setattr(latency, "compare_latency", compared)
    convert_cell(cell())
    result = time_cell(cell(Budget("latency", 1.1, "onnxruntime")), DONE)
    assert [(c.name, c.status, c.rule) for c in result.checks[1:]] == [("budget:latency", "error", "invalid-model")]
    result = time_cell(cell(Budget("latency", 1.1, "fastruntime")), DONE)
    assert result.exit_code == (6 if result.checks[-1].rule == "invalid-model" else 2)


@pytest.mark.slow
def test_real_models_are_timed_after_all_conversions(here: Path) -> None:
    shutil.copytree(here, here / "base")
    convert_cell(cell(name="base/same"))
    cells = [
        cell(Budget("latency", 3.0, "base/same.mnn"), name="same"),
        cell(Budget("latency", 0.2, "base/same.mnn", retries=1), name="slower"),
        cell(Budget("bytes", 1), Budget("latency", 50, "onnxruntime"), name="other"),
        cell(name="untimed"),
    ]
    order: list[str] = []
    results = run_cells(cells, "", Settings(), lambda result, count, total: order.append(result.name))
    same, slower, other, untimed = results.cells
    assert sorted(order[:4]) == sorted(c.name for c in cells)
    assert sorted(order[4:]) == ["other", "same", "slower"]
    assert [c.exit_code for c in results.cells] == [0, 5, 5, 0]
    assert same.interval is not None
    assert same.interval[0] < same.metrics["latency"] < same.interval[1]
    assert 0.3 < same.metrics["latency"] < 3
    assert [c.rule for c in slower.checks if c.status == "failed"] == ["budget-latency"]
    assert [c.rule for c in other.checks if c.status == "failed"] == ["budget-bytes"], "timed nevertheless"
    assert "latency" in other.metrics
    assert "latency" not in untimed.metrics
    assert all("latency" not in c.metrics and c.interval is None for c in timeless(results).cells)
