"""The scales of the reals that integers of 8 bits stand for: free, but for sums, which add them up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from minnow.schema.ir import Graph, Node, Value

Array = np.ndarray[Any, Any]
_SAME = 1e-4
"""Relative difference of two scales that are taken for the same: fixed-point factors have fewer digits."""


@dataclass(frozen=True)
class Line:
    """A table as a line: slope * (number - zero)."""

    slope: float
    zero: int


@dataclass(frozen=True)
class Sum:
    """A QuantizedSum of two lines, in units of its result."""

    first: Line
    second: Line


class Steps:
    """Scales relative to each other: a forest, in which every value knows its scale in units of its parent's."""

    def __init__(self) -> None:
        self.sums: dict[Node, Sum] = {}
        self._parent: dict[Value, tuple[Value, float]] = {}

    def scale(self, value: Value) -> float:
        """The scale of a value; 1 for a value that no sum has a part in."""
        return self._root(value)[1]

    def _root(self, value: Value) -> tuple[Value, float]:
        scale = 1.0
        while value in self._parent:
            value, factor = self._parent[value]
            scale *= factor
        return value, scale

    def tie(self, value: Value, other: Value, ratio: float) -> bool:
        """Makes the scale of `value` that of `other` times `ratio`; False if other ties say something else."""
        (a, of_a), (b, of_b) = self._root(value), self._root(other)
        if a is b:
            return abs(of_a - ratio * of_b) <= _SAME * abs(of_a)
        self._parent[a] = b, ratio * of_b / of_a
        return True


def choose_steps(graph: Graph) -> Steps:
    """The scales for all sums of a graph, the last one first, as far as they agree."""
    steps = Steps()
    for node in reversed(graph):
        found = _sum(node) if node.op == "QuantizedSum" else None
        if found is not None and all(
            steps.tie(node.input(i), node.output, line.slope) for i, line in ((0, found.first), (4, found.second))
        ):
            steps.sums[node] = found
    return steps


def _sum(node: Node) -> Sum | None:
    """The two lines of a sum; None where a table is no line, or computed, or not of 8 bits."""
    multiplier, shift = node.input(1).array, node.input(2).array
    if multiplier is None or shift is None:
        return None
    factor = float(multiplier.reshape(())) * 2.0 ** (float(shift.reshape(())) - 31)
    lines = [_line(node.input(i).array, node.input(i - 3 if i == 3 else 4), factor) for i in (3, 5)]
    return None if lines[0] is None or lines[1] is None else Sum(lines[0], lines[1])


def _line(table: Array | None, numbers: Value, factor: float) -> Line | None:
    if table is None or table.size != 256:
        return None
    low = 0 if str(numbers.type.dtype) == "u8" else -128
    slope = (float(table[-1]) - float(table[0])) / 255
    if slope <= 0 or factor <= 0:
        return None
    zero = round(low - float(table[0]) / slope)
    right = slope * (np.arange(low, low + 256) - zero)
    return Line(slope * factor, zero) if np.abs(right - table).max() <= 1 and low <= zero < low + 256 else None
