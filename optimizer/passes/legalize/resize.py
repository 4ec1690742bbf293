"""Interpolation that the file format has no code for, in terms of gathering, matrix products, and arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.optimizer.facts.format import is_encodable
from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder, get

# More multiplications than this are left to the engine's own interpolation, which needs few per element.
_MOST_PRODUCTS = 1 << 27


@rewrite(lambda p, x: p.Resize(x, ..., as_="resize"), level=0)
def legalize_resize(b: Builder, m: Match) -> Value | None:
    """Each axis by itself: nearest elements are gathered, others weighted by a matrix.

    Given:
        graph g(%x: f32[1,1,2,2]) {
          %a: f32[1,1,2,4] = Resize(%x, _, _, i64[4](1, 1, 2, 4)) {nearest_mode="ceil"}
          %y: f32[1,1,4,4] = Resize(%a, _, _, i64[1](4)) {mode="linear", axes=(2,), exclude_outside=True}
          return %y
        }
    Result:
        graph g(%x: f32[1,1,2,2]) {
          %0: f32[1,1,2,4] = Gather(%x, i32[4](0, 1, 1, 1)) {axis=3}
          %y: f32[1,1,4,4] = MatMul(f32[4,2](1.0, 0.0, 0.75, 0.25, 0.25, 0.75, 0.0, 1.0), %0)
          return %y
        }
    """
    node, shape = m.resize, m.x.type.shape
    if is_encodable(node) or m.x.type.dtype is not DType.F32 or not node.output.type.is_static:
        return m.no("the format has it, or some dimension is not known")
    operands = [node.input(i) if node.has_input(i) else None for i in range(4)]
    if any(v is not None and v.data is None for v in operands[1:]) or not m.x.type.is_static or 0 in (shape or ()):
        return m.no("scales are computed, or something is empty")
    a = get("Resize").bind(4, node.attrs)
    if a["coordinate_mode"] == "tf_crop_and_resize" or a["keep_aspect"] != "stretch":
        return m.no("what it does along an axis depends on the others, or on the contents")
    numbers = [None if v is None or v.type.shape == (0,) else v.array for v in operands[1:]]
    axes = range(m.x.type.rank or 0) if a["axes"] is None else [axis % (m.x.type.rank or 1) for axis in a["axes"]]
    if a["axes"] is not None:
        dims = m.x.type.static_shape
        scales, sizes = (_of_all_axes(v, axes, o, len(dims)) for v, o in zip(numbers[1:], (1, dims), strict=True))
        made = b.node("Resize", [m.x, None, scales, sizes], {**a, "axes": None})
        if is_encodable(made):
            return made.output
    rows = [_one_axis(m.x.type.static_shape[axis], i, numbers[1:], a) for i, axis in enumerate(axes)]
    steps = [(axis, row) for axis, row in zip(axes, rows, strict=True) if not _is_identity(row)]
    if a["mode"] != "nearest" and not _is_cheap(m, steps):
        return m.no("it is much work as a matrix product, or not along the last axes")
    y = m.x
    for axis, row in steps:
        y = _along(b, y, axis, row)
    return y if steps else b.Identity(m.x)


def _of_all_axes(numbers: Any, axes: Any, others: Any, rank: int) -> Any:
    """Scales or sizes of all axes, where only those of some are given."""
    if numbers is None:
        return None
    whole = np.array(np.broadcast_to(others, (rank,)), numbers.dtype)
    whole[list(axes)] = numbers
    return whole


def _one_axis(extent: int, i: int, numbers: list[Any], attrs: dict[str, Any]) -> np.ndarray[Any, Any]:
    """What the op makes of an axis: the indices of its elements, or their weights [out, size]."""
    scales, sizes = (None if v is None else v[i : i + 1] for v in numbers)
    if attrs["mode"] == "nearest":
        (row,) = get("Resize").evaluate([np.arange(extent), None, scales, sizes], {**attrs, "axes": (0,)})
    else:
        (row,) = get("Resize").evaluate([np.eye(extent), None, scales, sizes], {**attrs, "axes": (0,)})
    return row


def _is_identity(row: np.ndarray[Any, Any]) -> bool:
    n = row.shape[-1] if row.ndim == 2 else len(row)
    return np.array_equal(row, np.eye(n) if row.ndim == 2 else np.arange(n))


def _is_cheap(m: Match, steps: list[tuple[int, np.ndarray[Any, Any]]]) -> bool:
    dims, products = list(m.x.type.static_shape), 0
    for axis, row in steps:
        if axis < len(dims) - 2:
            return False
        products += int(np.prod(dims)) * len(row)
        dims[axis] = len(row)
    return products <= _MOST_PRODUCTS


def _along(b: Builder, x: Value, axis: int, row: np.ndarray[Any, Any]) -> Value:
    if row.ndim == 1:
        return b.Gather(x, row.astype(np.int32), axis=axis)
    weights = row.astype(np.float32)
    rank = x.type.rank or 0
    return b.MatMul(x, weights.T) if axis == rank - 1 else b.MatMul(weights, x)


@rewrite(lambda p, x, grid: p.GridSample(x, grid, padding="reflection", as_="sample"), level=0)
def legalize_reflection(b: Builder, m: Match) -> Value | None:
    """Places are mirrored at -1 and 1 before they are looked at; runtimes of the format mirror elsewhere.

    Given:
        graph g(%x: f32[1,1,2,2], %g: f32[1,3,4,2]) {
          %y: f32[1,1,3,4] = GridSample(%x, %g) {padding="reflection"}
          return %y
        }
    Result:
        graph g(%x: f32[1,1,2,2], %g: f32[1,3,4,2]) {
          %0: f32[1,3,4,2] = Add(%g, f32[](1.0))
          %1: f32[1,3,4,2] = Mul(%0, f32[](0.25))
          %2: f32[1,3,4,2] = Floor(%1)
          %3: f32[1,3,4,2] = Mul(%2, f32[](4.0))
          %4: f32[1,3,4,2] = Sub(%0, %3)
          %5: f32[1,3,4,2] = Sub(%4, f32[](2.0))
          %6: f32[1,3,4,2] = Abs(%5)
          %7: f32[1,3,4,2] = Sub(f32[](1.0), %6)
          %y: f32[1,1,3,4] = GridSample(%x, %7) {padding="border"}
          return %y
        }
    """
    if m.sample.attrs.get("mode", "linear") == "cubic" or m.grid.type.dtype is not DType.F32:
        return m.no("the format has it neither way")
    turn = b.Add(m.grid, 1.0)
    rest = b.Sub(turn, b.Mul(b.Floor(b.Mul(turn, 0.25)), 4.0))
    mirrored = b.Sub(1.0, b.Abs(b.Sub(rest, 2.0)))
    return b.GridSample(m.x, mirrored, **{**m.sample.attrs, "padding": "border"})
