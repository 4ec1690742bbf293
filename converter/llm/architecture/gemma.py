"""Gemma 2 and 3: norms in front of and behind each part, and layers of which some see only the last tokens."""

from __future__ import annotations

import numpy as np

from minnow.converter.llm.architecture import architecture
from minnow.converter.llm.step import Rotary, Step
from minnow.schema.ir import Value


@architecture("Gemma 2", "gemma2")
def build_gemma2(s: Step) -> None:
    """Every other layer is local, beginning with the first; scores and logits have a limit."""
    s.open()
    rotary = s.rotary()
    _layers(s, [rotary] * s.layers, _local_layers(s, 2), s.settings.real("attn_logit_softcapping", default=0.0))


@architecture("Gemma 3 (text)", "gemma3_text")
def build_gemma3(s: Step) -> None:
    """Five local layers come before each that sees everything; these turn faster by positions."""
    s.open()
    far, near = s.rotary(base=1e6, layer_type="full_attention"), _near(s)
    local = _local_layers(s, s.settings.integer("sliding_window_pattern", "_sliding_window_pattern", default=6))
    _layers(s, [near if is_local else far for is_local in local], local, 0.0)


def _near(s: Step) -> Rotary:
    """Positions of local layers, whose context was never made longer."""
    if s.settings.section("rope_parameters") is not None:
        return s.rotary(layer_type="sliding_attention")
    return s.plain_rotary(s.settings.real("rope_local_base_freq", default=10000.0, least=1e-3, most=1e15))


def _local_layers(s: Step, pattern: int) -> list[bool]:
    """Of each layer, whether it is local: of so many all but the last one, where the checkpoint does not list them."""
    types = s.settings.texts("layer_types", s.layers)
    return [(i + 1) % pattern != 0 if types is None else types[i] == "sliding_attention" for i in range(s.layers)]


def _layers(s: Step, rotary: list[Rotary], local: list[bool], soft_cap: float) -> None:
    size = s.settings.integer("intermediate_size", most=1 << 24)
    window = s.settings.integer("sliding_window", default=4096)
    x = s.b.Mul(s.embedding("model.embed_tokens"), np.float32(np.float32(s.hidden) ** 0.5))
    for i in range(s.layers):
        p = f"model.layers.{i}"
        h = s.rms_norm(x, f"{p}.input_layernorm", added=1)
        h = _attention(s, i, h, rotary[i], window if local[i] else 0, soft_cap)
        x = s.b.Add(x, s.rms_norm(h, f"{p}.post_attention_layernorm", added=1))
        h = s.gated(s.rms_norm(x, f"{p}.pre_feedforward_layernorm", added=1), f"{p}.mlp", size)
        x = s.b.Add(x, s.rms_norm(h, f"{p}.post_feedforward_layernorm", added=1))
    cap = s.settings.real("final_logit_softcapping", default=0.0, least=0)
    s.logits(s.rms_norm(s.last(x), "model.norm", added=1), "model.embed_tokens", soft_cap=cap)


def _attention(s: Step, layer: int, x: Value, rotary: Rotary, window: int, soft_cap: float) -> Value:
    p = f"model.layers.{layer}.self_attn"
    wide, narrow = s.heads * s.head_size, s.kv_heads * s.head_size
    q, k, v = s.linears(x, [(f"{p}.q_proj", wide), (f"{p}.k_proj", narrow), (f"{p}.v_proj", narrow)])
    q, k = (
        s.flat(rotary.turn(_normed(s, s.by_heads(y, heads), f"{p}.{name}_norm")))
        for y, heads, name in ((q, s.heads, "q"), (k, s.kv_heads, "k"))
    )
    scale = s.settings.real("query_pre_attn_scalar", default=float(s.head_size), least=1e-6) ** -0.5
    y = s.attention(layer, q, k, v, scale=scale, window=window, soft_cap=soft_cap)
    return s.linear(y, f"{p}.o_proj", s.hidden, wide)


def _normed(s: Step, x: Value, name: str) -> Value:
    return s.rms_norm(x, name, s.head_size, added=1) if s.weights.has(f"{name}.weight") else x
