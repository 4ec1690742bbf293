"""Indices that may be negative: runtimes of the format take them for out of range."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.optimizer.passes.legalize.product import DIGIT, digits
from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder
from minnow.schema.registry.sign import is_nonnegative

_NOWHERE = 2**31 - 1  # no dimension is larger


def _from_front(b: Builder, index: Value, extents: Any) -> Any:
    """The index counted from the front. One beyond either end is beyond the end, and is found when it is used."""
    if index.data is not None and not isinstance(extents, Value):
        numbers = index.data.numpy()
        return np.where(np.less(numbers, 0), numbers + extents, numbers).astype(index.type.dtype.numpy)
    if not isinstance(extents, Value):
        extents = np.asarray(extents, index.type.dtype.numpy)
    computed = isinstance(extents, Value)
    too_small = b.Less(index, b.Neg(extents) if computed else -extents)
    beyond = np.asarray(_NOWHERE if computed else np.max(extents), index.type.dtype.numpy)
    return b.Where(too_small, beyond, b.Max(index, b.Mod(index, extents)))


def _extents(b: Builder, x: Value, axes: range, dtype: DType) -> Any:
    """The dimensions of `x` along the axes: numbers where all are known, else computed."""
    shape = x.type.shape
    if shape is not None and all(isinstance(shape[a], int) for a in axes):
        return np.array([shape[a] for a in axes], dtype.numpy)
    part = b.Slice(b.Shape(x), np.array([axes.start]), np.array([axes.stop]))
    return part if dtype is DType.I64 else b.Cast(part, to=dtype)


@rewrite(
    lambda p, x, i: (
        p.Gather(x, i)
        | p.GatherElements(x, i)
        | p.ScatterElements(x, i, ...)
        | p.GatherND(x, i)
        | p.ScatterND(x, i, ...)
    ),
    level=0,
)
def legalize_index(b: Builder, m: Match) -> Value | None:
    """Negative indices count from the end.

    Given:
        graph g(%x: f32[4], %i: i32[2]) {
          %y: f32[2] = Gather(%x, %i)
          %z: f32[2] = Gather(%x, i32[2](-1, 0))
          return %y, %z
        }
    Result:
        graph g(%x: f32[4], %i: i32[2]) {
          %0: bool[2] = Less(%i, i32[](-4))
          %1: i32[2] = Mod(%i, i32[](4))
          %2: i32[2] = Max(%i, %1)
          %3: i32[2] = Where(%0, i32[](4), %2)
          %y: f32[2] = Gather(%x, %3)
          %z: f32[2] = Gather(%x, i32[2](3, 0))
          return %y, %z
        }
    """
    if is_nonnegative(m.i):
        return m.no("no index can be negative")
    rank, dtype = m.x.type.rank, m.i.type.dtype
    if rank is None:
        return m.no("the rank is not known")
    if m.root.op.endswith("ND"):
        shape = m.i.type.shape
        depth = None if shape is None or not shape else shape[-1]
        first = m.root.attrs.get("batch_dims", 0)
        if not isinstance(depth, int) or depth == 0:
            return m.no("it is not known how many axes an index names")
        extents = _extents(b, m.x, range(first, first + depth), dtype)
    else:
        axis = m.root.attrs.get("axis", 0) % rank
        extents = _extents(b, m.x, range(axis, axis + 1), dtype)
        if not isinstance(extents, Value):
            extents = extents[0]
        elif m.i.type.rank == 0:
            extents = b.Squeeze(extents, axes=(0,))
    index = _from_front(b, m.i, extents)
    return b.node(m.root.op, [m.x, index, *m.root.inputs[2:]], m.root.attrs).output


@rewrite(lambda p, i, depth, values: p.OneHot(i, depth, values, as_="one"), level=0)
def legalize_one_hot(b: Builder, m: Match) -> Value | None:
    """Negative classes count from the end.

    Given:
        graph g(%i: i32[2]) {
          %y: f32[2,3] = OneHot(%i, i32[](3), f32[2](0.0, 1.0))
          return %y
        }
    Result:
        graph g(%i: i32[2]) {
          %0: bool[2] = Less(%i, i32[](-3))
          %1: i32[2] = Mod(%i, i32[](3))
          %2: i32[2] = Max(%i, %1)
          %3: i32[2] = Where(%0, i32[](3), %2)
          %y: f32[2,3] = OneHot(%3, i32[](3), f32[2](0.0, 1.0))
          return %y
        }
    """
    if is_nonnegative(m.i) or m.depth.data is None or not m.i.type.dtype.is_int:
        return m.no("no class can be negative, or their number is computed")
    depth = int(m.depth.data.numpy().reshape(-1)[0])
    # A class below -depth is none, like one from depth on.
    if m.i.data is not None:
        numbers = m.i.data.numpy()
        classes = np.where(numbers < -depth, depth, np.where(numbers < 0, numbers + depth, numbers))
        return b.node("OneHot", [classes.astype(numbers.dtype), m.depth, m.values], m.one.attrs).output
    return b.node("OneHot", [_from_front(b, m.i, depth), m.depth, m.values], m.one.attrs).output


@rewrite(
    lambda p, x, i, u: p.ScatterND(x, i, u, reduction="add") | p.ScatterElements(x, i, u, reduction="add"), level=0
)
def legalize_integer_scatter(b: Builder, m: Match) -> Value | None:
    """Runtimes of the format add integers right only as floats: digits of 11 bits, of which f32 can add 8192.

    Given:
        graph g(%x: i32[4], %i: i32[2,1], %u: i32[2]) {
          %y: i32[4] = ScatterND(%x, %i, %u) {reduction="add"}
          return %y
        }
    Result:
        graph g(%x: i32[4], %i: i32[2,1], %u: i32[2]) {
          %0: i32[4] = BitShift(%x, i32[](11)) {direction="RIGHT"}
          %1: i32[4] = BitwiseAnd(%0, i32[](2047))
          %2: i32[4] = BitwiseAnd(%x, i32[](2047))
          %3: i32[4] = BitShift(%x, i32[](22)) {direction="RIGHT"}
          %4: i32[2] = BitShift(%u, i32[](11)) {direction="RIGHT"}
          %5: i32[2] = BitwiseAnd(%4, i32[](2047))
          %6: i32[2] = BitwiseAnd(%u, i32[](2047))
          %7: i32[2] = BitShift(%u, i32[](22)) {direction="RIGHT"}
          %8: f32[4] = Cast(%2) {to=f32}
          %9: f32[2] = Cast(%6) {to=f32}
          %10: f32[4] = ScatterND(%8, %i, %9) {reduction="add"}
          %11: i32[4] = Cast(%10) {to=i32}
          %12: f32[4] = Cast(%1) {to=f32}
          %13: f32[2] = Cast(%5) {to=f32}
          %14: f32[4] = ScatterND(%12, %i, %13) {reduction="add"}
          %15: i32[4] = Cast(%14) {to=i32}
          %16: i32[4] = BitShift(%15, i32[](11)) {direction="LEFT"}
          %17: i32[4] = Add(%11, %16)
          %18: f32[4] = Cast(%3) {to=f32}
          %19: f32[2] = Cast(%7) {to=f32}
          %20: f32[4] = ScatterND(%18, %i, %19) {reduction="add"}
          %21: i32[4] = Cast(%20) {to=i32}
          %22: i32[4] = BitShift(%21, i32[](22)) {direction="LEFT"}
          %y: i32[4] = Add(%17, %22)
          return %y
        }
    """
    if m.x.type.dtype is not DType.I32:
        return m.no("its elements are not i32")
    total: Value | None = None
    for place, (x, u) in enumerate(zip(digits(b, m.x), digits(b, m.u), strict=True)):
        operands = [b.Cast(x, to=DType.F32), m.i, b.Cast(u, to=DType.F32)]
        part = b.Cast(b.node(m.root.op, operands, m.root.attrs).output, to=DType.I32)
        part = b.BitShift(part, np.int32(place * DIGIT), direction="LEFT") if place else part
        total = part if total is None else b.Add(total, part)
    return total


@rewrite(lambda p, i, depth, values: p.OneHot(i, depth, values, as_="one"), level=0)
def legalize_one_hot_type(b: Builder, m: Match) -> Value | None:
    """Runtimes of the format fill with f32 and i32; bytes are made of these.

    Given:
        graph g(%i: i32[2]) {
          %y: i8[2,3] = OneHot(%i, i32[](3), i8[2](0, 1))
          return %y
        }
    Result:
        graph g(%i: i32[2]) {
          %0: i32[2,3] = OneHot(%i, i32[](3), i32[2](0, 1))
          %y: i8[2,3] = Cast(%0) {to=i8}
          return %y
        }
    """
    dtype = m.values.type.dtype
    if dtype not in (DType.I8, DType.U8) or m.values.data is None:
        return m.no("it is not filled with bytes")
    values = m.values.data.numpy().astype(np.int32)
    return b.Cast(b.node("OneHot", [m.i, m.depth, values], m.one.attrs).output, to=dtype)


@rewrite(lambda p, x: p.Hardmax(x), level=0)
def legalize_hardmax(b: Builder, m: Match) -> Value | None:
    """One at the place of the largest element.

    Given:
        graph g(%x: f32[2,3]) {
          %y: f32[2,3] = Hardmax(%x)
          return %y
        }
    Result:
        graph g(%x: f32[2,3]) {
          %0: i64[2] = ArgMax(%x) {axis=-1, keepdims=False}
          %1: i32[2] = Cast(%0) {to=i32}
          %y: f32[2,3] = OneHot(%1, i32[](3), f32[2](0.0, 1.0))
          return %y
        }
    """
    axis, shape = m.root.attrs.get("axis", -1), m.x.type.shape
    depth = None if shape is None else shape[axis]
    if not isinstance(depth, int):
        return m.no("the size of the axis is not known")
    if not depth:
        return m.no("there is nothing to be the largest element")
    dtype = m.x.type.dtype.numpy
    place = b.Cast(b.ArgMax(m.x, axis=axis, keepdims=False), to=DType.I32)
    return b.OneHot(place, np.array(depth, np.int32), np.array([0, 1], dtype), axis=axis)


@rewrite(lambda p, x: p.NonZero(x), level=0)
def legalize_non_zero(b: Builder, m: Match) -> Value | None:
    """The places of what is not 0, one per row, turned on their side.

    Given:
        graph g(%x: f32[2,3]) {
          %y: i64[2,?] = NonZero(%x)
          return %y
        }
    Result:
        graph g(%x: f32[2,3]) {
          %0: bool[2,3] = NotEqual(%x, f32[](0.0))
          %1: i64[?,2] = ArgWhere(%0)
          %y: i64[2,?] = Transpose(%1) {perm=(1, 0)}
          return %y
        }
    """
    if m.x.type.rank in (None, 0):
        return m.no("the rank is not known, or 0")
    truth = m.x if m.x.type.dtype is DType.BOOL else b.NotEqual(m.x, 0)
    return b.Transpose(b.ArgWhere(truth), perm=(1, 0))


@rewrite(lambda p, x: p.Trilu(x, as_="trilu") | p.Trilu(x, p.const("k"), as_="trilu"), level=0)
def legalize_trilu(b: Builder, m: Match) -> Value | None:
    """A choice between the matrices and zeros, by a constant mask.

    Given:
        graph g(%x: f32[2,3]) {
          %y: f32[2,3] = Trilu(%x)
          return %y
        }
    Result:
        graph g(%x: f32[2,3]) {
          %y: f32[2,3] = Where(bool[2,3](True, True, True, False, True, True), %x, f32[](0.0))
          return %y
        }
    """
    shape = m.x.type.shape
    if shape is None or not all(isinstance(d, int) for d in shape[-2:]):
        return m.no("the dimensions of the matrices are not known")
    k = int(m.k.data.numpy().reshape(-1)[0]) if "k" in m.bound else 0
    ones = np.ones([int(d) for d in shape[-2:]], np.bool_)
    mask = np.triu(ones, k) if m.trilu.attrs.get("upper", True) else np.tril(ones, k)
    return b.Where(mask, m.x, np.zeros((), m.x.type.dtype.numpy))


@rewrite(lambda p, x, k: p.TopK(x, k, as_="top"), level=0)
def legalize_top_k(b: Builder, m: Match) -> tuple[Value, ...] | None:
    """The largest elements along the last axis.

    Given:
        graph g(%x: f32[5,2]) {
          %y: f32[3,2], %i: i64[3,2] = TopK(%x, i64[1](3)) {axis=0}
          return %y, %i
        }
    Result:
        graph g(%x: f32[5,2]) {
          %0: f32[2,5] = Transpose(%x) {perm=(1, 0)}
          %1: f32[2,3], %2: i64[2,3] = TopK(%0, i64[1](3))
          %y: f32[3,2] = Transpose(%1) {perm=(1, 0)}
          %i: i64[3,2] = Transpose(%2) {perm=(1, 0)}
          return %y, %i
        }
    """
    axis, rank = m.top.attrs.get("axis", -1), m.x.type.rank
    if rank is None or axis == -1:
        return m.no("it is the last axis, or the rank is not known")
    if axis == rank - 1:  # which the format has no number for
        return tuple(b.node("TopK", [m.x, m.k], {**m.top.attrs, "axis": -1}, 2).outputs)
    perm = list(range(rank))
    perm[axis], perm[-1] = perm[-1], perm[axis]
    found = b.node("TopK", [b.Transpose(m.x, perm=tuple(perm)), m.k], {**m.top.attrs, "axis": -1}, 2)
    return tuple(b.Transpose(v, perm=tuple(perm)) for v in found.outputs)


@rewrite(lambda p, x: p.Reverse(x, as_="reverse"), level=0)
def legalize_reverse(b: Builder, m: Match) -> Value | None:
    """One axis after the other.

    Given:
        graph g(%x: f32[2,3]) {
          %y: f32[2,3] = Reverse(%x) {axes=(0, 1)}
          return %y
        }
    Result:
        graph g(%x: f32[2,3]) {
          %0: f32[2,3] = Reverse(%x) {axes=(0,)}
          %y: f32[2,3] = Reverse(%0) {axes=(1,)}
          return %y
        }
    """
    first, *rest = m.reverse.attrs["axes"] or (None,)
    if first is None:
        return m.x
    return b.Reverse(b.Reverse(m.x, axes=(first,)), axes=tuple(rest)) if rest else m.no("it is one axis")
