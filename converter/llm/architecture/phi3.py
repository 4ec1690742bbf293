"""Phi-3: a Llama whose products for queries, keys and values, and for the gated layer, are one each."""

from __future__ import annotations

from minnow.converter.llm.architecture import architecture
from minnow.converter.llm.step import Rotary, Step
from minnow.schema.ir import Value


@architecture("Phi-3 and Phi-3.5", "phi3")
def build(s: Step) -> None:
    """x += attention(norm(x)); x += gated(norm(x))."""
    s.open()
    rotary = s.rotary()
    size = s.settings.integer("intermediate_size", most=1 << 24)
    x = s.embedding("model.embed_tokens")
    for i in range(s.layers):
        p = f"model.layers.{i}"
        x = s.b.Add(x, _attention(s, i, s.rms_norm(x, f"{p}.input_layernorm"), rotary))
        h = s.linear(s.rms_norm(x, f"{p}.post_attention_layernorm"), f"{p}.mlp.gate_up_proj", 2 * size)
        gate, up = s.split(h, [size, size])
        x = s.b.Add(x, s.linear(s.b.Mul(s.activation(gate), up), f"{p}.mlp.down_proj", s.hidden, size))
    s.logits(s.rms_norm(s.last(x), "model.norm"), "model.embed_tokens")


def _attention(s: Step, layer: int, x: Value, rotary: Rotary) -> Value:
    p = f"model.layers.{layer}.self_attn"
    wide, narrow = s.heads * s.head_size, s.kv_heads * s.head_size
    q, k, v = s.split(s.linear(x, f"{p}.qkv_proj", wide + 2 * narrow), [wide, narrow, narrow])
    window = s.settings.integer("sliding_window", default=0, least=0)
    y = s.attention(layer, rotary(q, s.heads), rotary(k, s.kv_heads), v, window=window)
    return s.linear(y, f"{p}.o_proj", s.hidden, wide)
