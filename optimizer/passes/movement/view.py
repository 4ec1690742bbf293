"""Axes of size 1 that come and go, and parts that have an axis of their own."""

from __future__ import annotations

from functools import reduce
from operator import or_

from minnow.optimizer.facts.derive import extents, viewed
from minnow.optimizer.passes.movement.cancel import any_view, view_as
from minnow.optimizer.passes.shape.constant import shape_operand
from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match
from minnow.schema.ir import Node, Value
from minnow.schema.ops import Builder, Trait, get
from minnow.schema.registry.op import ops_with
from minnow.schema.registry.symbolic import Known, Polynomial

_REDUCTIONS = (*ops_with(Trait.REDUCTION), *ops_with(Trait.ARGUMENT))
_VIEWS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")  # op list: those that `any_view` matches


@rewrite(lambda p, x: any_view(p, reduce(or_, (getattr(p, name)(x, as_="reduction") for name in _REDUCTIONS))))
def reduce_as_viewed(b: Builder, m: Match) -> Value | None:
    """A reduction whose axes are taken away, or put back, keeps them or not by itself.

    Given:
        graph g(%x: f32[N,3,5]) {
          %a: f32[N,3] = ReduceMax(%x) {axes=(2,), keepdims=False}
          %b: f32[N,3,1] = Unsqueeze(%a) {axes=(-1,)}
          %c: f32[N,1,5] = ReduceSum(%x) {axes=(1,)}
          %d: f32[N,5] = Reshape(%c, i64[2](0, 5))
          return %b, %d
        }
    Result:
        graph g(%x: f32[N,3,5]) {
          %b: f32[N,3,1] = ReduceMax(%x) {axes=(2,)}
          %d: f32[N,5] = ReduceSum(%x) {axes=(1,), keepdims=False}
          return %b, %d
        }
    """
    node: Node = m.reduction
    own, rank = extents(m.x), m.x.type.rank
    given = extents(node.output)
    target = None if given is None else viewed(m.view, given)
    if own is None or rank is None or target is None or None in target:
        return m.no("the shapes are not known well enough")
    attrs = node.attrs
    listed = (attrs.get("axis", 0),) if "axis" in get(node.op).attrs else attrs.get("axes")
    gone = set(range(rank)) if listed is None else {a % rank for a in listed}
    keep = not attrs.get("keepdims", True)
    toggled = [Polynomial(1) if i in gone else e for i, e in enumerate(own) if keep or i not in gone]
    if target != toggled:
        return m.no("other axes come or go")
    return b.node(node.op, [m.x], {**attrs, "keepdims": keep}).output


@rewrite(lambda p, x: p.Split(x, as_="split"), shared=True)
def split_without_axis(b: Builder, m: Match) -> list[Value] | None:
    """Parts of one element each that lose their axis: the split axis and the next one are cut as one.

    Given:
        graph g(%x: f32[2,5,3]) {
          %a: f32[1,5,3], %b: f32[1,5,3] = Split(%x) {axis=0, sizes=(1, 1)}
          %c: f32[5,3] = Squeeze(%a) {axes=(0,)}
          %d: f32[5,3] = Squeeze(%b) {axes=(0,)}
          return %c, %d
        }
    Result:
        graph g(%x: f32[2,5,3]) {
          %0: f32[10,3] = Reshape(%x, i64[2](10, 3))
          %1: f32[5,3], %2: f32[5,3] = Split(%0) {sizes=(5, 5)}
          %3: f32[1,5,3] = Unsqueeze(%1) {axes=(0,)}
          %4: f32[1,5,3] = Unsqueeze(%2) {axes=(0,)}
          %c: f32[5,3] = Squeeze(%3) {axes=(0,)}
          %d: f32[5,3] = Squeeze(%4) {axes=(0,)}
          return %c, %d
        }
    """
    own, sizes = extents(m.x), m.split.attrs["sizes"]
    if own is None or set(sizes) != {1}:
        return m.no("the parts are not of one element, or the rank is not known")
    axis = m.split.attrs.get("axis", 0) % len(own)
    readers = [reader for v in m.split.outputs for reader, _ in v.uses]
    part = [*own[:axis], Polynomial(1), *own[axis + 1 :]]
    lost = own[:axis] + own[axis + 1 :]
    if len(readers) < 2 or not all(r.op in _VIEWS and viewed(r, part) == lost for r in readers):
        return m.no("not all readers take the axis away, or there is only one")
    joined = _merged(b, m.x, own, axis, len(sizes))
    if joined is None:
        return m.no("there is no next axis, or its size is not known")
    size = own[axis + 1]
    assert size is not None
    parts = b.Split(joined, n_outputs=len(sizes), axis=axis, sizes=(size.number,) * len(sizes))
    return [b.Unsqueeze(v, axes=(axis,)) for v in parts]


def _merged(b: Builder, x: Value, own: Known, axis: int, count: int) -> Value | None:
    """x with an axis and the next one as one, which is `count` times as long as the next one."""
    following = own[axis + 1] if axis + 1 < len(own) else None
    if following is None or following.atoms or following.number == 0:
        return None
    return view_as(b, x, [*own[:axis], Polynomial(following.number * count), *own[axis + 2 :]])


@rewrite(lambda p, x: p.Gather(x, p.const("place"), as_="gather"), shared=True)
def split_gathered(b: Builder, m: Match) -> Value | None:
    """All places of an axis, each taken out by itself, are parts of what is cut once.

    Given:
        graph g(%x: f32[3,1,5]) {
          %a: f32[1,5] = Gather(%x, i64[](0))
          %b: f32[1,5] = Gather(%x, i64[](1))
          %c: f32[1,5] = Gather(%x, i64[](2))
          return %a, %b, %c
        }
    Result:
        graph g(%x: f32[3,1,5]) {
          %0: f32[3,5] = Squeeze(%x) {axes=(1,)}
          %a: f32[1,5], %1: f32[1,5], %2: f32[1,5] = Split(%0) {sizes=(1, 1, 1)}
          return %a, %1, %2
        }
    """
    own = extents(m.x)
    if own is None or m.place.data.shape or m.x.is_const:
        return m.no("the index is no single number, or the rank is not known")
    axis = m.gather.attrs.get("axis", 0) % len(own)
    count, at = own[axis], int(m.place.array)
    if count is None or count.atoms or not -count.number <= at < count.number:
        return m.no("the size is not known")
    part = (m.x, axis, count.number)
    if (made := _parts(*part)) is not None:
        return made[at]
    if not 3 <= count.number <= len(m.x.uses) <= _MAX_READERS or _places(*part) != set(range(count.number)):
        return m.no("not all of three or more places are taken out")
    # What is cut once must stand in front of all who read the parts.
    producer = m.x.producer
    with b.at(producer.next if producer is not None else next(iter(b.graph))):
        joined = _merged(b, m.x, own, axis, count.number)
        if joined is None or (size := own[axis + 1]) is None:
            return m.no("there is no next axis, or its size is not known")
        made = b.Split(joined, n_outputs=count.number, axis=axis, sizes=(size.number,) * count.number)
    return made[at]


# Looking for the other parts among more readers than these would take too long.
_MAX_READERS = 256


def _places(x: Value, axis: int, count: int) -> set[int]:
    """Which places along the axis are taken out of x by themselves."""
    return {
        int(index.array) % count
        for reader, i in x.uses
        if i == 0
        and reader.op == "Gather"
        and (index := reader.input(1)).data is not None
        and not index.data.shape
        and index.array is not None
        and reader.attrs.get("axis", 0) % len(x.type.shape or ()) == axis
    }


def _parts(x: Value, axis: int, count: int) -> tuple[Value, ...] | None:
    """What `split_gathered` has made of x before."""
    for view, _ in x.uses:
        if view.op in _VIEWS:
            for reader, _ in view.output.uses:
                if (
                    reader.op == "Split"
                    and reader.origin.endswith("split_gathered")
                    and reader.attrs.get("axis", 0) == axis
                    and len(reader.outputs) == count
                ):
                    return tuple(reader.outputs)
    return None


@rewrite(lambda p, x: p.Concat(p.Unsqueeze(x, as_="view"), ..., as_="concat"))
def stack_by_view(b: Builder, m: Match) -> Value | None:
    """Tensors of one shape, put together along an axis that they get for it, are put together along the next one.

    Given:
        graph g(%x: f32[N,5], %y: f32[N,5], %z: f32[N,5]) {
          %a: f32[N,1,5] = Unsqueeze(%x) {axes=(1,)}
          %b: f32[N,1,5] = Unsqueeze(%y) {axes=(1,)}
          %c: f32[N,1,5] = Unsqueeze(%z) {axes=(-2,)}
          %s: f32[N,3,5] = Concat(%a, %b, %c) {axis=1}
          return %s
        }
    Result:
        graph g(%x: f32[N,5], %y: f32[N,5], %z: f32[N,5]) {
          %0: f32[N,15] = Concat(%x, %y, %z) {axis=1}
          %s: f32[N,3,5] = Reshape(%0, i64[3](0, 3, 5))
          return %s
        }
    """
    views, rank = [v.producer for v in m.root.inputs if v is not None], m.root.output.type.rank
    if rank is None:
        return m.no("the rank is not known")
    axis = m.concat.attrs["axis"] % rank
    first = extents(m.x)
    for v in views:
        if v is None or v.op != "Unsqueeze" or any(r is not m.root for r in v.output.users):
            return m.no("not all operands get an axis, or others read them")
        if {a % rank for a in v.attrs.get("axes", ())} != {axis} or extents(v.input(0)) != first:
            return m.no("the operands get other axes, or their shapes differ")
    target = extents(m.root.output)
    if first is None or target is None or axis >= len(first) or shape_operand(m.x, target) is None:
        return m.no("there is no next axis, or its size is not known")
    if len(set(views)) < 2:
        return m.no("there are fewer than two")
    return view_as(b, b.Concat(*(v.input(0) for v in views if v is not None), axis=axis), target)


@rewrite(lambda p, x: p.Concat(any_view(p, x), ..., as_="concat"))
def view_behind_concat(b: Builder, m: Match) -> Value | None:
    """Axes of size 1 that all operands get or lose alike come or go when they are put together.

    Given:
        graph g(%x: f32[N,5,1], %y: f32[N,2,1]) {
          %a: f32[N,5] = Squeeze(%x) {axes=(2,)}
          %b: f32[N,2] = Reshape(%y, i64[2](0, 2))
          %s: f32[N,7] = Concat(%a, %b) {axis=1}
          return %s
        }
    Result:
        graph g(%x: f32[N,5,1], %y: f32[N,2,1]) {
          %0: f32[N,7,1] = Concat(%x, %y) {axis=1}
          %s: f32[N,7] = Squeeze(%0) {axes=(2,)}
          return %s
        }
    """
    views, rank = [v.producer for v in m.root.inputs if v is not None], m.root.output.type.rank
    if rank is None:
        return m.no("the rank is not known")
    axis = m.concat.attrs["axis"] % rank
    at: int | None = None
    for v in views:
        if v is None or v.op not in _VIEWS or any(r is not m.root for r in v.output.users):
            return m.no("not all operands are views, or others read them")
        own = extents(v.input(0))
        found = None if own is None else _same_axis(own, extents(v.output), axis)
        if found is None or at not in (None, found[0]) or len(own or ()) != m.x.type.rank:
            return m.no("the axis is not the same one before all views")
        at = found[0]
    inner = [extents(v.input(0)) for v in views if v is not None]
    if at is None or len(set(views)) < 2:
        return m.no("there are fewer than two")
    ones = [[e == Polynomial(1) for i, e in enumerate(known or ()) if i != at] for known in inner]
    if any(o != ones[0] for o in ones):
        return m.no("the axes of size 1 stand elsewhere")
    target = extents(m.root.output)
    assert target is not None  # its rank is known
    return view_as(b, b.Concat(*(v.input(0) for v in views if v is not None), axis=at), target)


def _same_axis(own: Known, seen: Known | None, axis: int) -> tuple[int] | None:
    """Where the axis of a view stands in front of it, if only other axes of size 1 come or go."""
    if seen is None or None in own or None in seen:
        return None
    mine = [i for i, e in enumerate(own) if e != Polynomial(1)]
    theirs = [i for i, e in enumerate(seen) if e != Polynomial(1)]
    if axis not in theirs or [own[i] for i in mine] != [seen[i] for i in theirs]:
        return None
    return (mine[theirs.index(axis)],)
