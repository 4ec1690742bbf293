"""Ops whose form in the file is computed otherwise by the format's runtimes, in terms of what they compute right."""

from __future__ import annotations

import numpy as np

from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder


@rewrite(lambda p, x: p.Round(x, halves="even"), level=0)
def legalize_round(b: Builder, m: Match) -> Value | None:
    """The format rounds halves away from zero. An even number next to a half is twice the rounded quarter.

    Given:
        graph g(%x: f32[4]) {
          %y: f32[4] = Round(%x)
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %0: f32[4] = Round(%x) {halves="away"}
          %1: f32[4] = Mul(%x, f32[](0.5))
          %2: f32[4] = Round(%1) {halves="away"}
          %3: f32[4] = Mul(%2, f32[](2.0))
          %4: f32[4] = Sub(%x, %0)
          %5: f32[4] = Abs(%4)
          %6: bool[4] = Equal(%5, f32[](0.5))
          %y: f32[4] = Where(%6, %3, %0)
          return %y
        }
    """
    if m.x.type.dtype is not DType.F32:
        return m.no("the format computes with f32")
    nearest = b.Round(m.x, halves="away")
    even = b.Mul(b.Round(b.Mul(m.x, 0.5), halves="away"), 2.0)
    return b.Where(b.Equal(b.Abs(b.Sub(m.x, nearest)), 0.5), even, nearest)


@rewrite(lambda p, x, y: p.Max(x, y) | p.Min(x, y), level=0)
def legalize_extremum(b: Builder, m: Match) -> Value | None:
    """Runtimes of the format lose a first operand that is not a number: constants go there, others are looked at.

    Given:
        graph g(%x: f32[4], %y: f32[4]) {
          %a: f32[4] = Max(%x, f32[](1.0))
          %b: f32[4] = Min(%a, %y)
          return %b
        }
    Result:
        graph g(%x: f32[4], %y: f32[4]) {
          %0: f32[4] = Max(f32[](1.0), %x)
          %1: f32[4] = Min(%0, %y)
          %2: bool[4] = LessOrEqual(%0, %0)
          %b: f32[4] = Where(%2, %1, %0)
          return %b
        }
    """
    if m.x.type.dtype is not DType.F32:
        return m.no("integers are always numbers")
    if _is_number(m.x):
        return m.no("the first operand is a number")
    if _is_number(m.y):
        return b.node(m.root.op, [m.y, m.x], {}).output
    if any(n.op == "Where" and i == 1 and _asks_whether_number(n.input(0), m.x) for n, i in m.root.output.uses):
        return m.no("the first operand is looked at")
    kept = b.node(m.root.op, [m.x, m.y], {}).output
    return b.Where(b.LessOrEqual(m.x, m.x), kept, m.x)


def _asks_whether_number(condition: Value, v: Value) -> bool:
    test = condition.producer
    return test is not None and test.op == "LessOrEqual" and test.input(0) is v and test.input(1) is v


def _is_number(v: Value) -> bool:
    return v.data is not None and (v.type.count or 0) <= 4096 and not bool(np.isnan(v.data.numpy()).any())


@rewrite(lambda p, x: p.ArgMax(x, select_last_index=True) | p.ArgMin(x, select_last_index=True), level=0)
def legalize_last_arg(b: Builder, m: Match) -> Value | None:
    """The last of equals is the first one from the end.

    Given:
        graph g(%x: f32[4,3]) {
          %y: i64[4,1] = ArgMax(%x) {axis=-1, select_last_index=True}
          return %y
        }
    Result:
        graph g(%x: f32[4,3]) {
          %0: f32[4,3] = Reverse(%x) {axes=(1,)}
          %1: i64[4,1] = ArgMax(%0) {axis=1}
          %2: i32[4,1] = Cast(%1) {to=i32}
          %3: i32[4,1] = Sub(i32[](2), %2)
          %y: i64[4,1] = Cast(%3) {to=i64}
          return %y
        }
    """
    axis, shape = m.root.attrs.get("axis", 0), m.x.type.shape
    extent = None if shape is None else shape[axis]
    if not isinstance(extent, int):
        return m.no("the size of the axis is not known")
    attrs = {**m.root.attrs, "axis": axis % len(shape or ()), "select_last_index": False}
    found = b.node(m.root.op, [b.Reverse(m.x, axes=(attrs["axis"],))], attrs).output
    # The format computes with 32 bits.
    return b.Cast(b.Sub(np.int32(extent - 1), b.Cast(found, to=DType.I32)), to=DType.I64)
