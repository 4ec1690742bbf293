"""Arithmetic with constants, in fewer and faster steps. Rounding differs in the last bit: only at the highest level."""

from __future__ import annotations

import numpy as np

from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match
from minnow.schema.ir import Value
from minnow.schema.ops import Builder

# Bigger constants are weights, which no pass computes with.
_MAX_ELEMENTS = 4096


def _small(*values: Value) -> bool:
    return all(v.type.dtype.is_float and (v.type.count or 0) <= _MAX_ELEMENTS for v in values)


@rewrite(
    lambda p, x: (
        p.Mul(p.Mul(x, p.const("first")), p.const("second")) | p.Add(p.Add(x, p.const("first")), p.const("second"))
    ),
    level=3,
)
def fuse_constants(b: Builder, m: Match) -> Value | None:
    """Two constant factors are one, and so are two summands.

    Given:
        graph g(%x: f32[2]) {
          %a: f32[2] = Mul(%x, f32[](2.0))
          %y: f32[2] = Mul(%a, f32[2](3.0, 0.5))
          return %y
        }
    Result:
        graph g(%x: f32[2]) {
          %y: f32[2] = Mul(%x, f32[2](6.0, 1.0))
          return %y
        }
    """
    if not _small(m.first, m.second):
        return m.no("the constants are no floats, or big")
    first, second = (v.data.numpy().astype(np.float64) for v in (m.first, m.second))
    with np.errstate(over="ignore", invalid="ignore"):
        both = (first * second if m.root.op == "Mul" else first + second).astype(m.x.type.dtype.numpy)
    if not np.isfinite(both).all():
        return m.no("together they are not finite")
    return getattr(b, m.root.op)(m.x, both)


@rewrite(lambda p, x: p.Div(x, p.const("divisor")), level=3)
def split_division(b: Builder, m: Match) -> Value | None:
    """Division by a constant as multiplication by its reciprocal.

    Given:
        graph g(%x: f32[2]) {
          %y: f32[2] = Div(%x, f32[](8.0))
          return %y
        }
    Result:
        graph g(%x: f32[2]) {
          %y: f32[2] = Mul(%x, f32[](0.125))
          return %y
        }
    """
    if not _small(m.divisor) or m.x.is_const:
        return m.no("it is no float, or big")
    with np.errstate(divide="ignore", over="ignore"):
        factor = (1 / m.divisor.data.numpy().astype(np.float64)).astype(m.x.type.dtype.numpy)
    # A reciprocal without all of its bits would lose more than the last one of the result.
    if not (np.isfinite(factor) & (np.abs(factor) >= np.finfo(factor.dtype).tiny)).all():
        return m.no("the reciprocal is not a normal number")
    return b.Mul(m.x, factor)


@rewrite(lambda p, x, y: p.Div(x, p.Sqrt(y)), level=3)
def split_division_by_root(b: Builder, m: Match) -> Value | None:
    """Division by a square root as multiplication by its reciprocal.

    Given:
        graph g(%x: f32[2], %y: f32[2]) {
          %a: f32[2] = Sqrt(%y)
          %z: f32[2] = Div(%x, %a)
          return %z
        }
    Result:
        graph g(%x: f32[2], %y: f32[2]) {
          %0: f32[2] = Rsqrt(%y)
          %z: f32[2] = Mul(%x, %0)
          return %z
        }
    """
    if m.x.is_const or not m.x.type.dtype.is_float:
        return m.no("the dividend is constant")
    return b.Mul(m.x, b.Rsqrt(m.y))
