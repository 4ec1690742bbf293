"""The JSON document: what is written is read back."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ci_results import PASSED, RESULTS, hostile
from ci_results import results as random_results
from hypothesis import given

from minnow.cli._app import run
from minnow.report.formats._cleaned import cleaned
from minnow.report.formats.json import document
from minnow.schema.errors import FormatError
from minnow.workflow.result import Results, json_schema


def test_the_document_is_read_back() -> None:
    assert Results.of(json.loads(document(RESULTS))) == RESULTS


def test_infinity_is_null_and_read_back_as_nan() -> None:
    cell = replace(PASSED, metrics={"max_error": math.inf, "nodes": 3})
    text = document(replace(RESULTS, cells=(cell,)))
    assert json.loads(text)["cells"][0]["metrics"] == {"max_error": None, "nodes": 3}
    assert math.isnan(Results.of(json.loads(text)).cells[0].metrics["max_error"])


@hostile
@given(given_=random_results)
def test_any_results_are_read_back(given_: Results) -> None:
    text = document(given_)
    assert not any(ord(c) > 126 for c in text)
    again = Results.of(json.loads(text, parse_constant=lambda c: 1 / 0))
    clean = cleaned(given_)
    assert replace(again, cells=()) == replace(clean, cells=())
    for a, b in zip(again.cells, clean.cells, strict=True):
        assert (a.model, a.checks, a.place, a.log) == (b.model, b.checks, b.place, b.log)


SCHEMA = Path(__file__).parents[2] / "docs" / "ci-report.schema.json"


def validator() -> Any:
    import jsonschema

    schema = json.loads(SCHEMA.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_the_published_schema_is_that_of_the_records() -> None:
    assert json.loads(SCHEMA.read_text()) == json_schema(), "python docs/generate.py writes it"


def test_the_published_schema_accepts_reports_and_describes_fields() -> None:
    validator().validate(json.loads(document(RESULTS)))
    validator().validate(json.loads(document(replace(RESULTS, cells=()))))
    cell = json.loads(SCHEMA.read_text())["properties"]["cells"]["items"]
    assert cell["properties"]["sha256"]["description"] == 'hash of the output file; "" without one.'
    assert set(cell["properties"]) == set(json.loads(document(RESULTS))["cells"][0])
    assert set(json.loads(SCHEMA.read_text())["properties"]) == set(json.loads(document(RESULTS)))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("model", 3),
        ("checks", [{"name": "x", "status": "fine"}]),
        ("metrics", {"bytes": "1"}),
        ("interval", [1]),
        ("attempts", 1.5),
    ],
)
def test_the_reader_refuses_what_the_schema_refuses(key: str, value: Any) -> None:
    report = json.loads(document(RESULTS))
    report["cells"][0][key] = value
    assert not validator().is_valid(report)
    with pytest.raises(FormatError, match=rf"cells\[0\]\.{key}"):
        Results.of(report)
    del report["cells"][0][key]
    assert validator().is_valid(report) == (key not in ("model", "checks"))


@hostile
@given(given_=random_results)
def test_the_published_schema_accepts_any_report(given_: Results) -> None:
    validator().validate(json.loads(document(given_)))


def test_the_command_prints_the_same_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("minnow.toml").write_text('[models.m]\nsource = "missing.onnx"\n')
    assert run(["ci", "--check", "--deterministic", "--format", "json", "--report", "json=r.json"]) != 0
    printed = capsys.readouterr().out
    assert printed == Path("r.json").read_text()
    validator().validate(json.loads(printed))
