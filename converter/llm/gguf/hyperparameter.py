"""The keys of GGUF files as the hyperparameters of Hugging Face's config.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minnow.schema.errors import ModelError, UnsupportedError

MODEL_TYPES = {
    "llama": "llama",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "qwen3moe": "qwen3_moe",
    "phi3": "phi3",
    "gemma2": "gemma2",
    "gemma3": "gemma3_text",
    "gpt2": "gpt2",
    "bert": "bert",
}
"""The families of models, by `general.architecture`."""

_KEYS = {
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.layer_norm_epsilon": "layer_norm_eps",
    "attention.sliding_window": "sliding_window",
    "feed_forward_length": "intermediate_size",
    "vocab_size": "vocab_size",
    "expert_count": "num_local_experts",
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
}
_LAYERS_OF_27B = {"gemma2": 46, "gemma3": 62}
_POOLING = {0: "", 1: "mean", 2: "cls", 3: "last"}


def hyperparameters(metadata: Mapping[str, Any], path: str) -> dict[str, Any]:
    """The table that a config.json would be.

    Raises:
        ModelError: the file does not say what kind of model it is.
        UnsupportedError: it is of a kind that is not read.
    """
    arch = metadata.get("general.architecture")
    if not isinstance(arch, str):
        raise ModelError("'general.architecture' is missing", where=path)
    if arch not in MODEL_TYPES:
        hint = f"supported in GGUF are {', '.join(MODEL_TYPES)}"
        raise UnsupportedError(f"models of the architecture '{arch[:40]}' are not supported", where=path, hint=hint)
    own = {k.removeprefix(f"{arch}."): v for k, v in metadata.items() if k.startswith(f"{arch}.")}
    table: dict[str, Any] = {name: own[key] for key, name in _KEYS.items() if key in own}
    table["model_type"] = MODEL_TYPES[arch]
    for name in ("num_attention_heads", "num_key_value_heads", "intermediate_size"):
        table |= {name: _one(table[name])} if name in table else {}
    tokens = metadata.get("tokenizer.ggml.tokens")
    if "vocab_size" not in table and isinstance(tokens, list):
        table["vocab_size"] = len(tokens)
    table |= _rope(own)
    if arch == "llama" and table.get("num_local_experts"):
        table["model_type"] = "mixtral"
    if arch == "qwen3moe":
        table["num_experts"] = table.pop("num_local_experts", None)
        table["norm_topk_prob"] = True
    if arch == "gpt2":
        table["layer_norm_epsilon"] = table.get("layer_norm_eps")
    if arch == "bert":
        table["architectures"] = ["BertModel"]
        table["type_vocab_size"] = metadata.get("tokenizer.ggml.token_type_count", 2)
    if arch in ("gemma2", "gemma3"):
        table |= _gemma(arch, table)
    return table


def pooling(metadata: Mapping[str, Any]) -> str:
    """How an embedding model makes one vector of those of all tokens."""
    return _POOLING.get(metadata.get(f"{metadata.get('general.architecture')}.pooling_type", 0), "")


def _one(value: Any) -> Any:
    """A number that may be given for each layer."""
    if isinstance(value, (str, bytes)) or not hasattr(value, "__len__"):
        return value
    numbers = [int(v) for v in value]
    return numbers[0] if len(set(numbers)) == 1 else numbers


def _rope(own: Mapping[str, Any]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    if "rope.freq_base" in own:
        table["rope_theta"] = own["rope.freq_base"]
    if "rope.dimension_count" in own:
        table["rotary_dim"] = own["rope.dimension_count"]
    kind, factor = own.get("rope.scaling.type"), own.get("rope.scaling.factor", own.get("rope.scale_linear"))
    if kind in (None, "none") and factor in (None, 0, 1):
        return table
    scaling: dict[str, Any] = {"rope_type": kind or "linear", "factor": factor if factor else 1.0}
    renamed = {
        "original_context_length": "original_max_position_embeddings",
        "yarn_beta_fast": "beta_fast",
        "yarn_beta_slow": "beta_slow",
    }
    for key, name in renamed.items():
        if (value := own.get(f"rope.scaling.{key}")) is not None:
            scaling[name] = value
    table["rope_scaling"] = scaling
    return table


def long_rope(metadata: Mapping[str, Any], short: list[float], long: list[float]) -> dict[str, Any]:
    """The scaling of rotary positions by factors that the file has as tensors."""
    prefix = f"{metadata.get('general.architecture')}.rope.scaling"
    found = {
        "original_max_position_embeddings": metadata.get(f"{prefix}.original_context_length"),
        "attention_factor": metadata.get(f"{prefix}.attn_factor"),
    }
    given = {name: value for name, value in found.items() if value is not None}
    return {"rope_type": "longrope", "short_factor": short, "long_factor": long, **given}


def _gemma(arch: str, table: Mapping[str, Any]) -> dict[str, Any]:
    """What llama.cpp knows of these families without being told."""
    scalar = table.get("head_dim") or 256
    heads, hidden = table.get("num_attention_heads"), table.get("hidden_size")
    # In the models of 27B heads are smaller than their share, and queries are scaled by that.
    if table.get("num_hidden_layers") == _LAYERS_OF_27B[arch] and isinstance(heads, int) and isinstance(hidden, int):
        scalar = hidden // max(heads, 1)
    made = {"query_pre_attn_scalar": scalar, "hidden_activation": "gelu_pytorch_tanh"}
    return made | ({"sliding_window_pattern": 6, "rope_local_base_freq": 10000.0} if arch == "gemma3" else {})
