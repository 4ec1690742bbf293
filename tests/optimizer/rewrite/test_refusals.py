"""Rules and passes that find a model invalid: the error comes out as it is, and is not its own cause."""

from __future__ import annotations

import pytest
from rewriting import read

from minnow.optimizer.rewrite import Trace, apply_rules, rewrite, rules
from minnow.optimizer.rewrite.driver import apply_pass
from minnow.optimizer.rewrite.rule import GraphPass
from minnow.schema.errors import InternalError, ModelError

TEXT = "graph g(%x: f32[4]) { %y: f32[4] = Neg(%x) return %y }"
REFUSED = {"rule": ModelError("no", why="so"), "pass": ModelError("no", where="here")}


def _apply(kind: str, error: Exception) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise error

    graph = read(TEXT)
    for node in graph:
        node.origin = "here"
    if kind == "pass":
        apply_pass(GraphPass("refusing", refuse, 1, None, True), graph, Trace())
        return

    @rewrite(lambda p, x: p.Neg(x))
    def refusing(b, m):
        refuse()

    del rules["refusing"]
    apply_rules(graph, [refusing], Trace())


@pytest.mark.parametrize("kind", REFUSED)
def test_a_refusal_has_no_cycle_of_causes(kind: str) -> None:
    with pytest.raises(ModelError) as e:
        _apply(kind, REFUSED[kind])
    assert e.value is REFUSED[kind]
    assert e.value.where == "here"
    assert e.value.__cause__ is None


@pytest.mark.parametrize("kind", REFUSED)
def test_all_else_is_a_defect_with_its_cause(kind: str) -> None:
    error = KeyError("x")
    with pytest.raises(InternalError) as e:
        _apply(kind, error)
    assert e.value.__cause__ is error
