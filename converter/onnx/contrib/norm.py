"""Contrib operators that normalize: with skip connections, embeddings, or over groups of channels."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.converter.onnx.contrib.domain import cast, contrib, dimension, positions
from minnow.converter.onnx.contrib.fused import channels_first, channels_last
from minnow.converter.operand import rank, static_dim
from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder


def _statistics(b: Builder, x: Value, axis: int, epsilon: float, centered: bool) -> tuple[Value, Value]:
    """Mean and 1 / deviation in f32 over the axes from `axis` on, each kept as an axis of 1."""
    axes = tuple(range(axis % rank(x, "the input"), rank(x, "the input")))
    wide = cast(b, x, DType.F32)
    mean = b.ReduceMean(wide, axes=axes)
    spread = b.Square(b.Sub(wide, mean) if centered else wide)
    return mean, b.Reciprocal(b.Sqrt(b.Add(b.ReduceMean(spread, axes=axes), epsilon)))


@contrib("LayerNormalization")
def _(b, x, scale, bias=None, *, axis=-1, epsilon=1e-5, stash_type=1, node):
    y = b.LayerNorm(x, scale, bias, axis=axis, epsilon=epsilon)
    return y if node.n_outputs == 1 else (y, *_statistics(b, x, axis, epsilon, centered=True))


@contrib("SimplifiedLayerNormalization", plain=True)
def _(b, x, scale, *, axis=-1, epsilon=1e-5, stash_type=1, node):
    y = _rms(b, x, scale, axis, epsilon)
    return y if node.n_outputs == 1 else (y, _statistics(b, x, axis, epsilon, centered=False)[1])


def _rms(b: Builder, x: Value, scale: Value, axis: int, epsilon: float) -> Value:
    """RMSNorm, where the weights may be of another type than the input: theirs is that of the result."""
    if x.type.dtype is scale.type.dtype:
        return b.RMSNorm(x, scale, axis=axis, epsilon=epsilon)
    wide = b.RMSNorm(cast(b, x, DType.F32), cast(b, scale, DType.F32), axis=axis, epsilon=epsilon)
    return cast(b, wide, scale.type.dtype)


def _sum(b: Builder, *terms: Value | None) -> Value:
    first, *rest = [t for t in terms if t is not None]
    for term in rest:
        first = b.Add(first, term)
    return first


@contrib("SkipLayerNormalization")
def _(b, x, skip, gamma, beta=None, bias=None, *, epsilon=1e-12, node):
    total = _sum(b, x, skip, bias)
    # The statistics are for training: onnxruntime does not fill them in.
    return b.LayerNorm(total, gamma, beta, axis=-1, epsilon=epsilon), None, None, total


@contrib("SkipSimplifiedLayerNormalization")
def _(b, x, skip, gamma, bias=None, *, epsilon=1e-12):
    total = _sum(b, x, skip, bias)
    return b.RMSNorm(total, gamma, axis=-1, epsilon=epsilon), None, None, total


@contrib("EmbedLayerNormalization")
def _(b, ids, segments, words, places, segment_words=None, gamma=None, beta=None, mask=None, place_ids=None, *,
      epsilon=1e-12, mask_index_type=0, node):  # fmt: skip
    return _embedded(b, ids, segments, words, places, segment_words, gamma, beta, mask, place_ids, epsilon)


def _embedded(b: Builder, ids: Value, segments: Value | None, words: Value, places: Value, segment_words: Value | None,
              gamma: Value | None, beta: Value | None, mask: Value | None, place_ids: Value | None,
              epsilon: float) -> tuple[Value, ...]:  # fmt: skip
    if gamma is None or beta is None or (segments is None) != (segment_words is None):
        raise ModelError(
            "EmbedLayerNormalization needs gamma and beta, and either both segment_ids and their embedding or neither"
        )
    length = dimension(b, ids, 1)
    # Without positions of their own the words stand at 0, 1, ...
    places = b.Gather(places, positions(b, length) if place_ids is None else place_ids)
    by_segment = segments and segment_words and b.Gather(segment_words, segments)
    total = _sum(b, b.Gather(words, ids), places, by_segment)
    normal = b.LayerNorm(total, gamma, beta, axis=-1, epsilon=epsilon)
    if mask is None:
        counts = b.Mul(b.ReduceSum(b.Cast(ids, to=DType.I32), axes=(1,), keepdims=False), 0)
    else:
        # Where the mask is 1, and nothing else.
        counts = b.ReduceSum(b.Cast(b.Equal(mask, 1), to=DType.I32), axes=(1,), keepdims=False)
    return normal, counts, total


@contrib("QEmbedLayerNormalization")
def _(b, ids, segments, words, places, segment_words, gamma, beta, mask, words_scale, places_scale, segment_scale,
      gamma_scale, beta_scale, words_zero, places_zero, segment_zero=None, gamma_zero=None, beta_zero=None, *,
      epsilon=1e-12):  # fmt: skip
    def plain(x: Value | None, scale: Value | None, zero: Value | None) -> Any:
        return x and b.DequantizeLinear(x, scale, zero)

    tables = (
        plain(words, words_scale, words_zero),
        plain(places, places_scale, places_zero),
        plain(segment_words, segment_scale, segment_zero),
        plain(gamma, gamma_scale, gamma_zero),
        plain(beta, beta_scale, beta_zero),
    )
    return _embedded(b, ids, segments, *tables, mask, None, epsilon)[:2]


@contrib("GroupNorm")
def _(b, x, gamma, beta, *, activation, channels_last=1, epsilon=1e-5, groups):
    return _group_norm(b, x, gamma, beta, activation, channels_last, epsilon, groups)


def _group_norm(b: Builder, x: Value, gamma: Value, beta: Value, activation: int, last: int, epsilon: float,
                groups: int) -> Value:  # fmt: skip
    if activation not in (0, 1):
        raise ModelError(f"activation is {activation}, but must be 0 (none) or 1 (SiLU)")
    n = rank(x, "the input of GroupNorm")
    y = cast(b, channels_first(b, x, n) if last else x, gamma.type.dtype)
    y = b.GroupNorm(y, gamma, beta, num_groups=groups, epsilon=epsilon)
    y = cast(b, b.Silu(y) if activation else y, x.type.dtype)
    return channels_last(b, y, n) if last else y


@contrib("SkipGroupNorm")
def _(b, x, gamma, beta, skip, bias=None, *, activation, channels_last=1, epsilon=1e-5, groups):
    n = rank(x, "the input of SkipGroupNorm")

    def spread(v: Value) -> Value:
        """[N, C] or [C] in the place of the channels."""
        m = rank(v, "an operand of SkipGroupNorm")
        if m == n or (channels_last and m == 1):
            return v
        return b.Unsqueeze(v, axes=tuple(range(m - 1, n - 1)) if channels_last else tuple(range(m, m + n - 2)))

    total = _sum(b, x, spread(skip), bias and spread(bias))
    return _group_norm(b, total, gamma, beta, activation, channels_last, epsilon, groups), total


@contrib("GatedRMSNorm")
def _(b, x, scale, gate, *, activation="silu", epsilon=1e-5):
    if activation not in ("silu", "swish", "sigmoid"):
        raise ModelError(f"GatedRMSNorm has the unknown activation '{activation}'")
    size = static_dim(scale.type, 0, "the weights of GatedRMSNorm")
    # The last axis holds several vectors side by side.
    rows = b.Reshape(cast(b, x, DType.F32), np.array([-1, size]))
    normal = b.Reshape(b.RMSNorm(rows, cast(b, scale, DType.F32), axis=-1, epsilon=epsilon), b.Shape(x), allowzero=True)
    wide = cast(b, gate, DType.F32)
    return cast(b, b.Mul(normal, b.Sigmoid(wide) if activation == "sigmoid" else b.Silu(wide)), x.type.dtype)
