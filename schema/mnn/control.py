"""If and Loop in the file: subgraphs, and how their tensors are tied to the op's inputs and outputs.

If ties by tensor name: `aliases_inputs[i]` lists the subgraph inputs fed by the op's input i, `aliases_outputs[i]` the
two tensors of output i. Loop is a While without a condition graph and ties by position; there the captured values are
carried too, unchanged, and stand between the carried and the stacked outputs. Fused has the generic encoding, which
names its body.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from minnow.schema.errors import FormatError
from minnow.schema.ir import DType, Graph, Node, TensorType, Value
from minnow.schema.mnn.attribute import ENGINE, encode_attributes
from minnow.schema.ops import Builder
from minnow.schema.registry.op import WireOp

ENDLESS = 2**30
"""Trip count of a loop that only its condition ends."""


class _File(Protocol):
    scanned: list[tuple[str, TensorType]]

    def subgraph(self, graph: Graph, outputs: Sequence[Value] | None = None) -> tuple[str, list[str], list[str]]: ...


def _encode_if(node: Node, file: _File) -> WireOp:
    then_name, then_in, then_out = file.subgraph(node.attrs["then_branch"])
    else_name, else_in, else_out = file.subgraph(node.attrs["else_branch"])
    main = {
        "then_graph": then_name,
        "else_graph": else_name,
        "aliases_inputs": [{"data": []}, *({"data": [t, e]} for t, e in zip(then_in, else_in, strict=True))],
        "aliases_outputs": [{"data": [t, e]} for t, e in zip(then_out, else_out, strict=True)],
    }
    return WireOp("If", "IfParam", main, node.inputs, len(node.outputs), "NCHW")


def _encode_loop(node: Node, file: _File) -> WireOp:
    body: Graph = node.attrs["body"]
    carried = node.attrs["num_carried"]
    captured = body.params[2 + carried :]
    results = body.outputs
    name, _, names = file.subgraph(body, [*results[: 1 + carried], *captured, *results[1 + carried :]])
    # The format has no place for the types of results, which are those of a loop that runs no round.
    scanned = zip(names[1 + carried + len(captured) :], results[1 + carried :], strict=True)
    file.scanned += [(n, v.type) for n, v in scanned if v.type.shape is not None]
    trip, cond, *rest = (*node.inputs, None, None)[: max(len(node.inputs), 2)]
    inputs = [np.int32(ENDLESS) if trip is None else trip, np.int32(1) if cond is None else cond, *rest]
    n = len(node.outputs)
    order = [*range(carried), *range(n, n + len(captured)), *range(carried, n)]
    main = {"body_graph": name}
    return WireOp("While", "WhileParam", main, inputs, n + len(captured), "NCHW", order)


def _encode_fused(node: Node, file: _File) -> WireOp:
    name, _, _ = file.subgraph(node.attrs["body"])
    attrs = encode_attributes({"body": Graph(name)})
    extra = {"type": node.op, "engine": ENGINE, "attr": attrs}
    return WireOp("Extra", "Extra", extra, node.inputs, len(node.outputs), "NCHW")


CONTROL: dict[str, Callable[[Node, Any], WireOp]] = {
    "If": _encode_if,
    "Loop": _encode_loop,
    "Fused": _encode_fused,
}
"""Encoders of the ops with subgraphs, which need the file that is being written."""


class Subgraph(Protocol):
    """A subgraph of the file, decoded."""

    graph: Graph
    inputs: list[str]
    outputs: list[str]


Subgraphs = Mapping[str, Subgraph]


def decode_if(wire: WireOp, subgraphs: Subgraphs) -> tuple[list[Any], dict[str, Any]]:
    """Inputs and attributes of an If. Raises FormatError when names do not tie up."""
    if not wire.inputs or any(v is None for v in wire.inputs):
        raise FormatError("the If has no condition, or an input is missing")
    aliases = wire.field("aliases_inputs", [])[: len(wire.inputs)]
    branches = []
    fed: list[list[int]] = []
    for k, field in enumerate(("then_graph", "else_graph")):
        sub = _subgraph(wire.field(field), subgraphs)
        sources = {n: i for i, alias in enumerate(aliases) for n in alias.get("data", [])}
        if missing := [n for n in sub.inputs if n not in sources]:
            raise FormatError(f"no input of the If feeds '{missing[0]}' of its subgraph '{wire.field(field)}'")
        fed.append([sources[n] for n in sub.inputs])
        wanted = [
            alias.get("data", [])[k] for alias in wire.field("aliases_outputs", []) if len(alias.get("data", [])) == 2
        ]
        places = {name: i for i, name in reversed(list(enumerate(sub.outputs)))}
        if any(n not in places for n in wanted):
            raise FormatError(f"the If takes results from '{wire.field(field)}' that it does not give")
        graph = sub.graph.clone()
        results = graph.outputs
        graph.outputs = [results[places[n]] for n in wanted]
        branches.append(graph)
    captured = [i for i in range(len(wire.inputs)) if i in fed[0] or i in fed[1]]
    for graph, sources_of in zip(branches, fed, strict=True):
        _align(graph, sources_of, captured, wire.inputs)
    return [wire.inputs[0], *(wire.inputs[i] for i in captured)], {
        "then_branch": branches[0],
        "else_branch": branches[1],
    }


def _align(graph: Graph, sources: list[int], captured: list[int], inputs: Sequence[Value | None]) -> None:
    """Gives a branch one parameter per captured value, in order; a value it does not read gets an idle one."""
    params = []
    for i in captured:
        mine = [p for p, s in zip(graph.params, sources, strict=True) if s == i]
        if not mine:
            value = inputs[i]
            assert value is not None
            mine = [Value(value.type, value.name)]
        for twin in mine[1:]:
            twin.replace_all_uses(mine[0])
        params.append(mine[0])
    graph.params = params


@dataclass
class ConditionalLoop:
    """A While of TensorFlow: a graph says before each round whether there is one.

    Attributes:
        body: the body of a Loop: the result that says whether it goes on comes from a copy of the condition.
        condition: the condition. first: what it reads before the first round, one for each of its parameters.
        values: what is carried from round to round, before the first one.
        results: for each output of the op its number among these.
    """

    body: Graph
    condition: Graph
    first: list[Any]
    values: list[Any]
    results: list[int]


def decode_conditional(wire: WireOp, subgraphs: Subgraphs) -> ConditionalLoop:
    """Ties the tensors of a While with a condition graph, by their names. Raises FormatError when they do not fit."""
    sub, test = (_subgraph(wire.field(field), subgraphs) for field in ("body_graph", "cond_graph"))
    sources: dict[str, int] = {}
    for i, alias in enumerate(wire.field("aliases_inputs", [])[: len(wire.inputs)]):
        for name in alias.get("data", []):
            sources.setdefault(name, i)
    names = list(sources)
    if missing := [n for n in (*sub.inputs, *test.inputs) if n not in sources]:
        raise FormatError(f"nothing feeds '{missing[0]}' of the subgraphs of the While")
    body = sub.graph.clone()
    places = {name: i for i, name in reversed(list(enumerate(sub.outputs)))}
    inner = dict(zip(sub.inputs, body.params, strict=True))
    made = body.outputs
    params = [Value(TensorType(DType.I64, ())), Value(TensorType(DType.BOOL, ()))]
    params += [inner.get(name) or Value(_type_of(wire.inputs[sources[name]]), name) for name in names]
    now = dict(zip(names, params[2:], strict=True))
    later, updated = dict(now), {}
    for alias in wire.field("aliases_updates", []):
        made_by, name = [*alias.get("data", []), "", ""][:2]
        updated[made_by] = name
        if name not in now or (made_by not in places and made_by != name):
            raise FormatError(f"the While takes '{made_by}' for '{name}' in the next round, which it does not have")
        if made_by in places:
            later[name] = made[places[made_by]]
    body.params = params
    check = test.graph.clone()
    body.outputs = list(later.values())
    goes_on = body.absorb(check, dict(zip(check.params, (later[n] for n in test.inputs), strict=True)))[0]
    if goes_on.type.dtype is not DType.BOOL:
        goes_on = Builder(body).Cast(goes_on, to=DType.BOOL)
    body.outputs = [goes_on, *later.values()]
    results = [updated.get(n, n) if n not in now else n for n in wire.field("aliases_outputs", [])]
    if unknown := [n for n in results if n not in now]:
        raise FormatError(f"the While gives '{unknown[0]}', which it does not carry")
    values = [wire.inputs[sources[n]] for n in names]
    first = [wire.inputs[sources[n]] for n in test.inputs]
    return ConditionalLoop(body, test.graph, first, values, [names.index(n) for n in results])


def _type_of(value: Any) -> TensorType:
    return value.type if isinstance(value, Value) else TensorType(DType.F32)


def decode_loop(wire: WireOp, subgraphs: Subgraphs) -> tuple[list[Any], dict[str, Any], list[int]]:
    """Inputs and attributes of a Loop, and which of the op's outputs are the node's.

    Raises:
        FormatError: its subgraph does not fit.
    """
    graph = _subgraph(wire.field("body_graph"), subgraphs).graph.clone()
    state = len(graph.params) - 2
    results = graph.outputs
    if state < 0 or len(results) < 1 + state or len(wire.inputs) != state + 2:
        raise FormatError(f"the body '{wire.field('body_graph')}' of the While does not fit its inputs and outputs")
    carried = state
    # Values passed through at the end of the state are captured, not carried.
    while carried and results[carried] is graph.params[1 + carried]:
        carried -= 1
    graph.outputs = [*results[: 1 + carried], *results[1 + state :]]
    trip, cond, *rest = wire.inputs
    kept = [*range(carried), *range(state, wire.n_outputs)]
    if cond is not None and cond.data is not None and cond.type.dtype.is_int and cond.data.numpy().all():
        cond = None  # what is written for a loop that goes on
    return [trip, cond, *rest], {"body": graph, "num_carried": carried}, kept


def _subgraph(name: Any, subgraphs: Subgraphs) -> Subgraph:
    if name not in subgraphs:
        raise FormatError(
            f"there is no subgraph '{name}'", hint="subgraphs stand in the file before those that use them"
        )
    return subgraphs[name]
