"""Attention over caches of keys and values in blocks, for several sequences of different lengths at once."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, TensorType
from minnow.schema.ir.type import Dim
from minnow.schema.ops.special import Array
from minnow.schema.registry.dimension import agree, divided, need_rank, scaled
from minnow.schema.registry.op import Arg, Trait, fill, op

Number = Annotated[np.ndarray[Any, Any], frozenset({DType.F32})]
Cache = Annotated[np.ndarray[Any, Any], frozenset({DType.F32, DType.F16, DType.I8})]
Place = Annotated[np.ndarray[Any, Any], frozenset({DType.I32})]

SCALE_BYTES = 4
"""Of a key or a value in a cache of i8: its scale, an f32, behind its numbers."""


def cache_types(
    blocks: Dim, kv_heads: int, block: int, key_size: int, value_size: int, dtype: DType
) -> tuple[TensorType, TensorType]:
    """The types of the caches of keys and values.

    Args:
        blocks: number of blocks, or the symbol of a dynamic dimension.
        kv_heads: heads of keys and values.
        block: tokens of a block.
        key_size, value_size: features of a head.
        dtype: f32, f16 or i8.
    """
    extra = SCALE_BYTES if dtype is DType.I8 else 0
    keys = (blocks, kv_heads, key_size + extra, block)
    return TensorType(dtype, keys), TensorType(dtype, (blocks, kv_heads, block, value_size + extra))


def _quantized(rows: Array) -> tuple[Array, Array]:
    """Rows in 8 bits, and their scales; rows of tiny numbers are zeros, those with an inf or NaN have the scale NaN."""
    most = np.abs(rows).max(-1, keepdims=True, initial=0)
    usual = np.isfinite(most) & (most >= np.float32(1e-30))
    with np.errstate(all="ignore"):
        numbers = np.where(usual, np.rint(rows * (np.float32(127) / most)), 0).astype(np.int8)
        scales = np.where(usual, most / np.float32(127), np.where(np.isfinite(most), 0, np.nan))
    return numbers, scales.astype(np.float32)


def _store(cache: Array, place: int, slot: int, rows: Array, axis: int) -> None:
    """Writes the [heads, size] of one token; `axis` is that of the features in a block."""
    at: Any = (place, slice(None), slot) if axis == 2 else (place, slice(None), slice(None), slot)
    if cache.dtype != np.int8:
        with np.errstate(over="ignore"):
            cache[at] = rows.astype(cache.dtype)
        return
    numbers, scales = _quantized(rows)
    size, block = rows.shape[1], cache.shape[3 if axis == 1 else 2]
    if axis == 2:
        cache[at] = np.concatenate([numbers, scales.view(np.int8)], axis=1)
        return
    cache[place, :, :size, slot] = numbers
    behind = np.ascontiguousarray(cache[place, :, size:, :]).reshape(len(rows), -1).view(np.float32)
    behind[:, slot] = scales[:, 0]
    cache[place, :, size:, :] = behind.view(np.int8).reshape(len(rows), SCALE_BYTES, block)


def _load(cache: Array, places: Array, axis: int) -> Array:
    """The contents of some blocks as [heads, tokens, size] in float64."""
    chosen = np.ascontiguousarray(cache[places])
    if cache.dtype == np.int8:
        if axis == 2:
            scales = np.ascontiguousarray(chosen[..., -SCALE_BYTES:]).view(np.float32)
            chosen = chosen[..., :-SCALE_BYTES] * scales.astype(np.float64)
        else:
            behind = np.ascontiguousarray(chosen[:, :, -SCALE_BYTES:]).reshape(*chosen.shape[:2], -1)
            chosen = chosen[:, :, :-SCALE_BYTES] * behind.view(np.float32)[:, :, None].astype(np.float64)
    tokens = chosen if axis == 2 else chosen.swapaxes(2, 3)
    n, heads, block, size = tokens.shape
    return tokens.transpose(1, 0, 2, 3).reshape(heads, n * block, size).astype(np.float64)


def _check_places(tokens: int, cache: Array, starts: Array, lengths: Array, blocks: Array) -> None:
    """Raises ModelError for a token that has no place."""
    if starts[0] != 0 or (np.diff(starts) < 0).any() or starts[-1] > tokens:
        raise ModelError(f"PagedAttention: {tokens} tokens of sequences that start at {starts.tolist()}")
    block, capacity = cache.shape[3], blocks.shape[1] * cache.shape[3]
    for s, (length, new) in enumerate(zip(lengths.tolist(), np.diff(starts).tolist(), strict=True)):
        if length < 0 or length + new > capacity:
            raise ModelError(f"PagedAttention: sequence {s} has {length} + {new} tokens, and places for {capacity}")
        used = blocks[s, : -(-(length + new) // block)] if new else blocks[s, :0]
        if ((used < 0) | (used >= len(cache))).any():
            raise ModelError(f"PagedAttention: a block of sequence {s} is none of the {len(cache)} of the cache")


@op(traits=frozenset({Trait.EXACT_TYPES, Trait.PRODUCT}), outputs=3)
def PagedAttention(
    q: Number,
    k: Number,
    v: Number,
    key_cache: Cache,
    value_cache: Cache,
    starts: Place,
    lengths: Place,
    blocks: Place,
    sinks: Number | None = None,
    slopes: Number | None = None,
    *,
    num_heads: int,
    num_kv_heads: int,
    scale: float,
    window: int = 0,
    soft_cap: float = 0.0,
):
    """Causal attention of new tokens of several sequences over their caches, and the caches with these tokens.

    q [tokens, heads * size], k [tokens, kv heads * size] and v have the rows of all sequences, one sequence after the
    other: those of sequence s from starts[s] to starts[s + 1]. Rows behind the last start are of no sequence, and give
    zeros. Before these, sequence s has lengths[s] tokens in its cache. Its token j, these included, lies in block
    blocks[s, j // block] at slot j % block; numbers behind the last block that a sequence needs are not looked at.
    First all new keys and values are written, in the order of the rows; then row i of q sees all tokens of its sequence
    up to itself, or with a `window` the last so many of them.

    The caches are [blocks, kv heads, size, block] for keys and [blocks, kv heads, block, size] for values. In f32 and
    f16 they hold numbers; in i8 (with 4 more places behind the `size`, the scale in f32) numbers of -127 to 127.
    A score is scale * q k, with a `soft_cap` c: c * tanh(score / c), plus slopes[head] times the place of the key less
    that of the query; sinks[head] is the score of one more key, without a value. The engine writes into the memory of
    the caches that it is given, where these are states.
    """
    _check_places(len(q), key_cache, starts, lengths, blocks)
    kv, group = num_kv_heads, num_heads // num_kv_heads
    keys, values = (np.ascontiguousarray(cache).copy() for cache in (key_cache, value_cache))
    block, most = key_cache.shape[3], np.arange(len(q))
    q3, k3, v3 = (x.reshape(len(q), n, x.shape[1] // n) for x, n in ((q, num_heads), (k, kv), (v, kv)))
    for s, begin in enumerate(starts[:-1].tolist()):
        for i in range(begin, int(starts[s + 1])):
            at, slot = divmod(int(lengths[s]) + i - begin, block)
            _store(keys, int(blocks[s, at]), slot, k3[i], 1)
            _store(values, int(blocks[s, at]), slot, v3[i], 2)
    y = np.zeros((len(q), num_heads, v3.shape[2]))
    for s, (begin, end) in enumerate(zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)):
        if begin == end:
            continue
        length = int(lengths[s]) + end - begin
        places = blocks[s, : -(-length // block)]
        seen_k, seen_v = (
            np.repeat(_load(c, places, axis)[:, :length], group, axis=0) for c, axis in ((keys, 1), (values, 2))
        )
        distance = np.arange(length) - (int(lengths[s]) + most[: end - begin, None])
        scores = scale * (q3[begin:end].transpose(1, 0, 2).astype(np.float64) @ seen_k.swapaxes(1, 2))
        if soft_cap:
            scores = soft_cap * np.tanh(scores / soft_cap)
        if slopes is not None:
            scores = scores + slopes[:, None, None].astype(np.float64) * distance
        is_seen = (distance <= 0) & ((distance > -window) | (window == 0))
        y[begin:end] = _weighed(scores, is_seen, seen_v, sinks).transpose(1, 0, 2)
    return y.reshape(len(q), y.shape[1] * y.shape[2]).astype(np.float32), keys, values


def _weighed(scores: Array, is_seen: Array, values: Array, sinks: Array | None) -> Array:
    """The values of seen keys, weighed by the softmax of their scores."""
    y = np.empty((*scores.shape[:2], values.shape[2]))
    for i, seen in enumerate(is_seen):  # what is not seen may be anything
        some = scores[:, i, seen]
        if sinks is not None:
            some = np.concatenate([some, sinks[:, None].astype(np.float64)], axis=1)
        e = np.exp(some - some.max(-1, keepdims=True))
        weights = (e / e.sum(-1, keepdims=True))[:, : seen.sum()]
        y[:, i] = (weights[:, None] @ values[:, seen])[:, 0]
    return y


@PagedAttention.shape
def _(q, k, v, key_cache, value_cache, starts, lengths, blocks, sinks, slopes, *, num_heads, num_kv_heads, scale,
      window, soft_cap, n_outputs):  # fmt: skip
    heads, kv = num_heads, num_kv_heads
    if heads < 1 or kv < 1 or heads % kv:
        raise ModelError(f"PagedAttention: {heads} heads of queries cannot share {kv} of keys and values")
    if window < 0 or not 0 <= soft_cap < np.inf:
        raise ModelError(f"PagedAttention: a window of {window} tokens, a cap of {soft_cap}")
    if key_cache.dtype is not value_cache.dtype:
        raise ModelError(f"PagedAttention: caches of {key_cache.dtype} and {value_cache.dtype}")
    named = {"queries": (q, 2), "keys": (k, 2), "values": (v, 2), "key cache": (key_cache, 4), "starts": (starts, 1),
             "value cache": (value_cache, 4), "lengths": (lengths, 1), "blocks": (blocks, 2), "sinks": (sinks, 1),
             "slopes": (slopes, 1)}  # fmt: skip
    for what, (arg, rank) in named.items():
        if arg is not None:
            need_rank(arg, rank, f"PagedAttention: {what}")

    def dim(arg: Arg | None, axis: int) -> Dim:
        return "?" if arg is None or arg.shape is None else arg.shape[axis]

    tokens = agree([dim(a, 0) for a in (q, k, v)], "PagedAttention: tokens")
    _sequences(dim(starts, 0), dim(lengths, 0), dim(blocks, 0))
    for arg in (sinks, slopes):
        agree([dim(arg, 0), heads], "PagedAttention: a number for each head")
    extra = SCALE_BYTES if key_cache.dtype is DType.I8 else 0
    sizes = [divided(dim(a, 1), n, f"PagedAttention: features of {what}")
             for a, n, what in ((q, heads, "queries"), (k, kv, "keys"), (v, kv, "values"))]  # fmt: skip
    stored = [d - extra if isinstance(d, int) else "?" for d in (dim(key_cache, 2), dim(value_cache, 3))]
    size = agree([*sizes[:2], stored[0]], "PagedAttention: size of queries and keys")
    width = agree([sizes[2], stored[1]], "PagedAttention: size of values")
    if any(isinstance(d, int) and d < 1 for d in (size, width, dim(key_cache, 3))):
        raise ModelError("PagedAttention: heads without features, or blocks without tokens")
    for axes, what in (((0, 0), "blocks of the caches"), ((3, 2), "tokens of a block")):
        agree([dim(key_cache, axes[0]), dim(value_cache, axes[1])], f"PagedAttention: {what}")
    for arg in (key_cache, value_cache):
        agree([dim(arg, 1), kv], "PagedAttention: heads of the caches")
    y = TensorType(DType.F32, (tokens, scaled(width, heads)))
    return y, key_cache.type, value_cache.type


def _sequences(starts: Dim, lengths: Dim, blocks: Dim) -> None:
    """Raises ModelError unless these can be the numbers of starts, lengths and rows of blocks."""
    agree([lengths, blocks], "PagedAttention: sequences")
    known = next((d for d in (lengths, blocks) if isinstance(d, int)), None)
    if isinstance(starts, int) and (starts < 1 or known not in (None, starts - 1)):
        raise ModelError(f"PagedAttention: {starts} starts are not one more than the {known} sequences")


@PagedAttention.macs
def _(at):
    # As if every sequence had tokens in all of its blocks.
    heads, kv = at.attrs["num_heads"], at.attrs["num_kv_heads"]
    tokens, features = at.input(0)
    keys = at.input(7)[1] * at.input(3)[3]
    return tokens * keys * (features + heads * (at.input(2)[1] // kv))


@PagedAttention.samples
def _(rng):
    def cache(dtype, *shape):
        """Numbers, and in i8 scales behind the numbers on the axis before the last, or the last."""
        if dtype is not DType.I8:
            return fill(rng, shape, dtype)
        return rng.integers(-127, 128, shape).astype(np.int8)

    def case(dtype, heads, kv, size, block, sequences, *, width=0, most=0, tail=0, spare=2, extra=(), **attrs):
        """`sequences`: for each the number of tokens that it has and gets; `tail`: rows of no sequence."""
        lengths, news = np.array(sequences, np.int32).reshape(-1, 2).T
        tokens, width = int(news.sum()) + tail, width or size
        needed = [-(-(a + b) // block) for a, b in sequences]
        most = max([most, *needed, 1])
        count = sum(needed) + spare
        table = np.zeros((len(sequences), most), np.int32)
        places = iter(rng.permutation(count))
        for row, n in zip(table, needed, strict=True):
            row[:n] = [next(places) for _ in range(n)]
        keys, values = cache_types(count, kv, block, size, width, dtype)
        caches = [cache(dtype, *t.static_shape) for t in (keys, values)]
        if dtype is DType.I8:
            scales = (rng.random((count, kv, block)) / 64).astype(np.float32)
            caches[0][:, :, size:] = scales.view(np.int8).reshape(count, kv, 4, block)
            caches[1][..., width:] = scales[..., None].view(np.int8)
        starts = np.concatenate([[0], np.cumsum(news)]).astype(np.int32)
        rows = [fill(rng, (tokens, n)) for n in (heads * size, kv * size, kv * width)]
        operands = (*rows, *caches, starts, lengths.astype(np.int32), table, *extra)
        return operands, {"num_heads": heads, "num_kv_heads": kv, "scale": size**-0.5, **attrs}

    some = [(5, 1), (0, 7), (0, 0), (13, 3), (4, 0)]
    for dtype in (DType.F32, DType.F16, DType.I8):
        yield case(dtype, 4, 2, 17, 4, some)
        yield case(dtype, 3, 3, 64, 16, [(33, 1)])
        yield case(dtype, 9, 3, 64, 32, [(0, 37), (70, 1)], tail=3)
        yield case(dtype, 6, 1, 5, 1, [(2, 3), (0, 1)], width=9)
        yield case(dtype, 2, 2, 128, 8, [(300, 2)], most=50)
        yield case(dtype, 8, 2, 40, 32, [(1, 1)] * 5, window=3)
        yield case(dtype, 4, 4, 33, 5, [(17, 6), (0, 19)], window=7, soft_cap=2.5)
        yield case(dtype, 4, 2, 16, 16, [(530, 3), (0, 261)], window=200)
        yield case(dtype, 5, 5, 24, 3, some, extra=(fill(rng, (5,)),))
        yield case(dtype, 4, 1, 12, 6, some, extra=(None, np.array([0.5, 0.25, -0.1, 0.0], np.float32)))
        yield case(
            dtype,
            2,
            1,
            8,
            7,
            [(600, 2), (3, 2)],
            extra=(fill(rng, (2,)), np.array([0.3, 0.01], np.float32)),
            soft_cap=5.0,
        )
        yield case(dtype, 2, 2, 8, 4, [], tail=3)
        yield case(dtype, 2, 2, 8, 4, [(3, 0)])
    # Large and small numbers, and tokens of no finite ones: in the cache of f16 they are inf, in that of i8 NaN.
    for dtype in (DType.F16, DType.I8):
        (q, k, v, *others), attrs = case(dtype, 2, 2, 16, 4, [(0, 9), (6, 2)])
        k[2], v[3], v[4, :16], v[6] = 0, 1e-35, 7e4, np.inf
        yield (q, k, v, *others), attrs
