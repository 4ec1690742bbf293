"""Graphs that come close to what a rule or pass does, and must stay as they are. Rules say why."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path

import pytest
from rewriting import ALL, apply, normal_form, read

from minnow.optimizer.rewrite import Rule, Trace

# name -> (part of the reason, or "" where the root op is another one; graph): beside the tests of their rules.
CASES: dict[str, list[tuple[str, str]]] = {}
for _path in sorted(Path(__file__).parent.glob("**/near_misses*.py")):
    for _name, _cases in run_path(str(_path))["CASES"].items():
        CASES[_name] = [*CASES.get(_name, ()), *_cases]


def test_every_rule_and_pass_has_a_negative_case() -> None:
    assert sorted(CASES) == sorted(ALL)


@pytest.mark.parametrize("name", CASES)
def test_stays_as_it_is(name: str) -> None:
    for reason, text in CASES[name]:
        graph = read(text)
        before = normal_form(graph)
        log = Trace(explain=frozenset({name}))
        assert apply(ALL[name], graph, log) == 0, f"{name} changed it:\n{normal_form(graph)}"
        assert normal_form(graph) == before
        if isinstance(ALL[name], Rule):
            reasons = [why for _, _, why in log.reasons]
            assert (reason in " | ".join(reasons)) if reason else not reasons, f"{before}\n{reasons}"
