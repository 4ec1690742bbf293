"""What a run of a model takes, estimated before anybody runs it: the other runtimes have no limits of their own."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping

from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import Graph, Model, Node, Value
from minnow.schema.limit import LIMITS
from minnow.schema.registry.symbolic import of_dim

_ENOUGH = 4 << 30
"""Bytes that a tensor may have on a machine that does not say how much memory it has."""


def check_burden(model: Model, symbols: Mapping[str, int], where: str) -> None:
    """Refuses a run that takes more memory or time than a comparison is worth.

    Args:
        symbols: numbers for the open extents of the inputs. What hangs on others is not counted.

    Raises:
        UnsupportedError: one tensor alone takes most of the memory of this machine, or loops run too many nodes.
    """
    most = _memory() // 2
    for graph in model.graph.walk():
        for node in graph:
            size, padding = max((_bytes(v, symbols) for v in node.outputs), default=0), _padding(node, symbols)
            if size + padding > most or padding > LIMITS.constant_bytes:
                raise UnsupportedError(
                    "the model cannot be compared with its source on this machine",
                    where=node.origin or where,
                    why=f"a run takes {size + padding:,} bytes for one tensor"
                    + (", nearly all of it padding" if padding > size else ""),
                    hint="give smaller inputs by `--input` or `--batch`, or convert with `--no-verify`",
                )
    if (rounds := sum(_nodes_run(model.graph, 1))) > LIMITS.run_nodes:
        raise UnsupportedError(
            "the model cannot be compared with its source in any sensible time",
            where=where,
            why=f"its loops run {rounds:,} nodes",
            hint="convert with `--no-verify`",
        )


def _bytes(value: Value, symbols: Mapping[str, int]) -> int:
    count = _count(value, symbols)
    return 0 if count is None else count * value.type.dtype.size


def _count(value: Value, symbols: Mapping[str, int]) -> int | None:
    if value.type.shape is None or value.type.holds_tensors:
        return None
    try:
        return math.prod(max(of_dim(d).value(symbols), 0) for d in value.type.shape)
    except KeyError:
        return None


def _padding(node: Node, symbols: Mapping[str, int]) -> int:
    """Bytes of the padding around a window's input, which some programs write down."""
    pads = node.attrs.get("pads")
    if not isinstance(pads, tuple) or not node.has_input(0) or node.input(0).type.shape is None:
        return 0
    x, n = node.input(0), len(pads) // 2
    try:
        dims = [max(of_dim(d).value(symbols), 0) for d in x.type.shape or ()]
    except KeyError:
        return 0
    sides = [max(a, 0) + max(b, 0) for a, b in zip(pads[:n], pads[n:], strict=False)]
    spatial = [d + p for d, p in zip(dims[len(dims) - n :], sides, strict=False)]
    return (math.prod([*dims[: len(dims) - n], *spatial]) - math.prod(dims)) * x.type.dtype.size


def _nodes_run(graph: Graph, rounds: int) -> Iterator[int]:
    """Nodes of a graph times the rounds of the loops around it, where these are numbers."""
    yield rounds * len(graph)
    for node in graph:
        inner = rounds
        if node.op == "Loop" and node.has_input(0):
            trips = node.input(0).array
            inner *= max(int(trips.item()), 0) if trips is not None and trips.size == 1 else 1
        for body in node.subgraphs.values():
            yield from _nodes_run(body, inner)


def _memory() -> int:
    """Bytes of memory that this machine has."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return _ENOUGH
