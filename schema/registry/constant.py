"""Constants that a model would have computed of nothing: how large they may be."""

from __future__ import annotations

from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import Graph, Model, Node, Value
from minnow.schema.limit import LIMITS, Limits
from minnow.schema.registry.op import Trait, get


def check_constants(model: Model, file_bytes: int, limits: Limits = LIMITS) -> None:
    """Refuses a model that computes something of constants only which no program should have to hold.

    Such a value has one content, which the file could store. Joined with itself a few times, it takes more memory than
    any machine has: in this process, in the one that the model is compared with, and in every session.

    Args:
        file_bytes: of the model's file, which the limit grows with.

    Raises:
        UnsupportedError: a value is larger than the limit.
    """
    most = max(limits.constant_bytes, limits.constant_per_byte * file_bytes)
    for graph in model.graph.walk():
        _check(graph, most, file_bytes, limits)


def _check(graph: Graph, most: int, file_bytes: int, limits: Limits) -> None:
    known = set[Value]()
    for node in graph:
        constant = _is_fixed(node, known)
        for value in node.outputs:
            if constant:
                known.add(value)
            count = value.type.count or 0
            if count > limits.elements or (constant and count * value.type.dtype.size > most):
                raise UnsupportedError(
                    "the model computes a tensor that is too large",
                    where=node.origin or value.name,
                    why=f"{value.type} takes {count * value.type.dtype.size:,} bytes"
                    + (f", computed from constants alone, in a file of {file_bytes:,} bytes" if constant else ""),
                    hint="store the constant in the file, or make it smaller",
                )


def _is_fixed(node: Node, known: set[Value]) -> bool:
    if node.subgraphs or Trait.RANDOM in get(node.op).traits:
        return False
    return all(v is None or v.is_const or v in known for v in node.inputs)
