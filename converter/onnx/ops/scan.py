"""Scan as a Loop whose body takes a slice of each scan input; before opset 9 with a batch axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minnow.converter.onnx.frontend import frontend as onnx
from minnow.converter.onnx.ops.control_flow import stable_body
from minnow.converter.operand import rank
from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, Graph, TensorType, Value
from minnow.schema.ops import Builder
from minnow.schema.registry.dimension import agree, axis_of

_STEP, _GO = TensorType(DType.I64, ()), TensorType(DType.BOOL, ())


@dataclass
class _Body:
    """The translated body, and how it is called.

    Attributes:
        graph: parameters: states, slices, captured values.
        captured: what it captures.
        axes, backward: per scan input: along which axis, and whether from its end.
    """

    name: str
    graph: Graph
    captured: list[Value]
    axes: Sequence[int]
    backward: Sequence[bool]


def _states(operands: Sequence[Value], scanned: int) -> int:
    """How many operands of a Scan are states, which come before those that it scans."""
    if not 0 < scanned <= len(operands):
        raise ModelError(f"Scan has {len(operands)} operands, of which it should scan {scanned}")
    return len(operands) - scanned


@onnx.op("Scan", since=9)
def _(b: Builder, *operands, body, num_scan_inputs, scan_input_axes=(), scan_input_directions=(), scan_output_axes=(),
      scan_output_directions=(), node):  # fmt: skip
    n_states = _states(operands, num_scan_inputs)
    states, scans = operands[:n_states], operands[n_states:]
    axes = [_axis(a, v.type) for a, v in zip(scan_input_axes or (0,) * len(scans), scans, strict=True)]
    slices = [_without(v.type, axis) for v, axis in zip(scans, axes, strict=True)]
    graph, captured = stable_body(node, body, (), [v.type for v in states], slices, 0)
    lengths = [v.type.shape[a] for v, a in zip(scans, axes, strict=True) if v.type.shape is not None]
    inner = _Body(node.name, graph, captured, axes, _directions(scan_input_directions, scans))
    trip = _dimension(b, scans[0], axes[0], agree(lengths, "the scan inputs"))
    made = _loop(b, inner, states, scans, captured, trip)
    outs = list(made[: len(states)])
    for i, v in enumerate(made[len(states) :]):
        if scan_output_directions and scan_output_directions[i]:
            v = b.Reverse(v, axes=(0,))
        if scan_output_axes and scan_output_axes[i] != 0:
            n = rank(v, "what Scan stacks along an axis other than the first")
            perm = list(range(1, n))
            perm.insert(axis_of(scan_output_axes[i], n), 0)
            v = b.Transpose(v, perm=tuple(perm))
        outs.append(v)
    return tuple(outs)


@onnx.op("Scan", until=8)
def _(b: Builder, lens, *operands, body, directions=(), num_scan_inputs, node):
    """Samples share nothing: a loop over them, whose body is a Scan of one; what is shorter is filled up with zeros."""
    n_states = _states(operands, num_scan_inputs)
    samples = [_without(v.type, 0) for v in operands]
    slices = [_without(t, 0) for t in samples[n_states:]]
    graph, captured = stable_body(node, body, (), samples[:n_states], slices, 0)
    inner = _Body(node.name, graph, captured, (0,) * num_scan_inputs, _directions(directions, slices))
    first = operands[n_states]
    longest = agree([v.type.shape[1] for v in operands[n_states:] if v.type.rank], "the scan inputs")

    outer = Graph(f"{node.name}/samples")
    at = outer.add_param(_STEP, "sample")
    outer.add_param(_GO, "cond")
    given = [*operands, *([] if lens is None else [lens]), *captured]
    inside = [outer.add_param(v.type, v.name) for v in given]
    ob = Builder(outer, origin=b.origin)
    one = [ob.Gather(v, at, axis=0) for v in inside[: len(operands)]]
    whole = _dimension(ob, one[n_states], 0, longest)
    trip = whole if lens is None else ob.Cast(ob.Gather(inside[len(operands)], at, axis=0), to=DType.I64)
    made = _loop(ob, inner, one[:n_states], one[n_states:], inside[len(given) - len(captured) :], trip)
    if lens is not None:
        made[n_states:] = [_filled(ob, v, ob.Sub(whole, trip)) for v in made[n_states:]]
    outer.outputs = [ob.const(np.array(True)), *made]
    batch = _dimension(b, first, 0, agree([v.type.shape[0] for v in operands if v.type.rank], "the batch of Scan"))
    return tuple(b.Loop(batch, None, *given, body=outer, num_carried=0, n_outputs=len(made)))


def _loop(
    b: Builder, inner: _Body, states: Sequence[Value], scans: Sequence[Value], captured: Sequence[Value], trip: Any
) -> list[Value]:
    """The last states, and what is scanned, stacked along a new first axis."""
    graph = Graph(f"{inner.name}/body")
    step = graph.add_param(_STEP, "step")
    graph.add_param(_GO, "cond")
    own = inner.graph.params
    table: dict[Value, Value] = {p: graph.add_param(p.type, p.name) for p in own[: len(states)]}
    outside = [graph.add_param(v.type, v.name or f"scan{i}") for i, v in enumerate(scans)]
    table |= {p: graph.add_param(p.type, p.name) for p in own[len(states) + len(scans) :]}
    body = Builder(graph, origin=b.origin)
    more: list[Value] = []
    back: Value | None = None
    if any(inner.backward):
        last = trip
        if isinstance(trip, Value) and not trip.is_const:
            more, last = [trip], graph.add_param(trip.type, "length")
        back = body.Sub(body.Sub(last, 1), step)
    rows = zip(own[len(states) :], outside, inner.axes, inner.backward, strict=False)
    for p, v, axis, backward in rows:
        table[p] = body.Gather(v, back if backward else step, axis=axis)
    graph.outputs = [body.const(np.array(True)), *graph.absorb(inner.graph, table)]
    made = b.Loop(trip, None, *states, *scans, *captured, *more, body=graph, num_carried=len(states),
                  n_outputs=len(graph.outputs) - 1)  # fmt: skip
    return list(made)


def _filled(b: Builder, v: Value, missing: Value) -> Value:
    """With that many more slices of zeros at the end."""
    n = rank(v, "what Scan with sequence_lens stacks")
    pads = [np.zeros(1, np.int64), b.Reshape(missing, np.array([1])), np.zeros(2 * n - 2, np.int64)]
    return b.Pad(v, b.Concat(*pads, axis=0))


def _dimension(b: Builder, v: Value, axis: int, known: Any) -> Any:
    """A dimension as an int64 scalar."""
    return np.array(known, np.int64) if isinstance(known, int) else b.Gather(b.Shape(v), np.array(axis), axis=0)


def _axis(axis: int, type: TensorType) -> int:
    return axis if type.rank is None else axis_of(axis, type.rank)


def _without(type: TensorType, axis: int) -> TensorType:
    """The type of one slice."""
    if type.shape is None:
        return type
    if not type.shape:
        raise ModelError(f"an input of the type {type} has no axis to scan along")
    return type.with_shape(d for i, d in enumerate(type.shape) if i != axis)


def _directions(given: Sequence[int], scans: Sequence[Any]) -> list[bool]:
    return [bool(d) for d in given or (0,) * len(scans)]
