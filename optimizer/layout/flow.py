"""Minimum cuts of graphs with a source and a sink, by pushing preflows (Goldberg and Tarjan, 1988).

Only the first phase is needed, which gives the cut but not the flow. Looking at the graph from behind, from the sink to
the source, it gives that minimum cut which has the fewest vertices on the source's side.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable


def first_side(edges: Iterable[tuple[int, int, float]], source: int, sink: int) -> set[int]:
    """The vertices on the source's side of a minimum cut: of several cuts, of the one with the fewest of them there.

    All are where no edge leads to the sink, and none where none comes from the source.

    Args:
        edges: (from, to, capacity); the capacity is an integer, or infinite. Every way from the source to the sink has
            an edge that is not.
    """
    network = _Network(edges, start=sink, end=source)
    if network.end is None:
        return set()
    if network.start is None:
        return set(network.names)
    return {network.names[v] for v in network.reaching(network.start, network.end)}


class _Network:
    """Vertices by number, and arcs: `i ^ 1` leads back along arc `i`, and has room for what was pushed along that.

    Attributes:
        names: the vertices as the caller knows them.
        start, end: where the flow comes from and where it goes to; None for one without an edge.
    """

    def __init__(self, edges: Iterable[tuple[int, int, float]], start: int, end: int) -> None:
        numbers: dict[int, int] = {}
        edges = list(edges)
        # More than all others together: whole numbers stay exact, which infinity would not.
        endless = 1 + sum(int(room) for _, _, room in edges if room != math.inf)
        self._head: list[int] = []
        self._room: list[int] = []
        self._arcs: list[list[int]] = []
        for to, at, room in edges:  # from behind
            for v in (at, to):
                if v not in numbers:
                    numbers[v] = len(numbers)
                    self._arcs.append([])
            self._arcs[numbers[at]].append(len(self._head))
            self._arcs[numbers[to]].append(len(self._head) + 1)
            self._head += (numbers[to], numbers[at])
            self._room += (endless if room == math.inf else int(room), 0)
        self.names = list(numbers)
        self.start, self.end = numbers.get(start), numbers.get(end)

    def reaching(self, start: int, end: int) -> list[int]:
        """The vertices from which more could flow to the end than does when all that can get there has done so."""
        head, room, n = self._head, self._room, len(self.names)
        excess = [0] * n
        for arc in self._arcs[start]:
            excess[head[arc]] += room[arc]
            room[arc ^ 1] += room[arc]
            room[arc] = 0
        far = self._distances(start, end)
        active = deque(v for v in range(n) if excess[v] and v not in (start, end))
        relabels = 0
        while active:
            v = active.popleft()
            while excess[v] and far[v] < n:
                nearest = n
                for arc in self._arcs[v]:
                    if not room[arc]:
                        continue
                    w = head[arc]
                    if far[w] + 1 == far[v]:
                        amount = min(excess[v], room[arc])
                        room[arc] -= amount
                        room[arc ^ 1] += amount
                        if not excess[w] and w not in (start, end):
                            active.append(w)
                        excess[w] += amount
                        excess[v] -= amount
                        if not excess[v]:
                            break
                    if room[arc]:
                        nearest = min(nearest, far[w] + 1)
                else:
                    far[v] = nearest
                    relabels += 1
            if relabels >= n:  # distances that have become too small lead astray
                far, relabels = self._distances(start, end), 0
        far = self._distances(start, end)
        return [v for v in range(n) if far[v] < n]

    def _distances(self, start: int, end: int) -> list[int]:
        """Arcs with room from each vertex to the end, as many as there are vertices where no way leads there."""
        n = len(self.names)
        far = [n] * n
        far[end] = 0
        queue = deque([end])
        while queue:
            w = queue.popleft()
            for arc in self._arcs[w]:
                v = self._head[arc]
                if far[v] == n and v != start and self._room[arc ^ 1]:
                    far[v] = far[w] + 1
                    queue.append(v)
        return far
