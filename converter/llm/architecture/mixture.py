"""Mixtures of experts: a router picks a few gated layers for each token, and every expert gathers its own tokens."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from minnow.converter.llm.architecture import architecture
from minnow.converter.llm.architecture.llama import attention
from minnow.converter.llm.step import Step
from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, Value

_MOST_EXPERTS = 4096


@architecture("Mixtral", "mixtral")
def build_mixtral(s: Step) -> None:
    """All layers have experts."""
    size = s.settings.integer("intermediate_size", most=1 << 24)
    count = s.settings.integer("num_local_experts", most=_MOST_EXPERTS)

    def layer(x: Value, prefix: str, number: int) -> Value:
        p = f"{prefix}.block_sparse_moe"

        def expert(rows: Value, e: int) -> Value:
            return s.gated(rows, f"{p}.experts.{e}", size, "w1", "w3", "w2")

        return experts(s, x, f"{p}.gate", count, expert, renormalized=True)

    _layers(s, layer)


@architecture("Qwen3-MoE", "qwen3_moe")
def build_qwen3(s: Step) -> None:
    """Every so many layers have experts, unless they are listed as others."""
    own = s.settings
    size, wide = (own.integer(k, most=1 << 24) for k in ("moe_intermediate_size", "intermediate_size"))
    count, step = (
        own.integer("num_experts", "num_local_experts", most=_MOST_EXPERTS),
        own.integer("decoder_sparse_step", default=1),
    )
    plain = own.raw("mlp_only_layers") or []
    renormalized = own.flag("norm_topk_prob", default=False)

    def layer(x: Value, prefix: str, number: int) -> Value:
        p = f"{prefix}.mlp"
        if number in plain or (number + 1) % step:
            return s.gated(x, p, wide)

        def expert(rows: Value, e: int) -> Value:
            return s.gated(rows, f"{p}.experts.{e}", size)

        return experts(s, x, f"{p}.gate", count, expert, renormalized)

    _layers(s, layer)


def _layers(s: Step, layer: Callable[[Value, str, int], Value]) -> None:
    s.open()
    rotary = s.rotary()
    x = s.embedding("model.embed_tokens")
    for i in range(s.layers):
        p = f"model.layers.{i}"
        x = s.b.Add(x, attention(s, i, s.rms_norm(x, f"{p}.input_layernorm"), rotary))
        x = s.b.Add(x, layer(s.rms_norm(x, f"{p}.post_attention_layernorm"), p, i))
    s.logits(s.rms_norm(s.last(x), "model.norm"), "model.embed_tokens")


def experts(
    s: Step, x: Value, router: str, count: int, expert: Callable[[Value, int], Value], renormalized: bool
) -> Value:
    """The sum of what the experts of each token make of it, weighed by the router.

    Args:
        x: [tokens, hidden].
        router: name of the layer with an output for each expert.
        count: of experts.
        expert: (rows, number) -> what it makes of them.
        renormalized: the weights of those that are picked are made to sum up to 1.
    """
    b = s.b
    picked = s.settings.integer("num_experts_per_tok", most=count)
    if picked > count:
        raise ModelError(f"{picked} of {count} experts cannot be picked", where=s.settings.where)
    shares, numbers = b.TopK(b.Softmax(s.linear(x, router, count), axis=-1), np.int32(picked), axis=-1, n_outputs=2)
    numbers = b.Cast(numbers, to=DType.I32)
    if renormalized:
        shares = b.Div(shares, b.ReduceSum(shares, axes=(-1,), keepdims=True))
    total: Value = b.Expand(np.zeros((1, 1), np.float32), b.Shape(x))
    for e in range(count):
        hits = b.Equal(numbers, np.int32(e))
        share = b.ReduceSum(b.Where(hits, shares, np.float32(0)), axes=(-1,), keepdims=True)
        is_its = b.ReduceMax(b.Cast(hits, to=DType.I32), axes=(-1,), keepdims=False)
        tokens = b.Squeeze(b.NonZero(is_its), axes=(0,))
        made = b.Mul(expert(b.Gather(x, tokens), e), b.Gather(share, tokens))
        total = b.ScatterND(total, b.Unsqueeze(tokens, axes=(1,)), made, reduction="add")
    return total
