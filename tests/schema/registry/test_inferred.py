"""Types are inferred again exactly when something that they hang on is another."""

from __future__ import annotations

import numpy as np

from minnow.schema.ir import DType, Graph, TensorType, Value
from minnow.schema.ops import Builder, infer_node


def test_the_same_is_inferred_once() -> None:
    graph = Graph()
    x = graph.add_param(TensorType(DType.F32, (2, "N", 4)), "x")
    node = Builder(graph).Transpose(x, perm=(2, 0, 1)).producer
    assert infer_node(node) is infer_node(node)
    assert infer_node(node)[0].shape == (4, 2, "N")


def test_what_becomes_known_is_seen() -> None:
    graph = Graph()
    x = graph.add_param(TensorType(DType.F32, (2, "N", 4)), "x")
    node = Builder(graph).Transpose(x, perm=(2, 0, 1)).producer
    x.type = x.type.with_shape((2, 3, 4))
    assert infer_node(node)[0].shape == (4, 2, 3)
    node.set_attrs(perm=(0, 1, 2))
    assert infer_node(node)[0].shape == (2, 3, 4)
    y = graph.add_param(TensorType(DType.F64, (1, 1, 1)), "y")
    node.set_input(0, y)
    assert infer_node(node)[0] == TensorType(DType.F64, (1, 1, 1))


def test_contents_of_constants_are_seen() -> None:
    graph = Graph()
    x = graph.add_param(TensorType(DType.F32, (6,)), "x")
    node = Builder(graph).Reshape(x, Value.constant(np.array([2, 3]))).producer
    assert infer_node(node)[0].shape == (2, 3)
    old = node.input(1)
    node.set_input(1, Value(old.type, "", Value.constant(np.array([3, 2])).data))
    assert infer_node(node)[0].shape == (3, 2)


def test_bodies_are_looked_at_each_time() -> None:
    graph = Graph()
    condition, x = graph.add_param(TensorType(DType.BOOL, ()), "c"), graph.add_param(TensorType(DType.F32, (2,)), "x")
    bodies = []
    for name in ("then", "else"):
        body = Graph(name)
        p = body.add_param(x.type, "p")
        body.outputs = [Builder(body).Neg(p)]
        bodies.append(body)
    (value,) = Builder(graph).If(condition, x, then_branch=bodies[0], else_branch=bodies[1], n_outputs=1)
    node = value.producer
    assert infer_node(node)[0].shape == (2,)
    for body in bodies:
        body.outputs = [Builder(body).Reshape(body.outputs[0], np.array([1, 2]))]
    assert infer_node(node)[0].shape == (1, 2)


def test_a_graph_knows_which_nodes_hold_others() -> None:
    graph, body = Graph(), Graph("body")
    x = graph.add_param(TensorType(DType.F32, (2,)), "x")
    condition = graph.add_param(TensorType(DType.BOOL, ()), "c")
    p = body.add_param(x.type, "p")
    body.outputs = [Builder(body).Neg(p)]
    assert list(graph.walk()) == [graph]
    (y,) = Builder(graph).If(condition, x, then_branch=body, else_branch=body.clone("other"), n_outputs=1)
    assert [g.name for g in graph.walk()] == ["main", "body", "other"]
    graph.move(y.producer, graph.ret)
    copy = graph.clone()
    assert [g.name for g in copy.walk()] == ["main", "body", "other"]
    graph.erase(y.producer)
    assert list(graph.walk()) == [graph]
