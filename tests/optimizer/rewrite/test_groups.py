"""Groups of rules that run together: the first ones first, and again after what the others have done."""

from __future__ import annotations

import pytest
from rewriting import read

from minnow.optimizer.rewrite import Application, Rule, Trace, apply_groups, apply_rules, rewrite, rules

TEXT = "graph g(%x: f32[4]) { %a: f32[4] = Neg(%x) %b: f32[4] = Sin(%a) %y: f32[4] = Exp(%b) return %y }"


@pytest.fixture
def made() -> dict[str, Rule]:
    """Neg becomes Sin, Sin becomes Cos, and Exp of Cos becomes Tanh."""

    @rewrite(lambda p, x: p.Neg(x), shared=True)
    def negative_is_sine(b, m):
        return b.Sin(m.x)

    @rewrite(lambda p, x: p.Sin(x), shared=True)
    def sine_is_cosine(b, m):
        return b.Cos(m.x)

    @rewrite(lambda p, x: p.Exp(p.Cos(x)), shared=True)
    def exponential_is_tangent(b, m):
        return b.Tanh(m.x)

    found = {rule.name: rule for rule in (negative_is_sine, sine_is_cosine, exponential_is_tangent)}
    for name in found:
        del rules[name]
    return found


def _applied(groups: list[list[Rule]]) -> tuple[list[str], list[str]]:
    """The ops that are left, and the rules in the order in which they were applied."""
    graph, order = read(TEXT), []

    def watch(applied: Application) -> None:
        order.append(applied.name)

    apply_groups(graph, groups, Trace(watch=watch))
    return [node.op for node in graph], order


def test_a_group_waits_for_those_before_it_and_calls_them_back(made: dict[str, Rule]) -> None:
    neg, sine, exp = made.values()
    assert _applied([[sine], [exp], [neg]]) == (
        ["Cos", "Tanh"],
        ["sine_is_cosine", "exponential_is_tangent", "negative_is_sine", "sine_is_cosine"],
    )


def test_one_group_goes_through_the_nodes_in_their_order(made: dict[str, Rule]) -> None:
    neg, sine, exp = made.values()
    ops, order = _applied([[exp, sine, neg]])
    assert ops == ["Cos", "Tanh"]
    assert order[0] == "negative_is_sine"


def test_groups_after_each_other_do_not_see_what_later_ones_make(made: dict[str, Rule]) -> None:
    neg, sine, _ = made.values()
    graph = read(TEXT)
    assert apply_rules(graph, [sine]) == 1
    assert apply_rules(graph, [neg]) == 1
    assert [node.op for node in graph] == ["Sin", "Cos", "Exp"]
    assert _applied([[sine], [neg]])[0] == ["Cos", "Cos", "Exp"]
