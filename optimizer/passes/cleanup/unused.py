"""Dead code and duplicates: the passes that every other pass leaves work for."""

from __future__ import annotations

from collections.abc import Hashable

from minnow.optimizer.facts.equal import Constants, node_key
from minnow.optimizer.rewrite import erase_dead, graph_pass
from minnow.schema.ir import Graph, Node


@graph_pass(level=1)
def eliminate_dead(graph: Graph) -> int:
    """Erases nodes with unused results.

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
    constants = Constants()
    for value in graph.constants():
        first = constants.first(value)
        if first is not value:
            changes += 1
            for node, i in list(value.uses):
                if node.graph is graph:
                    node.set_input(i, first)
    seen: dict[Hashable, Node] = {}
    for node in graph:
        key = node_key(node)
        if key is None:
            continue
        first_node = seen.setdefault(key, node)
        if first_node is not node:
            changes += 1
            for mine, other in zip(node.outputs, first_node.outputs, strict=True):
                mine.replace_all_uses(other)
            graph.erase(node)
    return changes
