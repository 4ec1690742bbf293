"""If and Loop. Captured values become explicit operands, so that subgraphs are closed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minnow.converter.control_flow.capture import merge_captures
from minnow.converter.control_flow.loop import settle
from minnow.converter.onnx.frontend import frontend as onnx
from minnow.converter.onnx.ops.sequence import at, wrap_optionals
from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, Graph, TensorType, Value
from minnow.schema.ops import Builder


@onnx.op("If")
def _(b, cond, *, then_branch, else_branch, node):
    if cond.data is not None:
        # A constant condition leaves one branch, which moves into the graph around it.
        chosen = then_branch if bool(cond.data.numpy().reshape(-1)[0]) else else_branch
        return tuple(node.context.inline(chosen))
    (then_graph, then_captured), (else_graph, else_captured) = _branches(node, then_branch, else_branch)
    captured = merge_captures([(then_graph, then_captured, 0), (else_graph, else_captured, 0)])
    then_graph.name, else_graph.name = f"{node.name}/then", f"{node.name}/else"
    for mine, other in zip(then_graph.outputs, else_graph.outputs, strict=True):
        if mine.type.dtype is not other.type.dtype:
            raise ModelError(f"the branches give different element types, {mine.type.dtype} and {other.type.dtype}")
    return b.If(cond, *captured, then_branch=then_graph, else_branch=else_graph, n_outputs=node.n_outputs)


def _branches(node: Any, *protos: Any) -> list[tuple[Graph, list[Value]]]:
    """Both branches of an If. One may be invalid for the shapes known now: an error only if it is taken."""
    made: list[Any] = []
    for proto in protos:
        try:
            made.append(node.context.subgraph(proto, ()))
        except ModelError as e:
            made.append(e)
    errors = [m for m in made if isinstance(m, ModelError)]
    valid = next((m[0].outputs for m in made if not isinstance(m, ModelError)), ())
    if len(errors) == len(made) or (errors and any(v.type.holds_tensors for v in valid)):
        raise errors[0]
    return [_failing(m, valid) if isinstance(m, ModelError) else m for m in made]


def _failing(error: ModelError, outputs: Sequence[Value]) -> tuple[Graph, list[Value]]:
    """A branch that fails with the error that its translation had."""
    graph = Graph()
    message = f"this branch of an If is invalid: {' '.join(str(error).split())}"
    b = Builder(graph, origin=error.where)
    graph.outputs = [b.Fail(message=message, to=v.type.dtype) for v in outputs]
    return graph, []


@onnx.op("Loop")
def _(b, trip, cond=None, *carried, body, node):
    types = [TensorType(DType.I64, ()), TensorType(DType.BOOL, ())]
    graph, captured = stable_body(node, body, types, [v.type for v in carried], (), 1)
    wrapped = wrap_optionals(graph, carried)
    if any(v.type.holds_tensors for v in graph.outputs[1 + len(carried) :]):
        raise ModelError("a scan output of a loop must be a tensor; a sequence can only be carried from round to round")
    graph.name = f"{node.name}/body"
    n_outputs = max(node.n_outputs, len(graph.outputs) - 1)
    trip = b.Reshape(trip, np.zeros(0, np.int64)) if trip is not None and trip.type.shape != () else trip
    made = b.Loop(trip, cond, *carried, *captured, body=graph, num_carried=len(carried), n_outputs=n_outputs)
    return tuple(
        at(b, v, np.array(0, np.int64), "the result of a loop") if i in wrapped else v for i, v in enumerate(made)
    )


def stable_body(
    node: Any, body: Any, lead: Sequence[TensorType], carried: list[TensorType], tail: Sequence[TensorType], first: int
) -> tuple[Graph, list[Value]]:
    """Translates a body until the shapes of the carried values hold for every iteration, not only the first.

    Its parameters are `lead`, the carried values and `tail`; from output `first` on it gives the new carried values.
    """

    def translate(types: list[TensorType]) -> tuple[tuple[Graph, list[Value]], list[TensorType]]:
        graph, captured = node.context.subgraph(body, [*lead, *types, *tail])
        return (graph, captured), [v.type for v in graph.outputs[first : first + len(types)]]

    return settle(carried, translate)[0]
