"""IF, WHILE and calls. Subgraphs capture no tensors; variables that they read or assign are extra operands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minnow.converter.control_flow import loop
from minnow.converter.control_flow.variable import View
from minnow.converter.tflite.frontend import frontend as tflite
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import DType, Graph, TensorType, Value
from minnow.schema.ops import Builder


def _inside(value: Value) -> Value | TensorType:
    """What a subgraph knows of an operand: a constant or a resource itself, of others the type."""
    if value.data is not None:
        return Value(value.type, value.name, value.data)
    return value if value.type.layout == "resource" else value.type


def _computed(values: Sequence[Value]) -> list[Value]:
    return [v for v in values if v.data is None and v.type.layout != "resource"]


@tflite.op("CALL", flow=True)
def _(b, *xs, subgraph=0, node):
    return tuple(node.context.inline(subgraph, xs, b.graph))


@tflite.op("STABLEHLO_COMPOSITE", flow=True)
def _(b, *xs, name="", decomposition_subgraph_index=0, composite_attributes=(), composite_attributes_format=0,
      version=0, node):  # fmt: skip
    return tuple(node.context.inline(decomposition_subgraph_index, xs, b.graph))


@tflite.op("IF", flow=True)
def _(b, cond, *xs, then_subgraph_index, else_subgraph_index, node):
    context = node.context
    if cond.data is not None:
        chosen = then_subgraph_index if bool(cond.data.numpy().reshape(-1)[0]) else else_subgraph_index
        return tuple(context.inline(chosen, xs, b.graph))
    branches: list[Graph] = []
    for index, name in ((then_subgraph_index, "then"), (else_subgraph_index, "else")):
        branches.append(context.subgraph(index, [_inside(x) for x in xs], f"{node.name}/{name}"))
    variables = context.variables
    frames: list[View] = [variables.closed[g] for g in branches]
    read = list(dict.fromkeys(k for f in frames for k in (*f.params, *f.assigned)))
    assigned = list(dict.fromkeys(k for f in frames for k in f.assigned))
    before = {k: variables.read(k, _type_of(k, frames)) for k in read}
    for graph, frame in zip(branches, frames, strict=True):
        own = [p for p in graph.params if p not in frame.params.values()]
        params = [frame.params.get(k) or Value(before[k].type, k) for k in read]
        graph.params = [*own, *params]
        now = dict(zip(read, params, strict=True))
        graph.outputs = [*graph.outputs, *(frame.values.get(k) or now[k] for k in assigned)]
    results = len(branches[0].outputs) - len(assigned)
    if len(branches[0].outputs) != len(branches[1].outputs):
        raise ModelError("the branches have different numbers of results")
    made = b.If(cond, *_computed(xs), *before.values(), then_branch=branches[0], else_branch=branches[1],
                n_outputs=len(branches[0].outputs))  # fmt: skip
    for key, value in zip(assigned, made[results:], strict=True):
        variables.assign(key, value)
    return tuple(made[:results])


def _type_of(key: str, frames: Sequence[View]) -> TensorType:
    found = next((f.params[key].type for f in frames if key in f.params), None)
    return found or next(f.values[key].type for f in frames if key in f.values)


@tflite.op("WHILE", flow=True)
def _(b, *xs, cond_subgraph_index, body_subgraph_index, node):
    context = node.context
    source = context.document.subgraphs[body_subgraph_index]
    if not len(xs) == len(source.inputs) == len(source.outputs):
        raise ModelError(
            f"WHILE has {len(xs)} operands, but its body {len(source.inputs)} inputs and {len(source.outputs)} outputs"
        )
    # What the body passes on unchanged is not carried, so that it stays known inside.
    fixed = [x.type.layout == "resource" or i == o for x, i, o in zip(xs, source.inputs, source.outputs, strict=True)]
    carried = [x for x, f in zip(xs, fixed, strict=True) if not f]
    captured = _computed([x for x, f in zip(xs, fixed, strict=True) if f])

    def body(types: list[TensorType]) -> tuple[tuple[Graph, View], list[TensorType]]:
        graph = Graph(f"{node.name}/body")
        graph.add_param(TensorType(DType.I64, ()), "iteration")
        graph.add_param(TensorType(DType.BOOL, ()), "cond")
        around = iter([graph.add_param(t, "") for t in types])
        given = []
        for x, f in zip(xs, fixed, strict=True):
            known = _inside(x) if f else next(around)
            given.append(known if isinstance(known, Value) else graph.add_param(known, x.name))
        with context.variables.inside(graph) as frame:
            after = context.inline(body_subgraph_index, given, graph)
            after = [g if f else a for g, f, a in zip(given, fixed, after, strict=True)]
            (go_on,) = context.inline(cond_subgraph_index, after, graph)
        moved = [a for a, f in zip(after, fixed, strict=True) if not f]
        graph.outputs = [_flag(Builder(graph, origin=b.origin), go_on), *moved]
        return (graph, frame), [v.type for v in moved]

    (graph, frame), _ = loop.settle([x.type for x in carried], body)
    variables = context.variables
    assigned = list(frame.assigned)
    read = [k for k in frame.params if k not in frame.assigned]
    before = {k: variables.read(k, _type_of(k, [frame])) for k in (*assigned, *read)}
    own = [p for p in graph.params if p not in frame.params.values()]
    split = 2 + len(carried)
    states = [frame.params.get(k) or Value(before[k].type, k) for k in assigned]
    for k in assigned:
        if frame.values[k].type.dtype is not before[k].type.dtype:
            raise UnsupportedError(f"a variable ('{k}') whose type changes in a loop is not supported")
    graph.params = [*own[:split], *states, *own[split:], *(frame.params[k] for k in read)]
    graph.outputs = [*graph.outputs, *(frame.values[k] for k in assigned)]
    (first,) = context.inline(cond_subgraph_index, xs, b.graph)
    made = b.Loop(
        None, _flag(b, first), *carried, *(before[k] for k in assigned), *captured, *(before[k] for k in read),
        body=graph, num_carried=len(carried) + len(assigned), n_outputs=len(carried) + len(assigned),
    )  # fmt: skip
    for key, value in zip(assigned, made[len(carried) :], strict=True):
        variables.assign(key, value)
    results = iter(made[: len(carried)])
    return tuple(x if f else next(results) for x, f in zip(xs, fixed, strict=True))


def _flag(b: Builder, cond: Value) -> Value:
    if cond.type.dtype is not DType.BOOL:
        raise ModelError(f"the condition must be one bool, but is {cond.type}")
    return cond if cond.type.shape == () else b.Reshape(cond, np.zeros(0, np.int64))
