"""What wide integers are used for: only as sizes and positions, or for their values."""

from __future__ import annotations

from collections.abc import Iterator

from minnow.optimizer.facts.range import INT32, Interval, Ranges
from minnow.schema.ir import Graph, Node, Value
from minnow.schema.ir.graph import RET
from minnow.schema.ops import Trait, get
from minnow.schema.registry.signature import Role

_MAX_DEPTH = 96
"""Of values that are computed of each other; each takes several frames of the stack."""


class Uses:
    """Answers what the values of a graph, and of those nested in it, are used for."""

    def __init__(self, graph: Graph) -> None:
        self._main = graph
        self._owner = {body: node for g in graph.walk() for node in g for body in node.subgraphs.values()}
        self._memo: dict[tuple[Value, bool], bool] = {}
        self._depth = 0

    def extent(self, value: Value) -> bool:
        """Every reader uses it, or what is computed from it, as a size.

        No tensor has a dimension of 2^31 or more: where such a number wraps, the model could not have been run.
        """
        return self._all(value, computed=True)

    def place(self, value: Value) -> bool:
        """Every reader uses the value itself, possibly moved, as a position or a size."""
        return self._all(value, computed=False)

    def compared(self, value: Value, ranges: Ranges) -> bool:
        """Every reader of it, possibly moved, uses it as a position, compares it with a number of 32 bits, or
        multiplies it by 0: values of more bits need not be distinguished."""
        return all(
            self._is_use(node, i, computed=False)
            or _compares(node, value, ranges)
            or (_moves(node) and i == 0 and all(self.compared(v, ranges) for v in node.outputs))
            for node, i in value.uses
        )

    def _all(self, value: Value, computed: bool) -> bool:
        key = value, computed
        if key not in self._memo:
            if self._depth >= _MAX_DEPTH:
                return False  # nothing that shapes a tensor is computed in so many steps
            self._memo[key] = True  # of what goes around in a loop, the uses outside of the circle decide
            self._depth += 1
            try:
                self._memo[key] = all(self._is_use(node, i, computed) for node, i in list(value.uses))
            finally:
                self._depth -= 1
        return self._memo[key]

    def _is_use(self, node: Node, i: int, computed: bool) -> bool:
        role = None if node.op == RET else get(node.op).operand(i).role
        if role is not None:
            return role is Role.SIZE or not computed
        if node.op in ("If", "Loop", RET):
            targets = list(self._handed_on(node, i))
            return bool(targets) and all(self._all(v, computed) for v in targets)
        if node.op != RET and Trait.SHAPE_ONLY in get(node.op).traits:
            return True
        if node.op == "Range":  # enumerates positions from one size to another
            return self._all(node.output, True) or self._all(node.output, False)
        if _moves(node) or (computed and Trait.SIZE_MATH in get(node.op).traits):
            return all(self._all(v, computed) for v in node.outputs)
        return computed and node.op == "Cast" and node.output.type.dtype.is_int and self._all(node.output, computed)

    def _handed_on(self, node: Node, i: int) -> Iterator[Value]:
        """What the operand of control flow, or an output of a body, is on the other side; nothing: do not ask."""
        if node.op == RET:
            owner = None if node.graph is self._main or node.graph is None else self._owner.get(node.graph)
            if owner is not None and owner.op == "If":
                yield owner.outputs[i]
            elif owner is not None and i > 0:
                yield owner.outputs[i - 1]
                if i <= owner.attrs["num_carried"]:
                    yield owner.attrs["body"].params[i + 1]
        elif node.op == "If":
            if i > 0:
                yield from (body.params[i - 1] for body in node.subgraphs.values())
        elif i > 1:
            yield node.attrs["body"].params[i]
            if i - 2 < node.attrs["num_carried"]:
                yield node.outputs[i - 2]


def _moves(node: Node) -> bool:
    return node.op != RET and Trait.MOVEMENT in get(node.op).traits


def _compares(node: Node, value: Value, ranges: Ranges) -> bool:
    if node.op == RET:
        return False
    others = [ranges.of(v) for v in node.inputs if v is not value]
    if node.op == "Mul":
        return others == [Interval(0, 0)]
    return Trait.COMPARE in get(node.op).traits and all(x is not None and x in INT32 for x in others)
