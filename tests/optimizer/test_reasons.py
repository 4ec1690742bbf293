"""Every reason that a rule can give for doing nothing is given for some graph: each has a negative case."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest
from random_graphs import model_of
from reasons import collected, written
from rewriting import ALL, apply, normal_form, read

from minnow.optimizer import optimize

# Places that are computed of constants, and out of range: written as a constant, the graph would be refused.
_FOLDED = {
    "slice_gathered": """graph g(%x: f32[9,6]) {
        %i: i64[2] = Add(i64[2](5, 5), i64[2](0, 1))
        %y: f32[9,2] = Gather(%x, %i) {axis=1}
        return %y
    }""",
    "slice_gathered_one": """graph g(%x: f32[9,6]) {
        %i: i64[] = Sub(i64[](0), i64[](7))
        %a: f32[9] = Gather(%x, %i) {axis=1}
        %y: f32[9,1] = Unsqueeze(%a) {axes=(1,)}
        return %y
    }""",
}


def _negative_cases() -> Iterator[tuple[str, str]]:
    """Rule and graph, of the table of cases in test_negative.py."""
    for name, cases in runpy.run_path(str(Path(__file__).with_name("test_negative.py")))["CASES"].items():
        yield from ((name, case[1]) for case in cases)


def test_every_reason_is_given_for_some_graph() -> None:
    reasons = written()
    with collected() as reached:
        for name, text in _negative_cases():
            apply(ALL[name], read(text))
        for text in _FOLDED.values():
            optimize(model_of(read(text)), 3, target="minnow")
    assert reached <= set(reasons)
    assert not [f"{Path(file).name}:{line} {reasons[file, line]}" for file, line in sorted(set(reasons) - reached)]


@pytest.mark.parametrize("name", sorted(_FOLDED))
def test_what_fails_when_it_runs_is_not_made_to_succeed(name: str) -> None:
    model = model_of(read(_FOLDED[name]))
    optimize(model, 3, target="minnow")
    assert "Gather(" in normal_form(model.graph)
    assert "Slice(" not in normal_form(model.graph)
