"""Blocks of pixels that become channels, and channels that become blocks of pixels, where sources spell it out."""

from __future__ import annotations

from typing import Any

from minnow.optimizer.facts.derive import ONE, extents, viewed
from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match, Tracer
from minnow.schema.ir import Value
from minnow.schema.ops import Builder
from minnow.schema.registry.symbolic import Known, product

_TO_SPACE: dict[tuple[int, ...], tuple[str, tuple[int, int]]] = {
    (0, 3, 4, 1, 5, 2): ("DCR", (1, 2)),
    (0, 1, 4, 2, 5, 3): ("CRD", (2, 3)),
}
"""How six axes [N, channels in three parts, H, W] are turned -> the mode, and which of them are the block."""

_TO_DEPTH, _TO_DEPTH_INSIDE = (0, 3, 5, 1, 2, 4), (0, 1, 3, 5, 2, 4)
"""How six axes [N, C, H / b, b, W / b, b] are turned: the block before the channels, or behind them."""

_CHANNELS, _SPACE = (1, 3, 1, 1), (1, 1, 2, 2)
"""How many of the six axes make each of the four: of what has its blocks in channels, and in space."""


def _spelled(p: Tracer, x: Any, *perms: tuple[int, ...]) -> Any:
    first = p.Reshape(x, p.any("six"), as_="first")
    return p.Reshape(p.Transpose(first, as_="turn", perm=lambda perm: tuple(perm) in perms), p.any("four"), as_="last")


def _joined(six: Known, counts: tuple[int, ...]) -> Known:
    starts = [sum(counts[:i]) for i in range(4)]
    return [product(six[at : at + n]) for at, n in zip(starts, counts, strict=True)]


def _axes(m: Match, before: tuple[int, ...], after: tuple[int, ...]) -> Known | None:
    """The six axes, when the first view divides those of x, and the last one joins them, as it is said."""
    own = extents(m.x)
    six = None if own is None else viewed(m.first, own)
    if own is None or six is None or len(six) != 6 or None in own or None in six:
        return None
    turned = [six[i] for i in m.turn.attrs["perm"]]
    made = viewed(m.last, turned)
    if made is None or None in made or own != _joined(six, before) or made != _joined(turned, after):
        return None
    return six


def _side(six: Known, block: tuple[int, int]) -> int | None:
    """The side of the blocks, None where it is not known, or they are no squares of more than one pixel."""
    rows, columns = (None if six[i] is None else six[i].integer for i in block)  # type: ignore[union-attr]
    return rows if rows is not None and rows == columns and rows > 1 else None


@rewrite(lambda p, x: _spelled(p, x, *_TO_SPACE))
def fuse_depth_to_space(b: Builder, m: Match) -> Value | None:
    """Channels whose parts become blocks of pixels.

    Given:
        graph g(%x: f32[N,8,3,5]) {
          %a: f32[N,2,2,2,3,5] = Reshape(%x, i64[6](0, 2, 2, 2, 3, 5))
          %b: f32[N,2,3,2,5,2] = Transpose(%a) {perm=(0, 1, 4, 2, 5, 3)}
          %y: f32[N,2,6,10] = Reshape(%b, i64[4](0, 2, 6, 10))
          return %y
        }
    Result:
        graph g(%x: f32[N,8,3,5]) {
          %y: f32[N,2,6,10] = DepthToSpace(%x) {blocksize=2, mode="CRD"}
          return %y
        }
    """
    mode, block = _TO_SPACE[tuple(m.turn.attrs["perm"])]
    six = _axes(m, _CHANNELS, _SPACE)
    if six is None:
        return m.no("the views do not divide channels and join height and width, as far as is known")
    side = _side(six, block)
    if side is None:
        return m.no("the blocks are no squares, or not known")
    return b.DepthToSpace(m.x, blocksize=side, mode=mode)


@rewrite(lambda p, x: _spelled(p, x, _TO_DEPTH, _TO_DEPTH_INSIDE))
def fuse_space_to_depth(b: Builder, m: Match) -> Value | None:
    """Blocks of pixels that become parts of the channels.

    The format has it with the block before the channels only; for one channel that is the same.

    Given:
        graph g(%x: f32[N,3,4,10]) {
          %a: f32[N,3,2,2,5,2] = Reshape(%x, i64[6](0, 3, 2, 2, 5, 2))
          %b: f32[N,2,2,3,2,5] = Transpose(%a) {perm=(0, 3, 5, 1, 2, 4)}
          %y: f32[N,12,2,5] = Reshape(%b, i64[4](0, 12, 2, 5))
          return %y
        }
    Result:
        graph g(%x: f32[N,3,4,10]) {
          %y: f32[N,12,2,5] = SpaceToDepth(%x) {blocksize=2}
          return %y
        }
    """
    six = _axes(m, _SPACE, _CHANNELS)
    if six is None:
        return m.no("the views do not divide height and width and join channels, as far as is known")
    if tuple(m.turn.attrs["perm"]) == _TO_DEPTH_INSIDE and six[1] != ONE:
        return m.no("the block stands behind the channels, which no op has")
    side = _side(six, (3, 5))
    if side is None:
        return m.no("the blocks are no squares, or not known")
    return b.SpaceToDepth(m.x, blocksize=side)
