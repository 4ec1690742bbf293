"""Small language models of transformers with random weights: one for each family, and for each way of its settings."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch_architectures  # noqa: F401  (it makes up for the operators of torchvision that are missing)

VOCABULARY = 97
_SIZES = {
    "vocab_size": VOCABULARY, "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3,
    "num_attention_heads": 6, "num_key_value_heads": 2, "max_position_embeddings": 64, "bos_token_id": 1,
    "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip


def _rope(kind: str, **more: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 500.0, **more}}


_FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {}),
    "llama tied, with biases": (
        "Llama",
        {"tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True, "head_dim": 12},
    ),
    "llama linear": ("Llama", _rope("linear", factor=2.0)),
    "llama dynamic": ("Llama", {**_rope("dynamic", factor=2.0), "max_position_embeddings": 8}),
    "llama3": ("Llama", _rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                              original_max_position_embeddings=16)),
    "llama yarn": ("Llama", _rope("yarn", factor=4.0, original_max_position_embeddings=16)),
    "mistral": ("Mistral", {"sliding_window": 5}),
    "qwen2": ("Qwen2", {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}),
    "qwen3": ("Qwen3", {"head_dim": 16}),
    "phi3": ("Phi3", {"partial_rotary_factor": 0.5}),
    "phi3 longrope": ("Phi3", {"original_max_position_embeddings": 8,
                               **_rope("longrope", short_factor=[1.0, 1.5, 2.0, 3.0], long_factor=[2.0, 3.0, 4.0, 5.0],
                                       original_max_position_embeddings=8)}),
    "gemma2": ("Gemma2", {"head_dim": 16, "sliding_window": 4, "query_pre_attn_scalar": 24,
                          "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0}),
    "gemma3": ("Gemma3Text", {"head_dim": 16, "sliding_window": 4, "query_pre_attn_scalar": 24,
                              "num_hidden_layers": 7}),
    "gpt2": ("GPT2", {"n_embd": 48, "n_layer": 3, "n_head": 6, "n_positions": 64}),
    "mixtral": ("Mixtral", {"num_local_experts": 5, "num_experts_per_tok": 2}),
    "qwen3 moe": ("Qwen3Moe", {"head_dim": 16, "num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 24,
                               "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": [1]}),
}  # fmt: skip

FAMILIES = tuple(_FAMILIES)


def _random(model: torch.nn.Module) -> None:
    """Weights and factors of norms that are neither 0 nor 1: what is forgotten shows."""
    torch.manual_seed(7)
    for p in model.parameters():
        middle = 1.0 if p.dim() == 1 and p.detach().float().mean().item() > 0.5 else 0.0
        torch.nn.init.normal_(p, middle, 0.2 if p.dim() == 1 else 0.12)


def decoder(name: str, **changes: Any) -> torch.nn.Module:
    """A model that continues texts."""
    import transformers

    kind, settings = _FAMILIES[name]
    sizes = {"vocab_size": VOCABULARY, "bos_token_id": 1, "eos_token_id": 2} if kind == "GPT2" else _SIZES
    config = getattr(transformers, f"{kind}Config")(**{**sizes, **settings, **changes})
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval().float()
    _random(model)
    return model


def encoder(kind: str, task: str = "Model", **changes: Any) -> torch.nn.Module:
    """A model that reads whole texts."""
    import transformers

    sizes = {k: v for k, v in _SIZES.items() if k != "num_key_value_heads"}
    config = getattr(transformers, f"{kind}Config")(**{**sizes, **changes})
    model = getattr(transformers, f"{kind}{task}")(config).eval().float()
    _random(model)
    return model


_TOWERS: dict[str, dict[str, Any]] = {
    "CLIPVision": {"num_channels": 3, "image_size": 30, "patch_size": 7},
    "SiglipVision": {"num_channels": 1, "image_size": 24, "patch_size": 8},
}


def _tower_config(kind: str, **changes: Any) -> Any:
    import transformers

    sizes = {"hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4}
    return getattr(transformers, f"{kind}Config")(**{**sizes, **_TOWERS[kind], **changes})


def tower(kind: str, **changes: Any) -> torch.nn.Module:
    """An encoder of images, CLIP's or SigLIP's."""
    import transformers

    model = getattr(transformers, f"{kind}Model")(_tower_config(kind, **changes)).eval().float()
    _random(model)
    return model


IMAGE_TOKEN = 90
"""Of models that see."""


def seeing(text: str, tower: str, **changes: Any) -> torch.nn.Module:
    """A model in LLaVA's way: a family of language models, an encoder of images, and two layers between them."""
    import transformers

    kind, settings = _FAMILIES[text]
    inner = getattr(transformers, f"{kind}Config")(**{**_SIZES, **settings, "max_position_embeddings": 128})
    config = transformers.LlavaConfig(
        **{"vision_config": _tower_config(tower, num_channels=3), "text_config": inner,
           "image_token_index": IMAGE_TOKEN, **changes}
    )  # fmt: skip
    model = transformers.LlavaForConditionalGeneration(config).eval().float()
    model.set_attn_implementation("eager")
    _random(model)
    return model


def saved_seeing(model: Any, folder: Path, **processor: Any) -> Path:
    """The folder of such a model, with the settings of a processor of images."""
    size = model.config.vision_config.image_size
    own = {"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": size},
           "crop_size": {"height": size, "width": size}, **processor}  # fmt: skip
    saved(model, folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(own))
    return folder


def saved(model: Any, folder: Path, *, shards: str = "5GB", dtype: torch.dtype | None = None) -> Path:
    """The folder of a model."""
    (model if dtype is None else model.to(dtype)).save_pretrained(folder, max_shard_size=shards)
    return folder


def quiet(run: Callable[[], Any]) -> Any:
    """What a function of transformers gives, without gradients."""
    with torch.no_grad():
        return run()
