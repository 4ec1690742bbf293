"""Sequences and optionals whose tensors are known one by one: the tensors themselves take their place.

Files without any run on every runtime of the format; what is left of them is for Minnow's engine only.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match
from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, Node, Value
from minnow.schema.ops import Builder
from minnow.schema.registry.encoding import bound

_MOST_PARTS = 256
"""A sequence of more tensors than this stays one: a node with as many outputs would be no gain."""


def _place(position: Value | None, count: int, end: int) -> int | None:
    """The position from the front among `end`; None when it is not known, or there is none."""
    if position is None:
        return end - 1 if end else None
    if position.data is None or position.type.count != 1:
        return None
    at = int(position.data.numpy().reshape(-1)[0])
    return at % count if -count <= at < 0 else at if 0 <= at < end else None


def _operand(node: Node, i: int) -> Value | None:
    return node.input(i) if node.has_input(i) else None


def _tensors(node: Node) -> list[Value]:
    return [v for v in node.inputs if v is not None]


def _cast(b: Builder, x: Value, dtype: DType) -> Value:
    return x if x.type.dtype is dtype else b.Cast(x, to=dtype)


@rewrite(lambda p, at: p.SequenceAt(p.SequenceConstruct(..., as_="made"), at), shared=True, level=1)
def take_known_element(b: Builder, m: Match) -> Value | None:
    """Given:
        graph g(%x: f32[4], %y: f32[5]) {
          %s: sequence(f32[?]) = SequenceConstruct(%x, %y)
          %a: f32[?] = SequenceAt(%s, i64[](-1)) {dtype=f32, shape=(-1,)}
          %z: f32[?] = Exp(%a)
          return %z
        }
    Result:
        graph g(%x: f32[4], %y: f32[5]) {
          %z: f32[?] = Exp(%y)
          return %z
        }
    """
    tensors = _tensors(m.made)
    at = _place(m.at, len(tensors), len(tensors))
    if at is None:
        return m.no("the position is not known, or out of range")
    x = tensors[at]
    return x if x.type.holds_tensors else _cast(b, x, m.root.attrs["dtype"])


@rewrite(lambda p: p.SequenceLength(p.SequenceConstruct(..., as_="made")), shared=True, level=1)
def count_known_elements(b: Builder, m: Match) -> Value:
    """Given:
        graph g(%x: f32[4]) {
          %s: optional(f32[4]) = SequenceConstruct(%x) {is_optional=True}
          %n: i64[] = SequenceLength(%s)
          %b: bool[] = Cast(%n) {to=bool}
          return %b
        }
    Result:
        graph g(%x: f32[4]) {
          %b: bool[] = Cast(i64[](1)) {to=bool}
          return %b
        }
    """
    return b.const(np.array(len(_tensors(m.made)), np.int64))


@rewrite(lambda p: p.SequenceInsert(p.SequenceConstruct(..., as_="made"), ...), shared=True, level=1)
def insert_known_element(b: Builder, m: Match) -> Value | None:
    """Given:
        graph g(%x: f32[4], %y: f32[5]) {
          %e: sequence(f32[*]) = SequenceConstruct()
          %s: sequence(f32[*]) = SequenceInsert(%e, %x)
          %t: sequence(f32[*]) = SequenceInsert(%s, %y, i64[](0))
          return %t
        }
    Result:
        graph g(%x: f32[4], %y: f32[5]) {
          %t: sequence(f32[?]) = SequenceConstruct(%y, %x)
          return %t
        }
    """
    tensors = _tensors(m.made)
    at = _place(_operand(m.root, 2), len(tensors), len(tensors) + 1)
    if at is None or len(tensors) == _MOST_PARTS:
        return m.no("the position is not known, or out of range, or there are too many tensors")
    made: Value = b.SequenceConstruct(*tensors[:at], m.root.input(1), *tensors[at:])
    return made


@rewrite(lambda p: p.SequenceErase(p.SequenceConstruct(..., as_="made"), ...), shared=True, level=1)
def erase_known_element(b: Builder, m: Match) -> Value | None:
    """Given:
        graph g(%x: f32[4], %y: f32[5]) {
          %s: sequence(f32[?]) = SequenceConstruct(%x, %y)
          %t: sequence(f32[?]) = SequenceErase(%s, i64[](-2))
          return %t
        }
    Result:
        graph g(%x: f32[4], %y: f32[5]) {
          %t: sequence(f32[5]) = SequenceConstruct(%y)
          return %t
        }
    """
    tensors = _tensors(m.made)
    at = _place(_operand(m.root, 1), len(tensors), len(tensors))
    if at is None:
        return m.no("the position is not known, or out of range")
    made: Value = b.SequenceConstruct(*tensors[:at], *tensors[at + 1 :], dtype=tensors[at].type.dtype)
    return made


@rewrite(lambda p: p.ConcatFromSequence(p.SequenceConstruct(..., as_="made")), shared=True, level=1)
def concat_known_elements(b: Builder, m: Match) -> Value | None:
    """Given:
        graph g(%x: f32[4], %y: f32[4]) {
          %s: sequence(f32[4]) = SequenceConstruct(%x, %y)
          %a: f32[?] = ConcatFromSequence(%s) {axis=0, dtype=f32}
          %b: f32[4,?] = ConcatFromSequence(%s) {axis=1, new_axis=True, dtype=f32}
          return %a, %b
        }
    Result:
        graph g(%x: f32[4], %y: f32[4]) {
          %a: f32[8] = Concat(%x, %y) {axis=0}
          %0: f32[4,1] = Unsqueeze(%x) {axes=(1,)}
          %1: f32[4,1] = Unsqueeze(%y) {axes=(1,)}
          %b: f32[4,2] = Concat(%0, %1) {axis=1}
          return %a, %b
        }
    """
    attrs = bound(m.root)
    parts = [_cast(b, x, attrs["dtype"]) for x in _tensors(m.made)]
    if not parts:
        return m.no("the sequence is empty")
    if any(x.type.rank is None for x in parts):
        return m.no("a rank is not known")
    try:
        if attrs["new_axis"]:
            parts = [b.Unsqueeze(x, axes=(attrs["axis"],)) for x in parts]
        made: Value = b.Concat(*parts, axis=attrs["axis"])
    except ModelError as e:
        return m.no(e.message)  # a run ends with an error
    return made


@rewrite(lambda p, x: p.SplitToSequence(x, ...), shared=True, level=1)
def split_known_dimension(b: Builder, m: Match) -> Value | None:
    """An axis cut into parts whose sizes are known, where each of them is asked for by itself.

    Given:
        graph g(%x: f32[N,5]) {
          %s: sequence(f32[N,?]) = SplitToSequence(%x, i64[](3)) {axis=1}
          %a: f32[N,?] = SequenceAt(%s, i64[](1)) {dtype=f32, shape=(-1, -1)}
          return %a
        }
    Result:
        graph g(%x: f32[N,5]) {
          %0: f32[N,3], %1: f32[N,2] = Split(%x) {axis=1, sizes=(3, 2)}
          %2: sequence(f32[N,?]) = SequenceConstruct(%0, %1)
          %a: f32[N,?] = SequenceAt(%2, i64[](1)) {dtype=f32, shape=(-1, -1)}
          return %a
        }
    """
    attrs, users = bound(m.root), m.root.output.users
    sizes = _sizes(m.x, attrs["axis"], _operand(m.root, 1))
    if sizes is None:
        return m.no("the sizes of the parts are not known, or there are none or too many")
    if not users or not all(_opens(n) for n in users):
        return m.no("the sequence itself is wanted")
    drops = not m.root.has_input(1) and not attrs["keepdims"]
    parts: Sequence[Value] = b.Split(m.x, axis=attrs["axis"], sizes=sizes, n_outputs=len(sizes))
    if drops:
        parts = [b.Squeeze(v, axes=(attrs["axis"],)) for v in parts]
    table = {}
    for user in users:
        if user.op == "SequenceAt":
            table[user] = _place(user.input(1), len(parts), len(parts))
    if any(at is None for at in table.values()):
        return m.no("a position is not known, or out of range")
    made: Value = b.SequenceConstruct(*parts)
    return made


def _opens(node: Node) -> bool:
    """It reads the tensors of a sequence, and its rule finds them if they are known."""
    return node.op in ("SequenceLength", "ConcatFromSequence") or (node.op == "SequenceAt" and node.input(1).is_const)


def _sizes(x: Value, axis: int, split: Value | None) -> tuple[int, ...] | None:
    """Sizes of the parts that an axis is cut into, when they are known, at least one, and not too many."""
    extent = None if x.type.shape is None else x.type.shape[axis]
    if not isinstance(extent, int) or (split is not None and split.data is None):
        return None
    given = None if split is None or split.data is None else split.data.numpy()
    if given is not None and given.ndim:
        sizes = tuple(int(n) for n in given)
        fits = all(n >= 0 for n in sizes) and sum(sizes) == extent
    else:
        size = 1 if given is None else int(given)
        fits = size > 0 and extent // size < _MOST_PARTS
        sizes = tuple(min(size, extent - i) for i in range(0, extent, size)) if fits else ()
    return sizes if fits and 0 < len(sizes) <= _MOST_PARTS else None


@rewrite(lambda p, x, at: p.SequenceAt(p.SplitToSequence(x, as_="split"), at), shared=True, level=1)
def take_slice(b: Builder, m: Match) -> Value | None:
    """One of the slices of an axis, wherever it is.

    Given:
        graph g(%x: f32[N,3], %i: i64[]) {
          %s: sequence(f32[3]) = SplitToSequence(%x) {keepdims=False}
          %a: f32[3] = SequenceAt(%s, %i) {dtype=f32, shape=(3,)}
          %t: sequence(f32[N,1]) = SplitToSequence(%x) {axis=1}
          %b: f32[N,1] = SequenceAt(%t, %i) {dtype=f32, shape=(-1, 1)}
          return %a, %b
        }
    Result:
        graph g(%x: f32[N,3], %i: i64[]) {
          %a: f32[3] = Gather(%x, %i)
          %0: i64[1] = Reshape(%i, i64[1](1))
          %b: f32[N,1] = Gather(%x, %0) {axis=1}
          return %a, %b
        }
    """
    attrs = bound(m.split)
    if m.x.type.rank is None or m.at.type.count != 1:
        return m.no("the rank is not known")
    shape = np.array([1] if attrs["keepdims"] else [], np.int64)
    same = m.at.type.shape == tuple(shape)
    index = m.at if same else b.Reshape(m.at, shape)
    return _cast(b, b.Gather(m.x, index, axis=attrs["axis"]), m.root.attrs["dtype"])


@rewrite(lambda p, x: p.SequenceLength(p.SplitToSequence(x, as_="split")), shared=True, level=1)
def count_slices(b: Builder, m: Match) -> Value | None:
    """As many slices as the axis is long.

    Given:
        graph g(%x: f32[3,N]) {
          %s: sequence(f32[3]) = SplitToSequence(%x) {axis=1, keepdims=False}
          %n: i64[] = SequenceLength(%s)
          return %n
        }
    Result:
        graph g(%x: f32[3,N]) {
          %0: i64[2] = Shape(%x)
          %n: i64[] = Gather(%0, i64[](1))
          return %n
        }
    """
    if m.x.type.rank is None:
        return m.no("the rank is not known")
    at = np.array(bound(m.split)["axis"] % m.x.type.rank, np.int64)
    made: Value = b.Gather(b.Shape(m.x), at)
    return made


@rewrite(lambda p, x: p.ConcatFromSequence(p.SplitToSequence(x, ..., as_="split")), shared=True, level=1)
def join_what_was_split(b: Builder, m: Match) -> Value | None:
    """Slices put together again.

    Given:
        graph g(%x: f32[3,4]) {
          %s: sequence(f32[4]) = SplitToSequence(%x) {keepdims=False}
          %a: f32[?,4] = ConcatFromSequence(%s) {axis=0, new_axis=True, dtype=f32}
          %y: f32[3,4] = Exp(%a)
          return %y
        }
    Result:
        graph g(%x: f32[3,4]) {
          %y: f32[3,4] = Exp(%x)
          return %y
        }
    """
    split, joined, rank = bound(m.split), bound(m.root), m.x.type.rank
    if rank is None or split["axis"] % rank != joined["axis"] % rank:
        return m.no("the axes differ, or the rank is not known")
    drops = not m.split.has_input(1) and not split["keepdims"]
    if drops != joined["new_axis"]:
        return m.no("the axis is not kept")
    if _sizes(m.x, split["axis"], _operand(m.split, 1)) is None:
        return m.no("it is not known whether there are parts, or that their sizes are right")
    return _cast(b, m.x, joined["dtype"])
