"""Layouts: what must be in channel blocks is, what must be plain is, and no assignment moves fewer bytes."""

from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rewriting import assert_same_numbers, read

from minnow.optimizer.layout.assign import assign_layout
from minnow.optimizer.layout.cut import Sides
from minnow.schema.ir import DType, Graph, TensorType
from minnow.schema.ops import Builder, Trait, get
from minnow.schema.registry.verify import verify

_X = "%x: f32[1,4,2,2]"


def _assigned(text: str) -> Graph:
    graph, before = read(text), read(text)
    assign_layout.apply(graph)
    verify(graph)
    assert_same_numbers(before, graph)
    _assert_consistent(graph)
    return graph


def _assert_consistent(graph: Graph) -> None:
    """Every node reads and writes layouts that it can work on; the outside sees plain memory only."""
    assert all(v.type.layout == "nchw" for v in (*graph.params, *graph.outputs))
    for node in graph:
        traits = get(node.op).traits
        layouts = {v.type.layout for v in node.outputs}
        if node.op == "ConvertLayout":
            assert {node.input(0).type.layout, node.output.type.layout} == {"nchw", "nc4hw4"}
        elif Trait.SPATIAL in traits:
            assert layouts == {node.input(0).type.layout}
            assert all(v is None or v.type.layout == "nchw" for v in node.inputs[1:])
            assert layouts == {"nc4hw4" if node.output.type.rank in (4, 5) else "nchw"}
        elif Trait.BLOCKABLE in traits:
            assert len(layouts | {v.type.layout for v in node.inputs if v is not None and not v.is_const}) == 1
        elif node.op not in ("Shape", "Size"):  # which every layout has
            assert layouts | {v.type.layout for v in node.inputs if v is not None} <= {"nchw"}


def test_one_conversion_serves_all_readers() -> None:
    graph = _assigned(
        f"graph g({_X}) {{ %a: f32[1,4,2,2] = LRN(%x) {{size=3}} %b: f32[1,4,2,2] = LRN(%x) {{size=1}} "
        "%c: f32[1,4,2,2] = Softmax(%a) %d: f32[1,4,2,2] = Softmax(%a) {axis=1} return %a, %b, %c, %d }"
    )
    assert [n.op for n in graph].count("ConvertLayout") == 3  # of x, of a, of b
    assert [v.name for v in graph.outputs] == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("integers", "%b: i32[1,4,2,2] = Cast(%a) {to=i32} %y: f32[1,4,2,2] = Cast(%b) {to=f32}"),
        ("a choice, whose condition is no float", "%c: bool[1,4,2,2] = Greater(%a, f32[](0.0)) "
                                                  "%y: f32[1,4,2,2] = Where(%c, %a, f32[](0.0))"),
        ("another rank", "%b: f32[1,4,4] = Reshape(%a, i64[3](1, 4, 4)) %d: f32[1,4,4] = Exp(%b) "
                         "%y: f32[1,4,2,2] = Reshape(%d, i64[4](1, 4, 2, 2))"),
        ("an operand that is computed and of another rank", "%b: f32[2] = Exp(%v) %y: f32[1,4,2,2] = Add(%a, %b)"),
    ],
)  # fmt: skip
def test_what_stays_plain(what: str, line: str) -> None:
    text = f"graph g({_X}, %v: f32[2]) {{ %a: f32[1,4,2,2] = LRN(%x) {{size=3}} {line} "
    text += "%z: f32[1,4,2,2] = LRN(%y) {size=3} return %z }"
    graph = _assigned(text)
    assert [n.op for n in graph].count("ConvertLayout") == 4, what


def test_shapes_are_asked_of_any_layout() -> None:
    graph = _assigned(
        f"graph g({_X}) {{ %a: f32[1,4,2,2] = LRN(%x) {{size=3}} %s: i64[4] = Shape(%a) %n: i64[] = Size(%a) "
        "%y: f32[1,4,2,2] = LRN(%a) {size=3} return %y, %s, %n }"
    )
    assert [n.op for n in graph] == ["ConvertLayout", "LRN", "Shape", "Size", "LRN", "ConvertLayout"]


def test_one_spatial_axis_stays_plain() -> None:
    graph = _assigned("graph g(%x: f32[1,4,6]) { %y: f32[1,4,6] = LRN(%x) {size=3} return %y }")
    assert [n.op for n in graph] == ["LRN"]


def test_constants_that_are_data_are_converted_and_others_are_not() -> None:
    graph = _assigned(
        f"graph g({_X}) {{ %a: f32[1,4,2,2] = LRN(%x) {{size=3}} "
        "%b: f32[1,5,2,2] = Concat(%a, f32[1,1,2,2](1.0, 2.0, 3.0, 4.0)) {axis=1} "
        "%c: f32[1,5,2,2] = Mul(%b, f32[5,1,1](1.0, 2.0, 3.0, 4.0, 5.0)) %y: f32[1,5,2,2] = LRN(%c) {size=3} "
        "return %y }"
    )
    assert [n.op for n in graph] == ["ConvertLayout", "ConvertLayout", "LRN", "Concat", "Mul", "LRN", "ConvertLayout"]


def test_a_second_run_changes_nothing() -> None:
    graph = _assigned(f"graph g({_X}) {{ %a: f32[1,4,2,2] = LRN(%x) {{size=3}} %y: f32[1,4,2,2] = Exp(%a) return %y }}")
    ops = [n.op for n in graph]
    assign_layout.apply(graph)
    assert [n.op for n in graph] == ops


def test_graphs_with_ops_we_do_not_model_keep_their_layouts() -> None:
    graph = Graph("g")
    x = graph.add_param(TensorType(DType.F32, (1, 4, 2, 2)), "x")
    b = Builder(graph)
    packed = b.ConvertLayout(x, to="NC4HW4")
    raw = b.node("Raw", [packed], {"type": "Proposal", "main": {}}, 1, types=[x.type]).output
    graph.outputs = [b.ConvertLayout(b.LRN(raw, size=3), to="NCHW")]
    assert assign_layout.apply(graph) == 0
    assert [n.op for n in graph] == ["ConvertLayout", "Raw", "LRN", "ConvertLayout"]


@st.composite
def _links(draw):
    n = draw(st.integers(1, 7))
    sides = [draw(st.sampled_from((None, None, True, False))) for _ in range(n)]
    links = []
    for _ in range(draw(st.integers(1, 9))):
        producer = draw(st.integers(0, n - 1))
        readers = draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=3))
        links.append((producer, readers, draw(st.integers(1, 9))))
    return sides, links


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(_links())
def test_no_assignment_is_cheaper(case) -> None:
    sides, links = case
    network: Sides[int] = Sides()
    for i, side in enumerate(sides):
        network.place(i, side)
    for producer, readers, cost in links:
        network.link(producer, readers, cost)
    first = network.solve()

    def cost_of(chosen: set[int]) -> int:
        return sum(c for p, readers, c in links if any((r in chosen) is not (p in chosen) for r in readers))

    assert all((i in first) is side for i, side in enumerate(sides) if side is not None)
    free = [i for i, side in enumerate(sides) if side is None]
    fixed = {i for i, side in enumerate(sides) if side}
    choices = [fixed | {i for i, on in zip(free, row, strict=True) if on}
               for row in itertools.product((False, True), repeat=len(free))]  # fmt: skip
    best = min(map(cost_of, choices))
    assert cost_of(first) == best
    # Of the cheapest ones the one that changes least.
    assert len(first) == min(len(c) for c in choices if cost_of(c) == best)


@pytest.mark.slow
def test_ten_thousand_nodes_take_seconds() -> None:
    graph = Graph("g")
    x = graph.add_param(TensorType(DType.F32, (1, 4, 8, 8)), "x")
    b = Builder(graph)
    y = x
    while len(graph) < 10_000:
        y = b.Add(b.Exp(y), b.Neg(y))
        if len(graph) % 30 == 0:
            y = b.LRN(y, size=3)
        if len(graph) % 70 == 0:
            y = b.Softmax(y)
    graph.outputs = [y]
    begin = time.perf_counter()
    assign_layout.apply(graph)
    assert time.perf_counter() - begin < 20
    _assert_consistent(graph)
