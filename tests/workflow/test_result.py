"""Records of cells and results: their JSON, statuses and exit codes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from minnow.schema import errors
from minnow.workflow.cell import Budget, Cell, Limits, Place
from minnow.workflow.result import CellResult, Check, Results, Status
from minnow.workflow.rule import RULES, rule_of

CELL = Cell(
    model="digits",
    variant="half",
    source="digits.onnx",
    output="out/digits.mnn",
    options={"optimize": 2},
    budgets=(Budget("bytes", 1000),),
    limits=Limits(seconds=3.5),
    place=Place("minnow.toml", 7),
)


def result(*checks: Check, **more: Any) -> CellResult:
    return CellResult(model="m", variant="v", source="s", output="o", checks=checks, **more)


def test_cells_survive_json() -> None:
    assert Cell.of(json.loads(json.dumps(CELL.as_dict()))) == CELL


def test_results_survive_json_and_ignore_what_is_newer() -> None:
    cell = result(Check("convert", "error", "crashed", nodes=("conv1",)), interval=(0.9, 1.1), place=Place("f", 2))
    results = Results(cells=(cell,), version="1", started="2026-01-01T00:00:00+00:00")
    document = json.loads(json.dumps(results.as_dict()))
    document["cells"][0]["colour"] = document["more"] = 1
    assert Results.of(document) == results


@pytest.mark.parametrize("document", [[], {}, {"schema": 2}, {"schema": 1}, {"schema": 1, "version": "", "cells": [3]}])
def test_other_documents_are_refused(document: Any) -> None:
    with pytest.raises(errors.FormatError, match="report of `mnnconvert ci`"):
        Results.of(document)


PASSED, WARNED = Check("convert", "passed"), Check("verify:y", "warning", "verification-inconclusive")
TOO_BIG, UNREADABLE = Check("budget:bytes", "failed", "budget-bytes"), Check("convert", "error", "unreadable-source")


@pytest.mark.parametrize(
    ("checks", "status", "code"),
    [
        ([], "skipped", 0),
        ([PASSED], "passed", 0),
        ([PASSED, WARNED], "warning", 0),
        ([WARNED, TOO_BIG], "failed", 5),
        ([TOO_BIG, UNREADABLE], "error", 6),
    ],
)
def test_status_and_exit_code_are_those_of_the_worst_check(checks: list[Check], status: Status, code: int) -> None:
    assert (result(*checks).status, result(*checks).exit_code) == (status, code)
    results = Results(cells=(result(PASSED), result(*checks)), version="")
    assert results.exit_code == code
    assert results.counts[status] >= 1


def test_every_error_has_a_rule_with_its_exit_code() -> None:
    kinds = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, errors.MinnowError)]
    assert len(kinds) > 10
    for kind in kinds:
        if kind not in (errors.MinnowError, errors.BudgetError):  # budgets have a rule for each metric
            assert rule_of(kind("x")).exit_code == kind.exit_code, kind
    assert rule_of(ZeroDivisionError()).name == "internal-error"
    assert all(name == rule.name for name, rule in RULES.items())
