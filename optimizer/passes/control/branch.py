"""Branches that are known to be taken although their condition depends on the input."""

from __future__ import annotations

import numpy as np

from minnow.optimizer.passes.cleanup.fold import fold_constants
from minnow.optimizer.rewrite import graph_pass
from minnow.schema.errors import ModelError
from minnow.schema.ir import Graph, Node, Value
from minnow.schema.ops import infer_node
from minnow.schema.registry.symbolic import Polynomial, contents, dimension

_MAX_NODES = 4096
_MAX_TRIES = 16


@graph_pass(level=1)
def decide_branches(graph: Graph) -> int:
    """Takes the branch that squeezes an axis if it is 1, where with the axis kept the model could not be run.

    An input for which the axis is not 1 was refused by what comes after it, and is refused by the squeeze now.

    Given:
        graph g(%x: f32[N,4,S], %w: f32[1,1,4], %r: f32[1,1,1]) {
          %m: f32[N,4,?] = Slice(%x, i64[1](4), i64[1](9), i64[1](2))
          %s: i64[1] = Shape(%m) {start=2, end=3}
          %c: bool[1] = Equal(%s, i64[1](1))
          %a: f32[*] = If(%c, %m) {then_branch=graph t(%m: f32[N,4,?]) {
            %b: f32[*] = Squeeze(%m) {axes=(-1,)}
            return %b
          }, else_branch=graph e(%m: f32[N,4,?]) {
            return %m
          }}
          %d: f32[*] = Unsqueeze(%a) {axes=(0,)}
          %y: f32[*], %h: f32[1,?,1] = RNN(%d, %w, %r) {hidden=1}
          return %h
        }
    Result:
        graph g(%x: f32[N,4,S], %w: f32[1,1,4], %r: f32[1,1,1]) {
          %m: f32[N,4,?] = Slice(%x, i64[1](4), i64[1](9), i64[1](2))
          %a: f32[N,4] = Squeeze(%m) {axes=(-1,)}
          %d: f32[1,N,4] = Unsqueeze(%a) {axes=(0,)}
          %y: f32[1,1,N,1], %h: f32[1,N,1] = RNN(%d, %w, %r) {hidden=1}
          return %h
        }
    """
    changes = tries = 0
    again = True
    while again and len(graph) <= _MAX_NODES:
        again = False
        for i, node in enumerate(graph):
            if node.op != "If" or not _squeezes(node) or tries >= _MAX_TRIES:
                continue
            tries += 1
            if _fails(graph, i):
                node.set_input(0, Value.constant(np.array(True)))
                fold_constants.apply(graph)
                changes += 1
                again = True
                break
    return changes


def _squeezes(node: Node) -> bool:
    """The first branch squeezes an axis, and is taken where that is 1."""
    test = node.input(0).producer
    if test is None or test.op != "Equal":
        return False
    known = [contents(v) for v in test.inputs if v is not None]
    one = [Polynomial(1)]
    wanted = known[1] if known[0] == one else known[0] if known[1] == one else None
    branch: Graph = node.attrs["then_branch"]
    if wanted is None or len(wanted) != 1 or wanted[0] is None:
        return False
    for inner in branch:
        x = inner.inputs[0] if inner.inputs else None
        if inner.op != "Squeeze" or x not in branch.params or len(inner.inputs) > 1:
            continue
        operand = node.input(1 + branch.params.index(x))
        rank = operand.type.rank
        if rank is not None and any(dimension(operand, a % rank) == wanted[0] for a in inner.attrs.get("axes") or ()):
            return True
    return False


def _fails(graph: Graph, i: int) -> bool:
    """With the second branch of node i, some node of the graph refuses its operands."""
    trial = graph.clone()
    if _broken(trial):
        return False
    for k, node in enumerate(trial):
        if k == i:
            node.set_input(0, Value.constant(np.array(False)))
    fold_constants.apply(trial)
    return _broken(trial)


def _broken(graph: Graph) -> bool:
    for node in graph:
        if not node.subgraphs:
            try:
                infer_node(node)
            except ModelError:
                return True
    return False
