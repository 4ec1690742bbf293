"""All suites in MNN's own runtime: it gives the numbers of our engine, or the report names what keeps it from that.

What it does otherwise, and the report does not say, stands in `not_same.txt`, by reason. A line there is a claim
as well: such a case has to differ or to fail, and a case that is right has to leave the list.
Needs an environment with MNN, whose Python MINNOW_MNN_PYTHON names.
"""

from __future__ import annotations

import json
from collections import Counter
from importlib.util import find_spec

import mnn_oracle
import pytest

from minnow.schema.ops import all_ops, get
from mnn_suite.case import SUITES, op_cases
from mnn_suite.sweep import KNOWN, NOT_SAME, RECORD, converted, counts, error_of, form, level_of, outcomes

_NEEDS = {"tf": ("tensorflow", "ai_edge_litert"), "torch": ("torch",), "caffe": ("cv2", "torch")}


def test_the_list_names_suites_and_reasons() -> None:
    for case, (kind, reason) in KNOWN.items():
        assert case.partition("/")[0] in SUITES, case
        assert kind in NOT_SAME, case
        assert len(reason) > 10, case


@pytest.mark.slow
@mnn_oracle.needs_mnn
@pytest.mark.parametrize("suite", SUITES)
def test_mnn_gives_our_numbers(suite: str) -> None:
    if not all(map(find_spec, _NEEDS.get(suite, ()))):
        pytest.skip("a package that makes or judges the models is not installed")
    found = list(outcomes(SUITES[suite](), level_of(suite), error_of(suite)))
    wrong = []
    for outcome in found:
        name = f"{suite}/{outcome.name}"
        expected, _ = KNOWN.get(name, ("", ""))
        if (outcome.kind in NOT_SAME or expected) and outcome.kind != expected:
            wrong.append(f"{name}: {outcome.kind} {outcome.text}")
    assert not wrong, "\n".join(wrong)
    made = counts(suite, found)
    assert made == json.loads(RECORD.read_text())[suite], "`python -m mnn_suite.sweep` writes the counts"


@pytest.mark.sampled(10)
@pytest.mark.parametrize("op", [op.name for op in all_ops()])
def test_the_record_knows_the_forms(op: str) -> None:
    """The table of docs/mnn-runtime.md is made of the record, which takes minutes to write: its forms are those now."""
    found: Counter[str] = Counter()
    for case in op_cases([get(op)]):
        outcome, _ = converted(case, level_of("op"))
        if outcome.kind != "not converted":
            found[form(op, outcome)] += 1
    row = json.loads(RECORD.read_text())["op"]["ops"].get(op, {})
    assert {k: row.get(k, 0) for k in found} == dict(found)
