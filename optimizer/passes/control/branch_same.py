"""What both branches compute alike, and branches that are as cheap as the choice between them."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from minnow.optimizer.facts.equal import Constants, node_key
from minnow.optimizer.passes.cleanup.fold import pull_captures
from minnow.optimizer.passes.control.hoist import cannot_fail, copied, is_pure
from minnow.optimizer.rewrite import changed_by, erase_dead, graph_pass
from minnow.schema.ir import DType, Graph, Node, Value
from minnow.schema.ops import Builder, Trait, get

_FEW = 4
"""Nodes of both branches together that are computed although one of them is not asked for."""

_SMALL = 4096
"""Elements of each of their results."""

_CHOSEN = frozenset({DType.F32, DType.F16, DType.I32, DType.I64, DType.BOOL})
"""Types of what runtimes of the format choose element by element, once they are narrowed."""


@graph_pass(level=1)
def hoist_common(graph: Graph) -> int:
    """Computes in front of a choice what both branches compute alike; what both give is not chosen any more.

    Given:
        graph g(%c: bool[], %x: f32[2], %z: f32[2]) {
          %u: f32[2], %v: f32[2], %w: f32[2] = If(%c, %x, %z) {then_branch=graph t(%a: f32[2], %b: f32[2]) {
            %d: f32[2] = Exp(%a)
            %e: f32[2] = Add(%d, %b)
            %f: f32[2] = Neg(%e)
            return %f, %d, %f
          }, else_branch=graph e(%a: f32[2], %b: f32[2]) {
            %h: f32[2] = Exp(%a)
            %i: f32[2] = Add(%b, %h)
            %j: f32[2] = Abs(%i)
            return %j, %h, %h
          }}
          return %u, %v
        }
    Result:
        graph g(%c: bool[], %x: f32[2], %z: f32[2]) {
          %v: f32[2] = Exp(%x)
          %1: f32[2] = Add(%v, %z)
          %u: f32[2] = If(%c, %1) {then_branch=graph t(%e: f32[2]) {
            %f: f32[2] = Neg(%e)
            return %f
          }, else_branch=graph e(%e: f32[2]) {
            %j: f32[2] = Abs(%e)
            return %j
          }}
          return %u, %v
        }
    """
    return sum(_hoist(graph, node) + _settle(graph, node) for node in graph if node.op == "If")


def _branches(node: Node) -> tuple[Graph, Graph]:
    return node.attrs["then_branch"], node.attrs["else_branch"]


def _hoist(graph: Graph, choice: Node) -> int:
    one, other = _branches(choice)
    for branch in (one, other):
        erase_dead(branch, list(reversed(branch)))
    common = _common(choice)
    outside: dict[Value, Value | None] = dict(zip(one.params, choice.inputs[1:], strict=True))
    origin = changed_by(choice.origin, "hoist_common")
    for node in common:
        for v in node.inputs:
            if v is not None and v.data is not None:  # one of the branch's own
                outside.setdefault(v, Value(v.type, v.name, v.data))
        made = graph.insert(copied(node, outside, origin), choice)
        for equal in (node, *common[node]):
            outside.update(zip(equal.outputs, made.outputs, strict=True))
    moved = {n for node, twins in common.items() for n in (node, *twins)}
    for node, twins in common.items():
        for i, value in enumerate(node.outputs):
            uses = [use for n in (node, *twins) for use in n.outputs[i].uses if use[0] not in moved]
            if uses:
                params = {branch: branch.add_param(value.type, value.name) for branch in (one, other)}
                choice.append_input(outside[value])
                for reader, k in uses:
                    assert reader.graph is not None
                    reader.set_input(k, params[reader.graph])
    for branch in (one, other):
        for node in [n for n in reversed(branch) if n in moved]:
            branch.erase(node)
    if common:
        pull_captures(choice)
    return len(common)


def _common(choice: Node) -> dict[Node, list[Node]]:
    """Nodes of the first branch, in order, with those that compute the same, of which some are in the second."""
    # For each value, the one that stands for all that are equal to it: outside, or in the first branch.
    same: dict[Value | None, Value | None] = {}
    constants = Constants()
    first: dict[Hashable, Node] = {}
    found: dict[Node, list[Node]] = {}
    one, other = _branches(choice)
    for branch in (one, other):
        same.update(zip(branch.params, choice.inputs[1:], strict=True))
        same.update((v, constants.first(v)) for v in branch.constants())
        for node in branch:
            key = None if node.subgraphs else node_key(node, tuple(same.get(v, v) for v in node.inputs))
            if key is None or all(v is None or v.is_const for v in node.inputs):
                continue
            equal = first.setdefault(key, node) if branch is one else first.get(key)
            if equal is not None and equal is not node:
                same.update(zip(node.outputs, equal.outputs, strict=True))
                found.setdefault(equal, []).append(node)
    return {node: found[node] for node in one if any(twin.graph is other for twin in found.get(node, ()))}


def _settle(graph: Graph, choice: Node) -> int:
    """Removes unused results, and those that are the same in both branches; the If, too, if none is left."""
    one, other = _branches(choice)
    outside = [dict(zip(branch.params, choice.inputs[1:], strict=True)) for branch in (one, other)]
    for value, a, b in zip(choice.outputs, one.outputs, other.outputs, strict=True):
        new = outside[0].get(a)
        if new is not None and new is outside[1].get(b) and value.uses:
            if new.producer is not None and value.name:
                new.name = value.name
            value.replace_all_uses(new)
    kept = [i for i, v in enumerate(choice.outputs) if v.uses]
    if len(kept) == len(choice.outputs):
        return 0
    for branch in (one, other):
        branch.outputs = [branch.outputs[i] for i in kept]
        erase_dead(branch, list(reversed(branch)))
    if kept:
        old = [choice.outputs[i] for i in kept]
        made = Node("If", choice.inputs, choice.attrs, [v.type for v in old], [v.name for v in old], choice.origin)
        graph.insert(made, choice)
        for value, new in zip(old, made.outputs, strict=True):
            value.replace_all_uses(new)
        pull_captures(made)
    graph.erase(choice)
    return 1


@graph_pass(level=2)
def choose_results(graph: Graph) -> int:
    """Computes both branches where that is less than to choose between them: a few elements, by nodes that cannot fail.

    Given:
        graph g(%c: bool[], %x: f32[3], %z: f32[3]) {
          %y: f32[3] = If(%c, %x, %z) {then_branch=graph t(%a: f32[3], %b: f32[3]) {
            %d: f32[3] = Mul(%a, %b)
            return %d
          }, else_branch=graph e(%a: f32[3], %b: f32[3]) {
            return %a
          }}
          return %y
        }
    Result:
        graph g(%c: bool[], %x: f32[3], %z: f32[3]) {
          %0: f32[3] = Mul(%x, %z)
          %y: f32[3] = Where(%c, %0, %x)
          return %y
        }
    """
    return sum(_choose(graph, node) for node in graph if node.op == "If")


def _choose(graph: Graph, choice: Node) -> int:
    branches = _branches(choice)
    results = [*zip(*(b.outputs for b in branches), strict=True)]
    if sum(map(len, branches)) > _FEW or choice.input(0).type.count != 1 or choice.input(0).type.rank is None:
        return 0
    if not all(_is_cheap(node) for branch in branches for node in branch):
        return 0
    if not all(a.type.shape == b.type.shape and a.type.dtype in _CHOSEN and _is_small(a) for a, b in results):
        return 0
    origin = changed_by(choice.origin, "choose_results")
    b = Builder(graph, choice, origin)
    outside: dict[Value, Value | None] = {}
    made: list[Node] = []
    for branch in branches:
        outside.update(zip(branch.params, choice.inputs[1:], strict=True))
        for v in branch.constants():
            outside[v] = Value(v.type, v.name, v.data)
        for node in branch:
            made.append(graph.insert(copied(node, outside, origin), choice))
            outside.update(zip(node.outputs, made[-1].outputs, strict=True))
    if not all(_is_small(v) for node in made for v in node.outputs) or not all(map(cannot_fail, made)):
        for node in reversed(made):
            graph.erase(node)
        return 0
    for value, (x, y) in zip(choice.outputs, results, strict=True):
        cond = choice.input(0)
        if (cond.type.rank or 0) > (x.type.rank or 0):
            cond = b.Reshape(cond, np.ones(x.type.rank or 0, np.int64))
        chosen = b.Where(cond, outside[x], outside[y])
        chosen.name = value.name
        value.replace_all_uses(chosen)
    graph.erase(choice)
    return 1


def _is_cheap(node: Node) -> bool:
    return bool(get(node.op).traits & {Trait.ELEMENTWISE, Trait.VIEW, Trait.MOVEMENT}) and is_pure(node)


def _is_small(value: Value) -> bool:
    return value.type.is_static and (value.type.count or 0) <= _SMALL
