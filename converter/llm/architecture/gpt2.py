"""GPT-2: LayerNorm, learned positions, one product for queries, keys and values, a plain layer."""

from __future__ import annotations

import numpy as np

from minnow.converter.llm.architecture import architecture
from minnow.converter.llm.step import Step
from minnow.schema.ir import Blob, DType, LazyBlob, RoundedBlob, Value


@architecture("GPT-2", "gpt2", harmless=(".attn.bias", ".attn.masked_bias"))
def build(s: Step) -> None:
    """x += attention(norm(x)); x += layer(norm(x))."""
    s.open()
    size = s.settings.integer("n_inner", "intermediate_size", default=4 * s.hidden, most=1 << 24)
    epsilon = s.settings.real("layer_norm_epsilon", default=1e-5, least=0)
    t = "transformer." if s.weights.has("transformer.wte.weight") else ""
    x = s.b.Add(s.embedding(f"{t}wte"), s.embedding(f"{t}wpe", s.positions, rows=s.context))
    for i in range(s.layers):
        p = f"{t}h.{i}"
        h = _product(s, s.layer_norm(x, f"{p}.ln_1", epsilon), f"{p}.attn.c_attn", 3 * s.hidden, s.hidden)
        y = s.attention(i, *s.split(h, [s.hidden] * 3))
        x = s.b.Add(x, _product(s, y, f"{p}.attn.c_proj", s.hidden, s.hidden))
        h = _product(s, s.layer_norm(x, f"{p}.ln_2", epsilon), f"{p}.mlp.c_fc", size, s.hidden)
        x = s.b.Add(x, _product(s, s.activation(h, "gelu_new"), f"{p}.mlp.c_proj", s.hidden, size))
    s.logits(s.layer_norm(s.last(x), f"{t}ln_f", epsilon), f"{t}wte")


def _product(s: Step, x: Value, name: str, outputs: int, inputs: int) -> Value:
    """A layer whose matrix is [inputs, outputs] in the checkpoint, or has been turned there already."""
    turned = f"{name}.weight.turned"
    if s.weights.has(turned):
        blob = s.weights.get(turned, outputs, inputs)
    else:
        blob = _turned(s.weights.get(f"{name}.weight", inputs, outputs))
    return s.product(x, blob, s.weights.vector(f"{name}.bias", outputs), name)


def _turned(blob: Blob) -> Blob:
    made = LazyBlob(lambda: np.ascontiguousarray(blob.numpy().T), DType.F32, tuple(blob.shape)[::-1])
    return RoundedBlob(made, blob.stored) if isinstance(blob, RoundedBlob) else made
