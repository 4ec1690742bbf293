"""Ops with subgraphs. A subgraph is closed: what it captures is an operand, and a parameter of it."""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np

from minnow.schema.errors import ModelError
from minnow.schema.ir import UNKNOWN, DType, Graph, TensorType, Value
from minnow.schema.ir.type import Shape, join_types
from minnow.schema.registry.dimension import scalar
from minnow.schema.registry.op import Arg, Bool, Sizes, T, Trait, op

Array = np.ndarray[Any, Any]
CONTROL_FLOW = frozenset({Trait.CONTROL_FLOW, Trait.HOLDERS})


@op(traits=CONTROL_FLOW, outputs=None)
def If(cond: Bool, *captured: T, then_branch: Graph, else_branch: Graph):
    """The outputs of one of two graphs, of the same number and types. Their parameters are the captured operands."""
    from minnow.schema.registry.interpreter import evaluate

    return tuple(evaluate(then_branch if np.reshape(cond, ()) else else_branch, list(captured)))


@op(traits=CONTROL_FLOW, outputs=None)
def Loop(trip_count: Sizes | None = None, cond: Bool | None = None, *values: T, body: Graph, num_carried: int):
    """Runs `body` at most `trip_count` times (none: no limit), and only while `cond` (none: true) holds.

    The first `num_carried` values go around: body parameters are (iteration, cond, carried..., captured...), its
    outputs (cond, carried..., scanned...). The loop's outputs are the last carried values, and of each scanned output
    all values stacked along a new first axis.
    """
    from minnow.schema.registry.interpreter import evaluate

    carried, captured = list(values[:num_carried]), list(values[num_carried:])
    limit = None if trip_count is None else int(np.reshape(trip_count, ()))
    go_on = True if cond is None else bool(np.reshape(cond, ()))
    rows: list[list[Array]] = [[] for _ in body.outputs[1 + num_carried :]]
    for i in count():
        if not go_on or (limit is not None and i >= limit):
            break
        first = [_of(body.params[0], i), _of(body.params[1], True)]
        out = list(evaluate(body, [*first, *carried, *captured]))
        go_on, carried = bool(np.reshape(out[0], ())), out[1 : 1 + num_carried]
        for row, value in zip(rows, out[1 + num_carried :], strict=True):
            row.append(np.asarray(value))
    types = (v.type for v in body.outputs[1 + num_carried :])
    return (*carried, *(np.stack(row) if row else _nothing(t) for row, t in zip(rows, types, strict=True)))


def _of(param: Value, number: Any) -> Array:
    """A number in the type and the rank, 0 or 1, of the parameter."""
    return np.full((1,) * (param.type.rank or 0), number, param.type.dtype.numpy)


def _nothing(type: TensorType) -> Array:
    """What a scanned output of that type is when the loop has not run once; unknown dimensions are 0."""
    return np.zeros((0, *(d if isinstance(d, int) else 0 for d in type.shape or ())), type.dtype.numpy)


def _one(arg: Arg | None, what: str) -> None:
    if arg is not None and arg.type.count not in (1, None):
        raise ModelError(f"{what} is {arg.type}, not one element")


def _fits(graph: Graph, args: list[Arg | None], what: str) -> None:
    """ModelError unless the graph can be called with these operands."""
    if len(graph.params) != len(args):
        raise ModelError(f"{what} '{graph.name}' has {len(graph.params)} parameters, not {len(args)}")
    for param, arg in zip(graph.params, args, strict=True):
        if arg is not None and arg.dtype != param.type.dtype:
            raise ModelError(f"{what} '{graph.name}' takes {param!r}, the operand is {arg.dtype}")


@If.shape
def _(cond: Arg, *captured: Arg, then_branch: Graph, else_branch: Graph) -> tuple[TensorType, ...]:
    _one(cond, "cond")
    branches = (then_branch, else_branch)
    for branch in branches:
        _fits(branch, list(captured), "the branch")
    first, second = ([v.type for v in b.outputs] for b in branches)
    if [t.dtype for t in first] != [t.dtype for t in second]:
        raise ModelError("the branches have different outputs", why=f"{first} and {second}")
    if cond.value is not None:
        return tuple(first if np.reshape(cond.value, ()) else second)
    # A branch that can only fail says nothing about what comes out.
    fails = [[v.producer is not None and v.producer.op == "Fail" for v in b.outputs] for b in branches]
    pairs = zip(first, second, *fails, strict=True)
    return tuple(b if f else a if g else join_types(a, b) for a, b, f, g in pairs)


@Loop.shape
def _(trip_count: Arg | None, cond: Arg | None, *values: Arg, body: Graph, num_carried: int) -> tuple[TensorType, ...]:
    _one(trip_count, "trip_count")
    _one(cond, "cond")
    if not 0 <= num_carried <= min(len(values), len(body.outputs) - 1):
        raise ModelError(f"num_carried is {num_carried}", why=f"{len(values)} values, {len(body.outputs)} body outputs")
    _fits(body, [None, None, *values], "the body")
    after = [v.type for v in body.outputs]
    if after[0].dtype is not DType.BOOL:
        raise ModelError(f"the first output of the body '{body.name}' is {after[0]}, not bool")
    out = []
    for i, (before, type) in enumerate(zip(values[:num_carried], after[1:], strict=False)):
        if before.dtype != type.dtype:
            raise ModelError(f"carried value {i} goes into the body as {before.dtype} and comes out as {type.dtype}")
        out.append(join_types(type, before.type))
    trips = _trips(trip_count, cond, body)
    for type in after[1 + num_carried :]:
        shape: Shape | None = None if type.shape is None else (trips, *type.shape)
        out.append(type.with_shape(shape))
    return tuple(out)


def _trips(trip_count: Arg | None, cond: Arg | None, body: Graph) -> Any:
    """How often the body runs, when that is known: its condition must be one that cannot turn false."""
    limit = scalar(trip_count)
    goes_on = body.outputs[0]
    endless = goes_on is body.params[1] or bool(goes_on.is_const and np.all(goes_on.array))
    starts = cond is None or (cond.value is not None and bool(np.all(cond.value)))
    return max(limit, 0) if limit is not None and endless and starts else UNKNOWN


@op()
def Fail(*, message: str, to: DType = DType.F32):
    """Ends the run with a ModelError: what stands in a branch that is no valid model, in case it is ever taken."""
    raise ModelError(message)


@Fail.shape
def _(message: str, to: DType) -> TensorType:
    return TensorType(to)


# ---- samples -----------------------------------------------------------------------------------------------------


def _graph(name: str, types: list[TensorType]) -> tuple[Graph, Any]:
    from minnow.schema.registry.builder import Builder

    graph = Graph(name)
    for i, type in enumerate(types):
        graph.add_param(type, f"p{i}")
    return graph, Builder(graph)


@If.samples
def _(rng):
    vector = TensorType(DType.F32, (3,))
    then, b = _graph("then", [vector, vector])
    then.outputs = [b.Add(*then.params), then.params[0]]
    other, b = _graph("else", [vector, vector])
    other.outputs = [b.Sub(*other.params), other.params[1]]
    for cond in (True, False):
        yield (np.array(cond), (3,), (3,)), {"then_branch": then, "else_branch": other}, 2
    yield (np.array([True]), (3,), (3,)), {"then_branch": other, "else_branch": then}, 2


@Loop.samples
def _(rng):
    scalars = [TensorType(DType.I64, ()), TensorType(DType.BOOL, ())]
    vector = TensorType(DType.F32, (3,))
    body, b = _graph("body", [*scalars, vector, vector])
    _, cond, state, step = body.params
    new = b.Add(state, step)
    body.outputs = [cond, new, b.Mul(new, new)]
    trips = [np.array(n, np.int64) for n in (4, 1, 0)]
    for n in trips:
        yield (n, None, (3,), (3,)), {"body": body, "num_carried": 1}, 2
    yield (trips[0], np.array(False), (3,), (3,)), {"body": body, "num_carried": 1}, 2
    stops, b = _graph("stops", [*scalars, TensorType(DType.I64, ())])
    i, _, total = stops.params
    total = b.Add(total, i)
    stops.outputs = [b.Less(total, np.array(10, np.int64)), total, i]
    limits: list[Any] = [(None, True), (trips[0], True), (np.array(99, np.int64), True), (None, False)]
    for n, start in limits:
        yield (n, np.array(start), np.array(1, np.int64)), {"body": stops, "num_carried": 1}, 2
