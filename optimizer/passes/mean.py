"""Means that sources spell out."""

from __future__ import annotations

import math

import numpy as np

from minnow.optimizer.pattern import Match
from minnow.optimizer.rewrite import rewrite
from minnow.schema.ir import DType, Node, Value
from minnow.schema.ops import Builder


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
