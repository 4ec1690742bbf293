"""Attention: what transformers spend their time on, as one op."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import numpy as np

from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, TensorType
from minnow.schema.ir.type import Dim, Shape, broadcast
from minnow.schema.ops.special import Array
from minnow.schema.registry import symbolic
from minnow.schema.registry.dimension import agree, divided, scaled, total
from minnow.schema.registry.op import Arg, fill, op

Number = Annotated[np.ndarray[Any, Any], frozenset({DType.F32, DType.F16, DType.BF16})]
Mask = Annotated[np.ndarray[Any, Any], frozenset({DType.F32, DType.F16, DType.BF16, DType.BOOL})]

INFINITY = math.inf


def _heads(x: Any, count: int) -> Array:
    """As [batch, heads, length, size] in float64."""
    if x.ndim == 3:
        x = x.reshape(*x.shape[:2], count, x.shape[2] // count).transpose(0, 2, 1, 3)
    return x.astype(np.float64)


@op(optional_outputs=2)
def Attention(
    q: Number,
    k: Number | None = None,
    v: Number | None = None,
    past_key: Number | None = None,
    past_value: Number | None = None,
    *masks: Mask,
    num_heads: int,
    scale: float,
    num_kv_heads: int = 0,
    causal: bool = False,
    fill: float = -INFINITY,
    zero_rows: Literal["", "empty", "nan"] = "",
    merge_heads: bool = False,
):
    """softmax(scale q k^T + masks) v for each head.

    q, k and v are [batch, heads, length, size], or [batch, length, heads * size]; or q alone holds the features of all
    three side by side, [batch, length, (heads of q + k + v) * size]. Keys and values have `num_kv_heads` (0: as many as
    queries), each for as many queries in a row. The result is like q, with `merge_heads` [batch, length, heads * size].
    With a past [batch, heads, length, size] it comes before k and v, and what they are together are two more outputs.
    Masks are broadcast with the scores [batch, heads, queries, keys]: numbers are added, False makes a score `fill`.
    `causal`: query i sees no more than key i of those behind the past. `zero_rows` are rows of the softmax
    that become zeros: those of nothing but -inf ("empty"), those that are no numbers ("nan").
    """
    kv = num_kv_heads or num_heads
    joined = q.ndim == 3 or merge_heads
    if k is None:
        size = q.shape[2] // (num_heads + 2 * kv)
        q, k, v = np.split(q, [num_heads * size, (num_heads + kv) * size], axis=2)
    q4, k4, v4 = (_heads(x, n) for x, n in ((q, num_heads), (k, kv), (v, kv)))
    if past_key is not None:
        k4, v4 = np.concatenate([past_key, k4], axis=2), np.concatenate([past_value, v4], axis=2)
    repeated = [np.repeat(x, num_heads // kv, axis=1) for x in (k4, v4)]
    scores = scale * (q4 @ repeated[0].swapaxes(2, 3))
    for mask in masks:
        scores = np.where(mask, scores, fill) if mask.dtype == bool else scores + mask
    if causal:
        past = 0 if past_key is None else past_key.shape[2]
        scores = np.where(np.tri(scores.shape[2], scores.shape[3], past, dtype=bool), scores, -np.inf)
    e = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
    weights = e / e.sum(-1, keepdims=True)
    if zero_rows:
        rows = np.isneginf(scores) if zero_rows == "empty" else np.isnan(weights)
        weights = np.where(rows.all(-1, keepdims=True), 0, weights)
    y = weights @ repeated[1]
    if joined:
        y = y.transpose(0, 2, 1, 3).reshape(y.shape[0], y.shape[2], num_heads * y.shape[3])
    return tuple(x.astype(q.dtype) for x in (y, k4, v4))


@Attention.dimension
def _(node, axis, hops):
    """Batch and queries are those of the operands, and of masks."""
    q, *others = node.inputs
    rank = node.output.type.rank or 0
    masks = [(v, -4 if axis == 0 else -2) for v in others[4:] if v is not None]
    if q is None or q.type.shape is None or axis not in (0, rank - 2):
        return None
    if axis == 0:
        return symbolic.broadcast(
            [*((v, -(v.type.rank or 0)) for v in (q, *others[:2]) if v is not None), *masks], hops
        )
    return symbolic.broadcast([(q, -2), *masks], hops)


def _split(arg: Arg, heads: int, what: str) -> tuple[Dim, Dim, Dim]:
    """Batch, length and size of an operand of that many heads."""
    shape = arg.shape
    if shape is None:
        return "?", "?", "?"
    if len(shape) == 4:
        agree([shape[1], heads], f"Attention: heads of {what}")
        return shape[0], shape[2], shape[3]
    if len(shape) != 3:
        raise ModelError(f"Attention: {what} has rank {len(shape)}, not 3 or 4")
    return shape[0], shape[1], divided(shape[2], heads, f"Attention: features of {what}")


def _behind(past: Arg | None, news: tuple[Dim, Dim, Dim], heads: int) -> tuple[Dim, Dim, Dim]:
    """Batch, length and size of keys or values with those of the past."""
    if past is None:
        return news
    if past.rank not in (None, 4):
        raise ModelError(f"Attention: a past has rank {past.rank}, not 4")
    old = _split(past, heads, "a past")
    batch, size = (agree([old[i], news[i]], f"Attention: {what} of a past") for i, what in ((0, "batch"), (2, "size")))
    return batch, total([old[1], news[1]]), size


@Attention.shape
def _(q, k, v, past_key, past_value, *masks, num_heads, scale, num_kv_heads, causal, fill, zero_rows, merge_heads,
      n_outputs):  # fmt: skip
    if any(x is not None and x.dtype is not q.dtype for x in (k, v, past_key, past_value)):
        raise ModelError("Attention: queries, keys and values are not of one type")
    kv = num_kv_heads or num_heads
    if num_heads < 1 or kv < 1 or num_heads % kv:
        raise ModelError(f"Attention: {num_heads} heads of queries cannot share {kv} of keys and values")
    for name, pair in {"keys and values": (k, v), "a past of keys and one of values": (past_key, past_value)}.items():
        if (pair[0] is None) != (pair[1] is None):
            raise ModelError(f"Attention needs both {name}, or neither")
    if k is None:
        if q.rank not in (None, 3):
            raise ModelError(f"Attention: packed queries, keys and values have rank {q.rank}, not 3")
        queries = keys = values = _split(q, num_heads + 2 * kv, "packed queries, keys and values")
    else:
        queries = _split(q, num_heads, "queries")
        keys, values = (_split(x, kv, what) for x, what in ((k, "keys"), (v, "values")))
    kept = [_behind(past, news, kv) for past, news in ((past_key, keys), (past_value, values))]
    agree([queries[2], kept[0][2]], "Attention: size of queries and keys")
    if 0 in (kept[0][2], kept[1][2]):
        raise ModelError("Attention: the heads have no features")
    scores = broadcast((queries[0], num_heads, queries[1], 1), (kept[0][0], 1, 1, kept[0][1]),
                       *((1,) if m is None else m.shape for m in masks))  # fmt: skip
    length: Dim = "?"
    batch = length
    if scores is not None:
        if len(scores) != 4:
            raise ModelError(f"Attention: a mask has rank {len(scores)}, more than 4")
        agree([scores[1], num_heads], "Attention: heads of a mask")
        agree([scores[3], kept[1][1]], "Attention: length of keys and values")
        batch, length = (broadcast((scores[0],), (kept[1][0],)) or ("?",))[0], scores[2]
    width = kept[1][2]
    if q.rank is None and not merge_heads:
        y: Shape | None = None
    elif q.rank == 3 or merge_heads:
        y = (batch, length, scaled(width, num_heads))
    else:
        y = (batch, num_heads, length, width)
    present = [TensorType(q.dtype, (p[0], kv, p[1], p[2])) for p in kept]
    return (TensorType(q.dtype, y), *present)[:n_outputs]


@Attention.macs
def _(at):
    heads = at.attrs["num_heads"]
    kv = at.attrs["num_kv_heads"] or heads

    def sizes(i, count):
        """Length and size of the heads of an operand."""
        shape = at.input(i)
        return shape[-2], shape[-1] // (1 if len(shape) == 4 else count)

    if at.has(1):
        (queries, size), (keys, _), (_, width) = sizes(0, heads), sizes(1, kv), sizes(2, kv)
    else:
        queries, size = sizes(0, heads + 2 * kv)
        keys, width = queries, size
    if at.has(3):
        keys += at.input(3)[2]
    # Every query with every key, and what comes of it with every value; what a mask hides counts too.
    return at.output()[0] * heads * queries * keys * (size + width)


@Attention.samples
def _(rng):
    def bits(*shape):
        return fill(rng, shape, DType.BOOL)

    def numbers(*shape):
        return fill(rng, shape)

    def hiding(*shape):
        return np.where(bits(*shape), 0, -np.inf).astype(np.float32)

    two = {"num_heads": 2, "scale": 0.25}
    # Self attention in both forms, across, and with values of another size.
    yield (numbers(2, 7, 34), numbers(2, 7, 34), numbers(2, 7, 34)), two
    yield (numbers(2, 2, 37, 17), numbers(2, 2, 67, 17), numbers(2, 2, 67, 5)), two
    yield (numbers(1, 5, 16), numbers(1, 2, 9, 8), numbers(1, 9, 6)), two
    yield (numbers(1, 2, 5, 8), numbers(1, 9, 16), numbers(1, 9, 6)), {**two, "merge_heads": True}
    yield (numbers(1, 1, 4), numbers(1, 1, 4), numbers(1, 1, 4)), {"num_heads": 1, "scale": 1.0}
    yield (numbers(0, 3, 4), numbers(0, 5, 4), numbers(0, 5, 4)), two
    yield (numbers(2, 0, 4), numbers(2, 5, 4), numbers(2, 5, 4)), two
    yield (numbers(2, 3, 4), numbers(2, 0, 4), numbers(2, 0, 4)), two
    # Packed.
    yield (numbers(2, 19, 3 * 34),), two
    yield (numbers(2, 3, 5 * (8 + 2 + 2)),), {"num_heads": 8, "num_kv_heads": 2, "scale": 0.5}
    # Grouped queries, one query and many.
    for length in (1, 3, 70):
        shared = (numbers(2, 13, 2 * 17), numbers(2, 2, 13, 17))
        yield (numbers(2, length, 8 * 17), *shared), {"num_heads": 8, "num_kv_heads": 2, "scale": 0.2}
    # Masks.
    qkv = (numbers(2, 9, 10), numbers(2, 11, 10), numbers(2, 11, 10))
    for mask in (numbers(9, 11), numbers(2, 1, 1, 11), numbers(1, 2, 9, 11), hiding(2, 1, 9, 11), bits(9, 11),
                 bits(2, 1, 1, 11), numbers(2, 9, 1), numbers(1)):  # fmt: skip
        yield (*qkv, None, None, mask), two
    some = bits(2, 1, 9, 11)
    some[1, :, 3:5] = False
    yield (*qkv, None, None, numbers(2, 9, 11), some), two
    for zero_rows in ("empty", "nan"):
        yield (*qkv, None, None, some), {**two, "zero_rows": zero_rows}
        one = (numbers(1, 2, 1, 8), numbers(1, 2, 5, 8), numbers(1, 2, 5, 8))
        yield (*one, None, None, np.zeros((1, 5), bool)), {**two, "zero_rows": zero_rows}
    yield (*qkv, None, None, some), {**two, "fill": -1000.0}
    # What is 1 is broadcast: in the batch, queries to a mask, keys to a mask and the values.
    yield (numbers(1, 9, 10), numbers(3, 11, 10), numbers(3, 11, 10), None, None, bits(3, 1, 1, 11)), two
    yield (numbers(3, 2, 9, 5), numbers(1, 2, 11, 5), numbers(1, 11, 10)), {**two, "merge_heads": True}
    yield (numbers(1, 1, 10), numbers(1, 1, 10), numbers(2, 11, 10), None, None, numbers(5, 11)), two
    # Causal.
    yield qkv, {**two, "causal": True}
    yield (numbers(1, 71, 34), numbers(1, 71, 34), numbers(1, 71, 34)), {**two, "causal": True}
    yield (numbers(1, 230, 3 * 40), None, None, None, None, numbers(230, 1)), {**two, "causal": True}
    # With a cache.
    past = (numbers(2, 2, 50, 20), numbers(2, 2, 50, 12))
    for length in (1, 7):
        new = (numbers(2, length, 6 * 20), numbers(2, 2, length, 20), numbers(2, length, 2 * 12))
        grouped = {"num_heads": 6, "num_kv_heads": 2, "scale": 0.3}
        yield (*new, *past), grouped, 3
        yield (*new, *past, hiding(2, 1, length, 50 + length)), {**grouped, "causal": True}, 3
        yield (*new, *past), grouped, 1
    yield (numbers(1, 3, 3 * 8), None, None, *(numbers(1, 2, 0, 4) for _ in range(2))), two, 3
    yield (numbers(1, 3, 8), numbers(1, 3, 8), numbers(1, 3, 8)), two, 3
