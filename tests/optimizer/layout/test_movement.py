"""What is moved only for the order, as `inspect --layout` tells it."""

from __future__ import annotations

from rewriting import read

from minnow.optimizer.layout.assign import assign_layout
from minnow.optimizer.layout.movement import Move, layout_of


def test_conversions_and_transposes_with_their_bytes() -> None:
    graph = read("""
        graph g(%x: f32[1,2,3,4]) {
          %t: f32[1,4,2,3] = Transpose(%x) {perm=(0, 3, 1, 2)}
          %a: f32[1,4,2,3] = LRN(%t) {size=3}
          %b: f32[1,4,2,3] = Exp(%a)
          %c: f32[1,4,2,3] = LRN(%b) {size=3}
          return %c, %b
        }""")
    assign_layout.apply(graph)
    layout = layout_of(graph)
    assert (layout.packed, layout.plain) == (3, 1)
    type, size = "f32[1,4,2,3]", 24 * 4 + 1
    assert [(m.what, m.type, m.before, m.after) for m in layout.moves] == [
        ("0 3 1 2", "f32[1,2,3,4]", "input", ["ConvertLayout"]),
        ("NC4HW4", type, "Transpose", ["LRN"]),
        ("NCHW", type, "Exp", ["output"]),
        ("NCHW", type, "LRN", ["output"]),
    ]
    assert [m.bytes for m in layout.moves] == [size] * 4
    assert layout.moved_bytes == 4 * size
    assert layout.bytes == 7 * size
    assert isinstance(layout.moves[0], Move)


def test_nothing_moves() -> None:
    graph = read("graph g(%x: f32[4]) { %y: f32[4] = Exp(%x) return %y }")
    layout = layout_of(graph)
    assert (layout.packed, layout.plain, layout.moves, layout.moved_bytes) == (0, 1, [], 0)
