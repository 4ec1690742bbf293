"""What the file format can say: asked of the ops' encodings, with no weights read."""

from __future__ import annotations

from typing import Literal

import numpy as np

from minnow.optimizer.facts.limits import limits_of
from minnow.optimizer.facts.limits import name_of as _name
from minnow.schema.errors import Refused
from minnow.schema.ir import ArrayBlob, DType, Graph, Node, Value
from minnow.schema.ops import Trait, get

Target = Literal["mnn", "minnow"]
"""Who is to run the file: any runtime of the format, or Minnow's engine, which runs every op there is."""

# Nothing that decides whether there is a form is as big as this.
_MAX_ELEMENTS = 4096

NATIVE = frozenset({DType.F32, DType.I32, DType.I8, DType.U8, DType.BOOL})
"""What the format's own runtime computes with. It reads weights in f16, too."""

FLOATS = frozenset({DType.F32, DType.F16, DType.BF16})
"""What Minnow's engine computes with f32, and rounds where somebody asks for 16 bits."""


def is_encodable(node: Node) -> bool:
    """The format has a form of its own for this node as it stands; without one only Minnow's engine runs it."""
    op = get(node.op, node.origin)
    if op.mnn is None:
        return False
    inputs = [_light(v) for v in node.inputs]
    if all(new is old for new, old in zip(inputs, node.inputs, strict=True)):
        return op.mnn.encode(node) is not None
    twin = Node(node.op, inputs, node.attrs, [v.type for v in node.outputs])
    try:
        return op.mnn.encode(twin) is not None
    finally:
        for i in range(len(inputs)):
            twin.set_input(i, None)


def _light(value: Value | None) -> Value | None:
    """The value; instead of a big constant one of zeros that takes no memory."""
    if value is None or value.data is None or (value.type.count or 0) <= _MAX_ELEMENTS:
        return value
    zeros = np.broadcast_to(np.zeros((), value.data.dtype.numpy), tuple(value.data.shape))
    return Value(value.type, value.name, ArrayBlob(zeros))


def engine_only(graph: Graph) -> list[str]:
    """Names of the ops, in this graph and those nested in it, that only Minnow's engine can run."""
    return sorted({node.op for g in graph.walk() for node in g if _is_foreign(node)})


def foreign_values(graph: Graph) -> dict[DType, list[Value]]:
    """The values, in this graph and those nested in it, of types that only Minnow's engine computes with."""
    found: dict[DType, list[Value]] = {}
    for g in graph.walk():
        for value in (*g.values(), *(v for v in g.outputs if v.is_const)):
            if value.type.dtype not in NATIVE and not _is_known_otherwise(value):
                found.setdefault(value.type.dtype, []).append(value)
    return found


def rounded_values(graph: Graph) -> list[Value]:
    """The values, in this graph and those nested in it, that only Minnow's engine rounds to 16 bits."""
    return [v for g in graph.walk() for node in g if node.op == "RoundTo" for v in node.outputs]


def foreign_nodes(graph: Graph) -> list[Refused]:
    """The nodes, in this graph and those nested in it, that the format's own runtime cannot run, by reason."""
    found: dict[str, list[str]] = {}
    typed = set()
    for dtype, values in foreign_values(graph).items():
        makers = [v.name if v.producer is None else _name(v.producer) for v in values]
        found[f"there is no {dtype}"] = list(dict.fromkeys(makers))
        typed |= {node for v in values for node in (v.producer, *(n for n, _ in v.uses))}
    for node in (node for g in graph.walk() for node in g):
        if node not in typed and _is_foreign(node):
            found.setdefault(f"{node.op} has no form in the format", []).append(_name(node))
    for reason, nodes in limits_of(graph, always=True).items():
        found[reason] = list(dict.fromkeys(map(_name, nodes)))
    if rounded := rounded_values(graph):
        makers = [v.name if v.producer is None else _name(v.producer) for v in rounded]
        found["it keeps the bits and the range of f32 where f16 has fewer"] = list(dict.fromkeys(makers))
    hints = {f"there is no {DType.I64}": "`--int64 narrow` makes int32 of it"}
    return [Refused(reason, tuple(names), hints.get(reason, "")) for reason, names in sorted(found.items())]


def _is_foreign(node: Node) -> bool:
    return Trait.CONTROL_FLOW not in get(node.op).traits and node.op != "Raw" and not is_encodable(node)


def _is_known_otherwise(value: Value) -> bool:
    """The format's own runtime has it as i32: what is int64 by definition."""
    if value.producer is None or value.type.dtype is not DType.I64:
        return False
    return all(n.op == "Cast" and n.attrs["to"] is DType.I32 for n, _ in value.uses)
