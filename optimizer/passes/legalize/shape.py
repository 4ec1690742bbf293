"""Movement that the file format does not have, in terms of what it has."""

from __future__ import annotations

import numpy as np

from minnow.optimizer.facts.format import is_encodable
from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder
from minnow.schema.registry.symbolic import Polynomial, contents, dimension


@rewrite(lambda p, x, shape: p.Expand(x, shape), level=0)
def legalize_expand(b: Builder, m: Match) -> Value | None:
    """Runtimes of the format take the dimensions of the result; a 1 does not keep those of the input.

    Given:
        graph g(%x: f32[2,1], %s: i32[2], %u: f32[N,1]) {
          %y: f32[2,3] = Expand(%x, i32[2](1, 3))
          %z: f32[2,?] = Expand(%x, %s)
          %v: f32[N,3] = Expand(%u, i32[2](1, 3))
          return %y, %z, %v
        }
    Result:
        graph g(%x: f32[2,1], %s: i32[2], %u: f32[N,1]) {
          %y: f32[2,3] = Expand(%x, i32[2](2, 3))
          %0: i64[2] = Shape(%x)
          %1: i32[2] = Cast(%0) {to=i32}
          %2: bool[2] = Equal(%s, i32[](1))
          %3: i32[2] = Where(%2, %1, %s)
          %z: f32[2,?] = Expand(%x, %3)
          %v: f32[N,3] = Tile(%u, i32[2](1, 3))
          return %y, %z, %v
        }
    """
    type, dtype = m.root.output.type, m.shape.type.dtype
    if is_encodable(m.root) or m.x.type.shape is None or m.shape.type.shape is None:
        return m.no("the format has it, or the rank is not known")
    if type.is_static:
        return b.Expand(m.x, np.array(type.static_shape, dtype.numpy))
    times = _times(m.x, m.shape)
    if times is not None:
        return b.Tile(m.x, np.array(times, dtype.numpy))
    count, rank = m.shape.type.shape[0], m.x.type.rank or 0
    if not isinstance(count, int) or count < rank:
        return m.no("the rank of the result is not known, or the input has more axes")
    x = m.x if count == rank else b.Unsqueeze(m.x, axes=tuple(range(count - rank)))
    whole = _whole(b, x, m.shape)
    if whole is not None:
        return b.Expand(x, whole)
    own = b.Shape(x) if dtype is DType.I64 else b.Cast(b.Shape(x), to=dtype)
    return b.Expand(x, b.Where(b.Equal(m.shape, 1), own, m.shape))


def _times(x: Value, asked: Value) -> list[int] | None:
    """How often the input is repeated along each axis, where that is constant though its dimensions are not."""
    target, own = asked.array, x.type.shape
    if target is None or own is None or len(own) != len(target):
        return None
    out = []
    for mine, d in zip(own, target.tolist(), strict=True):
        if d not in (1, mine) and mine != 1:
            return None  # it may be 1
        out.append(d if mine == 1 else 1)
    return out


def _whole(b: Builder, x: Value, asked: Value) -> Value | None:
    """The dimensions of the result where it is known for each axis whether they are the input's or those asked for."""
    target, own = contents(asked), [dimension(x, i) for i in range(x.type.rank or 0)]
    if target is None:
        return None
    one, dtype = Polynomial.of(1), asked.type.dtype
    parts: list[Value] = []
    joined = asked.producer if asked.producer is not None and asked.producer.op == "Concat" else None
    single = joined is not None and all(v is not None and v.type.shape == (1,) for v in joined.inputs)
    for i, (e, mine) in enumerate(zip(target, own, strict=True)):
        at = (np.array([i], np.int64), np.array([i + 1], np.int64))
        if e is not None and e.integer not in (None, 1):
            parts.append(b.const(np.array([e.integer], dtype.numpy)))
        elif mine == one or (e is not None and e == mine and e != one):
            parts.append(joined.input(i) if joined is not None and single else b.Slice(asked, *at))
        elif e == one and mine is not None and mine.integer is not None:
            parts.append(b.const(np.array([mine.integer], dtype.numpy)))
        else:
            return None
    return b.Concat(*parts, axis=0)


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
        return m.no("some dimension is not known")
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
