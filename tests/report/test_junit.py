"""JUnit XML against the schema of Ant's JUnit task, and as an independent reader understands it."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from ci_results import RESULTS, WRONG, hostile
from ci_results import results as random_results
from hypothesis import given

from minnow.report.formats.junit import junit
from minnow.workflow.result import Check, Results


@pytest.fixture(scope="module")
def schema() -> Any:
    """The schema of Ant's task, by Windy Road, which the package ReFrame-HPC has."""
    from lxml import etree

    spec = find_spec("reframe")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return etree.XMLSchema(etree.parse(Path(spec.submodule_search_locations[0]) / "schemas" / "junit.xsd"))


def assert_valid(schema: Any, text: str) -> None:
    from lxml import etree

    schema.assertValid(etree.fromstring(text.encode()))


def test_the_schema_accepts_the_report_with_and_without_times(schema: Any) -> None:
    for results in (RESULTS, replace(RESULTS, started="", host=""), replace(RESULTS, cells=())):
        assert_valid(schema, junit(results))


def test_the_schema_refuses_what_the_tests_rely_on(schema: Any) -> None:
    from lxml import etree

    with pytest.raises(etree.DocumentInvalid):
        assert_valid(schema, junit(RESULTS).replace("<system-err />", "", 1))
    with pytest.raises(etree.DocumentInvalid):
        assert_valid(schema, junit(RESULTS).replace('tests="2"', 'tests="two"'))


def test_an_independent_reader_finds_every_check() -> None:
    from junitparser import Error, Failure, JUnitXml, Skipped

    suites = list(JUnitXml.fromstring(junit(RESULTS).encode()))
    assert [s.name for s in suites] == ["digits", "detector/half", "text/int8", "old"]
    found = {(s.name, c.name): [type(r) for r in c.result] for s in suites for c in s}
    assert found["digits", "verify:y"] == []
    assert found["detector/half", "verify:boxes"] == found["detector/half", "budget:bytes"] == [Failure]
    assert found["detector/half", "budget:latency"] == [Skipped]
    assert found["text/int8", "convert"] == [Error]
    assert found["old", "convert"] == [Skipped]
    counted = [(s.tests, s.failures, s.errors, s.skipped) for s in suites]
    for suite in suites:
        suite.update_statistics()
    assert [(s.tests, s.failures, s.errors, s.skipped) for s in suites] == counted
    failure = next(c for c in suites[1] if c.name == "verify:boxes").result[0]
    assert (failure.type, failure.message) == ("verification-failed", "0.25 is above the tolerance 0.001")
    for part in ("row 1\nrow 2", "minnow.toml:9", "nodes: box, nms", "bisect", "reproduce: mnnconvert"):
        assert part in failure.text


def test_notes_are_no_test_cases_and_names_are_unique() -> None:
    checks = (
        Check("convert", "passed"),
        Check("convert", "passed", "notice", "narrowed"),
        Check("x", "failed"),
        Check("x", "failed"),
    )
    root = ET.fromstring(junit(replace(RESULTS, cells=(replace(WRONG, checks=checks),))))
    assert [case.get("name") for case in root.iter("testcase")] == ["convert", "x", "x (2)"]
    assert "note: convert: narrowed" in (root.findtext("testsuite/system-out") or "")


def legal(text: str) -> str:
    """What XML 1.0 can hold of a text, computed in another way than the product does."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return "".join(
        c for c in text if c in "\t\n" or 0x20 <= ord(c) <= 0xD7FF or 0xE000 <= ord(c) <= 0xFFFD or ord(c) > 0xFFFF
    )


@hostile
@given(given_=random_results)
def test_hostile_texts_are_valid_and_read_back(schema: Any, given_: Results) -> None:
    text = junit(given_)
    assert_valid_but_for_empty_names(schema, text)
    root = ET.fromstring(text.encode())
    assert len(root) == len(given_.cells)
    for suite, cell in zip(root, given_.cells, strict=True):
        cases = suite.findall("testcase")
        bad = [c for c in cell.checks if c.status in ("failed", "error")]
        nodes = [n for case in cases for n in case if n.tag in ("failure", "error")]
        assert len(nodes) == len(bad)
        assert all(len(case) <= 1 for case in cases)
        for node, check in zip(nodes, bad, strict=True):
            expected = legal(re.sub("[\ud800-\udfff]", "\ufffd", check.message))
            assert (node.get("message") or "") == expected or not check.message


def assert_valid_but_for_empty_names(schema: Any, text: str) -> None:
    """The schema collapses the spaces of names, and refuses a name of spaces only."""
    from lxml import etree

    if not schema.validate(etree.fromstring(text.encode())):
        assert all("minLength" in str(e) or "'name'" in str(e) or "'hostname'" in str(e) for e in schema.error_log), (
            schema.error_log
        )
