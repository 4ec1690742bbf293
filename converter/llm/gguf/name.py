"""The names of tensors in GGUF files, as Hugging Face has them."""

from __future__ import annotations

import re

_DECODER = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_qkv": "self_attn.qkv_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_GEMMA = {
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
_GPT2 = {
    "token_embd": "transformer.wte",
    "position_embd": "transformer.wpe",
    "output_norm": "transformer.ln_f",
    "attn_norm": "ln_1",
    "attn_qkv": "attn.c_attn",
    "attn_output": "attn.c_proj",
    "ffn_norm": "ln_2",
    "ffn_up": "mlp.c_fc",
    "ffn_down": "mlp.c_proj",
}
_BERT = {
    "token_embd": "embeddings.word_embeddings",
    "position_embd": "embeddings.position_embeddings",
    "token_types": "embeddings.token_type_embeddings",
    "token_embd_norm": "embeddings.LayerNorm",
    "attn_q": "attention.self.query",
    "attn_k": "attention.self.key",
    "attn_v": "attention.self.value",
    "attn_output": "attention.output.dense",
    "attn_output_norm": "attention.output.LayerNorm",
    "ffn_up": "intermediate.dense",
    "ffn_down": "output.dense",
    "layer_output_norm": "output.LayerNorm",
}
_OWN = {
    "gemma2": _DECODER | _GEMMA,
    "gemma3_text": _DECODER | _GEMMA,
    "phi3": _DECODER | {"ffn_up": "mlp.gate_up_proj"},
    "mixtral": _DECODER | {"ffn_gate_inp": "block_sparse_moe.gate"},
    "qwen3_moe": _DECODER | {"ffn_gate_inp": "mlp.gate"},
    "gpt2": _GPT2,
    "bert": _BERT,
}
_LAYERS = {"gpt2": "transformer.h", "bert": "encoder.layer"}

EXPERTS = {
    "mixtral": ("block_sparse_moe.experts", {"ffn_gate_exps": "w1", "ffn_up_exps": "w3", "ffn_down_exps": "w2"}),
    "qwen3_moe": (
        "mlp.experts",
        {"ffn_gate_exps": "gate_proj", "ffn_up_exps": "up_proj", "ffn_down_exps": "down_proj"},
    ),
}
"""Tensors with the matrices of all experts: what those of one are called."""

_NAME = re.compile(r"(?:blk\.(\d{1,5})\.)?([a-z_]+\w*)\.(weight|bias)")


def split_name(name: str) -> tuple[str, str, str] | None:
    """Layer, or "", what the tensor is, and "weight" or "bias"; None for a name of another form."""
    found = _NAME.fullmatch(name)
    return (found[1] or "", found[2], found[3]) if found else None


def layer_prefix(model_type: str, layer: str) -> str:
    """What the names of a layer's tensors begin with."""
    return f"{_LAYERS.get(model_type, 'model.layers')}.{layer}." if layer else ""


def renamed(name: str, model_type: str) -> str:
    """The name that Hugging Face has for a tensor; the name itself where there is none."""
    parts = split_name(name)
    known = _OWN.get(model_type, _DECODER)
    if parts is None or parts[1] not in known:
        return name
    return f"{layer_prefix(model_type, parts[0])}{known[parts[1]]}.{parts[2]}"
