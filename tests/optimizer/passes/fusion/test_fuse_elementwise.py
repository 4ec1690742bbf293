"""Which elementwise nodes become one for Minnow's engine, and which do not; and the way back."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from random_graphs import graphs, model_of
from rewriting import ALL, apply, assert_same_numbers, normal_form, read
from sampling import some_of

import minnow
from minnow.optimizer.pipeline import count_nodes, optimize
from minnow.schema.ir import Graph
from minnow.schema.ir.text import parse, to_text
from minnow.schema.mnn import decode, encode
from minnow.schema.ops import Trait, get

FUSE, INLINE = ALL["fuse_elementwise"], ALL["inline_fused"]


def bodies(text: str) -> list[list[str]]:
    """The ops of each Fused node that the pass makes; the numbers stay, and inlining is its inverse."""
    before, graph = read(text), read(text)
    apply(FUSE, graph)
    assert_same_numbers(before, graph)
    again = parse(to_text(graph))
    assert normal_form(again) == normal_form(graph)
    apply(INLINE, again)
    assert_same_numbers(before, again)
    assert count_nodes(again) == count_nodes(before)
    return [[n.op for n in node.attrs["body"]] for node in graph if node.op == "Fused"]


def test_one_node_is_left_alone() -> None:
    assert bodies("graph g(%x: f32[4]) { %y: f32[4] = Exp(%x) return %y }") == []


def test_nodes_of_another_shape_stay_outside() -> None:
    text = """graph g(%x: f32[4], %m: f32[3,4]) {
      %a: f32[4] = Exp(%x)
      %b: f32[3,4] = Add(%m, %a)
      %y: f32[3,4] = Neg(%b)
      return %y
    }"""
    assert bodies(text) == [["Add", "Neg"]]


@pytest.mark.parametrize(("other", "fuses"), [("N", True), ("M", False), ("?", False)])
def test_symbols_must_be_known_to_be_equal(other: str, fuses: bool) -> None:
    text = f"""graph g(%x: f32[N,4], %z: f32[{other},4]) {{
      %a: f32[N,4] = Exp(%x)
      %y: f32[{other if other == "N" else "?"},4] = Add(%a, %z)
      return %y
    }}"""
    graph = parse(text)
    assert FUSE.apply(graph) == fuses  # type: ignore[union-attr]


def test_what_is_read_outside_is_a_result_of_its_own() -> None:
    text = """graph g(%x: f32[4,5]) {
      %a: f32[4,5] = Exp(%x)
      %b: f32[4,5] = Neg(%a)
      %y: f32[4,5] = Sigmoid(%b)
      %s: f32[4,1] = ReduceSum(%a) {axes=(1,), keepdims=True}
      return %y, %b, %s
    }"""
    assert bodies(text) == [["Exp", "Neg", "Sigmoid"]]
    graph = read(text)
    apply(FUSE, graph)
    (node,) = (n for n in graph if n.op == "Fused")
    assert len(node.outputs) == 3
    assert [v.name for v in graph.outputs] == ["y", "b", "s"]


def test_no_path_leaves_a_node_and_comes_back() -> None:
    text = """graph g(%x: f32[4,5]) {
      %a: f32[4,5] = Exp(%x)
      %b: f32[4,5] = Neg(%a)
      %s: f32[4,1] = ReduceSum(%a) {axes=(1,), keepdims=True}
      %c: f32[4,5] = Div(%b, %s)
      %y: f32[4,5] = Add(%c, %b)
      return %y
    }"""
    assert bodies(text) in ([["Exp", "Neg"], ["Div", "Add"]], [["Neg", "Div", "Add"]])


def test_what_is_made_of_one_tensor_waits_for_its_reader() -> None:
    text = """graph g(%x: f32[4,4]) {
      %a: f32[4,4] = Sigmoid(%x)
      %p: f32[4,4] = MatMul(%x, %x)
      %y: f32[4,4] = Mul(%a, %p)
      return %y
    }"""
    assert bodies(text) == [["Sigmoid", "Mul"]]


def test_shapes_stay_open() -> None:
    text = """graph g(%x: f32[N,4]) {
      %s: i64[2] = Shape(%x)
      %d: i64[2] = Mul(%s, i64[2](1, 2))
      %e: i64[2] = Div(%d, i64[2](1, 4))
      %y: f32[?,?] = Reshape(%x, %e)
      return %y
    }"""
    assert FUSE.apply(parse(text)) == 0  # type: ignore[union-attr]


def test_types_may_differ_within() -> None:
    text = """graph g(%x: f32[4,5], %l: f32[]) {
      %t: bool[4,5] = Greater(%x, %l)
      %n: bool[4,5] = Not(%t)
      %i: i32[4,5] = Cast(%n) {to=i32}
      %f: f32[4,5] = Cast(%i) {to=f32}
      %y: f32[4,5] = Mul(%f, %x)
      return %y, %t
    }"""
    assert bodies(text) == [["Greater", "Not", "Cast", "Cast", "Mul"]]


def test_only_for_our_engine() -> None:
    text = "graph g(%x: f32[4]) { %a: f32[4] = Exp(%x) %y: f32[4] = Neg(%a) return %y }"
    for target, ops in (("mnn", {"Exp": 1, "Neg": 1}), ("minnow", {"Fused": 1})):
        model = model_of(read(text))
        optimize(model, 2, target=target)  # type: ignore[arg-type]
        assert count_nodes(model.graph) == ops
        # A file that was made for our engine becomes one for all.
        again = decode(encode(model))
        optimize(again, 0)
        assert count_nodes(again.graph) == {"Exp": 1, "Neg": 1}


def is_convex(graph: Graph) -> bool:
    return nx.is_directed_acyclic_graph(nx.DiGraph(graph.nx()))


@settings(deadline=None, max_examples=some_of(60), suppress_health_check=list(HealthCheck))
@given(graph=graphs())
def test_random_graphs(graph: Graph) -> None:
    apply(INLINE, graph)  # there is nothing to inline: takes away what nobody reads
    fused = graph.clone()
    apply(FUSE, fused)
    assert is_convex(fused)
    assert_same_numbers(graph, fused, tolerance=1e-6)
    for node in fused:
        if node.op == "Fused":
            assert all(Trait.ELEMENTWISE in get(n.op).traits for n in node.attrs["body"])
    apply(INLINE, fused)
    assert count_nodes(fused) == count_nodes(graph)
    assert_same_numbers(graph, fused, tolerance=1e-6)


@settings(deadline=None, max_examples=some_of(25), suppress_health_check=list(HealthCheck))
@given(graph=graphs())
def test_the_engine_runs_what_it_makes(graph: Graph) -> None:
    from rewriting import inputs_for

    from minnow.schema.registry.interpreter import evaluate

    model = model_of(graph.clone())
    optimize(model, 2, target="minnow")
    session = minnow.load(encode(model), threads=1)
    inputs = inputs_for([p.type for p in graph.params])
    want = evaluate(graph, inputs)
    got = list(session.run({n: a for (n, _), a in zip(model.inputs, inputs, strict=True)}).values())
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(
            g, w, rtol=1e-3, atol=1e-3 * max(1.0, float(np.abs(w[np.isfinite(w)]).max(initial=0)))
        )


@pytest.mark.slow
def test_many_nodes_take_little_time() -> None:
    import time

    from minnow.schema.ir import DType, TensorType
    from minnow.schema.ops import Builder

    graph = Graph()
    x = graph.add_param(TensorType(DType.F32, (8, 8)))
    b = Builder(graph)
    y = x
    for i in range(20_000):
        y = b.Add(b.Sigmoid(y), x) if i % 10 else b.Softmax(y)
    graph.outputs = [y]
    begin = time.process_time()
    FUSE.apply(graph)  # type: ignore[union-attr]
    assert time.process_time() - begin < 20
    assert len(graph) == 4_000
