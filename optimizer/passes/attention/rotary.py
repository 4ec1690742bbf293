"""Rotary positions, as models spell them: pairs of features that are turned by the angles of two tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.optimizer.facts.derive import extents
from minnow.optimizer.passes.movement.cancel import view_as
from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match, same_shape
from minnow.schema.ir import Node, Value
from minnow.schema.ir.type import same_dim
from minnow.schema.ops import Builder
from minnow.schema.registry.dimension import broadcast_to
from minnow.schema.registry.symbolic import Polynomial

Part = tuple[Value, slice]
"""A value whose features, the elements along its last axis, are those of another one; and which these are."""


def _part(v: Value) -> Part | None:
    """Which features of which value these are; the step is 1, or 2 for every other one. None when they are not some."""
    node = v.producer
    if node is None or v.type.rank is None:
        return None
    match node.op:
        case "Slice":
            return _sliced(node)
        case "Split":
            x, sizes = node.input(0), node.attrs.get("sizes")
            if x.type.rank is None or node.attrs.get("axis", 0) % x.type.rank != x.type.rank - 1 or not sizes:
                return None
            start = sum(sizes[: v.index])
            return x, slice(start, start + sizes[v.index], 1)
        case "Gather":
            index = node.input(1)
            axis, grid = node.attrs.get("axis", 0), node.input(0)
            if index.data is None or index.type.count != 1 or not _drops_last(grid, v, axis):
                return None
            return _every_other(grid, int(index.data.numpy().reshape(-1)[0]))
        case "Squeeze" | "Reshape":
            x = node.input(0)
            inner = _part(x) if _drops_last(x, v, -1) else None
            if inner is None or inner[1].stop - inner[1].start != 1:
                return None
            return _every_other(inner[0], inner[1].start)
    return None


def _sliced(node: Node) -> Part | None:
    x = node.input(0)
    numbers = [node.input(i).array if node.has_input(i) else None for i in range(1, 5)]
    whole = x.type.shape[-1] if x.type.shape else None
    if any(n is None or n.size != 1 for n in numbers[:3]) or not isinstance(whole, int):
        return None
    start, stop, axis = (int(n.reshape(-1)[0]) for n in numbers[:3] if n is not None)
    step = 1 if numbers[3] is None else int(numbers[3].reshape(-1)[0])
    rank = x.type.rank or 1
    if (node.has_input(4) and numbers[3] is None) or axis % rank != rank - 1 or step < 1:
        return None
    return x, slice(*slice(start, stop, step).indices(whole))


def _drops_last(x: Value, y: Value, axis: int) -> bool:
    """y has the axes of x but the last one, which is `axis`."""
    own, left = x.type.shape, y.type.shape
    if own is None or left is None or len(own) != len(left) + 1 or axis % len(own) != len(own) - 1:
        return False
    return all(same_dim(a, b) for a, b in zip(own, left, strict=False))


def _every_other(grid: Value, index: int) -> Part | None:
    """Features that stand in pairs [..., n / 2, 2], of the value [..., n] that the grid is a view of."""
    node = grid.producer
    if node is None or node.op != "Reshape":
        return None
    x = node.input(0)
    own, cut = x.type.shape, grid.type.shape
    if own is None or cut is None or len(cut) != len(own) + 1 or cut[-1] != 2 or index not in (-2, -1, 0, 1):
        return None
    whole = own[-1]
    if not isinstance(whole, int) or cut[-2] != whole // 2 or whole % 2:
        return None
    if not all(same_dim(a, b) for a, b in zip(own[:-1], cut[:-2], strict=True)):
        return None
    return x, slice(index % 2, whole, 2)


def _levels(v: Value) -> list[tuple[Value, range]]:
    """The value and those that it is cut from, the last one first; and which features of the first these have."""
    cuts: list[tuple[Value, slice | None]] = [(v, None)]
    while (part := _part(cuts[-1][0])) is not None:
        cuts[-1] = (cuts[-1][0], part[1])
        cuts.append((part[0], None))
    last = cuts[-1][0].type.shape[-1] if cuts[-1][0].type.shape else None
    if not isinstance(last, int):
        return []
    levels = [(cuts[-1][0], range(last))]
    for value, cut in reversed(cuts[:-1]):
        levels.append((value, levels[-1][1][cut or slice(0)]))
    return levels


def _features(v: Value) -> tuple[Value, range] | None:
    """The value that these features come from in the end, and which of its own they are."""
    levels = _levels(v)
    return (levels[0][0], levels[-1][1]) if levels else None


def _holder(b: Builder, part: Value, whole: range) -> Value:
    """A value that has all of these features of what a part comes from, and no others: one that is there, or a cut."""
    levels = _levels(part)
    for value, features in levels:
        if features == whole:
            return value
    root = levels[0][0]
    cut: Value = b.Slice(root, *(np.array([n]) for n in (whole.start, whole.stop, (root.type.rank or 1) - 1)))
    return cut


def _are_pairs(whole: range, first: range, second: range) -> bool | None:
    """Whether the pairs of these features are neighbors (true) or halves; None when they are not what is there."""
    half = len(whole) // 2
    if len(whole) % 2 or not half:
        return None
    if (first, second) == (whole[:half], whole[half:]):
        return False
    return True if (first, second) == (whole[::2], whole[1::2]) else None


def _pair(b: Builder, first: Value, second: Value) -> tuple[Value, bool] | None:
    """The value whose features are in pairs these, and whether these are neighbors."""
    parts = _features(first), _features(second)
    if parts[0] is None or parts[1] is None or parts[0][0] is not parts[1][0]:
        return None
    own, other = parts[0][1], parts[1][1]
    if not own or not other:
        return None
    whole = range(own[0], other[-1] + 1)
    neighbors = _are_pairs(whole, own, other)
    if neighbors is None:
        return None
    return _holder(b, first, whole), neighbors


def _is_table(table: Value, x: Value, each: int) -> bool:
    """It has one number for so many features, in all rows of x or along some of its axes."""
    own, shape = table.type.shape, x.type.shape
    if not own or not shape or not isinstance(shape[-1], int) or table.type.dtype is not x.type.dtype:
        return False
    return own[-1] == shape[-1] // each and broadcast_to(own[:-1], shape[:-1])


def _negative(p: Any, x: Any) -> Any:
    return p.Neg(x) | p.Mul(x, -1.0)


def _stacked(p: Any, first: Any, second: Any) -> Any:
    """Two values as neighbors along the last axis."""

    def wide(x: Any) -> Any:
        return p.Unsqueeze(x) | p.Reshape(x, p.const("wide"))

    return p.Reshape(p.Concat(wide(first), wide(second), as_="stack"), ..., as_="flat")


def _put(m: Match, result: Value, first: Value) -> bool | None:
    """How the two parts are put together: side by side, or as neighbors (true). None for anything else."""
    node: Node = m.bound.get("stack") or m.side
    rank, whole = result.type.rank, result.type.shape[-1] if result.type.shape else None
    own = node.output.type.rank
    if not rank or not own or not isinstance(whole, int) or node.attrs["axis"] % own != own - 1:
        return None
    half = first.type.shape
    if half is None or half[-1] != whole // 2 or len(half) != rank:
        return None
    if node is not m.bound.get("stack"):
        return False
    # [..., n / 2, 1], twice, is [..., n / 2, 2], which is seen as [..., n].
    stacked = node.output.type.shape
    if stacked is None or len(stacked) != rank + 1 or stacked[-2:] != (whole // 2, 2):
        return None
    rows = result.type.shape or ()
    fits = all(same_dim(a, b) and same_dim(a, c) for a, b, c in zip(stacked[:-2], rows, half, strict=False))
    return True if fits and same_shape(m.flat.output, result) else None


@rewrite(
    lambda p, x, cos, sin, a, b: (
        p.Add(p.Mul(x, cos), p.Mul(p.Concat(_negative(p, b), a, as_="side") | _stacked(p, _negative(p, b), a), sin))
        | p.Sub(p.Mul(x, cos), p.Mul(p.Concat(b, _negative(p, a), as_="side") | _stacked(p, b, _negative(p, a)), sin))
    ),
    target="minnow",
)
def fuse_rotary(b: Builder, m: Match) -> Value | None:
    """x * cos + r(x) * sin, where r makes (-b, a) of the pairs (a, b) of features.

    Given:
        graph g(%x: f32[1,3,S,4], %c: f32[1,1,S,4], %s: f32[1,1,S,4]) {
          %a: f32[1,3,S,2] = Slice(%x, i64[1](0), i64[1](2), i64[1](3), i64[1](1))
          %b: f32[1,3,S,2] = Slice(%x, i64[1](2), i64[1](9223372036854775807), i64[1](3), i64[1](1))
          %n: f32[1,3,S,2] = Neg(%b)
          %r: f32[1,3,S,4] = Concat(%n, %a) {axis=-1}
          %p: f32[1,3,S,4] = Mul(%x, %c)
          %q: f32[1,3,S,4] = Mul(%r, %s)
          %y: f32[1,3,S,4] = Add(%p, %q)
          return %y
        }
    Result:
        graph g(%x: f32[1,3,S,4], %c: f32[1,1,S,4], %s: f32[1,1,S,4]) {
          %y: f32[1,3,S,4] = RotaryEmbedding(%x, %c, %s)
          return %y
        }
    """
    halves = [_features(v) for v in (m.a, m.b)]
    found = None
    for x in (m.x, m.cos):
        whole = _features(x)
        if whole is not None and all(h is not None and h[0] is whole[0] for h in halves):
            neighbors = _are_pairs(whole[1], *(h[1] for h in halves if h is not None))
            found = (x, neighbors) if neighbors is not None else found
    if found is None:
        return m.no("what is put together are not both halves of the features, or every other one")
    x, neighbors = found
    if _put(m, x, m.a) is not neighbors:
        return m.no("the features are not put together as they were taken apart")
    return _rotated(b, m, found, (m.cos if x is m.x else m.x, m.sin), 1)


def _rotated(b: Builder, m: Match, pair: tuple[Value, bool], tables: tuple[Value, Value], each: int) -> Value | None:
    """The op itself, with tables that have one number for so many features."""
    x, neighbors = pair
    if not x.type.dtype.is_float:
        return m.no("it does not compute with floats")
    for table in tables:
        if not _is_table(table, x, each):
            return m.no(f"{table!r} is no table for the features of {x!r}")
    return b.RotaryEmbedding(x, *tables, interleaved=neighbors)


def _turned(p: Any, a: Any, b: Any, cos: Any, sin: Any) -> tuple[Any, Any]:
    return p.Sub(p.Mul(a, cos), p.Mul(b, sin)), p.Add(p.Mul(b, cos), p.Mul(a, sin))


@rewrite(
    lambda p, a, b, cos, sin: (
        p.Concat(*_turned(p, a, b, cos, sin), as_="side")
        | p.Concat(*_turned(p, a, b, cos, sin), p.any("rest"), as_="side")
        | _stacked(p, *_turned(p, a, b, cos, sin))
    ),
    target="minnow",
)
def fuse_rotary_pairs(b: Builder, m: Match) -> Value | None:
    """(a * cos - b * sin, b * cos + a * sin) of the pairs (a, b) of features.

    Given:
        graph g(%x: f32[2,S,3,6], %c: f32[S,1,3], %s: f32[S,1,3]) {
          %a: f32[2,S,3,3], %b: f32[2,S,3,3] = Split(%x) {axis=3, sizes=(3, 3)}
          %0: f32[2,S,3,3] = Mul(%a, %c)
          %1: f32[2,S,3,3] = Mul(%b, %s)
          %2: f32[2,S,3,3] = Sub(%0, %1)
          %3: f32[2,S,3,3] = Mul(%b, %c)
          %4: f32[2,S,3,3] = Mul(%a, %s)
          %5: f32[2,S,3,3] = Add(%3, %4)
          %y: f32[2,S,3,6] = Concat(%2, %5) {axis=3}
          return %y
        }
    Result:
        graph g(%x: f32[2,S,3,6], %c: f32[S,1,3], %s: f32[S,1,3]) {
          %y: f32[2,S,3,6] = RotaryEmbedding(%x, %c, %s)
          return %y
        }
    """
    # What is a pair and what are its cosine and sine shows in nothing but where they come from.
    pair, tables = _pair(b, m.a, m.b), (m.cos, m.sin)
    if pair is None:
        pair, tables = _pair(b, m.cos, m.sin), (m.a, m.b)
    if pair is None:
        return m.no("they are not both halves of the features, or every other one")
    if _put(m, pair[0], m.a if tables[0] is m.cos else m.cos) is not pair[1]:
        return m.no("the features are not put together as they were taken apart")
    turned = _rotated(b, m, pair, tables, 2)
    if turned is None or "rest" not in m.bound:
        return turned
    return b.Concat(turned, m.rest, axis=m.root.attrs["axis"])


@rewrite(
    lambda p, part, rest, cos, sin: p.Concat(p.RotaryEmbedding(part, cos, sin, size=0, as_="rotary"), rest),
    target="minnow",
)
def fuse_rotary_rest(b: Builder, m: Match) -> Value | None:
    """Features that are not turned, behind those that are.

    Given:
        graph g(%x: f32[2,S,6], %c: f32[S,2], %s: f32[S,2]) {
          %a: f32[2,S,4], %b: f32[2,S,2] = Split(%x) {axis=2, sizes=(4, 2)}
          %r: f32[2,S,4] = RotaryEmbedding(%a, %c, %s)
          %y: f32[2,S,6] = Concat(%r, %b) {axis=-1}
          return %y
        }
    Result:
        graph g(%x: f32[2,S,6], %c: f32[S,2], %s: f32[S,2]) {
          %y: f32[2,S,6] = RotaryEmbedding(%x, %c, %s) {size=4}
          return %y
        }
    """
    turned, left = _features(m.part), _features(m.rest)
    if turned is None or left is None or turned[0] is not left[0]:
        return m.no("they are not parts of one value's features")
    at, whole = len(turned[1]), len(turned[1]) + len(left[1])
    both = range(turned[1].start, turned[1].start + whole)
    if turned[1] != both[:at] or left[1] != both[at:]:
        return m.no("they are not the first features and those behind them")
    x = next((v for v, features in _levels(m.part) if features == both), None)
    if x is None:
        return m.no("the first features and those behind them are not all of a value's")
    if not same_shape(x, m.root.output) or m.root.attrs["axis"] % (x.type.rank or 1) != (x.type.rank or 1) - 1:
        return m.no("they are not put together along the last axis")
    size = at if at != whole else 0
    return b.RotaryEmbedding(x, m.cos, m.sin, interleaved=m.rotary.attrs.get("interleaved", False), size=size)


@rewrite(
    lambda p, x, cos, sin: p.Transpose(p.RotaryEmbedding(p.Transpose(x, as_="first"), cos, sin, as_="rotary")),
    target="minnow",
)
def fuse_rotary_transposes(b: Builder, m: Match) -> Value | None:
    """Rows that are transposed only to be turned: the tables, which are smaller, can be transposed instead.

    Given:
        graph g(%x: f32[2,3,S,4], %c: f32[2,S,1,4], %s: f32[S,1,2]) {
          %a: f32[2,S,3,4] = Transpose(%x) {perm=(0, 2, 1, 3)}
          %r: f32[2,S,3,4] = RotaryEmbedding(%a, %c, %s)
          %y: f32[2,3,S,4] = Transpose(%r) {perm=(0, 2, 1, 3)}
          return %y
        }
    Result:
        graph g(%x: f32[2,3,S,4], %c: f32[2,S,1,4], %s: f32[S,1,2]) {
          %0: f32[2,1,S,4] = Reshape(%c, i64[4](2, 1, -1, 4))
          %1: f32[S,2] = Squeeze(%s) {axes=(1,)}
          %y: f32[2,3,S,4] = RotaryEmbedding(%x, %0, %1)
          return %y
        }
    """
    perm, rank = m.root.attrs["perm"], m.x.type.rank
    if rank is None or [m.first.attrs["perm"][i] for i in perm] != list(range(rank)) or perm[-1] != rank - 1:
        return m.no("the transposes do not cancel, or move the features")
    tables = [_transposed(b, t, perm) for t in (m.cos, m.sin)]
    if None in tables:
        return m.no("the tables have other axes to transpose than those of one element")
    return b.node("RotaryEmbedding", [m.x, *tables], m.rotary.attrs).output


def _transposed(b: Builder, table: Value, perm: tuple[int, ...]) -> Value | None:
    """The table with its axes in this order, where that leaves all elements where they are."""
    shape, known = table.type.shape, extents(table)
    if shape is None or known is None:
        return None
    more = len(perm) - len(shape)
    order = [i - more for i in perm if i >= more and shape[i - more] != 1]
    if order != sorted(order):
        return None
    target = [known[i - more] if i >= more else Polynomial(1) for i in perm]
    while len(target) > 1 and target[0] == Polynomial(1) and len(target) > len(order):
        target.pop(0)
    return view_as(b, table, target)


@rewrite(
    lambda p, a, b, sin: p.Mul(p.Concat(_negative(p, b), a, as_="side") | _stacked(p, _negative(p, b), a), sin),
    target="mnn",
)
def negate_rotary_table(b: Builder, m: Match) -> Value | None:
    """The sign of half of the features goes into the table, which all layers share.

    Given:
        graph g(%x: f32[3,4], %a: f32[3,2], %b: f32[3,2]) {
          %n: f32[3,2] = Neg(%b)
          %r: f32[3,4] = Concat(%n, %a) {axis=-1}
          %y: f32[3,4] = Mul(%r, f32[4](1.0, 2.0, 3.0, 4.0))
          return %y
        }
    Result:
        graph g(%x: f32[3,4], %a: f32[3,2], %b: f32[3,2]) {
          %0: f32[3,4] = Concat(%b, %a) {axis=-1}
          %1: f32[4] = Mul(f32[4](1.0, 2.0, 3.0, 4.0), f32[4](-1.0, -1.0, 1.0, 1.0))
          %y: f32[3,4] = Mul(%0, %1)
          return %y
        }
    """
    if not m.sin.is_const and len({n for n, _ in m.sin.uses}) < 2:
        return m.no("no other layer shares the table")
    result: Value = m.root.output
    whole = result.type.shape[-1] if result.type.shape else None
    neighbors = _put(m, result, m.a)
    if neighbors is None or not isinstance(whole, int) or not same_shape(m.a, m.b):
        return m.no("the features are not put together along the last axis, half of them each")
    if not m.sin.type.dtype.is_float or not m.sin.type.shape or m.sin.type.shape[-1] != whole:
        return m.no(f"{m.sin!r} has no number for each feature")
    signs = np.ones(whole, m.sin.type.dtype.numpy)
    signs[:: 2 if neighbors else 1][: whole // 2] = -1
    if neighbors:
        stack = b.Concat(b.Unsqueeze(m.b, axes=(-1,)), b.Unsqueeze(m.a, axes=(-1,)), axis=-1)
        turned = b.node("Reshape", [stack, *m.flat.inputs[1:]], m.flat.attrs).output
    else:
        turned = b.Concat(m.b, m.a, axis=-1)
    return b.Mul(turned, b.Mul(m.sin, signs))
