"""The JSON document: what is written is read back."""

from __future__ import annotations

import json
import math
from dataclasses import replace

from ci_results import PASSED, RESULTS, hostile
from ci_results import results as random_results
from hypothesis import given

from minnow.report.formats._cleaned import cleaned
from minnow.report.formats.json import document
from minnow.workflow.result import Results


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
