"""Branches and loops. What is known when the model is converted leaves no trace; the rest becomes If and Loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minnow.converter.capture import merge_captures
from minnow.converter.loop import settle
from minnow.converter.torch.extent import scalar
from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.program import Block
from minnow.converter.torch.structure import RaisedError, Tuple
from minnow.converter.torch.tensor import Number, Tensor
from minnow.converter.torch.translator import MISSING, Translator, close
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import DType, Graph, TensorType, Value

_MOST_WRITTEN_OUT = 20_000
"""Nodes that the rounds of a loop are written out into."""


Rounds = Callable[[Any, list[Any]], list[Any]]


def known_truth(x: Any) -> bool | None:
    """What a condition is, None where only the run can tell."""
    if isinstance(x, Number):
        return None
    if isinstance(x, Tensor):
        data = x.type.count == 1 and x._value.data
        return bool(data.numpy().reshape(())) if data else None
    return bool(x)


@torch.op("prim::If", plain=True)
def _(t, cond, node):
    blocks = node.node.blocks
    known = known_truth(cond)
    if known is not None:
        return Tuple(t.run(blocks[0 if known else 1], {}))
    return choose(t, cond, [(b, {}) for b in blocks], node.name)


class _Branch:
    """A block as a graph of its own."""

    def __init__(self, t: Translator, block: Block, given: dict[str, Any]) -> None:
        self.graph = Graph()
        self.raised = ""
        self.results: list[Any] = []
        self.changed: dict[Tensor, Value] = {}
        with t.inside(self.graph) as journal:
            try:
                self.results = t.run(block, given)
            except RaisedError as e:
                self.raised = str(e) or "the program raises an exception"
            b = t.builder
            self.values = [_flat(t, r) for r in self.results]
            self.changed = {x: x.value(b) for x in journal.changed()}
        journal.undo()


def choose(t: Translator, cond: Any, blocks: Sequence[tuple[Block, dict[str, Any]]], name: str) -> Any:
    """An If of two blocks; gives their results."""
    t.settle()
    branches = [_Branch(t, block, given) for block, given in blocks]
    if any(br.raised for br in branches):
        good = [(given, b) for br, given in zip(branches, blocks, strict=True) if not br.raised for b in [br]]
        if not good:
            raise RaisedError(branches[0].raised)
        # The other branch is what every run without an exception does.
        (block, arguments), _ = good[0]
        return Tuple(t.run(block, arguments))
    first, second = branches
    if len(first.values) != len(second.values):
        raise ModelError("the branches give different numbers of results")
    changed = list(dict.fromkeys([*first.changed, *second.changed]))
    shapes = [_merge(a, b) for a, b in zip(first.values, second.values, strict=True)]
    outputs: list[list[Value]] = [[], []]
    for a, b in zip(first.values, second.values, strict=True):
        for mine, theirs in zip(a[1], b[1], strict=True):
            for out, br, v in zip(outputs, branches, (mine, theirs), strict=True):
                wanted = _common(mine, theirs)
                out.append(v if v.type.dtype is wanted else _cast(t, br.graph, v, wanted))
    for x in changed:
        for out, br in zip(outputs, branches, strict=True):
            out.append(br.changed.get(x) or x.value(t.builder))
    captured = []
    for br, out in zip(branches, outputs, strict=True):
        br.graph.outputs = out
        captured.append(close(br.graph))
    union = merge_captures([(br.graph, c, 0) for br, c in zip(branches, captured, strict=True)])
    first.graph.name, second.graph.name = f"{name}/then", f"{name}/else"
    n = len(outputs[0])
    made: Sequence[Value] = ()
    if n:
        made = t.builder.If(truth(t, cond), *union, then_branch=first.graph, else_branch=second.graph, n_outputs=n)
    results = iter(made)
    given_back = [_rebuilt(s, results) for s in shapes]
    for x, value in zip(changed, results, strict=True):
        x.assign(value)
    return Tuple(given_back)


def truth(t: Translator, cond: Any) -> Value:
    """A condition as a bool scalar."""
    value = scalar(t.builder, t.value(cond) if isinstance(cond, Tensor) else cond)
    if value.type.dtype is DType.BOOL:
        return value
    made: Value = t.builder.Cast(value, to=DType.BOOL)
    return made


def _cast(t: Translator, graph: Graph, v: Value, to: DType) -> Value:
    from minnow.schema.ops import Builder

    made: Value = Builder(graph, origin=t.builder.origin).Cast(v, to=to)
    return made


def _common(a: Value, b: Value) -> DType:
    if a.type.dtype is b.type.dtype:
        return a.type.dtype
    from minnow.converter.torch.dtype import promote

    return promote(a.type.dtype, b.type.dtype)


def _flat(t: Translator, x: Any) -> tuple[Any, list[Value]]:
    """The structure of a result, and the Values in it. A number is a Value: the other branch may give another one."""
    if isinstance(x, Tensor):
        return "tensor", [t.value(x)]
    if isinstance(x, (Number, bool, int, float)):
        return ("number", x), [scalar(t.builder, x)]
    if isinstance(x, (list, tuple)):
        parts = [_flat(t, v) for v in x]
        return (type(x), [p[0] for p in parts]), [v for p in parts for v in p[1]]
    if isinstance(x, dict):
        parts = [_flat(t, v) for v in x.values()]
        return (dict, list(x), [p[0] for p in parts]), [v for p in parts for v in p[1]]
    return ("constant", x), []


def _merge(a: tuple[Any, list[Value]], b: tuple[Any, list[Value]]) -> Any:
    """One structure for the results of both branches."""
    return _same(a[0], b[0])


def _same(a: Any, b: Any) -> Any:
    if a == b:
        return a
    if isinstance(a, tuple) and isinstance(b, tuple) and a[0] == b[0]:
        if a[0] == "number":
            return ("number", None)
        if a[0] in (list, tuple, Tuple) and len(a[1]) == len(b[1]):
            return (a[0], [_same(x, y) for x, y in zip(a[1], b[1], strict=True)])
        if a[0] is dict and a[1] == b[1]:
            return (dict, a[1], [_same(x, y) for x, y in zip(a[2], b[2], strict=True)])
    if a is MISSING or b is MISSING:
        return ("constant", MISSING)
    raise UnsupportedError("the branches of an If give results of different kinds")


def _rebuilt(structure: Any, values: Any) -> Any:
    """A result of the structure, with the outputs of an If or Loop."""
    if structure == "tensor":
        return Tensor(next(values))
    kind = structure[0]
    if kind == "number":
        made = Number(next(values))
        # Both branches gave the same number.
        return structure[1] if isinstance(structure[1], (bool, int, float)) else made
    if kind == "constant":
        return structure[1]
    if kind is dict:
        return dict(zip(structure[1], [_rebuilt(s, values) for s in structure[2]], strict=True))
    return kind(_rebuilt(s, values) for s in structure[1])


@torch.op("prim::Loop", plain=True)
def _(t, trip, cond, *carried, node):
    (block,) = node.node.blocks

    def rounds(i: Any, state: list[Any]) -> list[Any]:
        return t.run(block, dict(zip(block.params, [i, *state], strict=True)))

    size = max(1, len(list(block.all_nodes())))
    done = 0
    state = list(carried)
    counted = not isinstance(trip, Number)
    while counted and known_truth(cond) is not None:
        if done >= trip or not known_truth(cond):
            return Tuple(state)
        if done == 0 and trip * size > _MOST_WRITTEN_OUT and trip < 1 << 31:
            break
        if done * size > _MOST_WRITTEN_OUT:
            raise UnsupportedError("a loop of more rounds than can be written out")
        cond, *state = rounds(done, state)
        done += 1
    return _loop(t, rounds, trip, cond, state, done, node.name)


def _loop(t: Translator, rounds: Rounds, trip: Any, cond: Any, carried: list[Any], done: int, name: str) -> Any:
    """A Loop whose rounds the run decides. What the body changes of tensors outside goes around with it.

    Args:
        rounds: what translates a round: from its number and the carried things to whether there is another one, and
            what is carried on.
        trip: the most rounds there are.
        done: how many have been written out.
    """
    t.settle()
    flat = [_flat(t, x) for x in carried]
    first = [v for _, values in flat for v in values]
    changed: list[Tensor] = []
    while True:
        start = [*first, *(x.value(t.builder) for x in changed)]

        def translate(types: list[TensorType], changed: list[Tensor] = changed, start: list[Value] = start) -> Any:
            graph = Graph(name)
            i = graph.add_param(TensorType(DType.I64, ()), "i")
            graph.add_param(TensorType(DType.BOOL, ()), "go")
            params = [graph.add_param(type, v.name) for type, v in zip(types, start, strict=True)]
            with t.inside(graph) as journal:
                it = iter(params)
                state = [_rebuilt(_loose(s), it) for s, _ in flat]
                for x, p in zip(changed, it, strict=True):
                    x.assign(p)
                count = t.folded(lambda: Number(t.builder.Add(i, np.array(done)) if done else i))
                again, *after = rounds(count, state)
                values = [v for x in after for v in _flat(t, x)[1]]
                more = [x for x in journal.changed() if x not in changed]
                values += [x.value(t.builder) for x in changed]
                if len(values) != len(types):
                    raise UnsupportedError("a loop that changes the number of things it hands on")
                values = [v if v.type.dtype is p.type.dtype else _cast(t, graph, v, p.type.dtype)
                          for v, p in zip(values, params, strict=True)]  # fmt: skip
                go = truth(t, again)
            journal.undo()
            graph.outputs = [go, *values]
            return (graph, more), [v.type for v in values]

        (graph, more), _ = settle([v.type for v in start], translate)
        if not more:
            break
        changed = [*changed, *more]
    captured = close(graph)
    b = t.builder
    most = None
    if isinstance(trip, Number):
        most = trip.value if not done else b.Sub(trip.value, np.array(done))
    elif trip < (1 << 62):
        most = b.const(np.array(trip - done, np.int64))
    made = b.Loop(most, truth(t, cond), *start, *captured, body=graph, num_carried=len(start), n_outputs=len(start))
    results = iter(made)
    given_back = [_rebuilt(_loose(s), results) for s, _ in flat]
    for x, value in zip(changed, results, strict=True):
        x.assign(value)
    return Tuple(given_back)


def _loose(structure: Any) -> Any:
    """The structure with numbers that may differ from round to round."""
    if isinstance(structure, tuple) and structure[0] == "number":
        return ("number", None)
    if isinstance(structure, tuple) and structure[0] in (list, tuple, Tuple):
        return (structure[0], [_loose(s) for s in structure[1]])
    if isinstance(structure, tuple) and structure[0] is dict:
        return (dict, structure[1], [_loose(s) for s in structure[2]])
    return structure


# ---- the same in exported programs, whose blocks are closed: what they read of outside is handed to them


@torch.op("higher_order::cond", plain=True)
def _(t, pred, operands=(), *, node):
    given = [dict(zip(block.params, operands, strict=True)) for block in node.node.blocks]
    known = known_truth(pred)
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
