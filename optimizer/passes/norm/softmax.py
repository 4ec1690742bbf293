"""Softmax and its logarithm, as sources spell them."""

from __future__ import annotations

from typing import Any

from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match, same_shape
from minnow.schema.ir import Node, Value
from minnow.schema.ops import Builder


def _shifted(p: Any, x: Any) -> Any:
    return p.Sub(x, p.ReduceMax(x, keepdims=True, as_="top"))


def _shares(p: Any, e: Any) -> Any:
    """e / sum(e)"""
    total = p.ReduceSum(e, keepdims=True, as_="total")
    return p.Div(e, total) | p.Mul(e, p.Reciprocal(total))


def _one_axis(m: Match, *names: str) -> int | None:
    """The one axis of all of these reductions that the pattern has."""
    nodes: list[Node] = [m.bound[n] for n in names if n in m.bound]
    rank = m.x.type.rank
    axes = [node.attrs.get("axes") for node in nodes]
    if rank is None or any(a is None or len(a) != 1 for a in axes):
        return None
    given = {a[0] % rank for a in axes if a is not None}
    return given.pop() if len(given) == 1 else None


@rewrite(lambda p, x: _shares(p, p.Exp(_shifted(p, x))))
def fuse_softmax(b: Builder, m: Match) -> Value | None:
    """exp(x - max) / sum(exp(x - max)) along one axis

    Given:
        graph g(%x: f32[2,3]) {
          %a: f32[1,3] = ReduceMax(%x) {axes=(0,)}
          %b: f32[2,3] = Sub(%x, %a)
          %c: f32[2,3] = Exp(%b)
          %d: f32[1,3] = ReduceSum(%c) {axes=(-2,)}
          %y: f32[2,3] = Div(%c, %d)
          return %y
        }
    Result:
        graph g(%x: f32[2,3]) {
          %y: f32[2,3] = Softmax(%x) {axis=0}
          return %y
        }
    """
    axis = _one_axis(m, "top", "total")
    if axis is None:
        return m.no("maximum and sum are not taken along the same one axis")
    return b.Softmax(m.x, axis=axis)


@rewrite(
    lambda p, x: (
        (lambda d: p.Sub(d, p.Log(p.ReduceSum(p.Exp(d), keepdims=True, as_="total"))))(_shifted(p, x))
        | p.Sub(x, p.ReduceLogSumExp(x, keepdims=True, as_="total"))
    )
)
def fuse_log_softmax(b: Builder, m: Match) -> Value | None:
    """x - max - log(sum(exp(x - max))) along one axis

    Given:
        graph g(%x: f32[2,3]) {
          %a: f32[2,1] = ReduceMax(%x) {axes=(1,)}
          %b: f32[2,3] = Sub(%x, %a)
          %c: f32[2,3] = Exp(%b)
          %d: f32[2,1] = ReduceSum(%c) {axes=(1,)}
          %e: f32[2,1] = Log(%d)
          %y: f32[2,3] = Sub(%b, %e)
          return %y
        }
    Result:
        graph g(%x: f32[2,3]) {
          %y: f32[2,3] = LogSoftmax(%x) {axis=1}
          return %y
        }
    """
    axis = _one_axis(m, "top", "total")
    if axis is None or not same_shape(m.x, m.root.output):
        return m.no("maximum and sum are not taken along the same one axis")
    return b.LogSoftmax(m.x, axis=axis)


@rewrite(lambda p, x: p.Log(p.Softmax(x, as_="softmax")), level=3, target="minnow")
def fuse_log_of_softmax(b: Builder, m: Match) -> Value:
    """The logarithm of what is too small for a float is one of it here, not minus infinity.

    Given:
        graph g(%x: f32[2,3]) {
          %a: f32[2,3] = Softmax(%x) {axis=0}
          %y: f32[2,3] = Log(%a)
          return %y
        }
    Result:
        graph g(%x: f32[2,3]) {
          %y: f32[2,3] = LogSoftmax(%x) {axis=0}
          return %y
        }
    """
    return b.LogSoftmax(m.x, axis=m.softmax.attrs.get("axis", -1))


@rewrite(
    lambda p, x: _shares(p, p.Exp(x)),
    level=3,
)
def fuse_plain_softmax(b: Builder, m: Match) -> Value | None:
    """exp(x) / sum(exp(x)) along one axis, which is not a number where the sum is too large.

    Given:
        graph g(%x: f32[2,3]) {
          %a: f32[2,3] = Exp(%x)
          %b: f32[2,1] = ReduceSum(%a) {axes=(1,)}
          %y: f32[2,3] = Div(%a, %b)
          return %y
        }
    Result:
        graph g(%x: f32[2,3]) {
          %y: f32[2,3] = Softmax(%x) {axis=1}
          return %y
        }
    """
    axis = _one_axis(m, "total")
    if axis is None or not m.x.type.dtype.is_float:
        return m.no("the sum is not taken along one axis")
    return b.Softmax(m.x, axis=axis)


@rewrite(
    lambda p, x: (
        p.Add(p.Log(p.ReduceSum(p.Exp(_shifted(p, x)), keepdims=True, as_="total")),
              p.ReduceMax(x, keepdims=True, as_="top"))
    ),
    target="minnow",
)  # fmt: skip
def fuse_log_sum_exp(b: Builder, m: Match) -> Value | None:
    """max + log(sum(exp(x - max))) along the same axes

    Given:
        graph g(%x: f32[2,3]) {
          %a: f32[2,1] = ReduceMax(%x) {axes=(1,)}
          %b: f32[2,3] = Sub(%x, %a)
          %c: f32[2,3] = Exp(%b)
          %d: f32[2,1] = ReduceSum(%c) {axes=(1,)}
          %e: f32[2,1] = Log(%d)
          %y: f32[2,1] = Add(%a, %e)
          return %y
        }
    Result:
        graph g(%x: f32[2,3]) {
          %y: f32[2,1] = ReduceLogSumExp(%x) {axes=(1,)}
          return %y
        }
    """
    axis = _one_axis(m, "top", "total")
    if axis is None or not m.x.type.dtype.is_float:
        return m.no("maximum and sum are not taken along the same one axis")
    return b.ReduceLogSumExp(m.x, axes=(axis,))
