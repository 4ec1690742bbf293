"""Conversions of one cell in this process: metrics, checks of every kind of failure, budgets."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from minnow.schema.errors import ModelError
from minnow.workflow.cell import Budget, Cell
from minnow.workflow.convert_cell import convert_cell, failure, with_budgets
from minnow.workflow.metric import METRICS
from minnow.workflow.result import CellResult, Check

DIGITS = Path(__file__).parents[2] / "examples/digits/digits.onnx"


def model(path: Path, op: str = "Relu", n: int = 4) -> Path:
    """A network of two nodes: y = op(x + 1)."""
    ones = helper.make_tensor("one", TensorProto.FLOAT, [n], [1.0] * n)
    nodes = [helper.make_node("Add", ["x", "one"], ["z"], "plus"), helper.make_node(op, ["z"], ["y"], "last")]
    of = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, n]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", of[:1], of[1:], [ones])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my.domain", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    model(tmp_path / "m.onnx")
    return tmp_path


def cell(source: str = "m.onnx", **options: Any) -> Cell:
    return Cell(model="m", variant="v", source=source, output="out/m.mnn", options=options)


def by_name(result: CellResult) -> dict[str, Check]:
    return {check.name: check for check in result.checks}


def test_a_conversion_is_measured(here: Path) -> None:
    result = convert_cell(cell(tolerance=1e-3))
    assert result.status == "passed", result.checks
    assert [c.name for c in result.checks] == ["convert", "verify:y"]
    assert result.metrics["bytes"] == (here / "out/m.mnn").stat().st_size
    assert result.before["bytes"] == (here / "m.onnx").stat().st_size
    assert (result.before["nodes"], result.metrics["macs"], result.metrics["max_error"]) == (2, 0, 0)
    assert set(result.metrics) == {name for name, m in METRICS.items() if m.measured == "converted"}
    assert result.reproduce == "mnnconvert convert m.onnx --output=out/m.mnn --tolerance=0.001"
    assert str(here) not in json.dumps(asdict(result))


def test_companion_files_count(here: Path) -> None:
    convert_cell(cell())
    alone = (here / "out/m.mnn").stat().st_size
    model(here / "big.onnx", n=4096)
    result = convert_cell(cell("big.onnx", side_file=True))
    files = [here / "out/m.mnn", here / "out/m.mnn.weight"]
    assert result.metrics["bytes"] == sum(p.stat().st_size for p in files) > alone
    assert [c.rule for c in result.checks if c.message.startswith("the weights are in")] == ["companion-file"]
    assert result.status == "passed"


def test_the_command_line_converts_to_the_same_bytes(here: Path) -> None:
    from minnow.cli._app import run

    result = convert_cell(cell(optimize=1, inputs={"x": "2x4"}))
    line = shlex.split(result.reproduce)
    first = (here / "out/m.mnn").read_bytes()
    (here / "out/m.mnn").unlink()
    assert line[0] == "mnnconvert"
    assert run(line[1:]) == 0
    assert (here / "out/m.mnn").read_bytes() == first


@pytest.mark.parametrize(
    ("source", "options", "rule", "code"),
    [
        ("missing.onnx", {}, "unreadable-source", 6),
        ("cut.onnx", {}, "unreadable-source", 6),
        ("foreign.onnx", {}, "unsupported-operator", 3),
        ("m.onnx", {"optimize": 9}, "wrong-options", 2),
        ("m.onnx", {"colour": 1}, "wrong-options", 2),
        ("m.onnx", {"inputs": {"z": "2x4"}}, "wrong-options", 2),
        ("m.onnx", {"data": ["missing.npz"]}, "unreadable-source", 6),
    ],
)
def test_errors_are_checks(here: Path, source: str, options: dict[str, Any], rule: str, code: int) -> None:
    (here / "cut.onnx").write_bytes((here / "m.onnx").read_bytes()[:60])
    foreign = onnx.load(here / "m.onnx")
    foreign.graph.node[1].op_type, foreign.graph.node[1].domain = "Mystery", "my.domain"
    onnx.save(foreign, here / "foreign.onnx")
    result = convert_cell(cell(source, **options))
    (check,) = result.checks
    assert (check.status, check.rule, result.exit_code) == ("error", rule, code), check
    assert "\n" not in check.message
    assert not list(here.glob("out/*"))
    if rule == "unsupported-operator":
        assert check.nodes == ("last",), check
        assert "Mystery" in check.details
    assert not with_budgets(Cell(model="", variant="", source="", output="", budgets=(Budget("bytes", 1),)),
                            result).checks[1:]  # fmt: skip


def test_wrong_numbers_are_a_failure_of_their_output(here: Path) -> None:
    """With a tolerance of 0 the rounding errors of a real network are too large."""
    result = convert_cell(cell(str(DIGITS), tolerance=0.0))
    check = by_name(result)["verify:probability"]
    assert (result.status, result.exit_code, check.rule) == ("failed", 4, "verification-failed")
    assert "minimum passing tolerance" in check.message
    assert "FAIL" in check.details
    assert not list(here.glob("out/*")), "a file with wrong numbers was written"


def test_outputs_that_were_not_tested_are_warnings(here: Path) -> None:
    np.savez(here / "zero.npz", x=np.full((2, 4), -5, np.float32))
    result = convert_cell(cell(data=["zero.npz"]))
    check = by_name(result)["verify:y"]
    assert (check.status, check.rule) == ("warning", "verification-inconclusive"), check
    assert (result.exit_code, (here / "out/m.mnn").exists()) == (0, True)


def test_excluded_cells_are_skipped(here: Path) -> None:
    given = Cell(model="m", variant="", source="m.onnx", output="m.mnn", excluded="too slow")
    result = convert_cell(given)
    assert [(c.status, c.message) for c in result.checks] == [("skipped", "too slow")]
    assert not (here / "m.mnn").exists()


def test_memory_and_defects_have_rules() -> None:
    short = ModelError("the model needs more memory than is available")
    short.__cause__ = MemoryError()
    assert failure(short)[0].rule == "out-of-memory"
    assert failure(MemoryError())[0].rule == "out-of-memory"
    try:
        raise ZeroDivisionError("x")
    except ZeroDivisionError as e:
        (check,) = failure(e)
    assert (check.rule, check.status) == ("internal-error", "error")
    assert "test_convert_cell.py" in check.details
    assert failure(OSError(28, "No space left on device", "f"))[0].rule == "output-not-written"


RESULT = CellResult(
    model="m", variant="", source="s", output="o", checks=(Check("convert", "passed"),),
    metrics={"bytes": 1000.0, "nodes": 10.0, "macs": 5e6, "peak_memory": 4096.0, "max_error": 1e-5},
    before={"bytes": 2000.0, "nodes": 10.0},
)  # fmt: skip


@pytest.mark.parametrize("metric", [m.name for m in METRICS.values() if m.measured == "converted"])
def test_every_metric_has_a_budget(metric: str) -> None:
    value = RESULT.metrics[metric]
    for limit, status in ((value, "passed"), (value * 0.99, "failed")):
        given = Cell(model="m", variant="", source="s", output="o", budgets=(Budget(metric, limit),))
        check = with_budgets(given, RESULT).checks[-1]
        assert (check.name, check.status, check.value, check.limit) == (f"budget:{metric}", status, value, limit)
    assert with_budgets(given, RESULT).exit_code == 5


def test_budgets_relative_to_the_source() -> None:
    def checked(metric: str, limit: float) -> Check:
        budget = Budget(metric, limit, relative=True)
        given = Cell(model="m", variant="", source="s", output="o", budgets=(budget,))
        return with_budgets(given, RESULT).checks[-1]

    assert checked("bytes", 0.5).status == "passed"
    assert checked("bytes", 0.49).message == "file size: 1.00 kB, at most 980 B (49 % of the source)"
    assert (checked("macs", 0.5).status, checked("macs", 0.5).message[:11]) == ("passed", "no baseline")


def test_a_source_by_url_is_downloaded(here: Path) -> None:
    result = convert_cell(cell(f"file://{here}/m.onnx"))
    assert result.status == "passed", result.checks
    assert result.reproduce == "mnnconvert ci --only m/v"
    missing = convert_cell(cell(f"file://{here}/none.onnx"))
    assert (missing.checks[0].rule, missing.exit_code) == ("unreadable-source", 6)
    assert "tmp/minnow-" not in missing.checks[0].details


def test_a_missing_package_is_named(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    result = convert_cell(cell("https://localhost/m.onnx"))
    assert result.exit_code == 2
    assert "pip install 'minnow[fleet]'" in result.checks[0].details


def test_the_largest_error_is_what_the_tolerance_must_be(here: Path) -> None:
    """With it as the tolerance the verification passes; with less it fails."""
    measured = convert_cell(cell(str(DIGITS), tolerance=1e-3)).metrics["max_error"]
    assert 0 < measured < 1e-5
    assert convert_cell(cell(str(DIGITS), tolerance=measured)).status == "passed"
    assert convert_cell(cell(str(DIGITS), tolerance=measured * 0.99)).exit_code == 4


def test_errors_below_the_rounding_of_one_do_not_count(here: Path) -> None:
    """Sigmoid far below 0: results near 0, whose errors are large as fractions of them."""
    model(here / "s.onnx", "Sigmoid")
    np.savez(here / "far.npz", x=np.linspace(-60, -17, 8, dtype=np.float32).reshape(2, 4))
    result = convert_cell(cell("s.onnx", data=["far.npz"]))
    assert result.exit_code == 0, result.checks
    assert result.metrics["max_error"] < 1e-4
