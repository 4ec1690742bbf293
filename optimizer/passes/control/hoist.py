"""Nodes of loops and branches that are computed outside: copies of them, and whether that does no harm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress

from minnow.optimizer.facts.equal import node_key
from minnow.optimizer.layout.cut import bytes_of
from minnow.schema.errors import ModelError
from minnow.schema.ir import UNKNOWN, Node, Value
from minnow.schema.ir.type import same_dim
from minnow.schema.ops import Trait, get, infer_node

_GROWTH = 4
"""What is this many times larger than what it is made of is made anew in each round rather than kept."""

_NOT_MOVED = frozenset({Trait.CONTROL_FLOW, Trait.DATA_DEPENDENT, Trait.RANDOM})


def copied(inner: Node, table: Mapping[Value, Value | None], origin: str) -> Node:
    """A node of a body for outside of it. Its types are inferred anew: those inside are what the body makes of them."""
    operands = [v if v is None else table.get(v, v) for v in inner.inputs]
    types = [v.type.with_shape(None) for v in inner.outputs]
    new = Node(inner.op, operands, inner.attrs, types, [v.name for v in inner.outputs], inner.origin or origin)
    with suppress(ModelError):  # a run ends with an error
        for value, type in zip(new.outputs, infer_node(new), strict=True):
            value.type = value.type.with_shape(type.shape)
    return new


def is_pure(node: Node) -> bool:
    """It gives the same results whenever it is computed, and holds no graphs and no sequences."""
    values = [v for v in (*node.inputs, *node.outputs) if v is not None]
    return (
        not get(node.op).traits & _NOT_MOVED
        and node_key(node) is not None
        and not any(v.type.holds_tensors for v in values)
    )


def _keeps_shape(node: Node) -> bool:
    """It computes with one tensor, and with numbers, so that no shapes have to match."""
    return Trait.ELEMENTWISE in get(node.op).traits and sum(v is not None and v.type.rank != 0 for v in node.inputs) < 2


def is_much_larger(node: Node) -> bool:
    """The results may be much larger than what they are made of; each dynamic dimension must be one of an operand."""
    given = [v for v in node.inputs if v is not None]
    if _keeps_shape(node):
        return False
    dynamic_dimensions = [Counter(d for d in v.type.shape or () if isinstance(d, str)) for v in given]
    for value in node.outputs:
        names = Counter(d for d in value.type.shape or (UNKNOWN,) if isinstance(d, str))
        if UNKNOWN in names or (names and not any(names <= own for own in dynamic_dimensions)):
            return True
    return sum(map(bytes_of, node.outputs)) > _GROWTH * sum(map(bytes_of, given))


def cannot_fail(node: Node) -> bool:
    """No value of an operand and no dimension can cause an error at run time."""
    given = [v for v in node.inputs if v is not None]
    if any(v.type.dtype.is_int for v in node.outputs) and Trait.TOTAL not in get(node.op).traits:
        return False  # integers can be divided by zero
    if Trait.ELEMENTWISE in get(node.op).traits:
        return _keeps_shape(node) or all(_fits(v, node.outputs[0]) for v in given)
    # Positions and sizes, which can cause errors, are integers.
    known = all(v.type.is_static and v.type.count for v in (*given, *node.outputs))
    return known and not any(v.type.dtype.is_int for v in given)


def _fits(operand: Value, result: Value) -> bool:
    """The operand is broadcast to the shape of the result whatever the dynamic dimensions are."""
    own, whole = operand.type.shape, result.type.shape
    if own is None or whole is None or len(own) > len(whole):
        return False
    return all(a == 1 or same_dim(a, b) for a, b in zip(reversed(own), reversed(whole), strict=False))
