"""Estimates the memory and time of a run before the source runtime runs the model: it has no limits of its own."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping

from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import Graph, Model, Node, Value
from minnow.schema.limit import LIMITS
from minnow.schema.registry.symbolic import of_dim

_ENOUGH = 4 << 30
"""Bytes assumed as the memory of a machine whose memory size is unknown."""


def check_burden(model: Model, symbols: Mapping[str, int], where: str) -> None:
    """Refuses a run that needs too much memory or time for a comparison.

    Args:
        symbols: sizes of the dynamic dimensions of the inputs. Tensors that depend on others are not counted.
        where: the source, for messages.

    Raises:
        UnsupportedError: a single tensor takes more than half of the memory of this machine, or loops run too many
            nodes.
    """
    most = _memory() // 2
    for graph in model.graph.walk():
        for node in graph:
            size, padding = max((_bytes(v, symbols) for v in node.outputs), default=0), _padding(node, symbols)
            if size + padding > most or padding > LIMITS.constant_bytes:
                raise UnsupportedError(
                    "the model cannot be compared with its source on this machine",
                    where=node.origin or where,
                    why=f"a run needs {size + padding:,} bytes for a single tensor"
                    + (", nearly all of it padding" if padding > size else ""),
                    hint="give smaller inputs by `--input` or `--batch`, or convert with `--no-verify`",
                )
    if (rounds := sum(_nodes_run(model.graph, 1))) > LIMITS.run_nodes:
        raise UnsupportedError(
            "comparing the model with its source would take too long",
            where=where,
            why=f"its loops execute {rounds:,} nodes",
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
    """Bytes of the padding around a window's input, which some runtimes store explicitly."""
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
    """Nodes of a graph times the iterations of the loops around it, as far as these are constant."""
    yield rounds * len(graph)
    for node in graph:
        inner = rounds
        if node.op == "Loop" and node.has_input(0):
            trips = node.input(0).array
            inner *= max(int(trips.item()), 0) if trips is not None and trips.size == 1 else 1
        for body in node.subgraphs.values():
            yield from _nodes_run(body, inner)


def _memory() -> int:
    """Memory of this machine in bytes."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return _ENOUGH
