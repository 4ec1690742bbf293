"""Shapes that are computed: numbers where they are numbers, 0 and -1 where that says the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match
from minnow.schema.ir import UNKNOWN, Value
from minnow.schema.ir.type import merge
from minnow.schema.ops import Builder, Trait, get
from minnow.schema.registry.symbolic import Known, Polynomial, contents, dimension


def shape_operand(x: Value, target: Known) -> list[int] | None:
    """The target as Reshape wants it: 0 copies the dimension of x at that place, one -1 stands for what is left."""
    out: list[int] = []
    for i, e in enumerate(target):
        if e is not None and e == _dimension_at(x, i) and e.integer is None:
            out.append(0)
        elif e is not None and e.integer:
            out.append(e.integer)
        else:
            out.append(-1)
    return out if out.count(-1) <= 1 else None


def _dimension_at(x: Value, axis: int) -> Polynomial | None:
    return dimension(x, axis) if x.type.shape is not None and axis < len(x.type.shape) else None


@rewrite(lambda p, x, shape: p.Reshape(x, shape, as_="reshape"), shared=True, level=1)
def fold_reshape_shape(b: Builder, m: Match) -> Value | None:
    """A computed shape of which all but one dimension are numbers, or are those of the input at the same place.

    Given:
        graph g(%x: f32[N,3,S]) {
          %a: i64[3] = Shape(%x)
          %n: i64[1] = Slice(%a, i64[1](0), i64[1](1))
          %s: i64[1] = Slice(%a, i64[1](2), i64[1](3))
          %p: i64[1] = Mul(%s, i64[1](3))
          %c: i64[2] = Concat(%n, %p) {axis=0}
          %y: f32[N,?] = Reshape(%x, %c)
          return %y
        }
    Result:
        graph g(%x: f32[N,3,S]) {
          %y: f32[N,"3*S"] = Reshape(%x, i64[2](0, -1))
          return %y
        }
    """
    if m.shape.is_const or m.reshape.attrs.get("allowzero"):
        return m.no("the shape is constant" if m.shape.is_const else "a 0 does not copy")
    target = contents(m.shape)
    if target is None:
        return m.no("nothing is known of the shape")
    x = m.x
    while (numbers := shape_operand(x, target)) is None:
        view = x.producer
        if view is None or Trait.VIEW not in get(view.op).traits:
            return m.no("more than one dimension is neither a number nor one of the input's at its place")
        x = view.input(0)  # the same elements, in a shape that may say more
    return refined(b.Reshape(x, np.array(numbers, m.shape.type.dtype.numpy)), target)


def refined(value: Value, target: Sequence[Polynomial | None]) -> Value:
    """The value, with a type completed by the known dimensions."""
    dims = tuple(UNKNOWN if e is None or not e.at_least(0) else e.dim for e in target)
    value.type = value.type.with_shape(merge(value.type.shape, dims))
    return value


@rewrite(lambda p, x, shape: p.Expand(x, shape), shared=True, level=1)
def eliminate_expand(b: Builder, m: Match) -> Value | None:
    """An expansion to dimensions that are 1 or those of the input.

    Given:
        graph g(%x: f32[N,3]) {
          %a: i64[2] = Shape(%x)
          %b: f32[N,3] = Expand(%x, %a)
          %c: f32[N,3] = Exp(%b)
          return %c
        }
    Result:
        graph g(%x: f32[N,3]) {
          %c: f32[N,3] = Exp(%x)
          return %c
        }
    """
    target = contents(m.shape)
    rank = m.x.type.rank
    if target is None or rank is None or len(target) > rank:
        return m.no("nothing is known of the shape, or it has more axes than the input")
    mine = [dimension(m.x, rank - len(target) + i) for i in range(len(target))]
    if any(e != Polynomial.of(1) and (e is None or e != own) for e, own in zip(target, mine, strict=True)):
        return m.no("some dimension is neither 1 nor that of the input")
    return m.x
