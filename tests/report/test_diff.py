"""`mnnconvert diff` on files, as a CI job runs it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ci_results import BROKEN, LEFT_OUT, PASSED, RESULTS, WRONG, hostile
from ci_results import results as random_results
from hypothesis import given
from test_markdown import shown, tables

from minnow.cli._app import run
from minnow.report import comparison
from minnow.report.comparison import markdown, plain
from minnow.report.formats.json import document
from minnow.schema.errors import UsageError
from minnow.workflow.compare import compare, increase_of
from minnow.workflow.result import CellResult, Check, Results

BIGGER = replace(PASSED, metrics={**PASSED.metrics, "bytes": 2_550_000, "nodes": 11})
Diff = Callable[..., int]


@pytest.fixture
def diff(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Diff:
    """Runs the command on two lists of cells."""
    monkeypatch.chdir(tmp_path)

    def command(base: list[CellResult] | None, head: list[CellResult], *flags: str) -> int:
        for name, cells in (("base", base), ("head", head)):
            if cells is not None:
                (tmp_path / f"{name}.json").write_text(document(replace(RESULTS, cells=tuple(cells))))
        return run(["diff", "base.json", "head.json", *flags])

    return command


def test_what_differs_is_shown_with_its_change(diff: Diff, capsys: pytest.CaptureFixture[str]) -> None:
    assert diff([PASSED, WRONG], [BIGGER, WRONG]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "1 changed, 1 unchanged",
        "digits: passed",
        "  file size: 2.50 MB -> 2.55 MB (+2.0%)",
        "  nodes: 12 -> 11 (-8.3%)",
    ]


@pytest.mark.parametrize(
    ("limit", "code"),
    [
        ("bytes=1%", 5), ("bytes=2%", 0), ("bytes=2.1%", 0), ("bytes=49 kB", 5), ("bytes=50kB", 0), ("bytes=50000", 0),
        ("bytes=0", 5), ("nodes=0", 0), ("macs=0%", 0), ("latency=1%", 0),
    ],
)  # fmt: skip
def test_a_limit_is_exceeded_above_it(diff: Diff, limit: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert diff([PASSED], [BIGGER], "--max-increase", limit) == code
    assert ("failed: digits: file size: 2.50 MB -> 2.55 MB (+2%), at most +" in capsys.readouterr().out) == (code == 5)
    assert diff([PASSED], [BIGGER], "--max-increase", limit, "--fail-on", "never") == 0


def test_a_result_that_became_worse_or_went_away(diff: Diff) -> None:
    worse = replace(PASSED, checks=(Check("convert", "error", "crashed"),))
    assert diff([PASSED], [worse]) == 5
    assert diff([PASSED], [worse], "--fail-on", "limit") == 0
    assert diff([worse], [PASSED]) == 0
    assert diff([PASSED, BROKEN], [BROKEN]) == 0
    assert diff([PASSED, BROKEN], [BROKEN], "--fail-on", "removed") == 5
    assert diff([PASSED], [replace(LEFT_OUT, model="digits")]) == 0, "left out on purpose"


def test_without_a_baseline_it_passes_with_a_note(diff: Diff, capsys: pytest.CaptureFixture[str]) -> None:
    assert diff([], [PASSED], "--max-increase", "bytes=1%") == 0
    assert "digits: no baseline for file size\n" in capsys.readouterr().out
    Path("base.json").unlink()
    assert diff(None, [PASSED], "--allow-missing-base", "--max-increase", "bytes=1%") == 0
    assert "There is no base to compare with." in capsys.readouterr().out
    assert diff(None, [PASSED]) == 6


def test_json_has_every_number(diff: Diff, capsys: pytest.CaptureFixture[str]) -> None:
    assert diff([PASSED], [BIGGER], "--format", "json", "--max-increase", "bytes=1%", "--report", "json=d.json") == 5
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads(Path("d.json").read_text())
    change = found["cells"][0]["metrics"]["bytes"]
    assert change == {
        "base": 2_500_000,
        "head": 2_550_000,
        "absolute": 50_000,
        "relative": 0.02,
        "limit": "1%",
        "breach": True,
    }
    assert found["cells"][0]["state"] == "changed"
    assert found["exit_code"] == 5
    assert len(found["reasons"]) == 1


def test_markdown_has_a_row_for_each_difference_the_worst_first(diff: Diff) -> None:
    gone, new = replace(PASSED, model="gone"), replace(PASSED, model="new")
    same = replace(PASSED, model="same")
    assert diff([PASSED, gone, same], [new, same, BIGGER], "--max-increase", "bytes=1%", "--report", "md=d.md") == 5
    (rows,) = tables(text := Path("d.md").read_text().replace("**", ""))
    found = [[shown(cell) for cell in row] for row in rows]
    assert found[0][:3] == ["model", "result", "file size"]
    assert [row[:2] for row in found[1:]] == [["digits", "✅ passed"], ["new", "added: ✅ passed"], ["gone", "removed"]]
    assert found[1][2] == "2.50 MB → 2.55 MB (+2.0%) ❌ at most +1%"
    assert text.startswith("### ❌ Minnow: 1 changed, 1 added, 1 removed, 1 unchanged, 1 limit exceeded\n")
    assert "1 model is unchanged." in text


@pytest.mark.parametrize(
    ("flags", "code", "what"),
    [
        (["--max-increase", "size=1%"], 2, "unknown metric 'size'"),
        (["--max-increase", "bytes=x"], 2, "'bytes=x' is not a limit"),
        (["--max-increase", "bytes=-1%"], 2, "is not a limit"),
        (["--max-increase", "nodes=1 kB"], 2, "nodes has no bytes"),
        (["--max-increase", "bytes=1%", "--max-increase", "bytes=2"], 2, "has two limits"),
        (["--report", "pdf=x"], 2, "unknown kind of report 'pdf'"),
        (["--report", "md"], 2, "needs a file"),
        (["--report", "md=no/x.md"], 2, "folder of the output does not exist"),
    ],
)
def test_usage_errors(diff: Diff, flags: list[str], code: int, what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert diff([PASSED], [PASSED], *flags) == code
    assert what in capsys.readouterr().err


GOOD = json.loads(document(RESULTS))


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "it is not JSON"),
        (b"\xff\xfe", "report.json"),
        (b"version https://git-lfs.github.com/spec/v1\n", "it is not JSON"),
        (b"[]", "no field 'schema'"),
        (b"3", "no field 'schema'"),
        (b'{"schema": 7}', "schema 7"),
        (b'{"schema": true}', "schema True"),
        (b'{"schema": 1}', "cells is missing"),
        (b"[" * 100_000, "nested too deeply"),
        (json.dumps(GOOD).encode()[:-9], "it is not JSON"),
        (json.dumps({**GOOD, "cells": [3]}).encode(), "cells[0] is 3 instead of an object"),
        (json.dumps({**GOOD, "cells": [{**GOOD["cells"][0], "checks": [{"name": "x", "status": "fine"}]}]}).encode(),
         "cells[0].checks[0].status is 'fine'"),
        (json.dumps({**GOOD, "cells": [{**GOOD["cells"][0], "metrics": {"bytes": "big"}}]}).encode(),
         "cells[0].metrics.bytes is 'big'"),
        (json.dumps({**GOOD, "cells": [{**GOOD["cells"][0], "model": None}]}).encode(), "cells[0].model is None"),
    ],
)  # fmt: skip
def test_damaged_reports_and_other_files_have_exit_code_6(
    content: bytes, what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(content)
    assert run(["diff", str(path), str(path)]) == 6
    said = capsys.readouterr().err
    assert what in said
    assert "report.json" in said
    assert "Traceback" not in said


def timed(ratio: float, low: float, high: float) -> Results:
    return replace(RESULTS, cells=(replace(PASSED, metrics={"latency": ratio}, interval=(low, high)),))


def test_latencies_whose_intervals_overlap_are_the_same() -> None:
    limits = {"latency": increase_of("latency=5%")}
    assert compare(timed(1.0, 0.9, 1.1), timed(1.2, 1.05, 1.3), limits).exit_code == 0
    assert compare(timed(1.0, 0.9, 1.1), timed(1.2, 1.15, 1.3), limits).exit_code == 5
    assert compare(timed(1.0, 0.9, 1.1), timed(1.04, 1.11, 1.3), limits).exit_code == 0


def test_numbers_that_are_not_finite() -> None:
    def of(value: float) -> Results:
        return replace(RESULTS, cells=(replace(PASSED, metrics={"max_error": value}),))

    limits = {"max_error": increase_of("max_error=10%")}
    assert compare(of(0.0), of(math.nan), limits).exit_code == 5
    assert compare(of(0.0), of(math.inf), limits).exit_code == 5
    assert compare(of(math.nan), of(1.0), limits).exit_code == 0
    assert compare(of(math.nan), of(math.nan), limits).cells[0].state == "same"
    assert compare(of(0.0), of(1e-9), limits).exit_code == 5, "any increase is more than 10 % of nothing"
    json.dumps(compare(of(0.0), of(math.inf), limits).as_dict(), allow_nan=False)


def test_a_long_comment_is_cut_with_a_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "LIMIT", 3000)
    text = markdown(compare(None, replace(RESULTS, cells=tuple(replace(PASSED, model=f"m{i}") for i in range(99)))))
    (rows,) = tables(text)
    assert f"{99 - len(rows) + 1} more models are left out" in text
    assert len(text) < 3000


def test_limits_of_unknown_form_say_what_to_give() -> None:
    with pytest.raises(UsageError, match="METRIC=N%"):
        increase_of("bytes")


@hostile
@given(base=random_results, head=random_results)
def test_hostile_texts(base: Results, head: Results) -> None:
    found = compare(base, head, {"bytes": increase_of("bytes=1%")}, "removed")
    text = markdown(found)
    (rows,) = tables(text) or [[]]
    assert len({len(row) for row in rows}) <= 1
    json.dumps(found.as_dict(), allow_nan=False)
    assert plain(found)
    same: Any = compare(base, base)
    assert same.exit_code == 0
    assert not [c for c in same.cells if c.state != "same"]
