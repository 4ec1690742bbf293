"""What follows from places: comparisons that always go the same way, and tables that are read as they stand."""

from __future__ import annotations

from functools import reduce
from operator import or_

import numpy as np

from minnow.optimizer.facts.affine import ONE, ZERO, Affine, affine, gathered_places
from minnow.optimizer.facts.derive import extents
from minnow.optimizer.passes.movement.cancel import broadcasts_alone, view_as
from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder, Trait, all_ops, get
from minnow.schema.registry.symbolic import Known, Memo, product

_MAX_ELEMENTS = 64


def _is_counted(dtype: DType) -> bool:
    return dtype.is_int or dtype is DType.BOOL


def _number(value: Value) -> Value | None:
    """A constant of one element that is what all elements of the value are; None where that is not known."""
    if value.is_const or not _is_counted(value.type.dtype) or value.type.rank is None:
        return None
    found = affine(value)
    number = None if found is None or found.uniform is None else found.uniform.integer
    if number is None:
        return None
    return Value.constant(np.full([1] * value.type.rank, number, value.type.dtype.numpy))


@rewrite(
    lambda p, x, y, z: reduce(
        or_,
        [
            getattr(p, op.name)(x, y)
            for op in all_ops()
            if Trait.ELEMENTWISE in op.traits and len(op.operand_names) == 2 and op.name != "PRelu"
        ],
        p.Where(x, y, z),
    ),
    shared=True,
    level=1,
)
def fold_decided_operand(b: Builder, m: Match) -> Value | None:
    """An operand whose elements are all known to be one number, as places and dimensions decide it.

    Given:
        graph g(%x: bool[1,S], %n: i64[]) {
          %s: i64[2] = Shape(%x)
          %e: i64[] = Gather(%s, i64[](1))
          %r: i64[S] = Range(i64[](0), %e, i64[](1))
          %c: bool[S] = GreaterOrEqual(%r, i64[](0))
          %y: bool[1,S] = And(%c, %x)
          return %y
        }
    Result:
        graph g(%x: bool[1,S], %n: i64[]) {
          %y: bool[1,S] = And(bool[1](True), %x)
          return %y
        }
    """
    operands = [v for v in m.root.inputs if v is not None]
    for i, value in enumerate(operands):
        number = _number(value)
        if number is None:
            continue
        rest = [*operands[:i], number, *operands[i + 1 :]]
        if value.type.count != 1 and not broadcasts_alone(rest, m.root.output):
            continue
        return b.node(m.root.op, rest, m.root.attrs).output
    return m.no("no operand is known to be one number, or it decides some dimension")


def _axes(places: list[Affine], own: Known, out: Known) -> list[int] | None:
    """The axis of the result for each axis of the operand that is run through from end to end; -1 where it has one
    element."""
    found = []
    for place, extent in zip(places, own, strict=True):
        along = [j for j, step in enumerate(place.steps) if step.terms]
        if extent == ONE:
            found.append(-1)
        elif len(along) == 1 and place.base == ZERO and place.steps[along[0]] == ONE and out[along[0]] == extent:
            found.append(along[0])
        else:
            return None
    used = [j for j in found if j >= 0]
    rest = [e for j, e in enumerate(out) if j not in used]
    return found if len(set(used)) == len(used) and all(e == ONE for e in rest) else None


@rewrite(lambda p, x, i: p.GatherND(x, i) | p.Gather(x, i) | p.GatherElements(x, i), shared=True, level=1)
def eliminate_gather_of_all(b: Builder, m: Match) -> Value | None:
    """All elements taken in their order, or axis by axis in another one.

    Given:
        graph g(%x: f32[N,S]) {
          %a: i64[2] = Shape(%x)
          %s: i64[] = Gather(%a, i64[](1))
          %c: i64[S] = Range(i64[](0), %s, i64[](1))
          %i: i64[S,1] = Unsqueeze(%c) {axes=(1,)}
          %y: f32[N,S,1] = Gather(%x, %i) {axis=1}
          %z: f32[N,S,1] = Exp(%y)
          return %z
        }
    Result:
        graph g(%x: f32[N,S]) {
          %y: f32[N,S,1] = Unsqueeze(%x) {axes=(2,)}
          %z: f32[N,S,1] = Exp(%y)
          return %z
        }
    """
    own, out = extents(m.x), extents(m.root.output)
    if own is None or out is None or m.x.is_const:
        return m.no("the rank is not known, or it is computed before the model runs")
    merged = _merged(b, m, out)
    if merged is not None:
        return merged
    places = gathered_places(m.root, Memo())
    axes = None if places is None else _axes(places, own, out)
    if axes is None:
        return m.no("the indices are not known to name every element once")
    order = sorted((a for a in range(len(own)) if axes[a] >= 0), key=lambda a: axes[a])
    left = [a for a in range(len(own)) if axes[a] < 0]
    perm = tuple(order + left)
    y = m.x if perm == tuple(range(len(own))) or _only_ones_move(perm, own) else b.Transpose(m.x, perm=perm)
    found = view_as(b, y, out)
    return m.no("no single view does it") if found is None else found


def _only_ones_move(perm: tuple[int, ...], own: Known) -> bool:
    moved = [a for a in perm if own[a] != ONE]
    return moved == sorted(moved)


def _merged(b: Builder, m: Match, out: Known) -> Value | None:
    """All rows of a table that is a view of one with several leading axes, each run through by an axis of the index."""
    view = m.x.producer
    if m.root.op != "Gather" or m.root.attrs.get("axis", 0) or view is None:
        return None
    if Trait.VIEW not in get(view.op).traits:
        return None
    rows, table, index = extents(m.x), extents(view.input(0)), affine(m.i)
    if rows is None or table is None or index is None or index.base != ZERO:
        return None
    depth = next((k for k in range(len(table) + 1) if product(table[:k]) == rows[0]), None)
    if depth is None or rows[0] == ONE:
        return None
    strides = [product(table[a + 1 : depth]) for a in range(depth)]
    wanted = [(e, s) for e, s in zip(table, strides, strict=False) if e != ONE]
    dims = extents(m.i)
    if dims is None or [(e, s) for e, s in zip(dims, index.steps, strict=True) if e != ONE] != wanted:
        return None
    return view_as(b, view.input(0), out)
