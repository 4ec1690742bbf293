"""Reductions that sources spell out, and that nothing larger was made of."""

from __future__ import annotations

from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match
from minnow.schema.ir import Value
from minnow.schema.ops import Builder


@rewrite(lambda p, x: p.ReduceMean(x, axes=lambda a: a is not None and sorted(a) in ([2, 3], [-2, -1]), as_="mean"))
def fuse_global_average(b: Builder, m: Match) -> Value | None:
    """The mean over height and width is a global pooling, which works on channel blocks.

    Given:
        graph g(%x: f32[1,3,5,5]) {
          %y: f32[1,3] = ReduceMean(%x) {axes=(2, 3), keepdims=False}
          return %y
        }
    Result:
        graph g(%x: f32[1,3,5,5]) {
          %0: f32[1,3,1,1] = GlobalAveragePool(%x)
          %y: f32[1,3] = Squeeze(%0) {axes=(2, 3)}
          return %y
        }
    """
    if m.x.type.rank != 4 or not m.x.type.dtype.is_float:
        return m.no("the input does not have the axes N, C, H, W")
    pooled: Value = b.GlobalAveragePool(m.x)
    return pooled if m.mean.attrs.get("keepdims", True) else b.Squeeze(pooled, axes=(2, 3))


@rewrite(lambda p, x: p.Sqrt(p.ReduceSumSquare(x, as_="sum") | p.ReduceSum(p.Square(x), as_="sum")), target="minnow")
def fuse_l2(b: Builder, m: Match) -> Value | None:
    """The square root of a sum of squares.

    Given:
        graph g(%x: f32[3,4]) {
          %a: f32[3,4] = Square(%x)
          %b: f32[3,1] = ReduceSum(%a) {axes=(1,)}
          %y: f32[3,1] = Sqrt(%b)
          return %y
        }
    Result:
        graph g(%x: f32[3,4]) {
          %y: f32[3,1] = ReduceL2(%x) {axes=(1,)}
          return %y
        }
    """
    return b.ReduceL2(m.x, **m.sum.attrs)


@rewrite(lambda p, x: p.ReduceSum(p.Square(x), as_="sum") | p.ReduceSum(p.Abs(x), as_="sum"), target="minnow")
def fuse_sum_of_sizes(b: Builder, m: Match) -> Value | None:
    """A sum of squares, or of absolute values.

    Given:
        graph g(%x: f32[3,4]) {
          %a: f32[3,4] = Abs(%x)
          %y: f32[3] = ReduceSum(%a) {axes=(1,), keepdims=False}
          return %y
        }
    Result:
        graph g(%x: f32[3,4]) {
          %y: f32[3] = ReduceL1(%x) {axes=(1,), keepdims=False}
          return %y
        }
    """
    if not m.x.type.dtype.is_float:
        return m.no("it is not of floats")
    absolute = any(node.op == "Abs" for node in m.nodes)
    return b.node("ReduceL1" if absolute else "ReduceSumSquare", [m.x], m.sum.attrs).output
