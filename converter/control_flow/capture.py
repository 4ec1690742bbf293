"""The captured values of all branches of an If, merged: the same values in the same order."""

from __future__ import annotations

from collections.abc import Sequence

from minnow.schema.ir import Graph, Value


def merge_captures(pairs: Sequence[tuple[Graph, Sequence[Value], int]]) -> list[Value]:
    """Gives every graph the same captured parameters, in one order, after its first `n` own ones.

    Args:
        pairs: per graph the values outside that its parameters stand for from the n-th on, and n.

    Returns:
        The values outside that all the graphs take now.
    """
    union = list(dict.fromkeys(v for _, captured, _ in pairs for v in captured))
    for graph, captured, n in pairs:
        have = dict(zip(captured, graph.params[n:], strict=True))
        graph.params = [*graph.params[:n], *(have.get(v) or Value(v.type, v.name) for v in union)]
    return union
