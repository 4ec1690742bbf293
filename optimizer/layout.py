"""Memory layout: which values are stored in channel blocks (NC4HW4), and where conversions stand.

A minimum cut. Nodes that need channel blocks hang on the source, nodes that need plain memory on the sink, nodes that
take either float between them. A value whose readers do not agree with its producer is converted once, however many
of them there are, and costs its bytes: the cut through it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from minnow.optimizer.rewrite import graph_pass
from minnow.schema.ir import DType, Graph, Node, Value
from minnow.schema.ops import Builder, Trait, get

PACKED, PLAIN = "nc4hw4", "nchw"

# Extents that only the input decides: a batch is mostly one, the others are of this order.
_BATCH, _EXTENT = 1, 64


@graph_pass(level=0)
def assign_layout(graph: Graph) -> int:
    """Puts values between convolutions, poolings and the like into channel blocks; the rest stays plain.

    Given:
        graph g(%x: f32[1,4,2,2]) {
          %a: f32[1,4,2,2] = LRN(%x) {size=3}
          %b: f32[1,4,2,2] = Exp(%a)
          %c: f32[1,4,2,2] = LRN(%b) {size=3}
          return %c
        }
    Result:
        graph g(%x: f32[1,4,2,2]) {
          %0: f32[1,4,2,2]@nc4hw4 = ConvertLayout(%x) {to='NC4HW4'}
          %a: f32[1,4,2,2]@nc4hw4 = LRN(%0) {size=3}
          %b: f32[1,4,2,2]@nc4hw4 = Exp(%a)
          %1: f32[1,4,2,2]@nc4hw4 = LRN(%b) {size=3}
          %c: f32[1,4,2,2] = ConvertLayout(%1) {to='NCHW'}
          return %c
        }
    """
    if any(node.op == "Raw" for node in graph):
        return 0  # nobody knows what an op we do not model wants: its file's own layouts stay
    _strip(graph)
    labels = _labels(graph)
    if True not in labels.values():
        return 0
    packed = _solve(graph, labels)
    changes = 0
    for node in packed:
        for value in node.outputs:
            value.type = value.type.with_layout(PACKED)
    for value in list(graph.values()):
        changes += _convert(graph, value, packed)
    for value in graph.constants():
        changes += _convert(graph, value, packed)
    return changes


def _strip(graph: Graph) -> None:
    """Takes out the conversions that are there, so that the pass may run again."""
    for node in graph:
        if node.op == "ConvertLayout":
            node.output.replace_all_uses(node.input(0))
            graph.erase(node)
    for value in graph.values():
        if value.type.layout != PLAIN:
            value.type = value.type.with_layout(PLAIN)


def _blockable(value: Value) -> bool:
    return value.type.dtype is DType.F32 and value.type.rank == 4


def _labels(graph: Graph) -> dict[Node, bool | None]:
    """True: needs channel blocks; False: needs plain memory; None: takes either."""
    return {node: _label(node) for node in graph}


def _label(node: Node) -> bool | None:
    traits = get(node.op).traits
    if not all(_blockable(v) for v in node.outputs):
        return False
    if Trait.SPATIAL in traits:
        return True if _blockable(node.input(0)) else False
    if Trait.BLOCKABLE not in traits:
        return False
    computed = [v for v in node.inputs if v is not None and not v.is_const]
    if not computed or not all(_blockable(v) for v in computed):
        return False
    # Constants take the layout of the others, which needs no axis of the result to come from them.
    return None if all((v.type.rank or 0) <= 4 for v in node.inputs if v is not None) else False


def _follows(node: Node, i: int) -> bool:
    """Operand `i` has the layout of the node; the others are plain always."""
    value = node.inputs[i]
    if value is None:
        return False
    traits = get(node.op).traits
    if Trait.SPATIAL in traits:
        return i == 0
    # Constants of elementwise ops are broadcast in whatever layout the others have; those of others are data.
    return not (value.is_const and Trait.ELEMENTWISE in traits)


def _solve(graph: Graph, labels: dict[Node, bool | None]) -> set[Node]:
    """The nodes that work on channel blocks."""
    network = _Network()
    index = {node: i for i, node in enumerate(graph)}

    def terminal(node: Node | None) -> int:
        if node is None or node is graph.ret:
            return network.SINK
        label = labels[node]
        return index[node] if label is None else network.SOURCE if label else network.SINK

    network.size = len(index)
    for value in graph.values():
        readers = [terminal(n) if n is graph.ret or _follows(n, i) else network.SINK for n, i in value.uses]
        if readers and _blockable(value):
            network.add(terminal(value.producer), list(dict.fromkeys(readers)), _bytes(value))
    chosen = network.cut()
    return {node for node, label in labels.items() if label or (label is None and index[node] in chosen)}


def _bytes(value: Value) -> int:
    shape = value.type.shape or ()
    extents = (d if isinstance(d, int) else _EXTENT if i else _BATCH for i, d in enumerate(shape))
    return 4 * math.prod(extents) + 1  # an empty value still costs a node


class _Network:
    """The flow network. Vertices are numbers; the terminals are merged into every part on its own."""

    SOURCE, SINK = -1, -2

    def __init__(self) -> None:
        self.size = 0
        self.edges: list[tuple[int, int, float]] = []

    def add(self, producer: int, readers: list[int], cost: int) -> None:
        """A value: `cost` once if any reader is on another side than the producer."""
        # One vertex per direction stands between the producer and all readers.
        if producer != self.SINK and any(r not in (self.SOURCE, producer) for r in readers):
            between = self._vertex()
            self.edges.append((producer, between, cost))
            self.edges += [(between, r, math.inf) for r in readers if r not in (self.SOURCE, producer)]
        if producer != self.SOURCE and any(r not in (self.SINK, producer) for r in readers):
            between = self._vertex()
            self.edges.append((between, producer, cost))
            self.edges += [(r, between, math.inf) for r in readers if r not in (self.SINK, producer)]

    def _vertex(self) -> int:
        self.size += 1
        return self.size - 1

    def cut(self) -> set[int]:
        """The vertices on the source's side of a minimum cut, solved for each connected part on its own."""
        inside: dict[int, list[tuple[int, int, float]]] = {}
        parent = list(range(self.size))

        def find(v: int) -> int:
            while parent[v] != v:
                parent[v] = parent[parent[v]]
                v = parent[v]
            return v

        for u, v, _ in self.edges:
            if u >= 0 and v >= 0:
                parent[find(u)] = find(v)
        for edge in self.edges:
            v = max(edge[0], edge[1])
            if v >= 0:
                inside.setdefault(find(v), []).append(edge)
        return {v for edges in inside.values() for v in _minimum_cut(edges)}


def _minimum_cut(edges: Iterable[tuple[int, int, float]]) -> set[int]:
    import networkx as nx
    from networkx.algorithms.flow import boykov_kolmogorov

    g = nx.DiGraph()
    for u, v, cost in edges:
        if g.has_edge(u, v):
            g[u][v]["capacity"] += cost
        else:
            g.add_edge(u, v, capacity=cost)
    if _Network.SINK not in g:
        return {v for v in g if v >= 0}
    if _Network.SOURCE not in g:
        return set()
    _, (near, _) = nx.minimum_cut(g, _Network.SOURCE, _Network.SINK, flow_func=boykov_kolmogorov)
    return {v for v in near if v >= 0}


def _convert(graph: Graph, value: Value, packed: set[Node]) -> int:
    """Inserts the conversion that readers of another layout share."""
    given = value.producer in packed
    wanting = []
    for node, i in value.uses:
        wants = node is not graph.ret and node in packed and _follows(node, i)
        if wants is not given:
            wanting.append((node, i))
    if not wanting:
        return 0
    first = next(iter(graph)) if value.producer is None else value.producer._next
    b = Builder(graph, first, value.producer.origin + " > assign_layout" if value.producer else "assign_layout")
    converted: Value = b.ConvertLayout(value, to="NCHW" if given else "NC4HW4")
    if any(node is graph.ret for node, _ in wanting):
        # The outside knows this value by its name.
        converted.name, value.name = value.name, f"{value.name}_packed" if value.name else ""
    for node, i in wanting:
        node.set_input(i, converted)
    return 1
