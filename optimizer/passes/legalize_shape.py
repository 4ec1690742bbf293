"""Movement that the file format does not have, in terms of what it has."""

from __future__ import annotations

import numpy as np

from minnow.optimizer.format import is_encodable
from minnow.optimizer.pattern import Match
from minnow.optimizer.rewrite import rewrite
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder


@rewrite(lambda p, x, shape: p.Expand(x, shape), level=0)
def legalize_expand(b: Builder, m: Match) -> Value | None:
    """Runtimes of the format take the extents of the result; a 1 does not keep those of the input.

    Given:
        graph g(%x: f32[2,1], %s: i32[2]) {
          %y: f32[2,3] = Expand(%x, i32[2](1, 3))
          %z: f32[2,?] = Expand(%x, %s)
          return %y, %z
        }
    Result:
        graph g(%x: f32[2,1], %s: i32[2]) {
          %y: f32[2,3] = Expand(%x, i32[2](2, 3))
          %0: i64[2] = Shape(%x)
          %1: i32[2] = Cast(%0) {to=i32}
          %2: bool[2] = Equal(%s, i32[](1))
          %3: i32[2] = Where(%2, %1, %s)
          %z: f32[2,?] = Expand(%x, %3)
          return %y, %z
        }
    """
    type, dtype = m.root.output.type, m.shape.type.dtype
    if is_encodable(m.root) or m.x.type.shape is None or m.shape.type.shape is None:
        return m.no("the format has it, or the rank is not known")
    if type.is_static:
        return b.Expand(m.x, np.array(type.static_shape, dtype.numpy))
    count, rank = m.shape.type.shape[0], m.x.type.rank or 0
    if not isinstance(count, int) or count < rank:
        return m.no("the rank of the result is not known, or the input has more axes")
    x = m.x if count == rank else b.Unsqueeze(m.x, axes=tuple(range(count - rank)))
    own = b.Shape(x) if dtype is DType.I64 else b.Cast(b.Shape(x), to=dtype)
    return b.Expand(x, b.Where(b.Equal(m.shape, 1), own, m.shape))


@rewrite(lambda p, x: p.Pad(x, p.const("pads"), ..., as_="pad"), level=0)
def legalize_crop(b: Builder, m: Match) -> Value | None:
    """Padding by negative numbers cuts off.

    Given:
        graph g(%x: f32[4,4]) {
          %y: f32[4,5] = Pad(%x, i32[4](-1, 1, 0, 1))
          return %y
        }
    Result:
        graph g(%x: f32[4,4]) {
          %0: f32[3,4] = Slice(%x, i32[1](1), i32[1](2147483647), i32[1](0))
          %y: f32[4,5] = Pad(%0, i32[4](0, 1, 0, 1))
          return %y
        }
    """
    pads = m.pads.data.numpy().reshape(-1, 2)
    if not (pads < 0).any():
        return m.no("no number is negative")
    axes = np.flatnonzero((pads < 0).any(1))
    far = np.iinfo(np.int32).max
    starts = np.maximum(-pads[axes, 0], 0).astype(np.int32)
    ends = np.where(pads[axes, 1] < 0, pads[axes, 1], far).astype(np.int32)
    cut = b.Slice(m.x, starts, ends, axes.astype(np.int32))
    rest = np.maximum(pads, 0).reshape(-1)
    if not rest.any():
        return cut
    return b.node("Pad", [cut, rest, *m.pad.inputs[2:]], m.pad.attrs).output


@rewrite(lambda p, x: p.Pad(x, p.const("pads"), mode="wrap"), level=0)
def legalize_wrap(b: Builder, m: Match) -> Value | None:
    """What goes on at the other end is joined on there.

    Given:
        graph g(%x: f32[4,4]) {
          %y: f32[7,4] = Pad(%x, i32[4](1, 2, 0, 0)) {mode="wrap"}
          return %y
        }
    Result:
        graph g(%x: f32[4,4]) {
          %0: f32[1,4] = Slice(%x, i32[1](3), i32[1](4), i32[1](0))
          %1: f32[2,4] = Slice(%x, i32[1](0), i32[1](2), i32[1](0))
          %y: f32[7,4] = Concat(%0, %x, %1) {axis=0}
          return %y
        }
    """
    pads, shape = m.pads.data.numpy().reshape(-1, 2), m.x.type.shape
    if shape is None or not m.x.type.is_static:
        return m.no("some extent is not known")
    if any(not 0 <= p <= d for d, row in zip(m.x.type.static_shape, pads, strict=True) for p in row):
        return m.no("it goes around more than once, or cuts off")
    y = m.x
    for axis, (before, after) in enumerate(pads.tolist()):
        far, at = m.x.type.static_shape[axis], np.array([axis], np.int32)
        ends = [(far - before, far)] if before else []
        starts = [(0, after)] if after else []
        parts = [[b.Slice(y, *(np.array([v], np.int32) for v in part), at) for part in side] for side in (ends, starts)]
        y = b.Concat(*parts[0], y, *parts[1], axis=axis) if ends or starts else y
    return y if y is not m.x else b.Identity(m.x)
