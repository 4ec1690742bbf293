"""Branches and loops. Those decided at conversion time are unrolled; the rest becomes If and Loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minnow.converter.control_flow.capture import merge_captures
from minnow.converter.control_flow.loop import settle
from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.program.program import Block
from minnow.converter.torch.symbolic.capture import close
from minnow.converter.torch.symbolic.dimension import scalar
from minnow.converter.torch.symbolic.result import Pair, Tree, carried, is_same, merged, outputs, tree_of
from minnow.converter.torch.symbolic.structure import RaisedError, Tuple
from minnow.converter.torch.symbolic.tensor import Cell, Number, Tensor
from minnow.converter.torch.symbolic.thing import MISSING, tensors_in
from minnow.converter.torch.symbolic.translator import Translator
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import DType, Graph, TensorType, Value
from minnow.schema.notice import Notice

_MOST_WRITTEN_OUT = 20_000
"""The most nodes that an unrolled loop may have."""


Rounds = Callable[[Any, list[Any]], list[Any]]


def known_condition(x: Any) -> bool | None:
    """The value of a condition, None where it is known only at run time."""
    if isinstance(x, Number):
        return None
    if isinstance(x, Tensor):
        data = x.type.count == 1 and x._value.data
        return bool(data.numpy().reshape(())) if data else None
    return bool(x)


@torch.op("prim::If", plain=True)
def _(t, cond, node):
    blocks = node.node.blocks
    known = known_condition(cond)
    if known is not None:
        return Tuple(t.run(blocks[0 if known else 1], {}))
    return choose(t, cond, [(b, {}) for b in blocks], node.name)


class _Branch:
    """A block as a graph of its own.

    Attributes:
        results: what it gives.
        changed: what the tensors outside are after it, which it changes.
        cells: the same of lists, dicts and attributes.
    """

    def __init__(self, t: Translator, block: Block, given: dict[str, Any], cells: Sequence[Cell] = ()) -> None:
        self.graph = Graph()
        self.raised = ""
        self.results: list[Tree] = []
        self.changed: dict[Tensor, Value] = {}
        self.cells: dict[Cell, Tree] = {}
        with t.inside(self.graph) as journal:
            self.builder = t.builder
            try:
                results = t.run(block, given)
            except RaisedError as e:
                self.raised = str(e) or "the program raises an exception"
            else:
                self.results = [tree_of(t, r) for r in results]
                self.cells = {c: tree_of(t, c.read()) for c in dict.fromkeys([*journal.cells(), *cells])}
                self.changed = {x: x.value(t.builder) for x in journal.changed()}
        journal.undo()


def choose(t: Translator, cond: Any, blocks: Sequence[tuple[Block, dict[str, Any]]], name: str) -> Any:
    """An If of two blocks; gives their results."""
    t.settle()
    oldest = Tensor.made()
    branches = [_Branch(t, block, given) for block, given in blocks]
    if any(br.raised for br in branches):
        message = next(br.raised for br in branches if br.raised)
        if all(br.raised for br in branches):
            raise RaisedError(message)
        # The other branch is what every run without an exception does.
        text = f"the program may raise '{message}'; the converted model never does ({t.builder.origin})"
        t.notices.append(Notice(text, "error-left-out"))
        return Tuple(t.run(*next(b for b, br in zip(blocks, branches, strict=True) if not br.raised)))
    cells = list(dict.fromkeys(c for br in branches for c in br.cells))
    if any(len(br.cells) < len(cells) for br in branches):
        branches = [_Branch(t, block, given, cells) for block, given in blocks]
    first, second = branches
    if len(first.results) != len(second.results):
        raise ModelError("the branches have different numbers of results")
    pairs: list[Pair] = []
    trees = [merged(a, b, pairs, "the branches of an If") for a, b in zip(first.results, second.results, strict=True)]
    contents = [merged(first.cells[c], second.cells[c], pairs, f"in {c.name}, the branches of an If") for c in cells]
    changed = list(dict.fromkeys([*first.changed, *second.changed]))
    pairs += [
        (first.changed.get(x) or x.value(t.builder), second.changed.get(x) or x.value(t.builder)) for x in changed
    ]
    for mine, theirs in pairs:
        if mine is not None and theirs is not None and mine.type.dtype is not theirs.type.dtype:
            types = f"{mine.type.dtype}, the other {theirs.type.dtype}"
            text = f"one branch gives {types}; the converted model gives one type for both ({t.builder.origin})"
            t.notices.append(Notice(text, "type-assumed"))
    captured = []
    for br, out in zip(branches, outputs(pairs, [br.builder for br in branches]), strict=True):
        br.graph.outputs = out
        captured.append(close(br.graph))
    union = merge_captures([(br.graph, c, 0) for br, c in zip(branches, captured, strict=True)])
    first.graph.name, second.graph.name = f"{name}/then", f"{name}/else"
    n = len(pairs)
    made: Sequence[Value] = ()
    if n:
        made = t.builder.If(as_bool(t, cond), *union, then_branch=first.graph, else_branch=second.graph, n_outputs=n)
    values = iter(made)
    results = [tree.built(values) for tree in trees]
    for cell, tree in zip(cells, contents, strict=True):
        cell.write(tree.built(values))
    for tensor, value in zip(changed, values, strict=True):
        tensor.assign(value)
    for x, a, b in zip(results, first.results, second.results, strict=True):
        if x is not a.thing:
            _part(x, [a.thing, b.thing], oldest)
    return Tuple(results)


def as_bool(t: Translator, cond: Any) -> Value:
    """A condition as a bool scalar."""
    value = scalar(t.builder, t.value(cond) if isinstance(cond, Tensor) else cond)
    if value.type.dtype is DType.BOOL:
        return value
    made: Value = t.builder.Cast(value, to=DType.BOOL)
    return made


def _part(result: Any, sources: Sequence[Any], oldest: int) -> None:
    """What comes of a branch or loop may share memory with the tensors outside that it is made of.

    Args:
        oldest: how many tensors there were before it.
    """
    roots = dict.fromkeys(x.root for x in tensors_in(sources) if x.root.serial <= oldest)
    for tensor in tensors_in([result]):
        if tensor.root not in roots:
            for root in roots:
                tensor.apart(root)


@torch.op("prim::Loop", plain=True)
def _(t, trip, cond, *first, node):
    (block,) = node.node.blocks

    def rounds(i: Any, state: list[Any]) -> list[Any]:
        return t.run(block, dict(zip(block.params, [i, *state], strict=True)))

    size = max(1, len(list(block.all_nodes())))
    done = 0
    state = list(first)
    counted = not isinstance(trip, Number)
    while counted and cond is not MISSING and known_condition(cond) is not None:
        if done >= trip or not known_condition(cond):
            return Tuple(state)
        if done == 0 and trip * size > _MOST_WRITTEN_OUT and trip < 1 << 31:
            break
        if done * size > _MOST_WRITTEN_OUT:
            raise UnsupportedError("unrolling the loop would give too many nodes")
        cond, *state = rounds(done, state)
        done += 1
    if cond is MISSING:
        return Tuple([MISSING] * len(state))
    return _loop(t, rounds, trip, cond, state, done, node.name)


@dataclass
class _Body:
    """A round as a graph.

    Attributes:
        after: what it passes on.
        contents: what the carried cells are then.
        changed, cells: places outside that it changes, and that are not carried yet.
        kept: which of the carried things it passes on as they are.
    """

    graph: Graph
    after: list[Tree]
    contents: list[Tree]
    changed: list[Tensor]
    cells: list[Cell]
    kept: list[bool]


def _loop(t: Translator, rounds: Rounds, trip: Any, cond: Any, state: list[Any], done: int, name: str) -> Any:
    """A Loop whose iterations are decided at run time. What the body changes of things outside is carried, too.

    Args:
        rounds: what translates a round: from its number and the carried things to whether there is another one, and
            what is carried on.
        trip: the most rounds there are.
        done: how many have been written out.
    """
    t.settle()
    trees = [tree_of(t, x) for x in state]
    kept = [False] * len(trees)
    changed: list[Tensor] = []
    cells: list[Cell] = []

    def translate(types: list[TensorType]) -> tuple[_Body, list[TensorType]]:
        graph = Graph(name)
        i = graph.add_param(TensorType(DType.I64, ()), "i")
        graph.add_param(TensorType(DType.BOOL, ()), "go")
        params = [graph.add_param(type, v.name) for type, v in zip(types, start, strict=True)]
        with t.inside(graph) as journal:
            values = iter(params)
            given = [x if k else tree.built(values) for x, tree, k in zip(state, trees, kept, strict=True)]
            contents = [tree_of(t, c.read()).built(values) for c in cells]
            for c, content in zip(cells, contents, strict=True):
                c.write(content)
            for x, p in zip(changed, values, strict=True):
                x.assign(p)
            count = t.folded(lambda: Number(t.builder.Add(i, np.array(done)) if done else i))
            again, *after = rounds(count, list(given))
            if again is MISSING:
                raise UnsupportedError("the condition of the loop is not supported")
            same = [tree.kind is not Number and is_same(x, y) for tree, x, y in zip(trees, given, after, strict=True)]
            _check_places([x for x, k, s in zip(given, kept, same, strict=True) if not k and not s])
            body = _Body(graph, [tree_of(t, x) for x in after], [tree_of(t, c.read()) for c in cells],
                         [x for x in journal.changed() if x not in changed],
                         [c for c in journal.cells() if c not in cells], same)  # fmt: skip
            ends = [v for tree, k in zip(body.after, kept, strict=True) if not k for v in tree.values()]
            ends += [v for tree in body.contents for v in tree.values()]
            ends += [x.value(t.builder) for x in changed]
            if len(ends) == len(params):
                ends = [v if v.type.dtype is p.type.dtype else t.builder.Cast(v, to=p.type.dtype)
                        for v, p in zip(ends, params, strict=True)]  # fmt: skip
            else:
                ends = params  # not the last translation: see below
            go = as_bool(t, again)
        journal.undo()
        graph.outputs = [go, *ends]
        return body, [v.type for v in ends]

    oldest = Tensor.made()
    while True:
        start = [v for tree, k in zip(trees, kept, strict=True) if not k for v in tree.values()]
        start += [v for c in cells for v in tree_of(t, c.read()).values()]
        start += [x.value(t.builder) for x in changed]
        body, _ = settle([v.type for v in start], translate)
        before, trees = trees, [carried(tree, after, t.builder, "a loop")
                                for tree, after in zip(trees, body.after, strict=True)]  # fmt: skip
        for c, content in zip(cells, body.contents, strict=True):
            carried(tree_of(t, c.read()), content, t.builder, f"in {c.name}, a loop")
        more = body.changed or body.cells or body.kept != kept
        if not more and all(a.thing is b.thing for a, b in zip(before, trees, strict=True)):
            break
        changed, cells, kept = [*changed, *body.changed], [*cells, *body.cells], body.kept
    captured = close(body.graph)
    b = t.builder
    most = None
    if isinstance(trip, Number):
        most = trip.value if not done else b.Sub(trip.value, np.array(done))
    elif trip < (1 << 62):
        most = b.const(np.array(trip - done, np.int64))
    made = b.Loop(
        most, as_bool(t, cond), *start, *captured, body=body.graph, num_carried=len(start), n_outputs=len(start)
    )
    values = iter(made)
    results = [x if k else tree.built(values) for x, tree, k in zip(state, trees, kept, strict=True)]
    for c in cells:
        c.write(tree_of(t, c.read()).built(values))
    for x, value in zip(changed, values, strict=True):
        x.assign(value)
    for x, k, *sources in zip(results, kept, state, (tree.thing for tree in body.after), strict=True):
        if not k:
            _check_apart(sources, changed)
            _part(x, sources, oldest)
    return Tuple(results)


def _check_places(things: Sequence[Any]) -> None:
    """What a round gets and does not pass on must be as it was: it may be a tensor that is read outside."""
    if any(x.is_changed for x in tensors_in(things)):
        raise UnsupportedError("a loop that changes a tensor in place, and then replaces it, is not supported",
                               hint="change a copy: `x = x + 1` in place of `x += 1`")  # fmt: skip


def _check_apart(things: Sequence[Any], changed: Sequence[Tensor]) -> None:
    """What rounds pass on must not share memory with what they change."""
    if any(x.root in changed for x in tensors_in(things)):
        raise UnsupportedError("a loop that carries a view of a tensor that it changes is not supported",
                               hint="carry a copy (`x.clone()`)")  # fmt: skip


# ---- the same in exported programs, whose blocks are closed: what they read of outside is handed to them


@torch.op("higher_order::cond", plain=True)
def _(t, pred, operands=(), *, node):
    given = [dict(zip(block.params, operands, strict=True)) for block in node.node.blocks]
    known = known_condition(pred)
    if known is not None:
        i = 0 if known else 1
        return Tuple(t.call(node.node.blocks[i], given[i]))
    return choose(t, pred, list(zip(node.node.blocks, given, strict=True)), node.name)


@torch.op("higher_order::while_loop", plain=True)
def _(t, carried_inputs, additional_inputs=(), *, node):
    condition, body = node.node.blocks

    def ask(state: Sequence[Any]) -> Any:
        (again,) = t.call(condition, dict(zip(condition.params, [*state, *additional_inputs], strict=True)))
        return again

    def rounds(_: Any, state: list[Any]) -> list[Any]:
        after = t.call(body, dict(zip(body.params, [*state, *additional_inputs], strict=True)))
        return [ask(after), *after]

    state = list(carried_inputs)
    return _loop(t, rounds, 1 << 63, ask(state), state, 0, node.name)


@torch.op("higher_order::wrap_with_set_grad_enabled", plain=True)
def _(t, enabled, *operands, node):
    (block,) = node.node.blocks
    return Tuple(t.call(block, dict(zip(block.params, operands, strict=True))))


@torch.op("higher_order::wrap_with_autocast", plain=True)
def _(t, device_type, dtype, enabled, cache_enabled, *operands, node):
    if enabled:
        raise UnsupportedError("automatic mixed precision is not supported", hint="export the model without autocast")
    (block,) = node.node.blocks
    return Tuple(t.call(block, dict(zip(block.params, operands, strict=True))))
