"""Tensors that are cut into parts, and parts that are put together again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match
from minnow.schema.ir import Node, Value
from minnow.schema.ops import Builder

# More indices than these are data.
_MAX_PLACES = 4096

Bounds = tuple[int, int, int]
"""Start, end and step, as Slice takes them."""


def bounds(node: Node) -> dict[int, Bounds] | None:
    """What a Slice takes along each of its axes; None where something is computed, or an axis is named twice."""
    starts, ends = node.input(1).array, node.input(2).array
    rank = node.input(0).type.rank
    if starts is None or ends is None or rank is None:
        return None
    axes = node.input(3).array if node.has_input(3) else np.arange(len(starts))
    steps = node.input(4).array if node.has_input(4) else np.ones(len(starts), np.int64)
    if axes is None or steps is None:
        return None
    rows = zip(axes.tolist(), starts.tolist(), ends.tolist(), steps.tolist(), strict=True)
    found = {int(a) % rank: (int(start), int(end), int(step)) for a, start, end, step in rows}
    return found if len(found) == len(starts) else None


def sliced(b: Builder, x: Value, cuts: dict[int, Bounds], like: Value) -> Value:
    """x cut along these axes, with operands of the type of `like`; x itself where there is nothing to cut."""
    if not cuts:
        return x
    axes = sorted(cuts)
    columns = [[cuts[a][k] for a in axes] for k in range(3)]
    dtype = like.type.dtype.numpy
    steps = [np.array(columns[2], dtype)] if any(s != 1 for s in columns[2]) else []
    return b.Slice(x, *(np.array(c, dtype) for c in (columns[0], columns[1], axes)), *steps)


def _bounds_of(places: range, extent: int) -> Bounds:
    # With negative steps, "before the first element" can only be written as a number below all.
    return places.start, places.stop if places.stop >= 0 else -extent - 1, places.step


@rewrite(
    lambda p, x, start, end: p.Slice(p.Slice(x, ..., as_="first"), start, end, ..., as_="second"),
    shared=True,
)
def fuse_slices(b: Builder, m: Match) -> Value | None:
    """A slice of a slice is one slice.

    Given:
        graph g(%x: f32[N,9,3]) {
          %a: f32[N,7,3] = Slice(%x, i64[1](1), i64[1](8), i64[1](1))
          %b: f32[N,3,2] = Slice(%a, i64[2](1, 1), i64[2](7, 3), i64[2](1, 2), i64[2](2, 1))
          return %b
        }
    Result:
        graph g(%x: f32[N,9,3]) {
          %b: f32[N,3,2] = Slice(%x, i64[2](2, 1), i64[2](8, 3), i64[2](1, 2), i64[2](2, 1))
          return %b
        }
    """
    first, second = bounds(m.first), bounds(m.second)
    if first is None or second is None:
        return m.no("some bound is computed")
    both = {**first, **second}
    for axis in first.keys() & second.keys():
        extent = m.x.type.shape[axis]
        if not isinstance(extent, int):
            return m.no(f"both cut axis {axis}, whose size is not known")
        both[axis] = _bounds_of(range(extent)[slice(*first[axis])][slice(*second[axis])], extent)
    return sliced(b, m.x, both, m.start)


@rewrite(lambda p, x, start, end: p.Slice(p.Concat(x, ..., as_="concat"), start, end, ..., as_="slice"), shared=True)
def slice_before_concat(b: Builder, m: Match) -> Value | None:
    """A slice that stays within one of the parts of a concatenation.

    Given:
        graph g(%x: f32[2,3], %y: f32[2,5]) {
          %a: f32[2,8] = Concat(%x, %y) {axis=1}
          %b: f32[2,2] = Slice(%a, i64[1](4), i64[1](6), i64[1](1))
          return %b
        }
    Result:
        graph g(%x: f32[2,3], %y: f32[2,5]) {
          %b: f32[2,2] = Slice(%y, i64[1](1), i64[1](3), i64[1](1))
          return %b
        }
    """
    cuts, rank = bounds(m.slice), m.concat.output.type.rank
    if cuts is None or rank is None:
        return m.no("some bound is computed, or the rank is not known")
    axis = m.concat.attrs["axis"] % rank
    extent = m.concat.output.type.shape[axis]
    # Of the whole more may be known than of its parts.
    known = all(v.type.shape is not None and isinstance(v.type.shape[axis], int) for v in m.concat.inputs)
    if axis not in cuts or not isinstance(extent, int) or not known:
        return m.no("it does not cut along the concatenation, or the dimensions are not known")
    places = range(extent)[slice(*cuts[axis])]
    at = 0
    for part in m.concat.inputs:
        size = part.type.shape[axis]
        if len(places) and at <= min(places[0], places[-1]) and max(places[0], places[-1]) < at + size:
            inside = range(places.start - at, places.stop - at, places.step)
            kept = {a: c for a, c in cuts.items() if a != axis}
            if inside != range(size):
                kept[axis] = _bounds_of(inside, size)
            return sliced(b, part, kept, m.start)
        at += size
    return m.no("it takes from several parts, or nothing")


@dataclass(frozen=True)
class Piece:
    """What one node takes of a value: the elements from `start` to `end` along one axis."""

    source: Value
    start: int
    end: int


def piece(value: Value, axis: int) -> Piece | None:
    """The value as a piece of another one along an axis, which is counted from the front."""
    node = value.producer
    if node is None or node.op not in ("Split", "Slice"):
        return None
    source = node.input(0)
    shape = source.type.shape
    if shape is None or axis >= len(shape):
        return None
    if node.op == "Split" and not node.has_input(1) and node.attrs.get("axis", 0) % len(shape) == axis:
        sizes = node.attrs["sizes"]
        return Piece(source, sum(sizes[: value.index]), sum(sizes[: value.index + 1]))
    if node.op == "Slice":
        cuts, extent = bounds(node), shape[axis]
        if cuts is None or cuts.keys() != {axis} or cuts[axis][2] != 1 or not isinstance(extent, int):
            return None
        places = range(extent)[slice(*cuts[axis])]
        return Piece(source, places.start, places.stop) if len(places) else None
    return None


def _runs(values: list[Value], axis: int) -> Iterator[tuple[Piece | None, list[Value]]]:
    """Operands in groups that follow one another in one value; a group of one need be no piece."""
    pieces = [piece(v, axis) for v in values]
    number = 0
    keys = []
    for i, p in enumerate(pieces):
        before = pieces[i - 1] if i else None
        follows = p is not None and before is not None and p.source is before.source and p.start == before.end
        number += not follows
        keys.append(number)
    for _, group in groupby(range(len(values)), key=keys.__getitem__):
        at = list(group)
        first, last = pieces[at[0]], pieces[at[-1]]
        whole = None if first is None or last is None else Piece(first.source, first.start, last.end)
        yield whole, [values[i] for i in at]


@rewrite(lambda p, x: p.Concat(x, ..., as_="concat"), shared=True)
def join_pieces(b: Builder, m: Match) -> Value | None:
    """Pieces of one value that are put together in the order in which they were cut.

    Given:
        graph g(%x: f32[2,6], %z: f32[2,1]) {
          %a: f32[2,2], %b: f32[2,4] = Split(%x) {axis=1, sizes=(2, 4)}
          %c: f32[2,1] = Slice(%x, i64[1](1), i64[1](2), i64[1](1))
          %d: f32[2,3] = Slice(%x, i64[1](2), i64[1](5), i64[1](1))
          %y: f32[2,11] = Concat(%a, %b, %c, %d, %z) {axis=1}
          return %y
        }
    Result:
        graph g(%x: f32[2,6], %z: f32[2,1]) {
          %0: f32[2,4] = Slice(%x, i64[1](1), i64[1](5), i64[1](1))
          %y: f32[2,11] = Concat(%x, %0, %z) {axis=1}
          return %y
        }
    """
    rank = m.root.output.type.rank
    operands = [v for v in m.root.inputs if v is not None]
    if rank is None:
        return m.no("the rank is not known")
    axis = m.concat.attrs["axis"] % rank
    parts: list[Value] = []
    for whole, values in _runs(operands, axis):
        if whole is None or len(values) == 1:
            parts += values
            continue
        extent = whole.source.type.shape[axis] if whole.source.type.shape else None
        if (whole.start, whole.end) == (0, extent):
            parts.append(whole.source)
        # Parts that others read too would be cut out all the same.
        elif all(v.producer is not None and v.producer.op == "Slice" and len(v.uses) == 1 for v in values):
            first = values[0].producer
            assert first is not None
            parts.append(sliced(b, whole.source, {axis: (whole.start, whole.end, 1)}, first.input(1)))
        else:
            parts += values
    if len(parts) == len(operands):
        return m.no("no operands follow one another in one value, or others read them")
    return parts[0] if len(parts) == 1 else b.node("Concat", parts, m.root.attrs).output


@rewrite(lambda p, x: p.Split(p.Concat(x, ..., as_="concat"), as_="split"), shared=True)
def split_concat(b: Builder, m: Match) -> list[Value] | None:
    """What is put together and cut into the same parts again.

    Given:
        graph g(%x: f32[2,3], %y: f32[2,5]) {
          %a: f32[2,8] = Concat(%x, %y) {axis=1}
          %b: f32[2,3], %c: f32[2,5] = Split(%a) {axis=-1, sizes=(3, 5)}
          %d: f32[2,3] = Exp(%b)
          %e: f32[2,5] = Neg(%c)
          return %d, %e
        }
    Result:
        graph g(%x: f32[2,3], %y: f32[2,5]) {
          %d: f32[2,3] = Exp(%x)
          %e: f32[2,5] = Neg(%y)
          return %d, %e
        }
    """
    rank = m.concat.output.type.rank
    if rank is None or m.split.attrs.get("axis", 0) % rank != m.concat.attrs["axis"] % rank:
        return m.no("it is cut along another axis")
    axis = m.concat.attrs["axis"] % rank
    shapes = [v.type.shape for v in m.concat.inputs]
    if None in shapes or tuple(shape[axis] for shape in shapes) != m.split.attrs["sizes"]:
        return m.no("it is cut at other places")
    return list(m.concat.inputs)


@rewrite(lambda p, x: p.Split(x, as_="split"), shared=True)
def slice_only_part(b: Builder, m: Match) -> list[Value] | None:
    """Where only one part is used the others need not be made.

    Given:
        graph g(%x: f32[2,6]) {
          %a: f32[2,2], %b: f32[2,3], %c: f32[2,1] = Split(%x) {axis=-1, sizes=(2, 3, 1)}
          return %b
        }
    Result:
        graph g(%x: f32[2,6]) {
          %b: f32[2,3] = Slice(%x, i64[1](2), i64[1](5), i64[1](1))
          return %b
        }
    """
    rank = m.x.type.rank
    used = [i for i, v in enumerate(m.split.outputs) if v.uses]
    if len(used) != 1 or rank is None:
        return m.no(f"{len(used)} parts are used, or the rank is not known")
    sizes, (at,) = m.split.attrs["sizes"], used
    start = sum(sizes[:at])
    axis = m.split.attrs.get("axis", 0) % rank
    bound = [np.array([n], np.int64) for n in (start, start + sizes[at], axis)]
    part = m.x if sum(sizes) == sizes[at] else b.Slice(m.x, *bound)
    return [part if i == at else v for i, v in enumerate(m.split.outputs)]


@rewrite(lambda p, x: p.Gather(x, p.const("places"), as_="gather"), shared=True)
def slice_gathered(b: Builder, m: Match) -> Value | None:
    """Elements that stand in a row, or at even distances.

    Given:
        graph g(%x: f32[2,9]) {
          %y: f32[2,3] = Gather(%x, i64[3](1, 4, 7)) {axis=1}
          return %y
        }
    Result:
        graph g(%x: f32[2,9]) {
          %y: f32[2,3] = Slice(%x, i64[1](1), i64[1](8), i64[1](1), i64[1](3))
          return %y
        }
    """
    rank, places = m.x.type.rank, m.places.data
    if rank is None or len(places.shape) != 1 or not 0 < places.shape[0] <= _MAX_PLACES:
        return m.no("the indices are no vector, or a long one, or the rank is not known")
    axis = m.gather.attrs.get("axis", 0) % rank
    extent = m.x.type.shape[axis]
    if not isinstance(extent, int):
        return m.no("the size is not known")
    listed = [int(i) for i in places.numpy()]
    if min(listed) < -extent or max(listed) >= extent:
        return m.no("an index is out of range")
    listed = [i % extent for i in listed]
    step = listed[1] - listed[0] if len(listed) > 1 else 1
    if step == 0 or listed != list(range(listed[0], listed[0] + step * len(listed), step)):
        return m.no("the indices are at uneven distances")
    run = range(listed[0], listed[-1] + (1 if step > 0 else -1), step)
    if run == range(extent):
        return m.x
    return sliced(b, m.x, {axis: _bounds_of(run, extent)}, m.places)


@rewrite(lambda p, x: p.Unsqueeze(p.Gather(x, p.const("place"), as_="gather"), as_="view"))
def slice_gathered_one(b: Builder, m: Match) -> Value | None:
    """One place that is taken out, with its axis put back.

    Given:
        graph g(%x: f32[2,9]) {
          %a: f32[2] = Gather(%x, i64[](-2)) {axis=1}
          %y: f32[2,1] = Unsqueeze(%a) {axes=(-1,)}
          return %y
        }
    Result:
        graph g(%x: f32[2,9]) {
          %y: f32[2,1] = Slice(%x, i64[1](7), i64[1](8), i64[1](1))
          return %y
        }
    """
    rank = m.x.type.rank
    if rank is None or m.place.data.shape:
        return m.no("the index is no single number, or the rank is not known")
    axis = m.gather.attrs.get("axis", 0) % rank
    extent = m.x.type.shape[axis]
    if [a % rank for a in m.view.attrs.get("axes", ())] != [axis] or not isinstance(extent, int):
        return m.no("the new axis stands elsewhere, or the size is not known")
    at = int(m.place.array)
    if not -extent <= at < extent:
        return m.no("the index is out of range")
    at %= extent
    return sliced(b, m.x, {axis: (at, at + 1, 1)}, m.place)


@rewrite(lambda p, x, start, end: p.Squeeze(p.Slice(x, start, end, ..., as_="slice"), as_="view"))
def gather_one(b: Builder, m: Match) -> Value | None:
    """One place that is cut out, whose axis goes away.

    Given:
        graph g(%x: f32[N,9]) {
          %a: f32[N,1] = Slice(%x, i64[1](-2), i64[1](-1), i64[1](1))
          %y: f32[N] = Squeeze(%a) {axes=(1,)}
          return %y
        }
    Result:
        graph g(%x: f32[N,9]) {
          %y: f32[N] = Gather(%x, i64[](7)) {axis=1}
          return %y
        }
    """
    cuts, rank = bounds(m.slice), m.x.type.rank
    axes = m.view.attrs.get("axes")
    if cuts is None or rank is None or axes is None or [a % rank for a in axes] != list(cuts):
        return m.no("it is cut along other axes than those that go away")
    if len(cuts) != 1:
        return m.no("not one axis is cut")
    (axis,) = cuts
    extent = m.x.type.shape[axis]
    places = range(extent)[slice(*cuts[axis])] if isinstance(extent, int) else range(0)
    if len(places) != 1:
        return m.no("the size is not known, or not one place is taken")
    return b.Gather(m.x, np.array(places[0], m.start.type.dtype.numpy), axis=axis)
