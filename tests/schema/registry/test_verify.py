"""The executable spec accepts what is right, and names each kind of damage."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from minnow.schema.errors import InternalError
from minnow.schema.ir import DType, Graph, Model, Node, TensorType, Value
from minnow.schema.ir.verify import verify as verify_structure
from minnow.schema.ops import Builder
from minnow.schema.registry.verify import verify

F32 = TensorType(DType.F32, ("N", 3))


def branch(name: str, op: str) -> Graph:
    graph = Graph(name)
    x = graph.add_param(F32, "x")
    graph.outputs = [getattr(Builder(graph), op)(x)]
    return graph


def sound() -> Graph:
    """relu, add, mul of both, then an If on top."""
    graph = Graph("g")
    x = graph.add_param(F32, "x")
    b = Builder(graph, origin="onnx:/layer")
    a = b.Relu(x, names=["a"])
    c = b.Add(a, np.ones(3, np.float32), names=["c"])
    d = b.Mul(a, c, names=["d"])
    y = b.node(
        "If", [np.array(True), d], {"then_branch": branch("t", "Exp"), "else_branch": branch("e", "Neg")}, 1, ["y"]
    )
    graph.outputs = [*y.outputs, x]
    return graph


def node(graph: Graph, op: str) -> Node:
    return next(n for n in graph if n.op == op)


def test_a_sound_graph_passes() -> None:
    verify(sound())
    verify(Graph("empty"))
    graph = sound()
    verify(Model(graph, [("x", F32)], [("y", F32), ("z", F32)]))
    verify(graph.clone())


def forget_use(g: Graph) -> None:
    del node(g, "Relu").output.uses[node(g, "Add"), 0]


def invent_use(g: Graph) -> None:
    node(g, "Add").output.uses[node(g, "Relu"), 0] = None


def swap_order(g: Graph) -> None:
    g.move(node(g, "Add"), node(g, "Relu"))


def make_cycle(g: Graph) -> None:
    node(g, "Relu").set_input(0, node(g, "Mul").output)


def read_from_outside(g: Graph) -> None:
    node(g, "Relu").set_input(0, Value(F32, "stranger"))


def read_inner_value(g: Graph) -> None:
    inner = node(g, "If").attrs["then_branch"]
    node(g, "Relu").set_input(0, inner.params[0])


def leave_user_outside(g: Graph) -> None:
    Node("Neg", [g.params[0]], {}, [F32])


def share_subgraph(g: Graph) -> None:
    n = node(g, "If")
    n.set_attrs(else_branch=n.attrs["then_branch"])


def break_link(g: Graph) -> None:
    node(g, "Mul")._prev = node(g, "Relu")


def miscount(g: Graph) -> None:
    g._len += 1


def end_twice(g: Graph) -> None:
    g.insert(Node("ret", []), node(g, "Mul"))


def steal_output(g: Graph) -> None:
    node(g, "Add").output.index = 1


def mutable_attribute(g: Graph) -> None:
    node(g, "Add").set_attrs(extra=[1])


def wrong_constant(g: Graph) -> None:
    node(g, "Add").input(1).type = TensorType(DType.F32, (4,))


def repeat_param(g: Graph) -> None:
    g.params.append(g.params[0])


def empty_output(g: Graph) -> None:
    g.ret.set_input(0, None)


STRUCTURE: dict[Callable[[Graph], None], str] = {
    forget_use: "does not know of this use",
    invent_use: "believes to be input 0",
    swap_order: "is computed later",
    make_cycle: "is computed later",
    read_from_outside: "comes from outside",
    read_inner_value: "comes from outside",
    leave_user_outside: "it is in no graph",
    share_subgraph: "stands in two places",
    break_link: "links to and from",
    miscount: "has 4 nodes, its count says 5",
    end_twice: "a second terminator",
    steal_output: "does not know that it comes from here",
    mutable_attribute: "no plain immutable value",
    wrong_constant: "holds numbers of type",
    repeat_param: "twice",
    empty_output: "an output without a value",
}


@pytest.mark.parametrize("damage", STRUCTURE, ids=lambda f: f.__name__)
def test_damaged_structure_is_named(damage: Callable[[Graph], None]) -> None:
    graph = sound()
    damage(graph)
    with pytest.raises(InternalError, match=STRUCTURE[damage]):
        verify_structure(graph)


def test_errors_name_the_node_and_its_origin() -> None:
    graph = sound()
    swap_order(graph)
    with pytest.raises(InternalError, match=r"Add\(%a, %\) 'c'") as caught:
        verify(graph)
    assert caught.value.where == "onnx:/layer"


def test_model_and_graph_must_agree() -> None:
    with pytest.raises(InternalError, match="declares 0 inputs, its graph has 1"):
        verify(Model(sound()))
    with pytest.raises(InternalError, match="two outputs of the model have one name"):
        verify(Model(sound(), [("x", F32)], [("y", F32), ("y", F32)]))


def unknown_op(g: Graph) -> None:
    node(g, "Mul").op = "Mull"


def unknown_attribute(g: Graph) -> None:
    node(g, "Mul").set_attrs(alpha=1.0)


def uncanonical_attribute(g: Graph) -> None:
    g.insert(Node("LeakyRelu", [g.params[0]], {"alpha": 0.1}, [F32]))


def too_many_operands(g: Graph) -> None:
    node(g, "Relu").append_input(g.params[0])


def missing_operand(g: Graph) -> None:
    node(g, "Mul").set_input(1, None)


def padded_operands(g: Graph) -> None:
    g.insert(Node("LayerNorm", [g.params[0], None], {}, [F32]))


def wrong_dtype(g: Graph) -> None:
    node(g, "Mul").output.type = F32.with_dtype(DType.F16)


def wrong_shape(g: Graph) -> None:
    node(g, "Mul").output.type = F32.with_shape(("N", 4))


def wrong_rank(g: Graph) -> None:
    node(g, "Mul").output.type = F32.with_shape(("N", 3, 1))


def misfit_operands(g: Graph) -> None:
    node(g, "Mul").set_input(1, Value.constant(np.ones(5, np.float32)))


def extra_output(g: Graph) -> None:
    g.insert(Node("Relu", [g.params[0]], {}, [F32, F32]))


def subgraph_parameters(g: Graph) -> None:
    node(g, "If").attrs["then_branch"].add_param(F32, "more")


def subgraph_outputs(g: Graph) -> None:
    inner = node(g, "If").attrs["then_branch"]
    inner.outputs = [*inner.outputs, inner.params[0]]


def inner_damage(g: Graph) -> None:
    node(g, "If").attrs["else_branch"].outputs[0].type = F32.with_shape(("N", 4))


NODES: dict[Callable[[Graph], None], str] = {
    unknown_op: "no op 'Mull'",
    unknown_attribute: "no attribute 'alpha'",
    uncanonical_attribute: "canonical form",
    too_many_operands: "takes 1 inputs",
    missing_operand: "needs its input 'b'",
    padded_operands: "ends with one that is left out",
    wrong_dtype: "recorded as f16",
    wrong_shape: r"recorded as f32\[N,4\], and inferred as f32\[N,3\]",
    wrong_rank: "recorded as f32",
    misfit_operands: "cannot be broadcast",
    extra_output: "2 outputs, not 1",
    subgraph_parameters: "has 2 parameters, not 1",
    subgraph_outputs: "the branches have different outputs",
    inner_damage: r"Neg.*recorded as f32\[N,4\]",
}


@pytest.mark.parametrize("damage", NODES, ids=lambda f: f.__name__)
def test_damaged_node_is_named(damage: Callable[[Graph], None]) -> None:
    graph = sound()
    damage(graph)
    verify_structure(graph)
    with pytest.raises(InternalError, match=NODES[damage]):
        verify(graph)


def test_types_may_be_left_unchecked() -> None:
    graph = sound()
    wrong_shape(graph)
    verify(graph, check_types=False)


def test_recorded_types_may_know_more_or_less() -> None:
    graph = sound()
    node(graph, "Mul").output.type = F32.with_shape((7, 3))
    node(graph, "Add").output.type = F32.with_shape(None)
    verify(graph)
