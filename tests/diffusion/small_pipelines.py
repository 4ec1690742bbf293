"""Small diffusion pipelines of diffusers with random weights."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch_architectures  # noqa: F401  (it makes up for the operators of torchvision that are missing)
from diffusers import (
    AutoencoderKL,
    DDIMScheduler,
    EulerDiscreteScheduler,
    PNDMScheduler,
    StableDiffusionPipeline,
    UNet2DConditionModel,
)
from diffusers.utils import logging
from tokenizers import pre_tokenizers
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

logging.disable_progress_bar()
torch.set_num_threads(1)

LENGTH = 20
_MARKS = ["<|startoftext|>", "<|endoftext|>"]
_MERGES = [("t", "h"), ("th", "e</w>"), ("c", "a"), ("ca", "t</w>"), ("l", "i"), ("1", "2</w>")]

SCHEDULERS: dict[str, Any] = {
    "ddim": lambda **more: DDIMScheduler(clip_sample=False, set_alpha_to_one=False, **_noise(more)),
    "euler": lambda **more: EulerDiscreteScheduler(timestep_spacing="leading", **_noise(more)),
    "pndm": lambda **more: PNDMScheduler(skip_prk_steps=True, **_noise(more)),
}


def _noise(more: dict[str, Any]) -> dict[str, Any]:
    return {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear", "steps_offset": 1, **more}


_UNETS: dict[str, dict[str, Any]] = {
    # As Stable Diffusion 1: as many heads everywhere, convolutions around the rows.
    "first": {
        "block_out_channels": (16, 32),
        "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
        "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
        "attention_head_dim": 4,
    },
    # As Stable Diffusion 2: more heads where there are more channels, layers around the rows; and deeper.
    "second": {
        "block_out_channels": (16, 32, 48),
        "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        "up_block_types": ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
        "attention_head_dim": (2, 4, 6),
        "use_linear_projection": True,
        "transformer_layers_per_block": (1, 1, 2),
        "flip_sin_to_cos": False,
        "freq_shift": 1,
    },
}
KINDS = tuple(_UNETS)


def vocabulary() -> dict[str, int]:
    """Tokens of texts: marks, bytes, bytes that end words, and what a few merges make."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = [*_MARKS, *alphabet, *(f"{c}</w>" for c in alphabet), *("".join(pair) for pair in _MERGES)]
    return {token: id for id, token in enumerate(tokens)}


def old_tokenizer(folder: Path) -> None:
    """Writes the files that tokenizers of CLIP had before there was tokenizer.json."""
    folder.mkdir(exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps(vocabulary()))
    merges = "\n".join(" ".join(pair) for pair in _MERGES)
    (folder / "merges.txt").write_text(f"#version: 0.2\n{merges}\n")
    settings = {"tokenizer_class": "CLIPTokenizer", "model_max_length": LENGTH, "pad_token": _MARKS[1]}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def tokenizer() -> CLIPTokenizer:
    return CLIPTokenizer(vocabulary(), list(_MERGES), model_max_length=LENGTH)


def random_weights(model: torch.nn.Module, seed: int) -> torch.nn.Module:
    """Weights and factors of norms that are neither 0 nor 1: what is forgotten shows."""
    torch.manual_seed(seed)
    for p in model.parameters():
        middle = 1.0 if p.dim() == 1 and p.detach().float().mean().item() > 0.5 else 0.0
        fan = p[0].numel() if p.dim() > 1 else 25
        torch.nn.init.normal_(p, middle, fan**-0.5)
    return model.eval()


@cache
def pipeline(kind: str, prediction: str = "epsilon") -> StableDiffusionPipeline:
    """A pipeline whose UNet is of a kind."""
    deep = kind == "second"
    blocks = 3 if deep else 2
    unet = UNet2DConditionModel(
        sample_size=8, layers_per_block=2 if deep else 1, cross_attention_dim=24, norm_num_groups=8, **_UNETS[kind]
    )
    vae = AutoencoderKL(
        block_out_channels=(8, 16, 16)[:blocks],
        down_block_types=("DownEncoderBlock2D",) * blocks,
        up_block_types=("UpDecoderBlock2D",) * blocks,
        norm_num_groups=4,
    )
    text = CLIPTextModel(
        CLIPTextConfig(
            vocab_size=len(vocabulary()), hidden_size=24, intermediate_size=40, num_hidden_layers=2,
            num_attention_heads=4, max_position_embeddings=LENGTH, bos_token_id=0, eos_token_id=1, pad_token_id=1,
            hidden_act="gelu" if deep else "quick_gelu",
        )
    )  # fmt: skip
    made = StableDiffusionPipeline(
        unet=random_weights(unet, 1),
        vae=random_weights(vae, 2),
        text_encoder=random_weights(text, 3),
        tokenizer=tokenizer(),
        scheduler=SCHEDULERS["ddim"](prediction_type=prediction),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )
    made.set_progress_bar_config(disable=True)
    return made


def saved(made: StableDiffusionPipeline, folder: Path) -> Path:
    made.save_pretrained(folder)
    return folder
