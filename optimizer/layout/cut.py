"""Two forms of the same values, and nodes that work on one of them or on either: the cheapest choice is a minimum cut.

Nodes that need the first form are connected to the source, those that need the second to the sink, the others float
between them. A value whose readers do not agree with its producer is converted once, however many of them there are,
and costs its bytes.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

from minnow.optimizer.layout.flow import first_side
from minnow.schema.ir import Value

Item = TypeVar("Item", bound=Hashable)

# Assumed sizes of dynamic dimensions: a batch is mostly one, the others are of this order.
BATCH, EXTENT = 1, 64


def bytes_of(value: Value) -> int:
    """Bytes that a conversion of the value reads; guessed where dimensions are unknown."""
    shape = value.type.shape or ()
    extents = (d if isinstance(d, int) else EXTENT if i else BATCH for i, d in enumerate(shape))
    return value.type.dtype.size * math.prod(extents) + 1  # an empty value still costs a node


class Sides(Generic[Item]):
    """Items to be put on the first side (True) or the second (False), and links that cost something when cut.

    Items that were not placed, None among them, are on the second side.
    """

    _SOURCE, _SINK = -1, -2

    def __init__(self) -> None:
        self._vertex: dict[Item | None, int] = {}
        self._first: dict[Item, None] = {}
        self._size = 0
        self._edges: list[tuple[int, int, float]] = []

    def place(self, item: Item, side: bool | None) -> None:
        """The item is on that side; None: on either."""
        self._vertex[item] = self._new() if side is None else self._SOURCE if side else self._SINK
        if side:
            self._first[item] = None

    def join(self, item: Item, other: Item) -> None:
        """The item is on the side of another one, which was placed before."""
        self._vertex[item] = self._vertex[other]

    def link(self, producer: Item | None, readers: Sequence[Item | None], cost: int) -> None:
        """Costs `cost` once if any of the readers is on another side than the producer."""
        start = self._vertex.get(producer, self._SINK)
        ends = dict.fromkeys(self._vertex.get(r, self._SINK) for r in readers)
        # One vertex per direction stands between the producer and all of its readers.
        if start != self._SINK and (others := [e for e in ends if e not in (self._SOURCE, start)]):
            between = self._new()
            self._edges.append((start, between, cost))
            self._edges += [(between, e, math.inf) for e in others]
        if start != self._SOURCE and (others := [e for e in ends if e not in (self._SINK, start)]):
            between = self._new()
            self._edges.append((between, start, cost))
            self._edges += [(e, between, math.inf) for e in others]

    def _new(self) -> int:
        self._size += 1
        return self._size - 1

    def solve(self) -> set[Item]:
        """The items on the first side. Parts that hang together only over decided items are solved on their own."""
        parent = list(range(self._size))

        def find(v: int) -> int:
            while parent[v] != v:
                parent[v] = parent[parent[v]]
                v = parent[v]
            return v

        for u, v, _ in self._edges:
            if u >= 0 and v >= 0:
                parent[find(u)] = find(v)
        parts: dict[int, list[tuple[int, int, float]]] = {}
        for edge in self._edges:
            inner = max(edge[0], edge[1])
            if inner >= 0:
                parts.setdefault(find(inner), []).append(edge)
        near = {v for edges in parts.values() for v in first_side(edges, self._SOURCE, self._SINK)}
        return {item for item, v in self._vertex.items() if item is not None and (v in near or item in self._first)}
