"""If and Loop in the file: subgraphs, and how their tensors are tied to the op's inputs and outputs.

If ties by tensor name: `aliases_inputs[i]` lists the subgraph inputs fed by the op's input i, `aliases_outputs[i]` the
two tensors of output i. Loop is a While without a condition graph and ties by position; there the captured values are
carried too, unchanged, and stand between the carried and the stacked outputs. Fused has the generic encoding, which
names its body.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from minnow.schema.errors import FormatError
from minnow.schema.ir import Graph, Node, TensorType, Value
from minnow.schema.mnn.attribute import ENGINE, encode_attributes
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
    branches = []
    fed: list[list[int]] = []
    for k, field in enumerate(("then_graph", "else_graph")):
        sub = _subgraph(wire.field(field), subgraphs)
        sources = {n: i for i, alias in enumerate(wire.field("aliases_inputs", [])) for n in alias.get("data", [])}
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
    captured = [i for i in range(1, len(wire.inputs)) if i in fed[0] or i in fed[1]]
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


def decode_loop(wire: WireOp, subgraphs: Subgraphs) -> tuple[list[Any], dict[str, Any], list[int]]:
    """Inputs and attributes of a Loop, and which of the op's outputs are the node's.

    Raises:
        FormatError: the While has a condition graph, or its subgraph does not fit.
    """
    if wire.field("cond_graph"):
        raise FormatError("a While with a condition graph is not a Loop", why="only the ONNX form is read")
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
