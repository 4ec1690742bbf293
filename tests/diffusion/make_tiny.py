"""Makes `tiny/`, the smallest pipeline of diffusers: random weights in float16, and a tokenizer that splits at spaces.

PYTHONPATH=tests/diffusion:tests/converter/torch python tests/diffusion/make_tiny.py
"""

from __future__ import annotations

import shutil
from pathlib import Path

import torch
import torch_architectures  # noqa: F401  (it makes up for the operators of torchvision that are missing)
from diffusers import AutoencoderKL, StableDiffusionPipeline, UNet2DConditionModel
from small_pipelines import SCHEDULERS, random_weights, tokenizer
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import CLIPTextConfig, CLIPTextModel

_WORDS = ["<|startoftext|>", "<|endoftext|>", "a", "at", "boat", "cat", "night", "red", "sea", "the"]


def _tokenizer() -> Tokenizer:
    made = Tokenizer(models.WordPiece({word: id for id, word in enumerate(_WORDS)}, unk_token="a"))
    made.add_special_tokens(_WORDS[:2])
    made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    marks = [(word, id) for id, word in enumerate(_WORDS[:2])]
    made.post_processor = processors.TemplateProcessing("<|startoftext|> $A <|endoftext|>", special_tokens=marks)
    return made


def _pipeline() -> StableDiffusionPipeline:
    unet = UNet2DConditionModel(
        sample_size=4, layers_per_block=1, cross_attention_dim=8, norm_num_groups=2, attention_head_dim=2,
        block_out_channels=(4, 8), down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
    )  # fmt: skip
    vae = AutoencoderKL(
        block_out_channels=(4, 4), norm_num_groups=2, down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
    )  # fmt: skip
    text = CLIPTextModel(
        CLIPTextConfig(
            vocab_size=len(_WORDS), hidden_size=8, intermediate_size=12, num_hidden_layers=1, num_attention_heads=2,
            max_position_embeddings=8, bos_token_id=0, eos_token_id=1, pad_token_id=1,
        )
    )  # fmt: skip
    return StableDiffusionPipeline(
        unet=random_weights(unet, 1),
        vae=random_weights(vae, 2),
        text_encoder=random_weights(text, 3),
        tokenizer=tokenizer(),
        scheduler=SCHEDULERS["pndm"](),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


def main() -> None:
    folder = Path(__file__).with_name("tiny")
    shutil.rmtree(folder, ignore_errors=True)
    _pipeline().to(torch.float16).save_pretrained(folder)
    _tokenizer().save(str(folder / "tokenizer" / "tokenizer.json"), pretty=False)


if __name__ == "__main__":
    main()
