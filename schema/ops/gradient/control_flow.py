"""Derivatives of ops with subgraphs: graphs that go back through the branch taken, and through all iterations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minnow.schema.ir import DType, Graph, TensorType, Value
from minnow.schema.ops import control_flow
from minnow.schema.registry.builder import Builder
from minnow.schema.registry.gradient import Step, Term, pullback


def _copied(body: Graph, into: Builder, params: Sequence[Value]) -> list[Value]:
    """The outputs of a graph, whose nodes are made once more in another one."""
    copy = body.clone()
    return into.graph.absorb(copy, dict(zip(copy.params, params, strict=True)))


def _zeros(b: Builder, like: Value) -> Value:
    step = Step(b, b.graph.ret, ())
    return step.zeros(Term(b, like)).value


def _float(v: Value) -> bool:
    return v.type.dtype.is_float


@control_flow.If.gradient
def _(g, cond, *captured, then_branch, else_branch):
    wanted = [i for i, v in enumerate(captured) if _float(v.value)]
    given = [i for i, dy in enumerate(g.dys) if dy is not None]

    def back(branch: Graph) -> Graph:
        made = Graph(f"{branch.name}_gradient")
        params = [made.add_param(v.value.type, p.name) for v, p in zip(captured, branch.params, strict=True)]
        dys = [made.add_param(g.dys[i].value.type) for i in given]
        b = Builder(made, origin=g.builder.origin)
        outputs = _copied(branch, b, params)
        seeds = _summed(b, [(outputs[i], dy) for i, dy in zip(given, dys, strict=True)])
        found = pullback(b, list(made), seeds, [params[i] for i in wanted])
        made.outputs = [found[params[i]] if params[i] in found else _zeros(b, params[i]) for i in wanted]
        return made

    if not wanted:
        return None
    operands = [*captured, *(g.dys[i] for i in given)]
    made = g.If(cond, *operands, then_branch=back(then_branch), else_branch=back(else_branch), n_outputs=len(wanted))
    pieces: list[Any] = [None] * len(captured)
    for i, piece in zip(wanted, made, strict=True):
        pieces[i] = piece
    return None, *pieces


def _summed(b: Builder, pairs: Sequence[tuple[Value, Value]]) -> dict[Value, Value]:
    """The gradient of each value, which may be several outputs."""
    seeds: dict[Value, Value] = {}
    for value, dy in pairs:
        seeds[value] = b.Add(seeds[value], dy) if value in seeds else dy
    return seeds


@control_flow.Loop.gradient
def _(g, trip_count, cond, *values, body, num_carried):
    carried, captured = values[:num_carried], values[num_carried:]
    # The loop once more, which also gives what each iteration began with, and its number.
    recorded = body.clone()
    recorded.outputs = [*recorded.outputs, *recorded.params[2 : 2 + num_carried], recorded.params[0]]
    count = len(g.ys) + num_carried + 1
    made = g.Loop(trip_count, cond, *values, body=recorded, num_carried=num_carried, n_outputs=count)
    starts, numbers = made[len(g.ys) : -1], made[-1]
    trips = g.Size(numbers)

    by_state = [i for i, v in enumerate(carried) if _float(v.value)]
    by_captured = [i for i, v in enumerate(captured) if _float(v.value)]
    scanned = [i for i in range(num_carried, len(g.ys)) if g.dys[i] is not None]
    last = [g.dys[i] or g.zeros(carried[i]) for i in by_state]
    sums = [g.zeros(captured[i]) for i in by_captured]
    kept = [*captured, *starts, numbers, *(g.dys[i] for i in scanned), trips]

    back = Graph(f"{body.name}_gradient")
    b = Builder(back, origin=g.builder.origin)
    iteration = back.add_param(TensorType(DType.I64, ()))
    goes_on = back.add_param(TensorType(DType.BOOL, ()))
    d_states = [back.add_param(carried[i].value.type) for i in by_state]
    d_captured = [back.add_param(captured[i].value.type) for i in by_captured]
    inner = [back.add_param(v.value.type) for v in kept]
    own, rest = inner[: len(captured)], inner[len(captured) :]
    place = b.Sub(b.Sub(rest[-1], np.int64(1)), iteration)

    def at_place(stack: Value, like: Value) -> Value:
        """The slice of this iteration, of the type that the body knows."""
        piece = b.Gather(stack, place)
        return b.Reshape(piece, np.array(like.type.static_shape, np.int64)) if like.type.is_static else piece

    params = body.params
    states = [at_place(s, p) for s, p in zip(rest[:num_carried], params[2:], strict=False)]
    number = at_place(rest[num_carried], params[0])
    truth = b.Expand(goes_on, np.ones(params[1].type.rank or 0, np.int64))
    begun = len(back)
    outputs = _copied(body, b, [number, truth, *states, *own])
    pairs = [(outputs[1 + i], d) for i, d in zip(by_state, d_states, strict=True)]
    for i, dy in zip(scanned, rest[num_carried + 1 : -1], strict=True):
        pairs.append((outputs[1 + i], at_place(dy, outputs[1 + i])))
    seeds = _summed(b, pairs)
    wanted = [*(states[i] for i in by_state), *(own[i] for i in by_captured)]
    found = pullback(b, list(back)[begun:], seeds, wanted)
    new_states = [found[states[i]] if states[i] in found else _zeros(b, states[i]) for i in by_state]
    new_sums = [b.Add(d, found[own[i]]) if own[i] in found else d for i, d in zip(by_captured, d_captured, strict=True)]
    back.outputs = [goes_on, *new_states, *new_sums]
    if not by_state and not by_captured:
        return None
    results = g.Loop(
        trips, None, *last, *sums, *kept,
        body=back, num_carried=len(last) + len(sums), n_outputs=len(last) + len(sums),
    )  # fmt: skip
    pieces: list[Any] = [None] * len(values)
    for i, piece in zip([*by_state, *(num_carried + i for i in by_captured)], results, strict=True):
        pieces[i] = piece
    return None, None, *pieces
