"""Compares the latency of a converted model with its baseline."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from minnow.schema.errors import MinnowError
from minnow.workflow.cell import Budget, Cell
from minnow.workflow.convert_cell import failure, local, options_of
from minnow.workflow.result import CellResult, Check
from minnow.workflow.rule import RULES

CHECK = "budget:latency"


def latency_budgets(cell: Cell) -> list[Budget]:
    """The budgets of a cell for which its model has to be timed."""
    from minnow.workflow.metric import METRICS

    return [b for b in cell.budgets if METRICS[b.metric].measured == "timed"]


def time_cell(cell: Cell, result: CellResult) -> CellResult:
    """Adds the check of a latency budget to the result of a cell. Nothing else should run meanwhile.

    A budget whose baseline, a file or another build, does not exist passes with a note: so it is for a new model.
    """
    for budget in latency_budgets(cell):
        needed = [budget.python, budget.baseline if _is_file(budget) else ""]
        if missing := [path for path in needed if path and not Path(path).exists()]:
            message = f"no baseline: {missing[0]} does not exist"
            result = replace(
                result, checks=(*result.checks, Check(CHECK, "passed", message=message, limit=budget.limit))
            )
            continue
        try:
            result = _timed(cell, budget, result)
        except MinnowError as e:
            result = replace(result, checks=(*result.checks, *(replace(c, name=CHECK) for c in failure(e))))
    return result


def timed(cell: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    """As `time_cell`, with JSON-ready values: for child processes."""
    return asdict(time_cell(Cell.of(cell), CellResult.of(result)))


def _timed(cell: Cell, budget: Budget, result: CellResult) -> CellResult:
    import time

    from minnow.options.run import RunOptions
    from minnow.runtime.benchmark.latency import compare_latency
    from minnow.runtime.benchmark.turns import Baseline
    from minnow.runtime.verify.data import read_npz
    from minnow.runtime.verify.samples import random_inputs

    begin = time.perf_counter()
    output, options = Path(cell.output), options_of(cell)
    arrays = next((str(path) for path in options.data if str(path).endswith(".npz")), None)
    inputs = read_npz(arrays) if arrays is not None else random_inputs(output, options.inputs or {})
    session, python = RunOptions(threads=budget.threads), Path(budget.python) if budget.python else None
    if _is_file(budget) or not budget.baseline:
        baseline = Baseline(Path(budget.baseline) if budget.baseline else None, python=python)
        found = compare_latency(output, baseline, budget.limit, budget.retries, inputs=inputs, session=session)
    else:
        with local(cell.source) as source:
            baseline = Baseline(source, budget.baseline, python)
            found = compare_latency(output, baseline, budget.limit, budget.retries, inputs=inputs, session=session)
    seconds = time.perf_counter() - begin
    check = Check(CHECK, "passed", "", str(found), seconds=seconds, value=found.ratio, limit=budget.limit)
    if found.breached:
        check = replace(check, status="failed", rule=RULES["budget-latency"].name)
    return replace(
        result,
        checks=(*result.checks, check),
        metrics={**result.metrics, "latency": found.ratio},
        interval=(found.low, found.high),
        seconds={**result.seconds, "latency": seconds},
    )


def _is_file(budget: Budget) -> bool:
    return budget.baseline.endswith(".mnn") or "/" in budget.baseline
