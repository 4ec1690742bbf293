"""What a model moves only to have it in another order: conversions between layouts, and transposes, with their cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from minnow.optimizer.layout.assign import PACKED, PLAIN
from minnow.optimizer.layout.cut import bytes_of
from minnow.schema.ir import Graph, Value
from minnow.schema.ops import Trait, get


@dataclass(frozen=True)
class Move:
    """One node that moves a value.

    Attributes:
        graph, value: where it stands, and the name of its result.
        what: "NC4HW4" or "NCHW" for a conversion, the order of axes for a transpose.
        type: of what is moved.
        bytes: number of bytes read; sizes of dynamic dimensions are guessed.
        before, after: ops of the producer ("input" where there is none) and of the readers ("output").
    """

    graph: str
    value: str
    what: str
    type: str
    bytes: int
    before: str
    after: list[str]


@dataclass(frozen=True)
class Layout:
    """Where a model's values lie in channel blocks, and what it costs to get them there and back.

    Attributes:
        packed, plain: number of nodes whose results are in channel blocks, and of others.
        bytes: of all results of nodes; those of moves are part of them.
        moves: in order of execution.
    """

    packed: int
    plain: int
    bytes: int
    moves: list[Move]

    @property
    def moved_bytes(self) -> int:
        return sum(m.bytes for m in self.moves)

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {**asdict(self), "moved_bytes": self.moved_bytes}


def layout_of(graph: Graph) -> Layout:
    """The layout of an optimized graph and those in it."""
    nodes = [(g, n) for g in graph.walk() for n in g]
    moves = []
    for inside, node in nodes:
        if Trait.REORDER in get(node.op).traits:
            x = node.input(0)
            what = node.attrs["to"] if node.op == "ConvertLayout" else " ".join(map(str, node.attrs["perm"]))
            readers = dict.fromkeys("output" if n is inside.ret else n.op for n, _ in node.output.uses)
            before = "input" if x.producer is None else x.producer.op
            moves.append(
                Move(inside.name, node.output.name or x.name, what, _text(x), bytes_of(x), before, list(readers))
            )
    packed = sum(any(v.type.layout == PACKED for v in n.outputs) for _, n in nodes if n.op != "ConvertLayout")
    converted = sum(n.op == "ConvertLayout" for _, n in nodes)
    made = sum(bytes_of(v) for _, n in nodes for v in n.outputs)
    return Layout(packed, len(nodes) - packed - converted, made, moves)


def _text(value: Value) -> str:
    return str(value.type.with_layout(PLAIN))
