"""What MNN's own runtime does otherwise than the ops say: a function for each limit, which says what nodes it concerns.

A limit that every run meets is `always` so: a notice of the conversion names the nodes, and a strict target refuses
them. The others depend on the numbers of a run, such as NaN; the report counts these nodes in one line, and lists them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from minnow.schema.ir import Graph, Node, Value
from minnow.schema.ops import Trait, get

Applies = Callable[[Node], bool]


@dataclass(frozen=True)
class Limit:
    """A limit of MNN's runtime.

    Attributes:
        reason: what it does, and when.
        always: every run meets it.
        applies: whether it concerns a node, as the file has it.
    """

    reason: str
    always: bool
    applies: Applies


LIMITS: list[Limit] = []


def limit(reason: str, *, always: bool = False) -> Callable[[Applies], Applies]:
    """Registers a limit; the decorated function says whether it concerns a node."""

    def register(applies: Applies) -> Applies:
        LIMITS.append(Limit(reason, always, applies))
        return applies

    return register


def limits_of(graph: Graph, always: bool | None = None) -> dict[str, list[Node]]:
    """The nodes that limits concern, in this graph and those nested in it, by reason.

    Args:
        always: only limits of this kind; None for all.
    """
    wanted = [one for one in LIMITS if always in (None, one.always)]
    found: dict[str, list[Node]] = {}
    for node in (node for g in graph.walk() for node in g):
        for one in wanted:
            if one.applies(node):
                found.setdefault(one.reason, []).append(node)
    return found


def name_of(node: Node) -> str:
    """What a message calls a node."""
    return node.name or node.origin or node.op


# op list: those whose kernels in MNN, measured one by one, make numbers of NaN or infinity, or lose them
_NOT_FINITE = frozenset({
    "Abs", "BinaryRelu", "Clip", "Elu", "Exp", "Expm1", "LeakyRelu", "Mod", "ReduceMax", "ReduceMin", "Relu", "Selu",
    "Sigmoid", "Sign", "Silu", "Tanh",
})  # fmt: skip


@limit("NaN and infinities may be lost or become numbers")
def _(node: Node) -> bool:
    if node.op in _NOT_FINITE:
        return any(v.type.dtype.is_float for v in node.outputs)
    return bool(node.attrs.get("activation"))


@limit("among equal elements others may come first")
def _(node: Node) -> bool:
    return node.op == "TopK" and bool(node.outputs[1].uses)


@limit("random numbers are those of another generator", always=True)
def _(node: Node) -> bool:
    return Trait.RANDOM in get(node.op).traits and node.attrs.get("seed") is not None


def _number(value: Value | None) -> Any:
    """The number of a constant; None for any other value."""
    array = None if value is None else value.array
    return None if array is None or array.size != 1 else array.reshape(-1)[0]


def _stacks(node: Node) -> bool:
    return node.op == "Loop" and len(node.outputs) > node.attrs["num_carried"]


def _operand(node: Node, i: int) -> Value | None:
    return node.inputs[i] if i < len(node.inputs) else None


def _rounds(node: Node) -> bool | None:
    """Whether a loop has a round; None where only a run tells."""
    trips, go = (_operand(node, i) for i in (0, 1))
    known = (_number(trips), _number(go))
    if (known[0] is not None and known[0] <= 0) or (known[1] is not None and not known[1]):
        return False
    return True if all(v is None or k is not None for v, k in zip((trips, go), known, strict=True)) else None


@limit("a loop without rounds that stacks results ends the process", always=True)
def _(node: Node) -> bool:
    return _stacks(node) and _rounds(node) is False


@limit("a loop that stacks results ends the process if it has no round")
def _(node: Node) -> bool:
    return _stacks(node) and _rounds(node) is None


@limit("padding mirrors no further than the tensor reaches")
def _(node: Node) -> bool:
    if node.op != "Pad" or node.attrs.get("mode", "constant") == "constant":
        return False
    pads = node.input(1)
    return pads.array is None


@limit("no part without elements is made")
def _(node: Node) -> bool:
    sizes = _operand(node, 1) if node.op == "Split" else None
    if sizes is None:
        return False
    return sizes.array is None or bool(np.any(sizes.array == 0))
