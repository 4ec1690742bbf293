"""Rotary position embeddings and grouped-query attention (com.microsoft).

A group's queries are laid out as rows of one matrix, so that no key or value is ever repeated.
"""

from __future__ import annotations

import numpy as np

from minnow.converter.onnx.contrib.attention import lowest, merge_heads, scaled, softmax, split_heads
from minnow.converter.onnx.contrib.domain import cast, contrib, dimension, listed, positions
from minnow.converter.operand import rank, static_dim
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder


@contrib("RotaryEmbedding")
def _(b, x, places, cos, sin, *, interleaved=0, is_packed_batching=0, num_heads=0, rotary_embedding_dim=0, scale=1.0):
    # The scale is of no effect: onnxruntime does not read it.
    if is_packed_batching:
        raise UnsupportedError("RotaryEmbedding of packed batches is not supported")
    if rank(x, "the input of RotaryEmbedding") == 4:
        return rotated(b, x, _places(b, x, places, 2), cos, sin, interleaved)
    if rotary_embedding_dim and not num_heads:
        raise ModelError("RotaryEmbedding with rotary_embedding_dim needs num_heads")
    whole = 2 * static_dim(cos.type, 1, "the cosines")
    if not num_heads:
        num_heads = static_dim(x.type, 2, "the features of RotaryEmbedding without num_heads") // whole
    heads = split_heads(b, x, num_heads, -1 if rotary_embedding_dim else whole)
    return merge_heads(b, rotated(b, heads, _places(b, x, places, 1), cos, sin, interleaved))


def _places(b: Builder, x: Value, places: Value, axis: int) -> Value:
    """The places of the rows: as they are given, or counted from where they begin."""
    if rank(places, "position_ids") == 2:
        return places
    return b.Unsqueeze(b.Add(positions(b, dimension(b, x, axis)), places), axes=(0,))


def rotated(b: Builder, x: Value, places: Value, cos: Value, sin: Value, interleaved: int) -> Value:
    """Heads [B, N, S, D] with pairs of features turned by the angles of their places.

    Args:
        places: [B or 1, S], rows of the tables.
        cos, sin: [places, pairs]; features beyond the pairs stay as they are.
        interleaved: the pairs are neighbors; otherwise the first half of the features goes with the second.
    """
    pairs = static_dim(cos.type, 1, "the cosines of a rotation")
    return _turned(b, x, b.Gather(cos, places), b.Gather(sin, places), pairs, interleaved)


def _turned(b: Builder, x: Value, cos: Value, sin: Value, pairs: int, interleaved: int) -> Value:
    """As `rotated`, with the cosines and sines of each place, [B or 1, S, pairs]."""
    c, s = (cast(b, b.Unsqueeze(v, axes=(1,)), x.type.dtype) for v in (cos, sin))
    size = static_dim(x.type, 3, "the heads that are rotated")
    if 2 * pairs > size:
        raise ModelError(f"the tables rotate {2 * pairs} features, but a head has {size}")
    rest = None
    if 2 * pairs < size:
        x, rest = b.Split(x, axis=3, sizes=(2 * pairs, size - 2 * pairs), n_outputs=2)
    if interleaved:
        grid = b.Reshape(x, np.array([0, 0, 0, pairs, 2]))
        first, second = (b.Squeeze(p, axes=(4,)) for p in b.Split(grid, axis=4, sizes=(1, 1), n_outputs=2))
    else:
        first, second = b.Split(x, axis=3, sizes=(pairs, pairs), n_outputs=2)
    turned = b.Sub(b.Mul(first, c), b.Mul(second, s)), b.Add(b.Mul(second, c), b.Mul(first, s))
    if interleaved:
        both = b.Concat(*(b.Unsqueeze(t, axes=(4,)) for t in turned), axis=4)
        y = b.Reshape(both, np.array([0, 0, 0, 2 * pairs]))
    else:
        y = b.Concat(*turned, axis=3)
    return y if rest is None else b.Concat(y, rest, axis=3)


@contrib("MRotaryEmbedding")
def _(b, x, places, cos, sin, *, interleaved=0, is_packed_batching=0, mrope_layout=0, mrope_section, num_heads=0,
      rotary_embedding_dim=0, scale=1.0):  # fmt: skip
    if is_packed_batching:
        raise UnsupportedError("MRotaryEmbedding of packed batches is not supported")
    pairs = static_dim(cos.type, 1, "the cosines")
    if len(mrope_section) != 3 or sum(mrope_section) != pairs or mrope_layout not in (0, 1):
        raise ModelError(
            f"the sections {mrope_section} of MRotaryEmbedding do not fit {pairs} pairs in layout {mrope_layout}"
        )
    # Which of the three streams of places a pair of features takes.
    stream = np.repeat(np.arange(3), mrope_section)
    if mrope_layout:
        stream = np.zeros(pairs, np.int64)
        for i in (1, 2):
            stream[i : 3 * mrope_section[i] : 3] = i
    chosen = [np.flatnonzero(stream == i) for i in range(3)]
    back = np.argsort(np.concatenate(chosen), kind="stable")
    streams = b.Split(places, axis=0, sizes=(1, 1, 1), n_outputs=3)

    def of_places(table: Value) -> Value:
        parts = [b.Gather(b.Gather(table, at, axis=1), b.Squeeze(p, axes=(0,)))
                 for at, p in zip(chosen, streams, strict=True) if at.size]  # fmt: skip
        return b.Gather(b.Concat(*parts, axis=2) if len(parts) > 1 else parts[0], back, axis=2)

    tables = of_places(cos), of_places(sin)
    if rank(x, "the input of MRotaryEmbedding") == 4:
        return _turned(b, x, *tables, pairs, interleaved)
    if not num_heads:
        num_heads = static_dim(x.type, 2, "the features of MRotaryEmbedding without num_heads") // (2 * pairs)
    heads = split_heads(b, x, num_heads, -1 if rotary_embedding_dim else 2 * pairs)
    return merge_heads(b, _turned(b, heads, *tables, pairs, interleaved))


@contrib("GroupQueryAttention")
def _(b, query, key, value, past_key, past_value, last, total, cos=None, sin=None, places=None, added=None, sink=None,
      k_scale=None, v_scale=None, q_norm=None, k_norm=None, query_counts=None, *, causal=1, do_rotary=0,
      k_norm_epsilon=None, k_quant_type="NONE", kv_cache_bit_width=0, kv_num_heads, local_window_size=-1, num_heads,
      q_norm_epsilon=None, qk_norm_epsilon=1e-6, qk_output=0, rotary_interleaved=0, scale=None, sliding_window_cache=0,
      smooth_softmax=-1, softcap=0.0, v_quant_type="NONE", node):  # fmt: skip
    if k_scale is not None or v_scale is not None or {k_quant_type, v_quant_type} != {"NONE"}:
        raise UnsupportedError("GroupQueryAttention with a quantized cache is not supported")
    if sliding_window_cache:
        raise UnsupportedError("GroupQueryAttention with sliding_window_cache is not supported")
    q, k, v = _grouped(b, query, key, value, num_heads, kv_num_heads)
    if (q_norm is None) != (k_norm is None):
        raise ModelError(
            "GroupQueryAttention has only one of the norm weights of queries and keys: it needs both or none"
        )
    if q_norm is not None:
        q = b.RMSNorm(q, q_norm, axis=-1, epsilon=qk_norm_epsilon if q_norm_epsilon is None else q_norm_epsilon)
        k = b.RMSNorm(k, k_norm, axis=-1, epsilon=qk_norm_epsilon if k_norm_epsilon is None else k_norm_epsilon)
    length = dimension(b, q, 2)
    # Where the new keys begin, for each of the batch: at 0 for a prompt, which may be padded at its end. A later chunk
    # may be padded, too, where it is said how many of its tokens are none; what the padding gives is unspecified.
    counts = b.Add(b.Cast(b.Reshape(last, np.array([-1, 1])), to=DType.I64), np.int64(1))
    if query_counts is None:
        begins = b.Max(b.Sub(counts, length), np.int64(0))
    else:
        if past_key is None or past_value is None or not causal:
            raise ModelError("GroupQueryAttention with query_seqlens needs past keys and values, and causal = 1")
        begins = b.Sub(counts, b.Cast(b.Reshape(query_counts, np.array([-1, 1])), to=DType.I64))
    rows = b.Add(begins, b.Unsqueeze(positions(b, length), axes=(0,)))
    if do_rotary:
        if cos is None or sin is None:
            raise ModelError("GroupQueryAttention with do_rotary needs the tables of cosines and sines")
        at = rows if places is None else places
        q, k = (rotated(b, x, at, cos, sin, rotary_interleaved) for x in (q, k))
    k, v = _cached(b, k, v, past_key, past_value, begins, total)
    columns = b.Unsqueeze(positions(b, dimension(b, k, 2)), axes=(0, 1))
    # Rows of padding see what the last of the others sees.
    final = b.Sub(counts, np.int64(1))
    own = b.Unsqueeze(b.Min(rows, final), axes=(2,))
    if causal:
        keep = b.LessOrEqual(columns, own)
        if local_window_size > 0:
            keep = b.And(keep, b.Greater(columns, b.Sub(own, np.int64(local_window_size))))
    else:
        keep = b.LessOrEqual(columns, b.Unsqueeze(final, axes=(2,)))
    if smooth_softmax == 1 and sink is None:
        sink = b.const(np.zeros(num_heads, query.type.dtype.numpy))
    out, scores, weights = _attend(b, scaled(b, q, scale), k, v, keep, added, softcap, sink, kv_num_heads)
    if qk_output not in (0, 1, 2):
        raise ModelError(f"qk_output is {qk_output}, but must be 0, 1 or 2")
    return merge_heads(b, out), k, v, (None, scores, weights)[qk_output]


def _grouped(b: Builder, query: Value, key: Value | None, value: Value | None, n: int, groups: int) -> list[Value]:
    """Heads of queries, keys and values, which may stand side by side in one operand."""
    if groups < 1 or n % groups:
        raise ModelError(f"{n} query heads cannot be divided into {groups} groups")
    if key is None or value is None:
        size = static_dim(query.type, 2, "the packed queries, keys and values") // (n + 2 * groups)
        sizes = (n * size, groups * size, groups * size)
        query, key, value = b.Split(query, axis=2, sizes=sizes, n_outputs=3)
    return [split_heads(b, x, count) for x, count in ((query, n), (key, groups), (value, groups))]


def _cached(b: Builder, k: Value, v: Value, past_k: Value | None, past_v: Value | None, begins: Value,
            total: Value) -> list[Value]:  # fmt: skip
    """Keys and values with the past ones in front: as many places as there are in all, or as the past's buffer has.

    The new ones begin at another place for each of the batch. What lies behind them is zero.
    """
    if past_k is None or past_v is None:
        return [k, v]
    size, length = dimension(b, past_k, 2), dimension(b, k, 2)
    whole = b.Max(size, b.Reshape(b.Cast(total, to=DType.I64), np.zeros(0, np.int64)))
    place = b.Unsqueeze(positions(b, whole), axes=(0,))
    stop = b.Add(begins, length)
    # Side by side stand the past, the new ones and one row of zeros.
    zero = b.Add(size, length) if isinstance(size, Value) or isinstance(length, Value) else size + length
    fresh = b.Add(b.Sub(place, begins), size)
    index = b.Where(b.Less(place, begins), place, b.Where(b.Less(place, stop), fresh, zero))
    # As rows of one table, so that each place is copied as a whole and no axis has to move.
    count, group, features = b.Add(zero, np.int64(1)), static_dim(k.type, 1, "the groups"), dimension(b, k, 3)
    batch = dimension(b, k, 0)
    tables = b.Reshape(positions(b, b.Mul(batch, np.int64(group))), np.array([-1, group, 1]))
    index = b.Add(b.Mul(tables, count), b.Unsqueeze(index, axes=(1,)))
    blank = b.Fill(listed(b, batch, group, 1, features), np.zeros((), k.type.dtype.numpy))
    rows = (b.Concat(past, new, blank, axis=2) for past, new in ((past_k, k), (past_v, v)))
    return [b.Gather(b.Reshape(r, listed(b, -1, features)), index) for r in rows]


def _attend(b: Builder, q: Value, k: Value, v: Value, keep: Value, added: Value | None, cap: float,
            sink: Value | None, groups: int) -> tuple[Value, Value, Value]:  # fmt: skip
    """Attention of heads [B, N, S, D] to those of their groups.

    Returns:
        The heads, the scores (0 where they are masked), and their softmax.
    """
    count = static_dim(q.type, 1, "the heads")

    def heads(x: Value, n: int) -> Value:
        """[B, N, S, ...] as [B, groups, N / groups * S, ...], or the other way round."""
        return b.Reshape(x, np.array([0, n, -1, 0]))

    scores = heads(b.MatMul(heads(q, groups), k, transpose_b=True), count)
    if cap:
        scores = b.Mul(b.Tanh(b.Div(scores, cap)), cap)
    if added is not None:
        scores = b.Add(scores, added)
    keep = b.Unsqueeze(keep, axes=(1,))
    weights = softmax(b, b.Where(keep, scores, lowest(scores)), sink)
    out = heads(b.MatMul(heads(weights, groups), v), count)
    return out, b.Where(keep, scores, np.zeros((), scores.type.dtype.numpy)), weights
