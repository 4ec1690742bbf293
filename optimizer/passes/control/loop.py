"""Loops: dead loop state is removed, short loops are unrolled, and invariants leave the body."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from minnow.optimizer.facts.equal import node_key
from minnow.optimizer.passes.cleanup.fold import fold_constants
from minnow.optimizer.passes.control.hoist import cannot_fail, copied, is_much_larger, is_pure
from minnow.optimizer.passes.recurrent.loop import Counted, NoMatchError
from minnow.optimizer.rewrite import changed_by, erase_dead, graph_pass
from minnow.schema.errors import ModelError
from minnow.schema.ir import Graph, Node, Value
from minnow.schema.ir.type import merge
from minnow.schema.ops import Builder

_MOST_ROUNDS = 8
_MOST_NODES = 64
"""That all rounds may have together where they take the place of a loop."""


@graph_pass(level=1)
def prune_loop(graph: Graph) -> int:
    """Removes dead loop state and unused stacked outputs and captures; state that does not change is captured.

    Given:
        graph g(%x: f32[2], %z: f32[2], %k: f32[2], %n: i64[]) {
          %u: f32[2], %v: f32[2], %w: f32[2], %s: f32[?,2] = Loop(%n, _, %x, %z, %k) {body=graph b(%i: i64[], %c: bool[], %a: f32[2], %d: f32[2], %e: f32[2]) {
            %f: f32[2] = Mul(%a, %e)
            %h: f32[2] = Exp(%d)
            return %c, %f, %h, %e, %f
          }, num_carried=3}
          return %u
        }
    Result:
        graph g(%x: f32[2], %z: f32[2], %k: f32[2], %n: i64[]) {
          %u: f32[2] = Loop(%n, _, %x, %k) {body=graph b(%i: i64[], %c: bool[], %a: f32[2], %e: f32[2]) {
            %f: f32[2] = Mul(%a, %e)
            return %c, %f
          }, num_carried=1}
          return %u
        }
    """  # noqa: E501
    return sum(_prune(graph, node) for node in graph if node.op == "Loop" and any(v.uses for v in node.outputs))


def _prune(graph: Graph, loop: Node) -> int:
    changes = sum(_capture(loop, k) for k in range(loop.attrs["num_carried"]))
    body: Graph = loop.attrs["body"]
    n = loop.attrs["num_carried"]
    results, params, operands = body.outputs, body.params, loop.inputs
    read = {k for k, v in enumerate(loop.outputs) if v.uses}
    carried = {p: k for k, p in enumerate(params[2 : 2 + n])}
    stack, seen = [results[0], *(results[1 + k] for k in read)], set[Value]()
    while stack:
        value = stack.pop()
        if value in seen:
            continue
        seen.add(value)
        if value.producer is not None:
            stack += [v for v in value.producer.inputs if v is not None]
        elif value in carried:
            read.add(carried[value])
            stack.append(results[1 + carried[value]])
    kept = [i for i, p in enumerate(params) if i < 2 or (i - 2 in read if i < 2 + n else p in seen)]
    gone = len(params) - len(kept) + sum(k not in read for k in range(n, len(loop.outputs)))
    if not gone:
        return changes
    order = sorted(read)
    body.outputs = [results[0], *(results[1 + k] for k in order)]
    erase_dead(body, list(reversed(body)))
    body.params = [params[i] for i in kept]
    body.touch()
    new = Node(
        loop.op,
        [operands[i] for i in kept if i < len(operands)],
        {**loop.attrs, "num_carried": sum(k < n for k in order)},
        [loop.outputs[k].type for k in order],
        [loop.outputs[k].name for k in order],
        changed_by(loop.origin, "prune_loop"),
    )
    graph.insert(new, loop)
    for k, value in zip(order, new.outputs, strict=True):
        loop.outputs[k].replace_all_uses(value)
    graph.erase(loop)
    return changes + gone


def _capture(loop: Node, k: int) -> int:
    """Captures a carried value that does not change, after which the carried one is unused."""
    body: Graph = loop.attrs["body"]
    param, first = body.params[2 + k], loop.input(2 + k)
    if body.outputs[1 + k] is not param or (len(param.uses) == 1 and not loop.outputs[k].uses):
        return 0
    loop.outputs[k].replace_all_uses(first)
    captured = body.add_param(param.type, param.name)
    loop.append_input(first)
    for node, i in list(param.uses):
        if (node, i) != (body.ret, 1 + k):
            node.set_input(i, captured)
    return 1


@graph_pass(level=2)
def unroll_loop(graph: Graph) -> int:
    """Unrolls a loop with a small constant number of iterations.

    Given:
        graph g(%x: f32[2], %z: f32[2]) {
          %v: f32[2], %s: f32[2,2] = Loop(i64[](2), _, %x, %z) {body=graph b(%i: i64[], %c: bool[], %a: f32[2], %k: f32[2]) {
            %d: f32[2] = Mul(%a, %k)
            %e: f32[2] = Exp(%d)
            return %c, %d, %e
          }, num_carried=1}
          return %v, %s
        }
    Result:
        graph g(%x: f32[2], %z: f32[2]) {
          %0: f32[2] = Mul(%x, %z)
          %1: f32[2] = Exp(%0)
          %v: f32[2] = Mul(%0, %z)
          %2: f32[2] = Exp(%v)
          %3: f32[1,2] = Unsqueeze(%1) {axes=(0,)}
          %4: f32[1,2] = Unsqueeze(%2) {axes=(0,)}
          %s: f32[2,2] = Concat(%3, %4) {axis=0}
          return %v, %s
        }
    """  # noqa: E501
    changes = 0
    for node in graph:
        if node.op == "Loop":
            rounds = _rounds(node)
            if rounds is not None and _may_be_written_out(node, rounds):
                _unroll(graph, node, rounds)
                changes += 1
    if changes:
        fold_constants.apply(graph)  # the counters are numbers now
    return changes


def _number(loop: Node, i: int) -> int | None:
    """The number of rounds (0) or the first condition (1), where it is known; a large one where there is no limit."""
    if not loop.has_input(i):
        return _MOST_ROUNDS + 1
    array = loop.input(i).array
    return None if array is None or array.size != 1 else int(array.item())


def _rounds(loop: Node) -> int | None:
    trip, go_on = _number(loop, 0), _number(loop, 1)
    if go_on == 0 or (trip is not None and trip <= 0):
        return 0
    try:
        return Counted(loop).rounds if len(loop.attrs["body"]) <= _MOST_NODES else None
    except NoMatchError:
        return None


def _may_be_written_out(loop: Node, rounds: int) -> bool:
    body: Graph = loop.attrs["body"]
    scans = body.outputs[1 + loop.attrs["num_carried"] :]
    return (
        rounds <= _MOST_ROUNDS
        and rounds * len(body) <= _MOST_NODES
        and all(not node.subgraphs and node_key(node) is not None for node in body)
        and not any(v.type.holds_tensors for v in scans)
        and (rounds > 0 or all(v.type.is_static for v in scans))
    )


def _unroll(graph: Graph, loop: Node, rounds: int) -> None:
    body: Graph = loop.attrs["body"]
    n, origin = loop.attrs["num_carried"], changed_by(loop.origin, "unroll_loop")
    carried = list(loop.inputs[2 : 2 + n])
    captured = dict(zip(body.params[2 + n :], loop.inputs[2 + n :], strict=True))
    rows: list[list[Value]] = [[] for _ in body.outputs[1 + n :]]
    for t in range(rounds):
        table = {**captured, **dict(zip(body.params[2:], carried, strict=False))}
        for param, number in zip(body.params, (t, True), strict=False):
            table[param] = Value.constant(np.full((1,) * (param.type.rank or 0), number, param.type.dtype.numpy))
        for inner in body:
            made = graph.insert(copied(inner, table, origin), loop)
            table.update(zip(inner.outputs, made.outputs, strict=True))
        after = [table.get(v, v) for v in body.outputs[1:]]
        carried = after[:n]
        for row, value in zip(rows, after[n:], strict=True):
            assert value is not None
            row.append(value)
    b = Builder(graph, loop, origin)
    for i, old in enumerate(loop.outputs):
        new = carried[i] if i < n else _stacked(b, rows[i - n], body.outputs[1 + i])
        assert new is not None
        if new.producer is not None:
            with suppress(ModelError):
                new.type = new.type.with_shape(merge(new.type.shape, old.type.shape))
        if new.producer is not None and new not in loop.inputs:
            new.name = old.name or new.name
        old.replace_all_uses(new)
    # Constants are shared by the copies: the body must not count among their readers.
    body.outputs = []
    erase_dead(body, list(reversed(body)))
    graph.erase(loop)


def _stacked(b: Builder, rows: list[Value], of: Value) -> Value:
    if not rows:
        return Value.constant(np.zeros((0, *of.type.static_shape), of.type.dtype.numpy))
    parts = [b.Unsqueeze(v, axes=(0,)) for v in rows]
    return parts[0] if len(parts) == 1 else b.Concat(*parts, axis=0)


@graph_pass(level=2)
def hoist_invariants(graph: Graph) -> int:
    """Computes in front of a loop what is the same in every round, where that takes little memory and cannot fail.

    What could fail is computed ahead only if there is a first round for sure.

    Given:
        graph g(%x: f32[2], %z: f32[2], %n: i64[]) {
          %v: f32[2] = Loop(%n, _, %x, %z) {body=graph b(%i: i64[], %c: bool[], %a: f32[2], %k: f32[2]) {
            %d: f32[2] = Exp(%k)
            %e: f32[2] = Add(%d, %k)
            %f: f32[2] = Mul(%a, %e)
            return %c, %f
          }, num_carried=1}
          return %v
        }
    Result:
        graph g(%x: f32[2], %z: f32[2], %n: i64[]) {
          %0: f32[2] = Exp(%z)
          %1: f32[2] = Add(%0, %z)
          %v: f32[2] = Loop(%n, _, %x, %z, %1) {body=graph b(%i: i64[], %c: bool[], %a: f32[2], %k: f32[2], %e: f32[2]) {
            %f: f32[2] = Mul(%a, %e)
            return %c, %f
          }, num_carried=1}
          return %v
        }
    """  # noqa: E501
    return sum(_hoist(graph, node) for node in graph if node.op == "Loop")


def _hoist(graph: Graph, loop: Node) -> int:
    body: Graph = loop.attrs["body"]
    first = 2 + loop.attrs["num_carried"]
    outside: dict[Value, Value | None] = dict(zip(body.params[first:], loop.inputs[first:], strict=True))
    runs = bool(_number(loop, 1)) and (_number(loop, 0) or 0) > 0
    moved: dict[Node, None] = {}
    for inner in body:
        given = [v for v in inner.inputs if v is not None]
        for v in given:
            if v.data is not None:  # one of the body's own
                outside.setdefault(v, Value(v.type, v.name, v.data))
        if all(v.is_const for v in given) or not all(v in outside for v in given) or not is_pure(inner):
            continue
        made = graph.insert(copied(inner, outside, changed_by(loop.origin, "hoist_invariants")), loop)
        if is_much_larger(made) or not (runs or cannot_fail(made)):
            graph.erase(made)
            continue
        outside.update(zip(inner.outputs, made.outputs, strict=True))
        moved[inner] = None
    for value in (v for node in moved for v in node.outputs):
        uses = [(node, i) for node, i in value.uses if node not in moved]
        if uses:
            param = body.add_param(value.type, value.name)
            loop.append_input(outside[value])
            for node, i in uses:
                node.set_input(i, param)
    for inner in reversed(moved):
        body.erase(inner)
    return len(moved)
