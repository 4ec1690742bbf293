"""Means that sources spell out, and reductions in a row."""

from __future__ import annotations

import math
from functools import reduce
from operator import or_

import numpy as np

from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match
from minnow.schema.ir import DType, Node, Value
from minnow.schema.ops import Builder


@rewrite(
    lambda p, x: reduce(
        or_,
        [
            getattr(p, op)(getattr(p, op)(x, as_="first"), as_="second")
            # op list: what the rule is for
            for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin")
        ],
    )
)
def fuse_reductions(b: Builder, m: Match) -> Value | None:
    """A reduction of what is reduced already, in the same way, is one over the axes of both.

    Given:
        graph g(%x: f32[N,3,4,5]) {
          %a: f32[N,4,5] = ReduceMean(%x) {axes=(1,), keepdims=False}
          %y: f32[N,4] = ReduceMean(%a) {axes=(-1,), keepdims=False}
          return %y
        }
    Result:
        graph g(%x: f32[N,3,4,5]) {
          %y: f32[N,4] = ReduceMean(%x) {axes=(1, 3), keepdims=False}
          return %y
        }
    """
    first, second, rank = m.first, m.second, m.x.type.rank
    keep = first.attrs.get("keepdims", True)
    if keep != second.attrs.get("keepdims", True):
        return m.no("one keeps its axes, the other does not")
    if first.op == "ReduceMean" and not m.x.type.dtype.is_float:
        return m.no("means of integers are rounded twice")
    if rank is None:
        return m.no("the rank is not known")
    over, then = first.attrs.get("axes"), second.attrs.get("axes")
    axes: tuple[int, ...] | None = None
    if over is not None and then is not None:
        gone = {a % rank for a in over}
        left = [i for i in range(rank) if keep or i not in gone]
        axes = tuple(sorted(gone | {left[a] for a in then}))
    return b.node(first.op, [m.x], {**first.attrs, "axes": axes}).output


@rewrite(
    lambda p, x: p.Div(p.ReduceSum(x, as_="sum"), p.const("count")) | p.Mul(p.ReduceSum(x, as_="sum"), p.const("part"))
)
def fuse_mean(b: Builder, m: Match) -> Value | None:
    """A sum over so many elements, divided by their number.

    Given:
        graph g(%x: f32[N,5,4]) {
          %a: f32[N,1,1] = ReduceSum(%x) {axes=(1, 2)}
          %y: f32[N,1,1] = Div(%a, f32[](20.0))
          return %y
        }
    Result:
        graph g(%x: f32[N,5,4]) {
          %y: f32[N,1,1] = ReduceMean(%x) {axes=(1, 2)}
          return %y
        }
    """
    count = _elements(m.sum)
    if count is None or not m.x.type.dtype.is_float:
        return m.no("how many elements there are is not known, or they are no floats")
    divided = "count" in m.bound
    constant: Value = m.count if divided else m.part
    if constant.type.count != 1 or constant.type.rank is None or constant.type.rank > (m.sum.output.type.rank or 0):
        return m.no("what it is divided by is not one number, or changes the shape")
    number = float(np.asarray(constant.array, np.float64).reshape(-1)[0])
    # As exact as the type of the constant can say it.
    close = math.isclose(number, count if divided else 1 / count, rel_tol=_ROUNDING[m.x.type.dtype])
    if not close:
        return m.no(f"the sum is over {count} elements, and times {1 / number if divided and number else number:g}")
    return b.ReduceMean(m.x, **m.sum.attrs)


_ROUNDING = {DType.F16: 1e-3, DType.BF16: 1e-2, DType.F32: 2e-7, DType.F64: 4e-16}


def _elements(node: Node) -> int | None:
    """How many elements each sum is of, where its axes are numbers."""
    shape, axes = node.input(0).type.shape, node.attrs.get("axes")
    if shape is None or node.has_input(1):
        return None
    count = 1
    for axis in range(len(shape)) if axes is None else axes:
        dim = shape[axis]
        if not isinstance(dim, int):
            return None
        count *= dim
    return count or None
