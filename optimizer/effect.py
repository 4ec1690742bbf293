"""What a graph costs, as a few numbers that can be compared before and after: nodes, work, memory traffic, memory.

Dynamic dimensions are guessed as in `optimizer.cut`: 1 for the first of an input, 64 for others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from minnow.optimizer.layout.cut import BATCH, EXTENT, bytes_of
from minnow.optimizer.pipeline import count_nodes
from minnow.schema.ir import Graph, Node, Value
from minnow.schema.ir.compressed import stored_bytes
from minnow.schema.ir.type import UNKNOWN
from minnow.schema.ops import Trait, get
from minnow.schema.registry.cost import UnknownDimensionError, macs, node_macs


@dataclass(frozen=True)
class Effect:
    """The numbers of one graph, graphs inside included; bodies of loops count once.

    Attributes:
        nodes: number of nodes by op.
        macs: multiply-accumulates; None where not even the rank of what is multiplied is known.
        bytes: that nodes read and write. Views do neither.
        moved_bytes: that are read only to lie in another order: by transposes and conversions of layout.
        weight_bytes: of constants, each once.
        peak_bytes: of inputs and results that are alive at one time, nothing being computed in place.
        guessed: whether sizes of dynamic dimensions were guessed.
    """

    nodes: dict[str, int]
    macs: int | None
    bytes: int
    moved_bytes: int
    weight_bytes: int
    peak_bytes: int
    guessed: bool

    @property
    def total(self) -> int:
        return sum(self.nodes.values())

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return asdict(self)


def effect_of(graph: Graph) -> Effect:
    """The numbers of a graph, from its types alone: no weight is read."""
    nodes = [node for g in graph.walk() for node in g]
    weights = {
        id(v.data): stored_bytes(v.data) for node in nodes for v in node.inputs if v is not None and v.data is not None
    }
    return Effect(
        nodes=count_nodes(graph),
        macs=_macs(graph),
        bytes=sum(_traffic(node) for node in nodes),
        moved_bytes=sum(_bytes(node.inputs[0]) for node in nodes if Trait.REORDER in get(node.op).traits),
        weight_bytes=sum(weights.values()),
        peak_bytes=max(live_bytes(graph)),
        guessed=any(not v.type.is_static for node in nodes for v in node.outputs),
    )


@dataclass(frozen=True)
class Cost:
    """What one node costs, bodies not included: multiply-accumulates (None: unknown), and bytes read and written."""

    macs: int | None
    bytes: int


def costs_of(graph: Graph) -> dict[Node, Cost]:
    """The cost of each node of a graph and of the graphs in it, with the sizes that `effect_of` assumes."""
    guesses, costs = _guesses(graph), {}
    for g in graph.walk():
        for node in g:
            try:
                count: int | None = node_macs(node, guesses, BATCH)
            except UnknownDimensionError:
                count = None
            costs[node] = Cost(count, _traffic(node))
    return costs


@dataclass(frozen=True)
class Lifetime:
    """A tensor in memory: from the node that makes it (-1: before the first one) to the last one that reads it."""

    value: Value
    bytes: int
    first: int
    last: int


def lifetimes_of(graph: Graph) -> list[Lifetime]:
    """When the tensors of the main graph are alive, by the positions of nodes. Views are part of what they show."""
    root = _roots(graph)
    position = {node: k for k, node in enumerate(graph)}
    last: dict[Value, int] = {}
    for value in graph.values():
        whole = root.get(value, value)
        readers = [position.get(node, len(position)) for node, _ in value.uses]
        last[whole] = max([last.get(whole, -1), *readers])
    found = []
    for value, end in last.items():
        first = -1 if value.producer is None else position[value.producer]
        if size := _bytes(value):
            found.append(Lifetime(value, size, first, max(end, first)))
    return found


def _guesses(graph: Graph) -> dict[str, int]:
    """The assumed sizes of symbols."""
    guesses = {UNKNOWN: EXTENT}
    for g in graph.walk():
        for value in g.values():
            for axis, d in enumerate(value.type.shape or ()):
                if isinstance(d, str) and d != UNKNOWN:
                    guesses.setdefault(d, EXTENT if axis else BATCH)
    return guesses


def live_bytes(graph: Graph, inside: bool = False) -> Iterator[int]:
    """Bytes that are alive while each node runs, bodies included: first those of the inputs, then one per node."""
    root = _roots(graph)
    readers: dict[Value, int] = {}
    for value in graph.values():
        whole = root.get(value, value)
        readers[whole] = readers.get(whole, 0) + sum(not any(o in root for o in n.outputs) for n, _ in value.uses)
    live = 0
    for param in graph.params:
        readers[param] += inside
        live += 0 if inside or not readers[param] else _bytes(param)
    yield live
    for node in graph:
        if node.outputs and node.outputs[0] in root:
            yield live
            continue
        live += sum(_bytes(v) for v in node.outputs)
        yield live + max((max(live_bytes(body, True)) for body in node.subgraphs.values()), default=0)
        live -= sum(_bytes(v) for v in node.outputs if not readers[v])
        for operand in node.inputs:
            held = None if operand is None else root.get(operand, operand)
            if held in readers and not held.is_const:  # a body may read values of the graph around it
                readers[held] -= 1
                live -= _bytes(held) if not readers[held] else 0


def _roots(graph: Graph) -> dict[Value, Value]:
    """For each view the value that it shows."""
    root: dict[Value, Value] = {}
    for node in graph:
        if Trait.VIEW in get(node.op).traits and len(node.outputs) == 1 and node.inputs[0] is not None:
            root[node.output] = root.get(node.inputs[0], node.inputs[0])
    return root


def _bytes(value: Value | None) -> int:
    return 0 if value is None else bytes_of(value) - 1


def _macs(graph: Graph) -> int | None:
    """Multiply-accumulates under the guesses."""
    try:
        return macs(graph, _guesses(graph), BATCH)
    except UnknownDimensionError:
        return None


def _traffic(node: Node) -> int:
    """Bytes that a node reads and writes."""
    traits = get(node.op).traits
    if Trait.VIEW in traits or Trait.CONTROL_FLOW in traits:
        return 0
    read = 0 if Trait.SHAPE_ONLY in traits else sum(_bytes(v) for v in dict.fromkeys(node.inputs))
    return read + sum(_bytes(v) for v in node.outputs)
