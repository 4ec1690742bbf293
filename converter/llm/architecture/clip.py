"""CLIP's encoder of texts: a vector for each, that of the token which ends it."""

from __future__ import annotations

import numpy as np

from minnow.converter.llm.architecture import architecture
from minnow.converter.llm.step import Step
from minnow.schema.ir import DType, Value

_OLD_END = 2
"""What `eos_token_id` is in settings that have never been put right; there the end is the largest token."""


@architecture("CLIP's encoder of texts", "clip_text_model", harmless=("embeddings.position_ids",))
def build(s: Step) -> None:
    """x += attention(norm(x)); x += layer(norm(x)); each token sees those before it."""
    ids, mask, _ = s.open_encoder(kinds=0)
    s.checkpoint.pooling = "last"
    y = s.b.GatherND(encoded(s, ids, mask), _ends(s, ids, mask), batch_dims=1)
    if s.weights.has("text_projection.weight"):
        y = s.linear(y, "text_projection", s.settings.integer("projection_dim", most=1 << 20), bias=False)
    s.outputs.append(("embeddings", s.normalized(y)))


def encoded(s: Step, ids: Value, mask: Value | None = None) -> Value:
    """The vectors of all tokens: f32[batch, length, hidden].

    Args:
        mask: where there are tokens; None: everywhere.
    """
    size = s.settings.integer("intermediate_size", most=1 << 24)
    epsilon = s.settings.real("layer_norm_eps", default=1e-5, least=0)
    p = "text_model." if s.weights.has("text_model.embeddings.token_embedding.weight") else ""
    length = s.b.Squeeze(s.b.Cast(s.b.Shape(ids, start=1, end=2), to=DType.I32), axes=(0,))
    places = s.b.Unsqueeze(s.b.Range(np.int32(0), length, np.int32(1)), axes=(0,))
    rows = s.embedding(f"{p}embeddings.position_embedding", places, s.context)
    x = s.b.Add(s.embedding(f"{p}embeddings.token_embedding", ids), rows)
    there = None if mask is None else s.b.Unsqueeze(s.b.Cast(mask, to=DType.BOOL), axes=(1, 2))
    for i in range(s.layers):
        x = layer(s, x, f"{p}encoder.layers.{i}", size, epsilon, mask=there, causal=True)
    return s.layer_norm(x, f"{p}final_layer_norm", epsilon)


def layer(
    s: Step, x: Value, p: str, size: int, epsilon: float, *, mask: Value | None = None, causal: bool = False,
    activation: str = "quick_gelu",
) -> Value:  # fmt: skip
    """A layer of an encoder of texts or images: x += attention(norm(x)); x += layer(norm(x)).

    Args:
        p: what the names of its tensors begin with.
        size: features between the two products.
        mask: keys that are seen; None: all.
        causal: each row sees only those before it.
        activation: the function between the products, where the settings do not say it.
    """
    h = s.layer_norm(x, f"{p}.layer_norm1", epsilon)
    q, k, v = s.linears(h, [(f"{p}.self_attn.{n}_proj", s.hidden) for n in "qkv"])
    masks = [] if mask is None else [None, None, mask]
    y = s.b.Attention(q, k, v, *masks, num_heads=s.heads, scale=s.head_size**-0.5, causal=causal)
    x = s.b.Add(x, s.linear(y, f"{p}.self_attn.out_proj", s.hidden))
    h = s.linear(s.layer_norm(x, f"{p}.layer_norm2", epsilon), f"{p}.mlp.fc1", size)
    added: Value = s.b.Add(x, s.linear(s.activation(h, activation), f"{p}.mlp.fc2", s.hidden, size))
    return added


def _ends(s: Step, ids: Value, mask: Value) -> Value:
    """Where each text has its first token that ends texts: i64[batch, 1]; 0 where it has none."""
    b = s.b
    end = s.settings.integer("eos_token_id", default=_OLD_END, least=0)
    # Padding becomes -1, which is no token.
    known = b.Add(b.Mul(ids, mask), b.Sub(mask, np.int32(1)))
    if end != _OLD_END:
        known = b.Cast(b.Equal(known, np.int32(end)), to=DType.I32)
    found: Value = b.ArgMax(known, axis=1)
    return found
