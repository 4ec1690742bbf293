"""GitLab's reports: Code Quality, and metrics as OpenMetrics text."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from ci_results import PASSED, RESULTS, WRONG, hostile
from ci_results import results as random_results
from hypothesis import given

from minnow.report.formats._cleaned import cleaned
from minnow.report.formats._text import plain
from minnow.report.formats.gitlab import gitlab
from minnow.report.formats.openmetrics import openmetrics
from minnow.report.formats.sarif import sarif
from minnow.workflow.cell import Place
from minnow.workflow.result import STATUSES, Check, Results


def assert_code_quality(rows: Any) -> None:
    """The fields that GitLab documents as required, with their types and values."""
    assert isinstance(rows, list)
    for row in rows:
        assert isinstance(row["description"], str)
        assert re.fullmatch("[0-9a-f]{64}", row["fingerprint"])
        assert row["severity"] in ("info", "minor", "major", "critical", "blocker")
        assert isinstance(row["check_name"], str)
        path, begin = row["location"]["path"], row["location"]["lines"]["begin"]
        assert isinstance(path, str)
        assert not path.startswith(("./", "/"))
        assert isinstance(begin, int)
        assert begin >= 1
    assert len({row["fingerprint"] for row in rows}) == len(rows)


def test_code_quality_has_a_row_for_each_finding() -> None:
    rows = json.loads(gitlab(RESULTS))
    assert_code_quality(rows)
    assert [(r["check_name"], r["severity"]) for r in rows] == [
        ("unsupported-operator", "critical"),
        ("verification-failed", "major"),
        ("budget-bytes", "major"),
        ("verification-inconclusive", "minor"),
    ]
    assert json.loads(gitlab(replace(RESULTS, cells=(PASSED,)))) == []


def test_fingerprints_do_not_depend_on_lines_and_numbers() -> None:
    moved = replace(
        WRONG, place=Place("minnow.toml", 70), checks=tuple(replace(c, message="other") for c in WRONG.checks)
    )
    first, second = (json.loads(gitlab(replace(RESULTS, cells=(cell,)))) for cell in (WRONG, moved))
    assert [r["fingerprint"] for r in first] == [r["fingerprint"] for r in second]
    assert first != second


def test_repeated_findings_have_fingerprints_of_their_own() -> None:
    checks = tuple(Check("convert", "passed", "notice", "the same") for _ in range(3))
    assert_code_quality(rows := json.loads(gitlab(replace(RESULTS, cells=(replace(PASSED, checks=checks),)))))
    assert [row["severity"] for row in rows] == ["info"] * 3


def test_another_tool_makes_the_same_of_the_sarif_report(tmp_path: Path) -> None:
    """sarif-tools turns SARIF into Code Quality: both name the same findings at the same places."""
    from sarif.loader import load_sarif_files
    from sarif.operations import codeclimate_op

    path = tmp_path / "r.sarif"
    path.write_text(sarif(RESULTS))
    codeclimate_op.generate(load_sarif_files(str(path)), str(tmp_path / "cc.json"), False)
    theirs, ours = json.loads((tmp_path / "cc.json").read_text()), json.loads(gitlab(RESULTS))

    def places(rows: Any) -> list[Any]:
        return sorted((r["check_name"], r["location"]["path"], r["location"]["lines"]["begin"]) for r in rows)

    assert places(theirs) == places(ours)


def families(text: str) -> dict[str, list[Any]]:
    from prometheus_client.openmetrics.parser import text_string_to_metric_families

    return {family.name: family.samples for family in text_string_to_metric_families(text)}


def test_openmetrics_are_read_by_the_client_of_prometheus() -> None:
    found = families(openmetrics(RESULTS))
    assert {s.labels["model"]: s.value for s in found["minnow_bytes"]} == {"digits": 2_500_000, "detector": 3_000_000}
    assert [s.value for s in found["minnow_status"]] == [STATUSES.index(c.status) for c in RESULTS.cells]
    assert {s.labels["variant"] for s in found["minnow_latency"]} == {"half"}
    assert "minnow_peak_memory_bytes" in found


def test_cells_of_equal_names_are_series_of_their_own() -> None:
    other = replace(PASSED, model="digits (2)")
    found = families(openmetrics(replace(RESULTS, cells=(PASSED, other, WRONG, PASSED))))
    assert [s.labels["model"] for s in found["minnow_bytes"]] == ["digits", "digits (2)", "detector", "digits (3)"]


@hostile
@given(given_=random_results)
def test_hostile_texts_are_read_back(given_: Results) -> None:
    assert_code_quality(json.loads(gitlab(given_)))
    samples = families(openmetrics(given_)).get("minnow_status", [])
    clean = cleaned(given_)
    expected = [(plain(c.model), plain(c.variant)) for c in clean.cells]
    found = [(s.labels["model"], s.labels["variant"]) for s in samples]
    assert [f if f in expected else (re.sub(r" \(\d+\)$", "", f[0]), f[1]) for f in found] == expected
    nodes = families(openmetrics(given_)).get("minnow_nodes", [])
    wanted = [c.metrics["nodes"] for c in clean.cells if "nodes" in c.metrics]
    assert all(a.value == b or math.isnan(b) for a, b in zip(nodes, wanted, strict=True))
