"""What the page of one model shows: a dataclass for each section. `sections` makes HTML of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from minnow.optimizer.effect import Effect, Lifetime, lifetimes_of, live_bytes
from minnow.report.page.graph import GraphView
from minnow.schema.ir import Graph, Node, Value
from minnow.schema.ir.blob import nbytes
from minnow.schema.ops import get

if TYPE_CHECKING:
    from minnow.runtime.verify.verification import Verification

_FEW_BITS = 8


@dataclass(frozen=True)
class Size:
    """One of the numbers before and after: its name, both values (None: unknown), and whether it counts bytes."""

    name: str
    before: int | None
    after: int | None
    is_bytes: bool = False


@dataclass(frozen=True)
class Change:
    """A model before and after conversion.

    Attributes:
        before: the cost of the source; None without one.
        after: the cost of the file.
        source_bytes, output_bytes: sizes of the files; 0: there is none.
    """

    before: Effect | None
    after: Effect
    source_bytes: int
    output_bytes: int

    def sizes(self) -> list[Size]:
        """The rows of the table, without those that are 0 in both."""
        a, b = self.before, self.after
        names = (
            ("Nodes", "total", False),
            ("Multiply-accumulates", "macs", False),
            ("Bytes read and written", "bytes", True),
            ("… by layout conversions", "moved_bytes", True),
            ("Weights", "weight_bytes", True),
            ("Peak memory of tensors", "peak_bytes", True),
        )
        rows = [Size("File", self.source_bytes or None, self.output_bytes, True)]
        rows += [Size(t, None if a is None else getattr(a, n), getattr(b, n), is_bytes) for t, n, is_bytes in names]
        return [row for row in rows if row.before or row.after]


@dataclass(frozen=True)
class Memory:
    """Bytes of tensors over time.

    Attributes:
        live: bytes while each node runs; the first ones are those of the inputs.
        largest: the tensors that are alive at the peak, largest first.
        arena: bytes that the engine has reserved; 0 if it was not run.
    """

    live: Sequence[int]
    largest: Sequence[Lifetime]
    arena: int = 0

    @classmethod
    def of(cls, graph: Graph, arena: int = 0) -> Memory:
        live = list(live_bytes(graph))
        peak = live.index(max(live)) - 1
        alive = [life for life in lifetimes_of(graph) if life.first <= peak <= life.last]
        return cls(live, sorted(alive, key=lambda life: (-life.bytes, life.first))[:12], arena)


@dataclass(frozen=True)
class QuantizedLayer:
    """A layer with weights of few bits.

    Attributes:
        name, op: of the layer.
        dtype, bits: of its weights.
        scale: how many scales there are, and for what.
        bytes: of the weights.
        item: number of its box in the graph; -1 for none.
    """

    name: str
    op: str
    dtype: str
    bits: int
    scale: str
    bytes: int
    item: int = -1


@dataclass
class ModelPage:
    """All sections.

    Attributes:
        title: the name of the model.
        subtitle: formats and sizes.
        change: before and after.
        verification: the comparison with the source; None without one, for the reason in `unverified`.
        graph: the nodes with all facts.
        items: numbers of the boxes of nodes, for links.
        timings: of the benchmark, the engine's first; none if it was not run, for the reason in `untimed`.
        limits: operations and bytes per second of this machine; empty without times.
        memory: over time.
        quantized: the layers with weights of few bits.
        notices: of the conversion.
        names: the nodes by the names that the engine has for them.
        footer: versions.
    """

    title: str
    subtitle: str
    change: Change
    graph: GraphView
    memory: Memory
    verification: Verification | None = None
    unverified: str = ""
    timings: Sequence[Any] = ()
    untimed: str = ""
    limits: dict[str, float] = field(default_factory=dict)
    quantized: Sequence[QuantizedLayer] = ()
    notices: Sequence[str] = ()
    names: Mapping[str, Node] = field(default_factory=dict)
    footer: str = ""

    def item_of(self, node: Node | None) -> int:
        """The number of the box of a node; -1 for none."""
        if not hasattr(self, "_items"):
            items = self.graph.drawing.outline.items
            self._items = {item.node: item.id for item in items if item.node is not None}
        return -1 if node is None else self._items.get(node, -1)


def quantized_layers(graph: Graph, view: GraphView) -> list[QuantizedLayer]:
    """The layers of a graph and its subgraphs that have weights of at most 8 bits."""
    items = {item.node: item.id for item in view.drawing.outline.items if item.node is not None}
    found = []
    for node in _nodes(graph):
        names = [i.name for i in get(node.op).inputs]
        for value in node.inputs:
            if value is None or not _is_few(value) or not (get(node.op).count_macs or _scales(node, names)):
                continue
            count = value.type.count or 0
            if count < 16:
                continue
            reader = _reader(node)
            data = value.data
            assert data is not None
            found.append(
                QuantizedLayer(
                    name_of(reader),
                    reader.op if reader is node else f"{reader.op} after {node.op}",
                    str(value.type.dtype),
                    value.type.dtype.bits,
                    _scale_text(node, names),
                    nbytes(data),
                    items.get(reader, -1),
                )
            )
    return found


def name_of(node: Node) -> str:
    """The name of a node, or where it comes from, or its op."""
    return node.name or node.origin.partition(" > ")[0].partition(":")[2] or node.op


def _nodes(graph: Graph) -> Iterable[Node]:
    for g in graph.walk():
        yield from g


def _is_few(value: Value) -> bool:
    dtype = value.type.dtype
    return value.data is not None and dtype.bits <= _FEW_BITS and str(dtype) != "bool" and not value.type.holds_tensors


def _scales(node: Node, names: Sequence[str]) -> list[Value]:
    """The operands that are scales."""
    pairs = zip(names, node.inputs, strict=False)
    return [v for name, v in pairs if v is not None and ("scale" in name or name == "factor")]


def _scale_text(node: Node, names: Sequence[str]) -> str:
    scales = _scales(node, names)
    if not scales:
        return "in later nodes"
    counts = [v.type.count for v in scales]
    most = max((c for c in counts if c is not None), default=0)
    if not most:
        return "computed"
    kind = "fixed point" if str(scales[0].type.dtype) == "i32" else "float"
    return f"one ({kind})" if most == 1 else f"{most} ({kind}), one per channel or block"


def _reader(node: Node) -> Node:
    """The layer behind a node that only converts weights."""
    while not get(node.op).count_macs:
        users = [n for v in node.outputs for n in v.users if n.op != "ret"]
        if len(users) != 1:
            break
        node = users[0]
    return node
