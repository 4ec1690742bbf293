"""Graphs by their public methods: order, and what one graph takes over from another."""

from __future__ import annotations

import numpy as np

from minnow.schema.ir import DType, Graph, TensorType
from minnow.schema.ops import Builder
from minnow.schema.registry.interpreter import evaluate
from minnow.schema.registry.verify import verify

F32 = TensorType(DType.F32, (3,))


def chain(name: str) -> Graph:
    """-(x + 1), and x + 1 beside it, and x as it came."""
    graph = Graph(name)
    x = graph.add_param(F32, "x")
    b = Builder(graph)
    y = b.Add(x, 1.0)
    graph.outputs = [b.Neg(y), y, x]
    return graph


def test_next_leads_through_the_graph_to_its_terminator() -> None:
    graph = chain("g")
    add, neg = graph
    assert add.next is neg
    assert neg.next is graph.ret
    assert graph.ret.next is None


def test_next_of_an_erased_node_is_nothing() -> None:
    graph = chain("g")
    neg = list(graph)[1]
    graph.outputs = graph.outputs[1:]
    graph.erase(neg)
    assert neg.next is None


def test_absorb_continues_a_graph_with_another_one() -> None:
    graph, other = chain("g"), chain("other")
    numbers = np.array([1, -2, 0.5], np.float32)
    (first, *_), (then, *rest) = evaluate(graph, [numbers]), evaluate(chain("g"), [-(numbers + 1)])
    graph.outputs = graph.absorb(other, {other.params[0]: graph.outputs[0]})
    verify(graph)
    assert [node.op for node in graph] == ["Add", "Neg", "Add", "Neg"]
    got = evaluate(graph, [numbers])
    for a, b in zip(got, [then, *rest], strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(got[2], first)


def test_absorb_leaves_nothing_that_reads_or_is_read() -> None:
    graph, other = chain("g"), chain("other")
    graph.absorb(other, {other.params[0]: graph.params[0]})
    verify(other)
    assert len(other) == 0
    assert not other.outputs
    assert not other.params[0].uses
