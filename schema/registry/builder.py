"""Builds nodes: checks attributes, infers types, inserts. Frontends and rewrites make every node through it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import is_
from typing import Any

import numpy as np

from minnow.schema.errors import ModelError
from minnow.schema.ir import Graph, Node, TensorType, Value
from minnow.schema.registry.op import Arg, Op, get

# Contents of bigger constants are not looked at during type inference: nothing that shapes a tensor is that big.
_MAX_SHAPE_CONTENTS = 4096


class Builder:
    """`b.Conv(x, w, strides=(2, 2), ...)` makes a node at the insertion point and gives its output value.

    Operands may be Values, None, or anything numpy understands (which becomes a constant; python ints and floats take
    the dtype of the first Value operand). Ops with several outputs give a tuple.

    Args:
        graph: where nodes go.
        before: insertion point; None appends.
        origin: recorded on each node.
    """

    def __init__(self, graph: Graph, before: Node | None = None, origin: str = "") -> None:
        self.graph = graph
        self.before = before
        self.origin = origin
        self.made: list[Node] = []

    def __getattr__(self, name: str) -> Any:
        if not name[:1].isupper():
            raise AttributeError(name)
        op = get(name, self.origin)

        def make(*operands: Any, n_outputs: int | None = None, names: Sequence[str] = (), **attrs: Any) -> Any:
            node = self.node(op, operands, attrs, n_outputs, names)
            return node.outputs[0] if n_outputs is None and op.outputs == 1 else node.outputs

        return make

    def node(
        self,
        op: Op | str,
        operands: Sequence[Any],
        attrs: Mapping[str, Any],
        n_outputs: int | None = None,
        names: Sequence[str] = (),
        types: Sequence[TensorType] | None = None,
    ) -> Node:
        """The general form of `b.Name(...)`; `types` skips inference.

        Raises:
            ModelError: operands or attributes do not fit the op; `where` names the origin.
        """
        if isinstance(op, str):
            op = get(op, self.origin)
        like = next((v.type.dtype for v in operands if isinstance(v, Value)), None)
        values = [_as_value(v, like) for v in operands]
        while values and values[-1] is None and len(values) > 0:
            values.pop()
        bound = op.bind(len(values), attrs)
        given = types
        if types is None:
            types = op.infer_bound([arg(v) for v in values], bound, n_outputs or op.outputs, self.origin)
        node = Node(op.name, values, op.without_defaults(bound), types, names, self.origin)
        if given is None and not node.subgraphs:
            node.inferred = _known(node), tuple(types)
        self.graph.insert(node, self.before)
        self.made.append(node)
        return node

    def const(self, array: Any, name: str = "") -> Value:
        """A constant value."""
        return Value.constant(np.asarray(array), name)

    @contextmanager
    def at(self, before: Node | None) -> Iterator[Builder]:
        """Temporarily inserts in front of another node."""
        saved, self.before = self.before, before
        try:
            yield self
        finally:
            self.before = saved


def arg(value: Value | None) -> Arg | None:
    """What type inference may know of a value."""
    if value is None:
        return None
    small = value.data is not None and math.prod(value.data.shape) <= _MAX_SHAPE_CONTENTS
    return Arg(value.type, value.array if small else None)


def infer_node(node: Node) -> tuple[TensorType, ...]:
    """The types that the op's rule gives for a node as it stands."""
    if node.subgraphs:  # which may have changed
        return _infer(node)
    known = _known(node)
    if node.inferred is not None and len(known) == len(node.inferred[0]) and all(map(is_, known, node.inferred[0])):
        return node.inferred[1]
    types = _infer(node)
    node.inferred = known, types
    return types


def _infer(node: Node) -> tuple[TensorType, ...]:
    return get(node.op, node.origin).infer([arg(v) for v in node.inputs], node.attrs, len(node.outputs), node.origin)


def _known(node: Node) -> list[Any]:
    """What the types of a node's results depend on; immutable, and replaced as a whole."""
    known: list[Any] = [node.op, node.attrs]
    for v in node.inputs:
        known += (None, None) if v is None else (v.type, v.data)
    return known


def _as_value(operand: Any, like: Any) -> Value | None:
    if operand is None or isinstance(operand, Value):
        return operand
    if isinstance(operand, (bool, int, float)) and like is not None:
        return Value.constant(np.asarray(operand, like.numpy))
    array = np.asarray(operand)
    if array.dtype == object:
        raise ModelError(f"cannot make a constant of {operand!r}")
    return Value.constant(array)
