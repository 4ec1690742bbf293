"""Graphs that compute in float16 as graphs that compute in float32, so that they can be calibrated."""

from __future__ import annotations

from minnow.schema.ir import DType, Graph, Node, Value
from minnow.schema.ops import Builder, Trait, get
from minnow.schema.registry.builder import infer_node


def widen_halves(graph: Graph) -> int:
    """Makes float32 of all that is computed in float16, in place; inputs and outputs of the graph keep their types.

    Graphs with subgraphs, or with nodes to which float16 itself means something, stay as they are.

    Returns:
        How many results changed their type.
    """
    halves = [v for v in graph.values() if v.type.dtype is DType.F16]
    if not halves or any(n.subgraphs or _means_halves(n) for n in graph):
        return 0
    b = Builder(graph, next(iter(graph)), "widen_halves")
    known: dict[Value, Value] = {}
    params = {v for v in graph.params if v.type.dtype is DType.F16}
    for param in params:
        readers = list(param.uses)
        wide = b.Cast(param, to=DType.F32)
        for node, i in readers:
            node.set_input(i, wide)
    changed = 0
    for node in list(graph):
        if node.op == "Cast" and node.input(0) in params:
            continue
        for i, value in enumerate(node.inputs):
            if value is not None and value.data is not None and value.type.dtype is DType.F16:
                if value not in known:
                    known[value] = Value.constant(value.data.numpy().astype("float32"), value.name)
                node.set_input(i, known[value])
        halved = {name: DType.F32 for name, to in node.attrs.items() if to is DType.F16}
        if halved:
            node.set_attrs(**halved)
        for value, type in zip(node.outputs, infer_node(node), strict=True):
            if value.type.dtype is DType.F16:
                value.type = value.type.with_dtype(type.dtype)
                changed += 1
    last = Builder(graph, None, "widen_halves")
    for i, value in enumerate(graph.outputs):
        if value in halves and value.type.dtype is DType.F32:
            name, value.name = value.name, f"{value.name}/float"
            half = last.Cast(value, to=DType.F16)
            half.name = name
            graph.outputs = [*graph.outputs[:i], half, *graph.outputs[i + 1 :]]
    return changed


def _means_halves(node: Node) -> bool:
    """Whether the type float16 of an operand is part of what a node does."""
    mine = any(v is not None and v.type.dtype is DType.F16 for v in (*node.inputs, *node.outputs))
    return mine and node.op != "Cast" and Trait.EXACT_TYPES in get(node.op).traits
