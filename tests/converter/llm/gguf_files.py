"""GGUF files of models of transformers, as llama.cpp's converter writes them, with the names of the package `gguf`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from gguf import MODEL_ARCH_NAMES, GGMLQuantizationType, GGUFWriter, get_tensor_name_map
from gguf.quants import quantize

_ARCHITECTURES = {"gemma3_text": "gemma3", "mixtral": "llama", "mistral": "llama", "qwen3_moe": "qwen3moe"}


def write_gguf(
    model: Any,
    path: Path,
    kinds: Mapping[str, str] | str = "F32",
    tensors: Mapping[str, np.ndarray] = MappingProxyType({}),
    **more: Any,
) -> Path:
    """Writes a file.

    Args:
        model: of transformers.
        kinds: the type of matrices, or of those with a part in their names.
        tensors: others, by their names in the file.
        more: keys of the file, with "__" for dots.
    """
    config = model.config
    arch = _ARCHITECTURES.get(config.model_type, config.model_type)
    file = GGUFWriter(path, arch)
    _describe(file, config, arch)
    for key, value in more.items():
        kinds_of = {bool: "bool", str: "string", int: "uint32", float: "float32", list: "array"}
        name, kind = key.replace("__", "."), kinds_of[type(value)]
        getattr(file, f"add_{kind}")(name, value)
    names = get_tensor_name_map(next(a for a, n in MODEL_ARCH_NAMES.items() if n == arch), config.num_hidden_layers)
    for name, array in _tensors(model, arch).items():
        new = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert new is not None, name
        kind = kinds if isinstance(kinds, str) else next((k for part, k in kinds.items() if part in new), "F32")
        type_ = GGMLQuantizationType[kind if array.ndim > 1 else "F32"]
        plain = {GGMLQuantizationType.F32: np.float32, GGMLQuantizationType.F16: np.float16}.get(type_)
        if plain is not None:
            file.add_tensor(new, array.astype(plain))
        else:
            file.add_tensor(new, quantize(array, type_), raw_dtype=type_)
    for name, array in tensors.items():
        file.add_tensor(name, array.astype(np.float32))
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
    return path


def _describe(file: GGUFWriter, config: Any, arch: str) -> None:
    file.add_name("small")
    file.add_context_length(config.max_position_embeddings)
    file.add_embedding_length(config.hidden_size)
    file.add_block_count(config.num_hidden_layers)
    file.add_head_count(config.num_attention_heads)
    file.add_vocab_size(config.vocab_size)
    if arch in ("gpt2", "bert"):
        file.add_feed_forward_length(getattr(config, "intermediate_size", 4 * config.hidden_size))
        file.add_layer_norm_eps(config.layer_norm_epsilon if arch == "gpt2" else config.layer_norm_eps)
    else:
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        rope = config.rope_parameters
        file.add_feed_forward_length(config.intermediate_size)
        file.add_head_count_kv(config.num_key_value_heads)
        file.add_layer_norm_rms_eps(config.rms_norm_eps)
        file.add_rope_freq_base(rope.get("full_attention", rope)["rope_theta"])
        file.add_rope_dimension_count(int(size * (getattr(config, "partial_rotary_factor", None) or 1)))
        file.add_key_length(size)
        file.add_value_length(size)
        if getattr(config, "sliding_window", None) and arch != "qwen2":
            file.add_sliding_window(config.sliding_window)
    if arch == "gemma2":
        file.add_attn_logit_softcapping(config.attn_logit_softcapping)
        file.add_final_logit_softcapping(config.final_logit_softcapping)
    if hasattr(config, "num_experts_per_tok"):
        file.add_expert_count(config.num_local_experts)
        file.add_expert_used_count(config.num_experts_per_tok)
        if arch == "qwen3moe":
            file.add_expert_feed_forward_length(config.moe_intermediate_size)
    if arch == "bert":
        file.add_uint32("tokenizer.ggml.token_type_count", config.type_vocab_size)
    file.add_bos_token_id(1)
    file.add_eos_token_id(2)
    file.add_add_bos_token(True)


def _tensors(model: Any, arch: str) -> dict[str, np.ndarray]:
    """The tensors under names of Hugging Face, turned as files have them."""
    config, made = model.config, {}
    for name, tensor in model.state_dict().items():
        array = tensor.detach().float().numpy()
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        if ".position_ids" in name or "pooler." in name:
            continue
        if arch == "llama" and name.endswith(("q_proj.weight", "k_proj.weight")):
            heads = config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
            array = array.reshape(heads, 2, -1, array.shape[1]).swapaxes(1, 2).reshape(array.shape)
        if arch in ("gemma2", "gemma3") and name.endswith("norm.weight"):
            array = array + 1
        if arch == "gpt2" and array.ndim == 2 and ".h." in name:
            array = array.T.copy()
        if name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            place = name.rpartition(".")[0]
            if name.endswith("gate_up_proj"):
                gate, up = np.split(array, 2, axis=1)
                made |= {f"{place}.gate_proj.weight": gate.copy(), f"{place}.up_proj.weight": up.copy()}
            else:
                made[f"{place}.down_proj.weight"] = array
            continue
        made[name] = array
    return made
