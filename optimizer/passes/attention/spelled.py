"""Attention that sources spell out as matrix products around a softmax.

What moves its operands about beforehand, and the result afterwards, goes into the form that the operands have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from minnow.optimizer.facts.format import FLOATS
from minnow.optimizer.facts.heads import Operands, fitting
from minnow.optimizer.facts.view import View, dims_of, factor_of, scaled_operand, views
from minnow.optimizer.passes.shape.constant import shape_operand
from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match
from minnow.schema.ir import DType, Node, Value
from minnow.schema.ops import Builder
from minnow.schema.registry.symbolic import Polynomial, contents, dimension

_MOST_MASK = 1 << 24  # elements of a constant that are looked at


# ---- scores: masks and scales between the products


@dataclass
class Scores:
    """What stands between the product of queries and keys, and the softmax.

    Attributes:
        product: the product of queries and keys.
        scale: what it is multiplied by before any mask.
        masks: in the order in which they are applied; with each what it is: "add", or the score it leaves as it is
            where it is true ("keep") or false ("hide").
        fill: the score of what is not seen.
    """

    product: Node
    scale: float
    masks: list[tuple[Value, str]]
    fill: float


def _scores(m: Match) -> Scores | None:
    """Walks from the softmax up to the product; None, with the reason in the match, when something else is there."""
    x: Value = m.scores
    rank = x.type.rank
    masks: list[tuple[Value, str]] = []
    scale, fill, rounds = 1.0, None, False
    readers = m.nodes
    while True:
        node = x.producer
        if node is None or any(reader not in readers for reader in x.users):
            return _refused(m, "the scores are read elsewhere, or are not computed")
        if x.type.rank != rank or rank not in (3, 4):
            return _refused(m, f"scores of rank {x.type.rank}")
        of, readers = scaled_operand(node), [node]
        if _only_rounds(node):
            x, rounds = node.input(0), True
            continue
        if node.op == "MatMul":
            if rounds and node.output.type.dtype is DType.F32:
                return _refused(m, "scores in f32 are rounded")
            return Scores(node, scale, masks, -np.inf if fill is None else fill)
        if of is not None:
            factor = factor_of(node)
            if factor is None or not np.isfinite(factor):
                return _refused(m, "the scores are divided by 0")
            scale, x = scale * factor, of
            continue
        if scale != 1.0:
            return _refused(m, "what is scaled is not the product alone")
        if node.op == "Add":
            side = next((i for i in (0, 1) if _leads_to_product(node.input(i))), None)
            if side is None:
                return _refused(m, "what is added to is not the product of queries and keys")
            masks.insert(0, (node.input(1 - side), "add"))
            x = node.input(side)
        elif node.op == "Where":
            numbers = [_number(node.input(i)) for i in (1, 2)]
            number = numbers[0] if numbers[1] is None else numbers[1]
            if number is None or None not in numbers or fill not in (None, number):
                return _refused(m, "what is not seen does not get one number")
            fill = number
            masks.insert(0, (node.input(0), "keep" if numbers[0] is None else "hide"))
            x = node.input(1 if numbers[0] is None else 2)
        else:
            return _refused(m, f"expected the product of queries and keys, found {node.op} ({node.origin})")


def _refused(m: Match, reason: str) -> Any:
    return m.no(reason)


def _only_rounds(node: Node) -> bool:
    """Between f32 and 16 bits: sources in 16 bits compute the softmax, and what leads to it, in f32."""
    return node.op == "Cast" and {node.attrs["to"], node.input(0).type.dtype} <= FLOATS


def _number(value: Value) -> float | None:
    array = value.array if value.type.count == 1 else None
    return None if array is None else float(array.reshape(-1)[0])


def _leads_to_product(x: Value) -> bool:
    """The value is a product, possibly scaled and masked, and has no other reader."""
    for _ in range(8):
        node = x.producer
        if node is None or len(x.uses) != 1:
            return False
        if node.op == "MatMul":
            return True
        of = node.input(0) if _only_rounds(node) else scaled_operand(node)
        if of is not None:
            x = of
        elif node.op == "Add":
            return any(_leads_to_product(node.input(i)) for i in (0, 1))
        elif node.op == "Where":
            x = node.input(1) if _number(node.input(2)) is not None else node.input(2)
        else:
            return False
    return False


def _is_causal(mask: Value, rows: Polynomial | None, keys: Polynomial | None) -> bool:
    """True where key j is at or before query i: a constant triangle, or places that are compared."""
    shape = mask.type.shape
    if shape is None or len(shape) < 2 or any(d != 1 for d in shape[:-2]):
        return False
    if mask.data is not None:
        r, k = int(shape[-2]), int(shape[-1])
        if r * k > _MOST_MASK or (Polynomial(r), Polynomial(k)) != (rows, keys):
            return False
        return bool(np.array_equal(mask.data.numpy().reshape(r, k), np.tri(r, k, dtype=bool)))
    node = mask.producer
    if node is None or node.op not in ("LessOrEqual", "GreaterOrEqual"):
        return False
    column, row = node.inputs if node.op == "LessOrEqual" else node.inputs[::-1]
    return _counts(row, -2, rows) and _counts(column, -1, keys)


def _counts(x: Value | None, axis: int, size: Polynomial | None) -> bool:
    """0, 1, 2, ... along one axis, as many as `size`."""
    if x is None or x.type.shape is None or size is None:
        return False
    if any(d != 1 for a, d in enumerate(x.type.shape) if a - len(x.type.shape) != axis):
        return False
    for v in views(x):
        node = v.base.producer
        if v.in_order and node is not None and node.op == "Range":
            ends = [contents(o) for o in node.inputs if o is not None]
            return [None if e is None else e[0] for e in ends] == [Polynomial(0), size, Polynomial(1)]
    return False


# ---- the rules


def _zeroed(p: Any, s: Any) -> Any:
    """Softmax, with rows that have no key as zeros in the spellings of exporters."""
    weights = p.Softmax(s, as_="softmax")
    lowest = p.ReduceMax(s, axes=lambda a: a is not None and len(a) == 1, keepdims=True, as_="most")
    empty = p.Where(p.Equal(lowest, -np.inf), 0.0, weights, as_="empty")
    zeroed = weights | empty | p.Where(p.IsNaN(weights), 0.0, weights, as_="nan")
    return zeroed | p.Cast(zeroed)


@rewrite(lambda p, scores, v: p.MatMul(_zeroed(p, scores), v, transpose_a=False), target="minnow")
def fuse_attention(b: Builder, m: Match) -> Value | None:
    """softmax(scale q k^T + masks) v, read from where queries, keys and values lie.

    Given:
        graph g(%q: f32[2,3,4], %k: f32[2,5,4], %v: f32[2,5,6], %m: f32[2,1,1,5]) {
          %0: f32[2,3,2,2] = Reshape(%q, i64[4](2, 3, 2, 2))
          %1: f32[2,2,3,2] = Transpose(%0) {perm=(0, 2, 1, 3)}
          %2: f32[2,5,2,2] = Reshape(%k, i64[4](2, 5, 2, 2))
          %3: f32[2,2,2,5] = Transpose(%2) {perm=(0, 2, 3, 1)}
          %4: f32[2,5,2,3] = Reshape(%v, i64[4](2, 5, 2, 3))
          %5: f32[2,2,5,3] = Transpose(%4) {perm=(0, 2, 1, 3)}
          %6: f32[2,2,3,5] = MatMul(%1, %3)
          %7: f32[2,2,3,5] = Mul(%6, f32[](0.5))
          %8: f32[2,2,3,5] = Add(%7, %m)
          %9: f32[2,2,3,5] = Softmax(%8)
          %y: f32[2,2,3,3] = MatMul(%9, %5)
          return %y
        }
    Result:
        graph g(%q: f32[2,3,4], %k: f32[2,5,4], %v: f32[2,5,6], %m: f32[2,1,1,5]) {
          %0: f32[2,3,6] = Attention(%q, %k, %v, _, _, %m) {num_heads=2, scale=0.5}
          %1: f32[2,3,2,3] = Reshape(%0, i64[4](0, 0, 2, 3))
          %y: f32[2,2,3,3] = Transpose(%1) {perm=(0, 2, 1, 3)}
          return %y
        }
    """
    softmax: Node = m.softmax
    if softmax.attrs.get("axis", -1) not in (-1, (m.scores.type.rank or 0) - 1):
        return m.no("the softmax is not over the last axis")
    if "most" in m.bound and m.most.attrs.get("axes") not in ((-1,), ((m.scores.type.rank or 0) - 1,)):
        return m.no("what is empty is not decided over the last axis")
    scores = _scores(m)
    if scores is None:
        return None
    q, k = (scores.product.input(i) for i in (0, 1))
    values = (q, k, m.v, m.root.output)
    rank = m.scores.type.rank
    if any(x.type.dtype not in FLOATS or x.type.rank != rank for x in values):
        return m.no(f"operands are not of types that the engine computes with f32, or not all of rank {rank}")
    found = fitting(q, k, m.v, scores.product, m.root)
    if found is None:
        return m.no("queries, keys and values do not have heads that fit each other")
    heads = found.q.heads
    masks, causal = _masks(b, scores, heads, rank == 3)
    if masks is None:
        return m.no("a mask has batch and heads in one axis")
    back = _back(found, rank == 3)
    if back is None:
        return m.no("batch and length are unknown, or the size of a head is")
    scale = scores.scale * found.q.scale * found.k.scale
    if not abs(scale) <= float(np.finfo(np.float32).max):
        return m.no("the scale is not finite")
    attrs: dict[str, Any] = {
        "num_heads": heads,
        "num_kv_heads": 0 if found.k.heads == heads else found.k.heads,
        "scale": scale,
        "causal": causal,
        "fill": scores.fill,
        "zero_rows": next((kind for kind in ("empty", "nan") if kind in m.bound), ""),
    }
    to = m.root.output.type.dtype
    parts = [p.operand(b) for p in ((found.q,) if found.packed else (found.q, found.k, found.v))]
    same = [x if x.type.dtype is to else b.Cast(x, to=to) for x in parts]
    operands = [*same, None, None] if found.packed else same
    y = b.node("Attention", [*operands, None, None, *masks], attrs, 1).output
    for op, numbers in back:
        y = b.Transpose(y, perm=numbers) if op == "Transpose" else b.Reshape(y, np.array(numbers))
    return y


def _masks(b: Builder, scores: Scores, heads: int, joined: bool) -> tuple[list[Value] | None, bool]:
    """The masks as attention takes them, and whether one of them was the triangle."""
    rows, keys = (dimension(scores.product.output, a) for a in (-2, -1))
    out: list[Value] = []
    causal = False
    for i, (mask, kind) in enumerate(scores.masks):
        last = i + 1 == len(scores.masks)
        if kind == "keep" and last and scores.fill == -np.inf and _is_causal(mask, rows, keys):
            causal = True
            continue
        if kind == "hide":
            mask = b.Not(mask)
        shape = mask.type.shape
        if shape is None:
            return None, False
        if joined and len(shape) == 3 and shape[0] != 1:
            if heads == 1:
                mask = b.Unsqueeze(mask, axes=(1,))
            elif isinstance(shape[1], int) and isinstance(shape[2], int):
                mask = b.Reshape(mask, np.array([-1, heads, *shape[1:]]))
            else:
                return None, False
        elif not joined and heads == 1 and len(shape) >= 3 and shape[-3] != 1:
            return None, False  # it has the heads, of which queries may have one only
        out.append(mask)
    return out, causal


def _back(found: Operands, joined: bool) -> list[tuple[str, tuple[int, ...]]] | None:
    """The views that turn the result of attention into that of the product; None if they need unknown dimensions."""
    q, width = found.q, found.v.size
    if width.atoms and (q.heads > 1 if joined else q.side_by_side):
        return None
    if joined and q.side_by_side and q.heads == 1:
        return []
    moves: list[tuple[str, tuple[int, ...]]] = []
    if q.side_by_side:
        moves += [("Reshape", (0, 0, q.heads, width.number)), ("Transpose", (0, 2, 1, 3))]
    if joined and q.batch is not None and not q.batch.atoms:
        moves.append(("Reshape", (q.batch.number * q.heads, -1, width.number)))
    elif joined and q.length is not None and not q.length.atoms:
        moves.append(("Reshape", (-1, q.length.number, width.number)))
    elif joined:
        return None
    return moves


def _side_by_side(view: View) -> bool:
    """[batch, length, heads, size] in this order, the last two in one axis, of [batch, heads, length, size]."""
    if view.base.type.rank != 4 or view.starts:
        return False
    whole = [view.whole(a) for a in range(4)]
    return view.pieces == (*whole[0], *whole[2], *whole[1], *whole[3]) and view.axes[-1] == (*whole[1], *whole[3])


@rewrite(lambda p, x, shape: p.Transpose(x) | p.Reshape(x, shape), shared=True, target="minnow")
def move_attention(b: Builder, m: Match) -> Value | None:
    """What moves the heads of a result side by side is done by attention, or has been done.

    Given:
        graph g(%q: f32[2,2,3,4]) {
          %0: f32[2,2,3,4] = Attention(%q, %q, %q) {num_heads=2, scale=0.5}
          %1: f32[2,3,2,4] = Transpose(%0) {perm=(0, 2, 1, 3)}
          %y: f32[2,3,8] = Reshape(%1, i64[3](2, 3, 8))
          return %y
        }
    Result:
        graph g(%q: f32[2,2,3,4]) {
          %y: f32[2,3,8] = Attention(%q, %q, %q) {num_heads=2, scale=0.5, merge_heads=True}
          return %y
        }
    """
    y: Value = m.root.output
    view = next((v for v in views(y) if v.base.producer is not None and v.base.producer.op == "Attention"), None)
    if view is None or view.base.index or view.base is y:
        return m.no("what is moved is no attention")
    base, rank = view.base, view.base.type.rank or 0
    attention = base.producer
    assert attention is not None
    if m.root.op == "Reshape" and _side_by_side(view) and not attention.attrs.get("merge_heads"):
        if len(base.uses) != 1 or len(m.x.uses) != 1 or len(attention.outputs) != 1:
            return m.no("the heads are read elsewhere")
        base = b.node("Attention", attention.inputs, {**attention.attrs, "merge_heads": True}, 1).output
    elif view.in_order:
        if m.x is base and y.type.rank != rank:
            return m.no("the heads are side by side")
    elif rank == 3 and not view.starts and view.pieces == tuple(p for a in (1, 0, 2) for p in view.whole(a)):
        if m.x is base or (
            m.x.producer is not None and m.x.producer.op == "Transpose" and m.x.producer.input(0) is base
        ):
            return m.no("the length comes first")
        base = b.Transpose(base, perm=(1, 0, 2))
    else:
        return m.no("the heads are moved in another way")
    if y.type.rank == base.type.rank:
        return base
    dims = dims_of(y)
    numbers = None if dims is None else shape_operand(base, dims)
    return m.no("the shape is not known") if numbers is None else b.Reshape(base, np.array(numbers))
