"""Llama and what is built like it: RMSNorm, rotary positions, grouped queries, a gated layer."""

from __future__ import annotations

from minnow.converter.llm.architecture import architecture
from minnow.converter.llm.step import Rotary, Step
from minnow.schema.ir import Value


@architecture("Llama 2 and 3, SmolLM, DeepSeek-R1-Distill-Llama", "llama")
@architecture("Mistral", "mistral")
@architecture("Qwen2 and 2.5, DeepSeek-R1-Distill-Qwen", "qwen2")
@architecture("Qwen3", "qwen3")
def build(s: Step) -> None:
    """x += attention(norm(x)); x += gated(norm(x))."""
    s.open()
    rotary = s.rotary()
    size = s.settings.integer("intermediate_size", most=1 << 24)
    x = s.tokens("model.embed_tokens")
    for i in range(s.layers):
        p = f"model.layers.{i}"
        x = s.b.Add(x, attention(s, i, s.rms_norm(x, f"{p}.input_layernorm"), rotary))
        x = s.b.Add(x, s.gated(s.rms_norm(x, f"{p}.post_attention_layernorm"), f"{p}.mlp", size))
    s.logits(s.rms_norm(s.last(x), "model.norm"), "model.embed_tokens")


def attention(s: Step, layer: int, x: Value, rotary: Rotary) -> Value:
    """Attention of a layer; some families norm queries and keys of each head."""
    p = f"model.layers.{layer}.self_attn"
    wide, narrow = s.heads * s.head_size, s.kv_heads * s.head_size
    q, k, v = s.linears(x, [(f"{p}.q_proj", wide), (f"{p}.k_proj", narrow), (f"{p}.v_proj", narrow)])
    q, k = (
        s.flat(rotary.turn(normed(s, s.by_heads(y, heads), f"{p}.{name}_norm")))
        for y, heads, name in ((q, s.heads, "q"), (k, s.kv_heads, "k"))
    )
    y = s.attention(layer, q, k, v, window=window(s, layer))
    return s.linear(y, f"{p}.o_proj", s.hidden, wide)


def normed(s: Step, x: Value, name: str) -> Value:
    """Heads [rows, heads, size], each divided by its root mean square where the checkpoint has factors for it."""
    return s.rms_norm(x, name, s.head_size) if s.weights.has(f"{name}.weight") else x


def window(s: Step, layer: int) -> int:
    """How many keys a query of a layer sees; 0: all."""
    own = s.settings
    if "sliding_window" not in own or not own.flag("use_sliding_window", default=True):
        return 0
    types = own.texts("layer_types", s.layers)
    if types is not None:
        slides = types[layer] == "sliding_attention"
    else:
        slides = layer >= own.integer("max_window_layers", default=0, least=0)
    return own.integer("sliding_window") if slides else 0
