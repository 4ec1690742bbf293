"""Dead code and duplicates: the passes that every other pass leaves work for."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from minnow.optimizer.rewrite import erase_dead, graph_pass
from minnow.schema.ir import Graph, Node, Value
from minnow.schema.ir.blob import nbytes
from minnow.schema.ops import Trait, get

# Constants above this size are only shared when they are the very same blob: no pass reads big weights to compare.
_MAX_COMPARED_BYTES = 1 << 16


@graph_pass(level=1)
def eliminate_dead(graph: Graph) -> int:
    """Erases nodes whose results nobody reads.

    Given:
        graph g(%x: f32[4]) {
          %a: f32[4] = Exp(%x)
          %b: f32[4] = Neg(%x)
          return %b
        }
    Result:
        graph g(%x: f32[4]) {
          %b: f32[4] = Neg(%x)
          return %b
        }
    """
    return erase_dead(graph, list(reversed(graph)))


@graph_pass(level=1)
def eliminate_common(graph: Graph) -> int:
    """Computes equal nodes (same op, inputs and attributes) once, and keeps equal constants once.

    Given:
        graph g(%x: f32[4], %z: f32[4]) {
          %a: f32[4] = Mul(%x, %z)
          %b: f32[4] = Mul(%z, %x)
          %c: f32[4] = Add(%a, %b)
          return %c
        }
    Result:
        graph g(%x: f32[4], %z: f32[4]) {
          %a: f32[4] = Mul(%x, %z)
          %c: f32[4] = Add(%a, %a)
          return %c
        }
    """
    changes = 0
    constants: dict[Hashable, Value] = {}
    for value in graph.constants():
        first = constants.setdefault(_content(value), value)
        if first is not value:
            changes += 1
            for node, i in list(value.uses):
                if node.graph is graph:
                    node.set_input(i, first)
    seen: dict[Hashable, Node] = {}
    for node in graph:
        if get(node.op).traits & {Trait.CONTROL_FLOW, Trait.RANDOM}:
            continue
        operands = node.inputs
        if Trait.COMMUTATIVE in get(node.op).traits:
            operands = tuple(sorted(operands, key=id))
        key = (node.op, operands, _attributes(node), len(node.outputs))
        first_node = seen.setdefault(key, node)
        if first_node is not node:
            changes += 1
            for mine, other in zip(node.outputs, first_node.outputs, strict=True):
                mine.replace_all_uses(other)
            graph.erase(node)
    return changes


def _content(value: Value) -> Hashable:
    blob = value.data
    assert blob is not None
    if nbytes(blob) > _MAX_COMPARED_BYTES:
        return blob
    return blob.dtype, blob.shape, blob.numpy().tobytes()


def _attributes(node: Node) -> Hashable:
    def key(v: Any) -> Hashable:
        return v if isinstance(v, Hashable) else id(v)

    return tuple((k, key(v)) for k, v in sorted(node.attrs.items()))
