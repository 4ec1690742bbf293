"""What a graph costs: multiply-accumulates, the usual measure of the work in a model.

Counted are the ops that multiply matrices, convolutions and recurrent ones included, each by the function that stands
beside it as `@Op.macs`; all else is small beside them.
"""

from __future__ import annotations

from collections.abc import Mapping

from minnow.schema.ir import Graph, Node, Value
from minnow.schema.ir.type import UNKNOWN, Dim
from minnow.schema.registry.encoding import bound
from minnow.schema.registry.op import get
from minnow.schema.registry.symbolic import of_dim

Dims = Mapping[str, int]


class UnknownDimensionError(Exception):
    """A dimension is not known; `symbol` names it, "?" when it has no name."""

    def __init__(self, symbol: str) -> None:
        super().__init__(symbol)
        self.symbol = symbol


class Sizes:
    """The shapes of one node's operands and results as numbers, and its attributes: what `@Op.macs` is called with."""

    def __init__(self, node: Node, known: Dims, batch: int | None) -> None:
        self._node, self._known, self._batch = node, known, batch
        self.attrs = bound(node)

    def has(self, i: int) -> bool:
        """Whether operand `i` is there."""
        return i < len(self._node.inputs) and self._node.inputs[i] is not None

    def input(self, i: int) -> list[int]:
        """The shape of operand `i`. Raises UnknownDimensionError."""
        return self._of(self._node.inputs[i])

    def output(self) -> list[int]:
        """The shape of the first result. Raises UnknownDimensionError."""
        return self._of(self._node.outputs[0])

    def _of(self, value: Value | None) -> list[int]:
        if value is None or value.type.shape is None:
            raise UnknownDimensionError(UNKNOWN)
        dims = value.type.shape
        if self._batch is not None and dims[:1] == (UNKNOWN,):
            dims = (self._batch, *dims[1:])
        return [_number(d, self._known) for d in dims]


def macs(graph: Graph, dims: Dims | None = None, batch: int | None = None) -> int:
    """Multiply-accumulates of one run.

    Args:
        graph: the graph. Of an If the more expensive branch counts, of a loop one round.
        dims: numbers for symbolic dimensions.
        batch: the number for a first dimension that has no name; None takes that of any other.

    Raises:
        UnknownDimensionError: a dimension that matters is neither a number nor in `dims`.
    """
    known = dims or {}
    total = 0
    for node in graph:
        total += node_macs(node, known, batch)
        if node.subgraphs:
            total += max(macs(body, known, batch) for body in node.subgraphs.values())
    return total


def node_macs(node: Node, dims: Dims, batch: int | None = None) -> int:
    """Those of one node, without its bodies; see `macs`."""
    count = get(node.op, node.origin).count_macs
    return count(Sizes(node, dims, batch)) if count else 0


def _number(dim: Dim, known: Dims) -> int:
    if isinstance(dim, int):
        return dim
    try:
        return known[dim] if dim in known else of_dim(dim).value(known)
    except KeyError:
        raise UnknownDimensionError(dim) from None
