"""What stands in front of attention and joins it: the layers that make its operands, and the cache."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minnow.optimizer.facts.heads import parts_of
from minnow.optimizer.rewrite import changed_by, erase_dead, graph_pass, rewrite
from minnow.optimizer.rewrite.pattern import Match
from minnow.schema.ir import Graph, LazyBlob, Node, Value
from minnow.schema.ir.graph import RET
from minnow.schema.ops import Builder

_PAST = 3  # the operands of attention from here on are the past of keys and of values


def _stacked(values: Sequence[Value]) -> Value:
    """Constants on top of each other, put together when they are written."""
    blobs = [v.data for v in values if v.data is not None]
    shape = (sum(int(b.shape[0]) for b in blobs), *(int(d) for d in blobs[0].shape[1:]))
    return Value.constant(LazyBlob(lambda: np.concatenate([b.numpy() for b in blobs]), blobs[0].dtype, shape))


@rewrite(
    lambda p, x: p.Attention(
        p.Linear(x, p.const("wq"), ..., as_="q"),
        p.Linear(x, p.const("wk"), ..., as_="k"),
        p.Linear(x, p.const("wv"), ..., as_="v"),
        ...,
        as_="attention",
    ),
    target="minnow",
)
def merge_qkv(b: Builder, m: Match) -> Sequence[Value] | None:
    """Queries, keys and values of one input are made by one layer, and read where it writes them.

    Given:
        graph g(%x: f32[2,3,2]) {
          %q: f32[2,3,2] = Linear(%x, f32[2,2](1.0, 2.0, 3.0, 4.0), f32[2](1.0, 2.0))
          %k: f32[2,3,2] = Linear(%x, f32[2,2](5.0, 6.0, 7.0, 8.0), f32[2](3.0, 4.0))
          %v: f32[2,3,2] = Linear(%x, f32[2,2](2.0, 1.0, 4.0, 3.0))
          %y: f32[2,3,2] = Attention(%q, %k, %v) {num_heads=2, scale=0.5}
          return %y
        }
    Result:
        graph g(%x: f32[2,3,2]) {
          %0: f32[2,3,6] = Linear(%x,
            f32[6,2](1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 2.0, 1.0, 4.0, 3.0),
            f32[6](1.0, 2.0, 3.0, 4.0, 0.0, 0.0))
          %y: f32[2,3,2] = Attention(%0) {num_heads=2, scale=0.5}
          return %y
        }
    """
    layers: list[Node] = [m.q, m.k, m.v]
    weights: list[Value] = [m.wq, m.wk, m.wv]
    if any(len(n.inputs) > 3 or n.attrs or (n.has_input(2) and not n.input(2).is_const) for n in layers):
        return m.no("a layer does more than a product and a constant bias")
    if m.x.type.rank != 3:
        return m.no(f"the layers have an input of rank {m.x.type.rank}, not 3")
    heads, attrs = m.attention.attrs["num_heads"], m.attention.attrs
    kv = attrs.get("num_kv_heads") or heads
    rows = [w.type.static_shape[0] for w in weights]
    if rows[0] * kv != rows[1] * heads or rows[1] != rows[2]:
        return m.no(f"the heads are not of one size: {rows} features for {heads}, {kv} and {kv} of them")
    bias = None
    if any(n.has_input(2) for n in layers):
        zeros = [np.zeros(r, w.type.dtype.numpy) for r, w in zip(rows, weights, strict=True)]
        parts = [n.input(2) if n.has_input(2) else Value.constant(z) for n, z in zip(layers, zeros, strict=True)]
        bias = _stacked(parts)
    packed = b.Linear(m.x, _stacked(weights), bias)
    rest = m.attention.inputs[_PAST:]
    return b.node("Attention", [packed, None, None, *rest], attrs, len(m.attention.outputs)).outputs


@graph_pass(level=2, target="minnow")
def fuse_attention_cache(graph: Graph) -> int:
    """Attention puts new keys and values behind those of the past itself, and gives both back together.

    Given:
        graph g(%q: f32[1,2,8], %k: f32[1,2,2,4], %v: f32[1,2,8], %pk: f32[1,2,N,4], %pv: f32[1,2,N,4]) {
          %0: f32[1,2,2,4] = Reshape(%v, i64[4](1, 2, 2, 4))
          %1: f32[1,2,2,4] = Transpose(%0) {perm=(0, 2, 1, 3)}
          %ks: f32[1,2,?,4] = Concat(%pk, %k) {axis=2}
          %vs: f32[1,2,?,4] = Concat(%pv, %1) {axis=-2}
          %y: f32[1,2,8] = Attention(%q, %ks, %vs) {num_heads=2, scale=0.5}
          return %y, %ks, %vs
        }
    Result:
        graph g(%q: f32[1,2,8], %k: f32[1,2,2,4], %v: f32[1,2,8], %pk: f32[1,2,N,4], %pv: f32[1,2,N,4]) {
          %y: f32[1,2,8], %ks: f32[1,2,?,4], %vs: f32[1,2,?,4] = Attention(%q, %k, %v, %pk, %pv)
            {num_heads=2, scale=0.5}
          return %y, %ks, %vs
        }
    """
    changes = 0
    for node in graph:
        if node.op != "Attention" or len(node.outputs) != 1 or node.has_input(_PAST) or not node.has_input(1):
            continue
        joins = [_cache(node, i) for i in (1, 2)]
        if None in joins or node.attrs.get("causal"):
            continue
        pasts, news = zip(*(j for j in joins if j is not None), strict=True)
        names = (node.output.name, node.input(1).name, node.input(2).name)
        b = Builder(graph, node, changed_by(node.origin, "fuse_attention_cache"))
        inputs = [node.input(0), *news, *pasts, *node.inputs[_PAST + 2 :]]
        made = b.node("Attention", inputs, node.attrs, 3, names)
        for old, new in zip((node.output, node.input(1), node.input(2)), made.outputs, strict=True):
            new.type = new.type.with_shape(old.type.shape if old.type.shape is not None else new.type.shape)
            old.replace_all_uses(new)
        erase_dead(graph, [node])
        changes += 1
    return changes


def _cache(attention: Node, i: int) -> tuple[Value, Value] | None:
    """Past and new keys or values where they are put together for this attention, and for the graph's outputs."""
    joined, heads = attention.input(i), attention.attrs.get("num_kv_heads") or attention.attrs["num_heads"]
    node = joined.producer
    if node is None or node.op != "Concat" or len(node.inputs) != 2 or node.attrs["axis"] not in (2, -2):
        return None
    past, new = node.input(0), node.input(1)
    shape = past.type.shape
    if shape is None or len(shape) != 4 or shape[1] != heads or new.type.rank != 4:
        return None
    if any(u is not attention and u.op != RET for u in joined.users) or sum(v is joined for v in attention.inputs) > 1:
        return None
    whole = (p for p in parts_of(new, False, False) if p.start is None and p.turned is None)
    found = next((p for p in whole if p.heads == heads and p.group == 1), None)
    return None if found is None else (past, found.value)
