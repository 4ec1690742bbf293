"""What a graph costs: multiply-accumulates, the usual measure of the work in a model.

Counted are the ops that multiply matrices, convolutions and recurrent ones included; all else is small beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from minnow.schema.ir import Graph, Node, Value
from minnow.schema.ir.type import Dim
from minnow.schema.ops.encoding import bound
from minnow.schema.ops.symbolic import of_dim

Extents = Mapping[str, int]
_Count = Callable[[Node, Extents], int]

_COUNTED: dict[str, _Count] = {}


class UnknownExtentError(Exception):
    """An extent is not known; `symbol` names it, "?" when it has no name."""

    def __init__(self, symbol: str) -> None:
        super().__init__(symbol)
        self.symbol = symbol


def _macs(*ops: str) -> Callable[[_Count], _Count]:
    def add(function: _Count) -> _Count:
        _COUNTED.update(dict.fromkeys(ops, function))
        return function

    return add


def macs(graph: Graph, extents: Extents | None = None) -> int:
    """Multiply-accumulates of one run.

    Args:
        graph: the graph. Of an If the more expensive branch counts, of a loop one round.
        extents: numbers for symbolic extents.

    Raises:
        UnknownExtentError: an extent that matters is neither a number nor in `extents`.
    """
    known = extents or {}
    total = 0
    for node in graph:
        if node.op in _COUNTED:
            total += _COUNTED[node.op](node, known)
        if node.subgraphs:
            total += max(macs(body, known) for body in node.subgraphs.values())
    return total


def _shape(value: Value | None, known: Extents) -> list[int]:
    if value is None or value.type.shape is None:
        raise UnknownExtentError("?")
    return [_number(d, known) for d in value.type.shape]


def _number(dim: Dim, known: Extents) -> int:
    if isinstance(dim, int):
        return dim
    try:
        return known[dim] if dim in known else of_dim(dim).value(known)
    except KeyError:
        raise UnknownExtentError(dim) from None


def _of_kernel(weights: Sequence[int]) -> int:
    return prod(weights[1:])


@_macs("Conv", "ConvInteger", "DeformConv")
def _(node: Node, known: Extents) -> int:
    return prod(_shape(node.outputs[0], known)) * _of_kernel(_shape(node.inputs[1], known))


@_macs("ConvTranspose")
def _(node: Node, known: Extents) -> int:
    return prod(_shape(node.inputs[0], known)) * _of_kernel(_shape(node.inputs[1], known))


@_macs("MatMul", "MatMulInteger", "Linear", "DynamicLinear")
def _(node: Node, known: Extents) -> int:
    a = _shape(node.inputs[0], known)
    transposed = bound(node).get("transpose_a", False) and len(a) > 1
    return prod(_shape(node.outputs[0], known)) * a[-2 if transposed else -1]


@_macs("LSTM", "GRU", "RNN")
def _(node: Node, known: Extents) -> int:
    steps, batch = _shape(node.inputs[0], known)[:2]
    # Rows of all gates; each takes the input and the state of the step before.
    w, r = _shape(node.inputs[1], known), _shape(node.inputs[2], known)
    return steps * batch * (prod(w) + prod(r))
