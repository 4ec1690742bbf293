"""Attention of com.microsoft: with packed weights, of many heads, and while decoding token by token.

Heads stand as [batch, head, place, feature] throughout; B, N, S, T are batch, heads, places of the queries and of the
keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minnow.converter.onnx.contrib.domain import contrib, dimension, listed, positions
from minnow.converter.operand import rank, static_dim
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder

MASKED = -10000.0
"""What is added to the scores of padding where the node does not say: far below, yet no infinity."""


def split_heads(b: Builder, x: Value, count: int, per_head: int = -1) -> Value:
    """[B, S, N * D] as [B, N, S, D]; D may be given where the type of x does not say."""
    size = x.type.shape[-1] if x.type.shape else -1
    if isinstance(size, int) and size % count:
        raise ModelError(f"{size} features cannot be divided into {count} heads")
    per_head = size // count if isinstance(size, int) else per_head
    return b.Transpose(b.Reshape(x, np.array([0, 0, count, per_head])), perm=(0, 2, 1, 3))


def merge_heads(b: Builder, x: Value) -> Value:
    """[B, N, S, D] as [B, S, N * D]."""
    shape = x.type.shape or ("?",) * 4
    size = shape[1] * shape[3] if isinstance(shape[1], int) and isinstance(shape[3], int) else -1
    return b.Reshape(b.Transpose(x, perm=(0, 2, 1, 3)), np.array([0, 0, size]))


def scaled(b: Builder, q: Value, scale: float | None) -> Value:
    """The queries times the scale, by default 1 / sqrt(features of a head)."""
    if scale:
        return b.Mul(q, scale)
    size = dimension(b, q, -1)
    if not isinstance(size, Value):
        return b.Mul(q, float(1 / np.sqrt(float(size))))
    return b.Div(q, b.Sqrt(b.Cast(size, to=q.type.dtype)))


def lowest(x: Value) -> np.ndarray[Any, Any]:
    """The lowest number of the type, which stands for minus infinity where a whole row may be masked."""
    return np.array({DType.F16: -65504.0}.get(x.type.dtype, -3.4028234663852886e38), x.type.dtype.numpy)


def causal(b: Builder, q: Value, k: Value) -> Value:
    """bool[S, T]: a query sees the keys up to its own place, the last query being at the place of the last key."""
    s, t = dimension(b, q, 2), dimension(b, k, 2)
    rows = b.Add(positions(b, s), b.Sub(t, s))
    return b.LessOrEqual(b.Unsqueeze(positions(b, t), axes=(0,)), b.Unsqueeze(rows, axes=(1,)))


def attend(b: Builder, q: Value, k: Value, v: Value, added: Sequence[Value | None] = (), keep: Value | None = None,
           cap: float = 0.0, sink: Value | None = None) -> tuple[Value, Value]:  # fmt: skip
    """softmax(q k^T + ...) v.

    Args:
        q, k, v: heads; q is scaled.
        added: what is added to the scores, broadcast to [B, N, S, T].
        keep: bool, broadcast to the scores: those where it is false count as the lowest number.
        cap: scores are bent to stay within -cap..cap, before anything is added; 0 leaves them.
        sink: [N]: one more score for each head, which takes its part of the sum and has no value.

    Returns:
        The heads [B, N, S, D], and the scores that go into the softmax [B, N, S, T].
    """
    scores = b.MatMul(q, k, transpose_b=True)
    if cap:
        scores = b.Mul(b.Tanh(b.Div(scores, cap)), cap)
    for term in added:
        scores = scores if term is None else b.Add(scores, term)
    if keep is not None:
        scores = b.Where(keep, scores, lowest(scores))
    return b.MatMul(softmax(b, scores, sink), v), scores


def softmax(b: Builder, scores: Value, sink: Value | None) -> Value:
    """Softmax over the keys, with one more score per head where there is a sink."""
    if sink is None:
        return b.Softmax(scores, axis=-1)
    ones = [dimension(b, scores, 0), 1, dimension(b, scores, 2), 1]
    column = b.Expand(b.Reshape(sink, np.array([1, -1, 1, 1])), listed(b, *ones))
    wide = b.Softmax(b.Concat(scores, column, axis=-1), axis=-1)
    return b.Slice(wide, np.array([0]), np.array([-1]), np.array([-1]))


def padding(b: Builder, mask: Value | None, like: Value, keys: Value, filler: float) -> Value | None:
    """What a mask adds to the scores, in the type of `like`.

    Args:
        mask: [B] where the keys end, or [2 B] also where they begin; or 1 for what counts as [B, T] or [B, S, T].
        keys: heads, which say how many keys there are.
        filler: what is added where a key does not count.
    """
    if mask is None:
        return None
    n = rank(mask, "the mask")
    if n == 1:
        batch, size, length = dimension(b, keys, 0), dimension(b, mask, 0), dimension(b, keys, 2)
        if not isinstance(batch, Value) and not isinstance(size, Value) and size not in (batch, 2 * batch):
            raise UnsupportedError(f"a mask of {size} numbers is not supported for a batch of {batch}")
        places = b.Unsqueeze(b.Cast(positions(b, length), to=DType.I32), axes=(0,))
        # Behind the ends stand the beginnings, or nothing: zeros then serve.
        both = b.Concat(mask, b.Expand(np.zeros(1, np.int32), listed(b, batch)), axis=0)
        twice = b.Mul(batch, 2) if isinstance(batch, Value) else 2 * batch
        ends, begins = (
            b.Reshape(b.Slice(both, listed(b, start), listed(b, stop)), np.array([-1, 1]))
            for start, stop in ((0, batch), (batch, twice))
        )
        counts = b.And(b.Less(places, ends), b.GreaterOrEqual(places, begins))
        counts = b.Unsqueeze(counts, axes=(1, 2))
    elif n in (2, 3):
        counts = b.Unsqueeze(b.Greater(mask, 0), axes=(1, 2) if n == 2 else (1,))
    else:
        raise UnsupportedError(f"an attention mask of rank {n} is not supported", why="it must have rank 1 to 3")
    dtype = like.type.dtype.numpy
    return b.Where(counts, np.zeros((), dtype), np.array(filler, dtype))


def _refuse(**given: Any) -> None:
    for name, value in given.items():
        if value:
            raise UnsupportedError(f"{name} is not supported", why="onnxruntime supports it on accelerators only")


@contrib("Attention")
def _(b, x, w, bias=None, mask=None, past=None, added=None, past_length=None, *, do_rotary=0, mask_filter_value=MASKED,
      num_heads, past_present_share_buffer=0, qkv_hidden_sizes=(), rotary_embedding_dim=0, scale=None,
      unidirectional=0, node):  # fmt: skip
    _refuse(do_rotary=do_rotary, past_present_share_buffer=past_present_share_buffer, past_sequence_length=past_length)
    total = static_dim(w.type, 1, "the weights of Attention")
    sizes = tuple(qkv_hidden_sizes or (total // 3,) * 3)
    projected = b.MatMul(x, w)
    if bias is not None:
        projected = b.Add(projected, bias)
    return _packed(b, projected, sizes, num_heads, mask, past, added, mask_filter_value, scale, unidirectional, node)


def _packed(b: Builder, projected: Value, sizes: tuple[int, ...], count: int, mask: Value | None,
            past: Value | None, added: Value | None, filler: float, scale: float | None, unidirectional: int,
            node: Any) -> Any:  # fmt: skip
    """Attention from [B, S, queries + keys + values]; present keys and values are stacked in front."""
    if len(sizes) != 3 or sum(sizes) != static_dim(projected.type, -1, "the projection"):
        raise ModelError(
            f"the sizes {sizes} of queries, keys and values do not fit the projection, which is {projected.type}"
        )
    q, k, v = (split_heads(b, p, count) for p in b.Split(projected, axis=-1, sizes=sizes, n_outputs=3))
    if past is not None:
        halves = b.Split(past, axis=0, sizes=(1, 1), n_outputs=2)
        k, v = (b.Concat(b.Squeeze(old, axes=(0,)), new, axis=2) for old, new in zip(halves, (k, v), strict=True))
    keep = causal(b, q, k) if unidirectional else None
    out, _ = attend(b, scaled(b, q, scale), k, v, (padding(b, mask, q, k, filler), added), keep)
    if node.n_outputs == 1:
        return merge_heads(b, out)
    if sizes[1] != sizes[2]:
        raise ModelError("Attention with a cache needs keys and values of the same size")
    return merge_heads(b, out), b.Concat(b.Unsqueeze(k, axes=(0,)), b.Unsqueeze(v, axes=(0,)), axis=0)


@contrib("QAttention")
def _(b, x, w, bias, x_scale, w_scale, mask=None, x_zero=None, w_zero=None, past=None, *, do_rotary=0,
      mask_filter_value=MASKED, num_heads, past_present_share_buffer=0, scale=None, unidirectional=0,
      node):  # fmt: skip
    _refuse(do_rotary=do_rotary, past_present_share_buffer=past_present_share_buffer)
    size = static_dim(w.type, 1, "the weights of QAttention")
    sums = b.Cast(b.MatMulInteger(x, w, x_zero, w_zero), to=DType.F32)
    projected = b.Add(b.Mul(sums, b.Mul(x_scale, w_scale)), bias)
    return _packed(b, projected, (size // 3,) * 3, num_heads, mask, past, None, mask_filter_value, scale,
                   unidirectional, node)  # fmt: skip


@contrib("MultiHeadAttention")
def _(b, query, key=None, value=None, bias=None, mask=None, added=None, past_key=None, past_value=None,
      past_length=None, indirection=None, *, mask_filter_value=MASKED, num_heads, scale=None,
      unidirectional=0):  # fmt: skip
    _refuse(past_sequence_length=past_length, cache_indirection=indirection)
    return _multi_head(b, query, key, value, bias, mask, added, past_key, past_value, mask_filter_value, num_heads,
                       scale, unidirectional)  # fmt: skip


@contrib("DecoderMaskedMultiHeadAttention")
def _(b, query, key=None, value=None, mask=None, added=None, past_key=None, past_value=None, past_length=None,
      beam_width=None, indirection=None, bias=None, *, mask_filter_value=MASKED, num_heads, output_qk=0,
      past_present_share_buffer=0, scale=None):  # fmt: skip
    _refuse(beam_width=beam_width, cache_indirection=indirection)
    if key is None:
        size = static_dim(query.type, -1, "the packed query") // 3
        query, key, value = b.Split(query, axis=-1, sizes=(size,) * 3, n_outputs=3)
    if not past_present_share_buffer or past_key is None:
        return _multi_head(b, query, key, value, bias, mask, added, past_key, past_value, mask_filter_value, num_heads,
                           scale, 0)  # fmt: skip
    # The buffers are as long as they will ever be: the part in front of the new key counts, what is behind it stays.
    start = b.Reshape(past_length, np.array([1]))
    axis = np.array([2], np.int32)
    old_k, old_v = (b.Slice(buffer, np.array([0], np.int32), start, axis) for buffer in (past_key, past_value))
    end = np.array([np.iinfo(np.int32).max], np.int32)
    rest = [b.Slice(buffer, b.Add(start, 1), end, axis) for buffer in (past_key, past_value)]
    out, k, v, scores = _multi_head(b, query, key, value, bias, mask, added, old_k, old_v, mask_filter_value, num_heads,
                                    scale, 0)  # fmt: skip
    return out, b.Concat(k, rest[0], axis=2), b.Concat(v, rest[1], axis=2), scores


def _multi_head(b: Builder, query: Value, key: Value | None, value: Value | None, bias: Value | None,
                mask: Value | None, added: Value | None, past_key: Value | None, past_value: Value | None,
                filler: float, count: int, scale: float | None, unidirectional: int) -> tuple[Value, ...]:  # fmt: skip
    if rank(query, "the query") == 5:
        query, key, value = _unpacked(b, query, 3)
    elif key is not None and rank(key, "the key") == 5:
        key, value = _unpacked(b, key, 2)
    if key is None or value is None:
        raise ModelError("attention needs keys and values, as inputs or packed with the queries")
    cached = rank(key, "the key") == 4
    if bias is not None:
        size = static_dim(query.type, 2, "the features of the query, where there is a bias,")
        whole = static_dim(bias.type, 0, "the bias")
        query_bias, key_bias, value_bias = b.Split(bias, axis=0, sizes=(size, size, whole - 2 * size), n_outputs=3)
        query = b.Add(query, query_bias)
        if not cached:
            key, value = b.Add(key, key_bias), b.Add(value, value_bias)
    q = split_heads(b, query, count)
    k, v = (key, value) if cached else (split_heads(b, key, count), split_heads(b, value, count))
    if past_key is not None:
        k, v = b.Concat(past_key, k, axis=2), b.Concat(past_value, v, axis=2)
    keep = causal(b, q, k) if unidirectional else None
    out, scores = attend(b, scaled(b, q, scale), k, v, (padding(b, mask, q, k, filler), added), keep)
    return merge_heads(b, out), k, v, scores


def _unpacked(b: Builder, x: Value, count: int) -> list[Value]:
    """[B, S, N, count, D] as `count` of [B, S, N * D]."""
    parts = b.Split(x, axis=3, sizes=(1,) * count, n_outputs=count)
    n, d = (x.type.shape[i] if x.type.shape else "?" for i in (2, 4))
    size = n * d if isinstance(n, int) and isinstance(d, int) else -1
    return [b.Reshape(p, np.array([0, 0, size])) for p in parts]
