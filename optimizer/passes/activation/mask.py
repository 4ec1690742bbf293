"""Softmax of rows of which some elements are masked."""

from __future__ import annotations

import numpy as np

from minnow.optimizer.facts.affine import ONE, ZERO, Affine, affine, compared
from minnow.optimizer.facts.derive import extents
from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match
from minnow.schema.ir import Node, Value
from minnow.schema.ir.type import same_dim
from minnow.schema.ops import Builder, Trait, get
from minnow.schema.registry.symbolic import Known, Polynomial


@rewrite(lambda p, s: p.Where(p.Equal(p.ReduceMax(s, as_="max"), p.const("low")), 0.0, p.Softmax(s, as_="soft")))
def eliminate_guard_of_masked_rows(b: Builder, m: Match) -> Value | None:
    """A softmax that gives zeros where all is masked, of rows of which some element never is.

    Given:
        graph g(%q: f32[N,S,4], %k: f32[N,S,4]) {
          %s: f32[N,S,S] = MatMul(%q, %k) {transpose_b=True}
          %h: i64[3] = Shape(%q)
          %n: i64[] = Gather(%h, i64[](1))
          %j: i64[S] = Range(i64[](0), %n, i64[](1))
          %i: i64[S,1] = Unsqueeze(%j) {axes=(1,)}
          %t: bool[S,S] = LessOrEqual(%j, %i)
          %x: f32[N,S,S] = Where(%t, %s, f32[](-inf))
          %p: f32[N,S,S] = Softmax(%x)
          %m: f32[N,S,1] = ReduceMax(%x) {axes=(-1,)}
          %e: bool[N,S,1] = Equal(%m, f32[](-inf))
          %y: f32[N,S,S] = Where(%e, f32[](0.0), %p)
          return %y
        }
    Result:
        graph g(%q: f32[N,S,4], %k: f32[N,S,4]) {
          %s: f32[N,S,S] = MatMul(%q, %k) {transpose_b=True}
          %h: i64[3] = Shape(%q)
          %n: i64[] = Gather(%h, i64[](1))
          %j: i64[S] = Range(i64[](0), %n, i64[](1))
          %i: i64[S,1] = Unsqueeze(%j) {axes=(1,)}
          %t: bool[S,S] = LessOrEqual(%j, %i)
          %x: f32[N,S,S] = Where(%t, %s, f32[](-inf))
          %p: f32[N,S,S] = Softmax(%x)
          return %p
        }
    """
    rank = m.s.type.rank
    if rank is None or m.soft.attrs.get("axis", -1) % rank != rank - 1 or not m.max.attrs.get("keepdims", True):
        return m.no("it is not along the last axis")
    if tuple(a % rank for a in m.max.attrs.get("axes") or ()) != (rank - 1,):
        return m.no("it is not along the last axis")
    if not bool(np.all(np.isneginf(m.low.array))):
        return m.no("it asks for another number than -inf")
    if not _is_sum(m.s):
        node: Node | None = m.s.producer
        if node is None or node.op != "Where" or not _some_of_each_row(node.input(0), m.s):
            return m.no("all elements of a row may be masked")
        if not _is_sum(node.input(1)):
            return m.no("one mask may hide what the other one leaves, or the scores may be infinite by themselves")
    return m.soft.output


_MAX_ELEMENTS = 4096


def _is_sum(value: Value) -> bool:
    """Scores: products that nothing has masked. They are only infinite where numbers are too large for the type."""
    node = value.producer
    while node is not None and node.op in ("Mul", "Div") and _is_finite_factor(node):
        node = node.input(0).producer
    return node is not None and node.op == "MatMul" and not any(v is None or v.is_const for v in node.inputs)


def _is_finite_factor(node: Node) -> bool:
    """A number that no finite one becomes infinite by, but for its size."""
    k = node.input(1)
    if not k.is_const or (k.type.count or 0) > _MAX_ELEMENTS:
        return False
    numbers = np.asarray(k.array)
    return bool(np.isfinite(numbers).all() if node.op == "Mul" else np.all(numbers != 0))


def _some_of_each_row(mask: Value, scores: Value) -> bool:
    """Some element of each row of a mask is true, whatever the dimensions are."""
    shape = mask.type.shape
    if not shape or scores.type.shape is None:
        return False
    if mask.data is not None:
        truths = mask.data.numpy()
        return bool(truths.any(-1).all()) and shape[-1] != 0
    found = affine(mask)
    if found is not None and found.uniform == ONE:
        return True
    node = mask.producer
    if node is None:
        return False
    dims = extents(mask)
    if dims is None or not same_dim(shape[-1], scores.type.shape[-1]):
        return False
    if Trait.COMPARE in get(node.op).traits and len(node.inputs) == 2:
        return any(_true_at(node, dims, end) for end in (False, True))
    if node.op == "Or":
        return any(v is not None and v.type.rank and _some_of_each_row(v, scores) for v in node.inputs)
    inner = node.inputs[0]
    if node.op in ("Unsqueeze", "Expand", "Reshape") and inner is not None and inner.type.shape:
        before = extents(inner)
        kept = before is not None and before[-1] == dims[-1]
        whole = node.op != "Reshape" or (before is not None and [e for e in before if e != ONE] == [
            e for e in dims if e != ONE])  # fmt: skip
        return kept and whole and _some_of_each_row(inner, scores)
    return False


def _true_at(node: Node, dims: Known, end: bool) -> bool:
    """The comparison holds at the first, or last, place along the last axis whatever the others are."""
    wide = [_spread(v, dims) for v in node.inputs if v is not None]
    if None in wide or dims[-1] is None:
        return False
    a, b = (w for w in wide if w is not None)
    difference = a + b.times(Polynomial.of(-1))
    last = difference.steps[-1] * (dims[-1] - ONE) if end else ZERO
    fixed = Affine(difference.base + last, (*difference.steps[:-1], ZERO))
    return compared(node.op, fixed, dims) is True


def _spread(value: Value, dims: Known) -> Affine | None:
    found, own = affine(value), extents(value)
    if found is None or own is None:
        return None
    lead = len(dims) - len(own)
    grows = [s.terms and e != d for s, e, d in zip(found.steps, own, dims[lead:], strict=True)]
    return None if any(grows) else Affine(found.base, (ZERO,) * lead + found.steps)
