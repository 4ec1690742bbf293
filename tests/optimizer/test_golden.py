"""Every rule and pass does what its docstring says, and keeps the numbers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from rewriting import ALL, apply, assert_same_numbers, golden, normal_form, read

from minnow.optimizer.rewrite import Rule
from minnow.optimizer.rewrite.pattern import Call, Either, Term
from minnow.schema.ir import Graph, Value


def _id(name: str) -> str:
    return name


@pytest.mark.parametrize("name", sorted(ALL), ids=_id)
def test_result_is_what_the_docstring_says(name: str) -> None:
    texts = golden(ALL[name])
    assert texts is not None, f"the docstring of {name} has no Given: and Result:"
    before, after = read(texts[0]), read(texts[0])
    assert apply(ALL[name], after) > 0, f"{name} does not apply to its own example"
    assert normal_form(after) == normal_form(read(texts[1]))
    assert_same_numbers(before, after)


@pytest.mark.parametrize("name", sorted(ALL), ids=_id)
def test_outputs_keep_their_types(name: str) -> None:
    texts = golden(ALL[name])
    assert texts is not None
    before, after = read(texts[0]), read(texts[0])
    apply(ALL[name], after)
    if name == "narrow_types":
        return
    assert [v.type.dtype for v in after.outputs] == [v.type.dtype for v in before.outputs]
    for new, old in zip(after.outputs, before.outputs, strict=True):
        assert new.type.rank == old.type.rank


def _depth(term: Term) -> int:
    if isinstance(term, Call):
        return 1 + max((_depth(o) for o in term.operands), default=0)
    return max((_depth(t) for t in term.terms), default=0) if isinstance(term, Either) else 0


FUSIONS = [n for n, r in ALL.items() if isinstance(r, Rule) and not r.shared and min(map(_depth, r.patterns)) > 1]


@pytest.mark.parametrize("name", FUSIONS)
def test_values_that_others_read_stay(name: str) -> None:
    """A fusion whose inner values are outputs of the graph, or read by another node, does not happen."""
    texts = golden(ALL[name])
    assert texts is not None
    for expose in (_as_output, _as_operand):
        before, after = read(texts[0]), read(texts[0])
        for graph in (before, after):
            expose(graph)
        assert apply(ALL[name], after) == 0, f"{name} takes away a value that is read elsewhere"
        assert normal_form(after) == normal_form(before)


def _as_output(graph: Graph) -> None:
    inner = [v for node in graph for v in node.outputs if v not in graph.outputs]
    graph.outputs = [*graph.outputs, *inner]


def _as_operand(graph: Graph) -> None:
    from minnow.schema.ops import Builder

    b = Builder(graph)
    graph.outputs = [*graph.outputs, *(b.Shape(v) for node in list(graph) for v in node.outputs)]


@pytest.mark.parametrize("name", [n for n, r in ALL.items() if isinstance(r, Rule)])
def test_every_constant_counts(name: str) -> None:
    """With any one constant changed, a rule sees that it does not apply, or gives the changed numbers."""
    texts = golden(ALL[name])
    assert texts is not None
    for k, factor in itertools.product(range(len(read(texts[0]).constants())), (1.37, -1.0, 0.0)):
        before, after = read(texts[0]), read(texts[0])
        for graph in (before, after):
            value = graph.constants()[k]
            if not value.type.dtype.is_float:
                continue
            array = value.array
            assert array is not None
            changed = Value.constant((array * factor).astype(array.dtype), value.name)
            value.replace_all_uses(changed)
        with np.errstate(all="ignore"):
            apply(ALL[name], after)
            assert_same_numbers(before, after)
