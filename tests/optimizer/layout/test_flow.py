"""Minimum cuts, compared with those that networkx finds by another algorithm."""

from __future__ import annotations

import math

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minnow.optimizer.layout.flow import first_side

SOURCE, SINK = -1, -2
Edge = tuple[int, int, float]

rooms = st.sampled_from([1, 2, 3, 5, 10, math.inf])
edges = st.lists(
    st.tuples(st.integers(SOURCE, 9), st.integers(-3, 9).filter(lambda v: v != SOURCE), rooms).map(
        lambda e: (e[0], SINK if e[1] < 0 else e[1], e[2])
    ),
    max_size=30,
)


def by_networkx(given: list[Edge]) -> set[int] | None:
    """The least first side; None where infinitely much can flow."""
    graph = nx.DiGraph()
    graph.add_nodes_from({SOURCE, SINK})
    for u, v, room in given:
        before = graph.get_edge_data(u, v, {"capacity": 0})["capacity"]
        graph.add_edge(u, v, capacity=before + room)
    try:
        rest = nx.algorithms.flow.edmonds_karp(graph, SOURCE, SINK)
    except nx.NetworkXUnbounded:
        return None
    near, stack = {SOURCE}, [SOURCE]
    while stack:
        found = {v for v, edge in rest[stack.pop()].items() if edge["flow"] < edge["capacity"]} - near
        near |= found
        stack += found
    return near


def check(given: list[Edge]) -> None:
    given = [(u, v, room) for u, v, room in given if u != v]
    wanted = by_networkx(given)
    if wanted is None:
        return
    vertices = {v for u, w, _ in given for v in (u, w)}
    if SOURCE not in vertices:
        wanted = set()
    elif SINK not in vertices:
        wanted = vertices
    assert first_side(given, SOURCE, SINK) == wanted


@settings(deadline=None, max_examples=300)
@given(given=edges)
def test_random_graphs(given: list[Edge]) -> None:
    check(given)


def chain(n: int) -> list[Edge]:
    pairs = [e for i in range(n - 1) for e in ((i, i + 1, 1 + 7 * i % 11), (i + 1, i, 1 + 5 * i % 13))]
    return [(SOURCE, 0, math.inf), *pairs, (n - 1, SINK, math.inf)]


@pytest.mark.parametrize(
    "given",
    [
        chain(300),
        [*chain(300), *((SOURCE, i, 1 + i % 5) for i in range(0, 300, 7)), *((i, SINK, 1 + i % 3) for i in range(300))],
        [(SOURCE, 0, math.inf), *((i, i + 1, 300 - i) for i in range(299)), (299, SINK, math.inf)],
        [(SOURCE, 0, math.inf), *((i, i + 1, 1 + i) for i in range(299)), (299, SINK, math.inf)],
        [*((SOURCE, i, 1 + i % 9) for i in range(300)), *((i, 300, 5) for i in range(300)), (300, SINK, 700)],
    ],
    ids=["chain", "comb", "falling", "growing", "fan"],
)
def test_long_graphs(given: list[Edge]) -> None:
    check(given)
