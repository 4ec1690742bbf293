"""PyTorch's samples of its operators, exported and traced, each run by the engine, against eager PyTorch.

What does not pass stands in `not_passing.txt`, by reason. A line there is a claim as well: such a case has to be
refused, or not to be made by PyTorch at all, and a case that passes has to leave the list. The list may only shrink.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from not_passing import check, read

torch = pytest.importorskip("torch")

from torch_suite.case import names  # noqa: E402
from torch_suite.judge import attempt  # noqa: E402

KNOWN = read(Path(__file__).with_name("not_passing.txt"))
NAMES = names()
OUTCOMES = ("not made", "refused", "error", "wrong")
SAMPLES = 2


@pytest.mark.slow
def test_the_list_names_cases_and_reasons() -> None:
    check(KNOWN, NAMES, OUTCOMES)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_case(name: str) -> None:
    operator, _, road = name.rpartition(":")
    outcome, said = attempt(operator, road, SAMPLES)
    assert outcome == KNOWN.get(name, ("pass", ""))[0], said
