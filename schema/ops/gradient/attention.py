"""Derivatives of attention and of rotary positions."""

from __future__ import annotations

import numpy as np

from minnow.schema.ir import DType
from minnow.schema.ops import attention, rotary


@attention.Attention.gradient
def _(g, q, k, v, past_key, past_value, *masks, num_heads, scale, num_kv_heads, causal, fill, zero_rows, merge_heads):
    kv = num_kv_heads or num_heads
    joined = q.rank == 3 or merge_heads

    def heads(x, count):
        """As [batch, heads, length, size]."""
        if x.rank == 4:
            return x
        n, length, features = x.shape
        return g.Transpose(g.reshaped(x, n, length, count, features // count), perm=(0, 2, 1, 3))

    def repeated(x):
        """Each head of keys or values for all its queries."""
        if kv == num_heads:
            return x
        n, _, length, size = x.shape
        each = num_heads // kv
        many = g.Expand(g.reshaped(x, n, kv, 1, length, size), g.ints(n, kv, each, length, size))
        return g.reshaped(many, n, num_heads, length, size)

    def computed(q, k, v, past_key, past_value, *masks):
        if k is None:
            size = q.shape[2] // (num_heads + 2 * kv)
            sizes = (num_heads * size, kv * size, kv * size)
            q, k, v = g.Split(q, axis=2, sizes=sizes, n_outputs=3)
        q, k, v = heads(q, num_heads), heads(k, kv), heads(v, kv)
        if past_key is not None:
            k, v = g.Concat(past_key, k, axis=2), g.Concat(past_value, v, axis=2)
        scores = g.MatMul(q, repeated(k), transpose_b=True) * scale
        for mask in masks:
            scores = g.Where(mask, scores, float(fill)) if mask.dtype is DType.BOOL else scores + mask
        if causal:
            past = 0 if past_key is None else past_key.shape[2]
            seen = np.tri(scores.shape[2], scores.shape[3], past, dtype=bool)
            scores = g.Where(g.term(seen), scores, -np.inf)
        weights = g.Softmax(scores)
        if zero_rows:
            rows = g.IsInf(scores, detect_positive=False) if zero_rows == "empty" else g.IsNaN(weights)
            weights = g.Where(g.ReduceMin(rows, axes=(-1,)), 0.0, weights)
        y = g.MatMul(weights, repeated(v))
        if joined:
            n, _, length, size = y.shape
            y = g.reshaped(g.Transpose(y, perm=(0, 2, 1, 3)), n, length, num_heads * size)
        return [y, k, v][: len(g.ys)]

    return g.through(computed, q, k, v, past_key, past_value, *masks)


@rotary.RotaryEmbedding.gradient
def _(g, x, cos, sin, *, interleaved, size):
    count = size or x.shape[-1]
    half = count // 2

    def pairs(v):
        """The two features of each pair, [..., half] each."""
        n = v.shape[-1] // 2
        lead = v.shape[:-1]
        apart = g.reshaped(v, *lead, *((n, 2) if interleaved else (2, n)))
        axis = -1 if interleaved else -2
        return [g.Squeeze(p, axes=(axis,)) for p in g.Split(apart, axis=axis, sizes=(1, 1), n_outputs=2)]

    def joined(a, b):
        axis = -1 if interleaved else -2
        both = g.Concat(g.Unsqueeze(a, axes=(axis,)), g.Unsqueeze(b, axes=(axis,)), axis=axis)
        return g.reshaped(both, *a.shape[:-1], 2 * half)

    def computed(x, cos, sin):
        rest = x.shape[-1] - count
        head = x
        if rest:
            head, tail = g.Split(x, axis=-1, sizes=(count, rest), n_outputs=2)
        a, b = pairs(head)
        (c0, c1), (s0, s1) = (pairs(t) if t.shape[-1] == count else (t, t) for t in (cos, sin))
        made = joined(a * c0 - b * s0, b * c1 + a * s1)
        return g.Concat(made, tail, axis=-1) if rest else made

    return g.through(computed, x, cos, sin)
