"""Queries, keys and values: in which ancestors of a product's operands attention can read them in place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from minnow.optimizer.facts.view import REPEATED, Piece, Pieces, View, views
from minnow.schema.ir import Node, Value
from minnow.schema.ops import Builder
from minnow.schema.registry.symbolic import Polynomial, dimension


@dataclass(frozen=True)
class Part:
    """Queries, keys or values as a product has them, in a value that attention can read.

    Attributes:
        value: [batch, length, features] or [batch, heads, length, size].
        scale: what they are multiplied by.
        heads: how many there are, each repeated for `group` heads of queries.
        batch, length, size: their sizes.
        start: the first of the features that are these, when they are not all.
        turned: how the value has to be moved first: the order of its axes, or () for a reshape of its last two.
    """

    value: Value
    scale: float
    heads: int
    group: int
    batch: Polynomial | None
    length: Polynomial | None
    size: Polynomial
    start: int | None = None
    turned: tuple[int, ...] | None = None

    @property
    def side_by_side(self) -> bool:
        """Attention is given [batch, length, features]."""
        return self.value.type.rank == 3 or self.turned == ()

    def operand(self, b: Builder) -> Value:
        """The value in the form that attention takes."""
        if self.turned is None:
            return self.value
        if self.turned:
            moved: Value = b.Transpose(self.value, perm=self.turned)
            return moved
        features = self.heads * self.size.number
        joined: Value = b.Reshape(self.value, np.array([0, 0, features]))
        return joined


def parts_of(value: Value, scaled: bool, transposed: bool) -> list[Part]:
    """An operand of a product in its ancestors, the farthest first."""
    found = [p for v in views(value, scaled) for p in _in_base(v, transposed)]
    return found[::-1]


def _in_base(view: View, transposed: bool) -> Iterator[Part]:
    if len(view.axes) not in (3, 4):
        return
    lead, (rows, columns) = list(view.axes[:-2]), view.axes[-2:]
    if transposed:
        rows, columns = columns, rows
    group = 1
    if lead[-1] and lead[-1][-1].axis == REPEATED:
        times = lead[-1][-1].size
        group, lead = times.number, [*lead[:-1], lead[-1][:-1]]
        if times.atoms:
            return
    if any(p.axis == REPEATED for axis in (*lead, rows, columns) for p in axis):
        return
    base, rank = view.base, view.base.type.rank
    size = columns[0].size if len(columns) == 1 else Polynomial(1)
    joined = len(lead) == 1
    whole = [view.whole(a) for a in range(rank or 0)]

    def leads(batch: Pieces, heads: Pieces) -> bool:
        return tuple(lead) == ((*batch, *heads),) if joined else tuple(lead) == (batch, heads)

    if rank == 4 and not view.starts:
        shape = base.type.shape or ()
        for order in ((0, 1, 2, 3), (0, 2, 1, 3), (0, 1, 3, 2)):
            b, h, r, c = (whole[a] for a in order)
            heads = shape[order[1]]
            if leads(b, h) and (rows, columns) == (r, c) and isinstance(heads, int):
                turned: tuple[int, ...] | None = None if order == (0, 1, 2, 3) else order
                if order == (0, 2, 1, 3) and not size.atoms:
                    turned = ()
                batch, length = dimension(base, 0), dimension(base, order[2])
                yield Part(base, view.scale, heads, group, batch, length, size, None, turned)
    if rank == 3 and all(axis == 2 for axis, _ in view.starts) and (not columns or columns == (Piece(2, size),)):
        start = view.starts[0][1] if view.starts else 0
        features = dimension(base, 2)
        for first in (0, 1):  # the batch, or the length
            if rows != whole[1 - first] or size.atoms:
                continue
            split = [p for p in lead[-1] if p.axis == 2]
            heads = split[0].size.number if split else 1
            if not leads(whole[first], tuple(split)) or (split and (split[0].step != size.number or len(split) > 1)):
                continue
            all_of_it = features == Polynomial(heads * size.number)
            ends = (dimension(base, first), dimension(base, 1 - first), size)
            moved = None if first == 0 else (1, 0, 2)
            yield Part(base, view.scale, heads, group, *ends, None if all_of_it else start, moved)
            break


@dataclass
class Operands:
    """Queries, keys and values that fit each other; keys and values are None where all are packed in one value."""

    q: Part
    k: Part
    v: Part
    packed: bool = False


def fitting(q: Value, k: Value, v: Value, product: Node, weighted: Node) -> Operands | None:
    """The farthest ancestors of the operands that attention can read, or the operands themselves."""
    qs = parts_of(q, True, product.attrs.get("transpose_a", False))
    ks = parts_of(k, True, not product.attrs.get("transpose_b", False))
    vs = parts_of(v, False, weighted.attrs.get("transpose_b", False))
    joined = q.type.rank == 3
    for a in qs:
        if a.start is not None and a.start != 0:
            continue
        for c in ks:
            for d in vs:
                if _is_packed(a, c, d):
                    return Operands(a, c, d, True)
    for a in qs:
        if a.start is not None or a.group != 1:
            continue
        for c in ks:
            if c.start is not None or not _shares(a, c, joined):
                continue
            for d in vs:
                same = d.heads == c.heads and (d.group == c.group or c.heads == a.heads)
                if d.start is None and same and _shares(a, d, joined):
                    return Operands(a, c, d)
    return None


def _shares(q: Part, k: Part, joined: bool) -> bool:
    """The heads of queries find theirs among those of keys."""
    if joined and q.batch != k.batch:
        return False  # the product has one axis for batch and heads, of which nothing is broadcast
    return k.heads * k.group == q.heads or (k.heads == 1 and k.group == 1 and not joined)


def _is_packed(q: Part, k: Part, v: Part) -> bool:
    size = q.size.number
    return (
        q.value is k.value is v.value
        and q.turned == k.turned == v.turned
        and q.turned in (None, (1, 0, 2))
        and q.group == 1
        and k.heads * k.group == q.heads
        and (v.heads, v.group) == (k.heads, k.group)
        and q.size == k.size == v.size
        and (q.start, k.start, v.start) == (0, q.heads * size, (q.heads + k.heads) * size)
        and dimension(q.value, 2) == Polynomial((q.heads + 2 * k.heads) * size)
    )
