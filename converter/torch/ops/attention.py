"""Attention, and the layers of transformers that PyTorch has fused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minnow.converter.operand import rank, regroup, static_dim
from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.ops.activation import without_masked
from minnow.converter.torch.ops.convolution import linear
from minnow.converter.torch.symbolic.dimension import dimensions, scalar, size_of, sizes_of
from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder


def attend(b: Builder, q: Value, k: Value, v: Value, mask: Value | None, dropout: float, is_causal: bool,
           scale: float | None, gqa: bool = False) -> tuple[Value, Value, Value]:  # fmt: skip
    """softmax(q k^T * scale + mask) v.

    Args:
        q, k, v: [..., places, features].
        mask: bool: the keys that count; or what is added to the scores.
        gqa: several heads of queries share one of keys and values.

    Returns:
        The result, the weights, and the scores.
    """
    if dropout:
        raise UnsupportedError("attention with dropout is not supported", hint="export the model after `model.eval()`")
    if gqa:
        k, v = (_repeated(b, x, q) for x in (k, v))
    factor = float(scale if scale is not None else 1 / np.sqrt(static_dim(q.type, -1, "the features of a head")))
    scores = b.MatMul(q if factor == 1 else b.Mul(q, factor), k, transpose_b=True)
    if is_causal:
        places = (b.Range(np.array(0), scalar(b, size_of(b, x, -2)), np.array(1)) for x in (q, k))
        row, column = (b.Unsqueeze(p, axes=(a,)) for p, a in zip(places, (1, 0), strict=True))
        scores = b.Where(b.LessOrEqual(column, row), scores, _number(scores, -np.inf))
    if mask is not None:
        if mask.type.dtype is DType.BOOL:
            scores = b.Where(mask, scores, _number(scores, -np.inf))
        else:
            scores = b.Add(scores, mask if mask.type.dtype is scores.type.dtype else b.Cast(mask, to=scores.type.dtype))
    weights = b.Softmax(scores, axis=-1)
    if mask is not None and _may_hide_all(mask):
        weights = without_masked(b, scores, weights)
    return b.MatMul(weights, v), weights, scores


def _repeated(b: Builder, x: Value, like: Value) -> Any:
    """Heads repeated to be as many as those of another operand."""
    have, want = (static_dim(t.type, -3, "the heads") for t in (x, like))
    if have == want:
        return x
    if want % have:
        raise UnsupportedError(f"{want} query heads cannot share {have} key heads")
    return b.Gather(x, np.repeat(np.arange(have), want // have), axis=rank(x, "the keys") - 3)


def _number(x: Value, number: float) -> Value:
    return Value.constant(np.array(number, x.type.dtype.numpy))


def _may_hide_all(mask: Value) -> bool:
    """A query may be left without keys; its weights are then 0."""
    if mask.data is None:
        return True
    array = mask.data.numpy()
    hidden = np.logical_not(array) if array.dtype == bool else np.isneginf(array.astype(np.float32))
    return array.ndim == 0 or bool(hidden.all(-1).any())


@torch.op("aten::scaled_dot_product_attention")
def _(b, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    return attend(b, query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)[0]


@torch.op("aten::_scaled_dot_product_attention_math")
def _(b, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, dropout_mask=None, scale=None,
      enable_gqa=False):  # fmt: skip
    return attend(b, query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)[:2]


def _with_sums(b: Builder, results: tuple[Value, Value, Value], *more: Any) -> tuple[Any, ...]:
    """What fused attention gives: also the logarithm of the sums of the softmax."""
    y, _, scores = results
    return y, b.ReduceLogSumExp(scores, axes=(-1,), keepdims=False), *more


@torch.op("aten::_scaled_dot_product_flash_attention_for_cpu")
def _(b, query, key, value, dropout_p=0.0, is_causal=False, attn_mask=None, scale=None):
    return _with_sums(b, attend(b, query, key, value, attn_mask, dropout_p, is_causal, scale))


_SEEDS = np.zeros((), np.int64)  # of dropout, which there is none of


@torch.op("aten::_scaled_dot_product_flash_attention")
def _(b, query, key, value, dropout_p=0.0, is_causal=False, return_debug_mask=False, scale=None):
    results = attend(b, query, key, value, None, dropout_p, is_causal, scale)
    ends = size_of(b, query, -2), size_of(b, key, -2)
    return _with_sums(b, results, *[b.const(_SEEDS)] * 2, *ends, *[b.const(_SEEDS)] * 3)


@torch.op("aten::_scaled_dot_product_efficient_attention")
def _(b, query, key, value, attn_bias, compute_log_sumexp, dropout_p=0.0, is_causal=False, scale=None):
    results = attend(b, query, key, value, attn_bias, dropout_p, is_causal, scale)
    return _with_sums(b, results, *[b.const(_SEEDS)] * 2)


@torch.op("aten::_scaled_dot_product_cudnn_attention")
def _(b, query, key, value, attn_bias, compute_log_sumexp, dropout_p=0.0, is_causal=False, return_debug_mask=False,
      scale=None):  # fmt: skip
    return _overrideable(b, query, key, value, attn_bias, dropout_p, is_causal, scale)


@torch.op("aten::_scaled_dot_product_fused_attention_overrideable")
def _(b, query, key, value, attn_bias=None, dropout_p=0.0, is_causal=False, return_debug_mask=False, scale=None):
    return _overrideable(b, query, key, value, attn_bias, dropout_p, is_causal, scale)


def _overrideable(b: Builder, q: Value, k: Value, v: Value, mask: Value | None, dropout: float, is_causal: bool,
                  scale: float | None) -> tuple[Any, ...]:  # fmt: skip
    results = attend(b, q, k, v, mask, dropout, is_causal, scale)
    ends = size_of(b, q, -2), size_of(b, k, -2)
    return _with_sums(b, results, *[b.const(_SEEDS)] * 2, *ends, *[b.const(_SEEDS)] * 3)


# ---- layers of transformers


def _shown(b: Builder, mask: Value | None, kind: int | None, heads: int) -> Value | None:
    """What a fused layer hides, as the keys that count for [batch, heads, queries, keys].

    The kinds of masks: 0 [queries, keys], 1 [batch, keys], 2 [batch, heads, queries, keys].
    """
    if mask is None:
        return None
    if mask.type.dtype is DType.BOOL:
        mask = b.Not(mask)
    n = rank(mask, "the mask")
    if kind == 1 and n == 2:
        return b.Unsqueeze(mask, axes=(1, 2))
    if n == 3:  # a mask for each head of each image
        *_, queries, keys = sizes_of(b, mask)
        return regroup(b, mask, dimensions(b, [-1, heads, queries, keys]))
    return mask


def _heads(b: Builder, x: Value, count: int) -> Any:
    """[batch, places, features] as [batch, heads, places, features of a head]."""
    split = b.Reshape(x, np.array([0, 0, count, static_dim(x.type, -1, "the features") // count]))
    return b.Transpose(split, perm=(0, 2, 1, 3))


def _multi_head(b: Builder, inputs: Sequence[Value], embed: int, heads: int, w: Value, bias: Value, out_w: Value,
                out_bias: Value, mask: Value | None) -> tuple[Value, Value]:  # fmt: skip
    """Attention between projections of [batch, places, features]; also its weights for each head."""
    query, key, value = inputs
    if query is key and key is value:
        parts = b.Split(linear(b, query, w, bias), axis=-1, sizes=(embed,) * 3, n_outputs=3)
    else:
        ws, biases = (b.Split(v, axis=0, sizes=(embed,) * 3, n_outputs=3) for v in (w, bias))
        parts = [linear(b, x, u, o) for x, u, o in zip(inputs, ws, biases, strict=True)]
    q, k, v = (_heads(b, p, heads) for p in parts)
    y, weights, _ = attend(b, q, k, v, mask, 0.0, False, None)
    merged = b.Reshape(b.Transpose(y, perm=(0, 2, 1, 3)), np.array([0, 0, embed]))
    return linear(b, merged, out_w, out_bias), weights


@torch.op("aten::_native_multi_head_attention")
def _(b, query, key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, mask=None,
      need_weights=True, average_attn_weights=True, mask_type=None):  # fmt: skip
    shown = _shown(b, mask, mask_type, num_head)
    y, weights = _multi_head(b, (query, key, value), embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias,
                             shown)  # fmt: skip
    if not need_weights:
        return y, b.const(np.zeros(0, np.float32))
    return y, b.ReduceMean(weights, axes=(1,), keepdims=False) if average_attn_weights else weights


@torch.op("aten::_transformer_encoder_layer_fwd")
def _(b, src, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first, eps,
      norm_weight_1, norm_bias_1, norm_weight_2, norm_bias_2, ffn_weight_1, ffn_bias_1, ffn_weight_2, ffn_bias_2,
      mask=None, mask_type=None):  # fmt: skip
    shown = _shown(b, mask, mask_type, num_heads)

    def attention(x: Value) -> Any:
        weights = (qkv_weight, qkv_bias, proj_weight, proj_bias)
        return _multi_head(b, (x, x, x), embed_dim, num_heads, *weights, shown)[0]

    def forward(x: Value) -> Any:
        inner = linear(b, x, ffn_weight_1, ffn_bias_1)
        return linear(b, b.Gelu(inner) if use_gelu else b.Relu(inner), ffn_weight_2, ffn_bias_2)

    x = src
    for step, scale, bias in ((attention, norm_weight_1, norm_bias_1), (forward, norm_weight_2, norm_bias_2)):
        if norm_first:
            x = b.Add(x, step(b.LayerNorm(x, scale, bias, axis=-1, epsilon=eps)))
        else:
            x = b.LayerNorm(b.Add(x, step(x)), scale, bias, axis=-1, epsilon=eps)
    return x
