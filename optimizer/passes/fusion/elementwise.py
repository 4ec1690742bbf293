"""Elementwise nodes that read each other, as one node for Minnow's engine, and back."""

from __future__ import annotations

from collections import defaultdict

from minnow.optimizer.rewrite import graph_pass
from minnow.optimizer.rewrite.pattern import same_shape
from minnow.schema.ir import Graph, Node, Value
from minnow.schema.ops import Builder, Trait, get

_SHAPE_ELEMENTS = 64
"""Integers in a row, up to so many, are mostly shapes: they stay open to those who ask what they hold."""


@graph_pass(target="minnow", level=2)
def fuse_elementwise(graph: Graph) -> int:
    """Joins elementwise nodes of one shape that read each other: what is between them is never written to memory.

    Given:
        graph g(%x: f32[N,4], %c: f32[4]) {
          %a: f32[N,4] = Mul(%x, %c)
          %b: f32[N,4] = Sigmoid(%a)
          %y: f32[N,4] = Mul(%x, %b)
          return %y
        }
    Result:
        graph g(%x: f32[N,4], %c: f32[4]) {
          %y: f32[N,4] = Fused(%x, %c) {body=graph fused(%x: f32[N,4], %c: f32[4]) {
            %a: f32[N,4] = Mul(%x, %c)
            %b: f32[N,4] = Sigmoid(%a)
            %y: f32[N,4] = Mul(%x, %b)
            return %y
          }}
          return %y
        }
    """
    level = _levels(graph)
    parent: dict[Node, Node] = {}

    def root(node: Node) -> Node:
        while (up := parent.get(node, node)) is not node:
            parent[node] = parent.get(up, up)
            node = up
        return node

    for node in level:
        for maker in _makers(node):
            if level[maker] == level[node] and _joins(maker, node):
                parent[root(maker)] = root(node)
    groups: dict[Node, list[Node]] = defaultdict(list)
    for node in level:
        groups[root(node)].append(node)
    joined = [members for members in groups.values() if len(members) > 1]
    for members in joined:
        _join(graph, members)
    if joined:
        graph.sort()
    return len(joined)


def _levels(graph: Graph) -> dict[Node, int]:
    """Numbers that no edge leads down, and that only edges between nodes that may be one lead to from the same number.

    So what is connected within a level is convex: no path leaves it and comes back.
    """
    level: dict[Node, int] = {}
    for node in graph:
        level[node] = max((level[m] + (not _joins(m, node)) for m in _makers(node)), default=0)
    # What is made of one tensor is made where it is needed: to keep one or the other takes the same memory.
    for node in reversed(graph):
        full = {v for v in node.inputs if v is not None and not v.is_const and same_shape(v, node.outputs[0])}
        if _fits(node) and len(full) == 1 and not node.output.is_output:
            users = [level[u] - (not _joins(node, u)) for u in node.output.users]
            level[node] = max([level[node], *([min(users)] if users else [])])
    return level


def _makers(node: Node) -> list[Node]:
    return [v.producer for v in node.inputs if v is not None and v.producer is not None]


def _fits(node: Node) -> bool:
    traits = get(node.op).traits
    if Trait.ELEMENTWISE not in traits or len(node.outputs) != 1 or None in node.inputs:
        return False
    type = node.output.type
    is_shape = type.dtype.is_int and type.rank in (0, 1) and (type.count or 0) <= _SHAPE_ELEMENTS
    return type.shape is not None and not is_shape


def _joins(maker: Node, reader: Node) -> bool:
    return _fits(maker) and _fits(reader) and same_shape(maker.output, reader.output)


def _join(graph: Graph, members: list[Node]) -> None:
    body, inside = Graph("fused"), set(members)
    table: dict[Value, Value] = {}
    operands: list[Value] = []
    for value in (v for m in members for v in m.inputs if v is not None):
        if value in table or value.producer in inside:
            continue
        if value.is_const and value.type.count == 1:
            table[value] = Value(value.type, value.name, value.data)
        else:
            operands.append(value)
            table[value] = body.add_param(value.type, value.name)
    for m in members:
        _copy(m, body, None, table)
    results = [m.output for m in members if m.output.is_output or any(u not in inside for u in m.output.users)]
    body.outputs = [table[v] for v in results]
    origin = f"{members[-1].origin} > fuse_elementwise".removeprefix(" > ")
    b = Builder(graph, members[-1], origin)
    node = b.node("Fused", operands, {"body": body}, len(results), [v.name for v in results], [v.type for v in results])
    for old, new in zip(results, node.outputs, strict=True):
        old.replace_all_uses(new)
    for m in reversed(members):
        graph.erase(m)


def _copy(node: Node, graph: Graph, before: Node | None, table: dict[Value, Value]) -> None:
    types, names = [v.type for v in node.outputs], [v.name for v in node.outputs]
    inputs = [None if v is None else table.setdefault(v, v) for v in node.inputs]
    copy = graph.insert(Node(node.op, inputs, dict(node.attrs), types, names, node.origin), before)
    table.update(zip(node.outputs, copy.outputs, strict=True))


@graph_pass(level=0)
def inline_fused(graph: Graph) -> int:
    """Puts the nodes of a body in the place of the node that has it, so that rules see them.

    Given:
        graph g(%x: f32[4]) {
          %y: f32[4] = Fused(%x) {body=graph fused(%a: f32[4]) {
            %b: f32[4] = Exp(%a)
            %c: f32[4] = Neg(%b)
            return %c
          }}
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %b: f32[4] = Exp(%x)
          %y: f32[4] = Neg(%b)
          return %y
        }
    """
    found = [node for node in graph if Trait.ONE_KERNEL in get(node.op).traits]
    for node in found:
        body: Graph = node.attrs["body"]
        table: dict[Value, Value] = {}
        for param, operand in zip(body.params, node.inputs, strict=True):
            assert operand is not None
            table[param] = operand
        for value in body.constants():
            table[value] = Value(value.type, value.name, value.data)
        for inner in body:
            _copy(inner, graph, node, table)
        for old, result in zip(node.outputs, body.outputs, strict=True):
            new = table[result]
            if new.producer is not None and old.name:
                new.name = old.name
            old.replace_all_uses(new)
        graph.erase(node)
    return len(found)
