"""Slices that cut a value into its parts. They come late: other rules know parts as slices."""

from __future__ import annotations

from minnow.optimizer.passes.movement.slice import Piece, bounds, piece
from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match
from minnow.schema.ir import Value
from minnow.schema.ops import Builder

# Looking for the other parts among more readers than these would take too long.
_MAX_READERS = 256


@rewrite(lambda p, x, start, end: p.Slice(x, start, end, ..., as_="slice"), shared=True)
def split_tiles(b: Builder, m: Match) -> Value | None:
    """Slices that have every element of an axis once are cut in one step.

    Given:
        graph g(%x: f32[2,6]) {
          %a: f32[2,4] = Slice(%x, i64[1](2), i64[1](6), i64[1](1))
          %b: f32[2,2] = Slice(%x, i64[1](0), i64[1](2), i64[1](1))
          %c: f32[2,4] = Exp(%a)
          %d: f32[2,2] = Neg(%b)
          return %c, %d
        }
    Result:
        graph g(%x: f32[2,6]) {
          %0: f32[2,2], %1: f32[2,4] = Split(%x) {axis=1, sizes=(2, 4)}
          %c: f32[2,4] = Exp(%1)
          %d: f32[2,2] = Neg(%0)
          return %c, %d
        }
    """
    cuts = bounds(m.slice)
    if cuts is None or len(cuts) != 1 or m.x.is_const:
        return m.no("it cuts along several axes, or some bound is computed")
    (axis,) = cuts
    mine, extent = piece(m.root.output, axis), m.x.type.shape[axis]
    if mine is None or not isinstance(extent, int) or (mine.start, mine.end) == (0, extent):
        return m.no("it has steps, or the size is not known, or it takes everything")
    if len(m.x.uses) > _MAX_READERS:
        return m.no("too many nodes read the value")
    readers = dict.fromkeys(node for node, i in m.x.uses if i == 0)
    parts: dict[tuple[int, int], Piece] = {}
    for node in readers:
        # Any other might stand behind what reads this slice.
        if node.op == "Split" and node.origin.endswith("split_tiles"):
            for value in node.outputs:
                if piece(value, axis) == mine:
                    return value
        elif node.op == "Slice" and (other := piece(node.output, axis)) is not None:
            parts[other.start, other.end] = other
    ordered = sorted(parts)
    if [0, *(end for _, end in ordered)] != [*(start for start, _ in ordered), extent]:
        return m.no("the slices do not have every element once")
    # What is cut once must stand in front of all who read the parts.
    producer = m.x.producer
    with b.at(producer.next if producer is not None else next(iter(b.graph))):
        sizes = tuple(end - start for start, end in ordered)
        made = b.Split(m.x, n_outputs=len(sizes), axis=axis, sizes=sizes)
    return made[ordered.index((mine.start, mine.end))]
