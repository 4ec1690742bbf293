"""Dilated convolutions that a source spells out: blocks of space as images of the batch, a convolution, and back."""

from __future__ import annotations

from typing import Any

from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match
from minnow.schema.ir import Node, Value
from minnow.schema.ops import Builder, Trait, get

_TO_BATCH, _TO_SPACE = (2, 4, 0, 1, 3, 5), (2, 3, 0, 4, 1, 5)
_TURNS = {(0, 3, 1, 2): 3, (0, 2, 3, 1): 1}
"""How channels change their place, and where they are before."""


@rewrite(lambda p, x: p.Reshape(p.Transpose(p.Reshape(x, p.any("six")), perm=_TO_SPACE), p.any("four")))
def fuse_dilation(b: Builder, m: Match) -> Value | None:
    """A convolution of every other (third, ...) place, all of which are images of the batch, is a dilated one.

    Given:
        graph g(%x: f32[1,4,6,1]) {
          %a: f32[1,2,2,3,2,1] = Reshape(%x, i64[6](1, 2, 2, 3, 2, 1))
          %b: f32[2,2,1,2,3,1] = Transpose(%a) {perm=(2, 4, 0, 1, 3, 5)}
          %c: f32[4,2,3,1] = Reshape(%b, i64[4](4, 2, 3, 1))
          %d: f32[4,1,2,3] = Transpose(%c) {perm=(0, 3, 1, 2)}
          %e: f32[4,2,1,2] = Conv(%d, f32[2,1,2,2](1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}
          %f: f32[4,1,2,2] = Transpose(%e) {perm=(0, 2, 3, 1)}
          %g: f32[4,1,2,2] = Add(%f, f32[2](0.5, -0.5))
          %h: f32[2,2,1,1,2,2] = Reshape(%g, i64[6](2, 2, 1, 1, 2, 2))
          %i: f32[1,1,2,2,2,2] = Transpose(%h) {perm=(2, 3, 0, 4, 1, 5)}
          %y: f32[1,2,4,2] = Reshape(%i, i64[4](1, 2, 4, 2))
          return %y
        }
    Result:
        graph g(%x: f32[1,4,6,1]) {
          %0: f32[1,1,4,6] = Transpose(%x) {perm=(0, 3, 1, 2)}
          %1: f32[1,2,2,4] = Conv(%0, f32[2,1,2,2](1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(2, 2)}
          %2: f32[1,2,4,2] = Transpose(%1) {perm=(0, 2, 3, 1)}
          %y: f32[1,2,4,2] = Add(%2, f32[2](0.5, -0.5))
          return %y
        }
    """  # noqa: E501
    wide = m.root.input(0).type.shape  # [N, H / d, d, W / d, d, C]
    if wide is None or m.root.output.type.rank != 4:
        return m.no("the result is not known to have the four axes of images")
    block = (wide[2], wide[4])
    if not all(isinstance(d, int) for d in block):
        return m.no("the size of the blocks is not known")
    if m.root.output.type.shape != (wide[0], *map(_times, (wide[1], wide[3]), block), wide[5]):
        return m.no("it does not put the blocks together")
    steps, at = [], 3
    node = m.x.producer
    while node is not None and node.op not in ("Conv", "ConvInteger"):
        turned = _step(node, at)
        if turned is None:
            return m.no(f"{node.op} stands between the convolution and the blocks")
        steps.append(node)
        at, node = turned, node.input(0).producer
    if node is None or at != 1:
        return m.no("no convolution gives the blocks")
    if set(node.attrs["strides"]) | set(node.attrs["dilations"]) != {1} or any(node.attrs["pads"]):
        return m.no("the convolution has strides, padding or gaps of its own")
    turn = node.input(0).producer
    source = None if turn is None or turn.op != "Transpose" else _before_blocks(turn.input(0), block)
    if turn is None or source is None or turn.attrs["perm"] != (0, 3, 1, 2):
        return m.no("the convolution reads no blocks of that size")
    y = b.Transpose(source, perm=turn.attrs["perm"])
    y = b.node(node.op, [y, *node.inputs[1:]], {**node.attrs, "dilations": block, "auto_pad": ""}).output
    for step in reversed(steps):
        y = b.node(step.op, [y, *step.inputs[1:]], step.attrs).output
    return y


def _times(a: Any, n: Any) -> Any:
    return a * n if isinstance(a, int) else a


def _step(node: Node, at: int) -> int | None:
    """Where the channels are in front of a node that does the same to every image and place; `at`: behind it.

    None for other nodes.
    """
    if node.op == "Transpose":
        perm = node.attrs["perm"]
        return _TURNS[perm] if perm in _TURNS and _TURNS[perm] != at else None
    if Trait.ELEMENTWISE not in get(node.op).traits or node.input(0).type.rank != 4:
        return None
    for other in node.inputs[1:]:
        if other is None:
            continue
        if other.data is None or len(other.data.shape) > 4:
            return None
        full = (1,) * (4 - len(other.data.shape)) + tuple(other.data.shape)
        if any(d != 1 for i, d in enumerate(full) if i != at):
            return None
    return at


def _before_blocks(x: Value, block: tuple[Any, Any]) -> Value | None:
    """What was divided into blocks of that size, whose places are images of the batch in `x`."""
    joined = x.producer
    moved = None if joined is None or joined.op != "Reshape" else joined.input(0).producer
    if joined is None or moved is None or moved.op != "Transpose" or moved.attrs["perm"] != _TO_BATCH:
        return None
    split = moved.input(0).producer
    if split is None or split.op != "Reshape":
        return None
    inner, source = split.output.type.shape, split.input(0)
    if inner is None or source.type.rank != 4 or (inner[2], inner[4]) != block or x.type.rank != 4:
        return None
    if source.type.shape != (inner[0], *map(_times, (inner[1], inner[3]), block), inner[5]):
        return None
    shape = x.type.shape
    return source if shape is not None and shape[1:] == (inner[1], inner[3], inner[5]) else None
