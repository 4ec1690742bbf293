"""Architectures of transformers and timm with random weights, small enough to be exported in seconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

# The only wheels of torchvision are for CUDA; beside a PyTorch for CPU alone their operators are missing, and an import
# that describes these ends in an error.
for _name in ("nms", "qnms"):
    if not hasattr(torch.ops.torchvision, _name):
        torch.library.define(f"torchvision::{_name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

Made = tuple[torch.nn.Module, tuple[torch.Tensor, ...]]


class Named(torch.nn.Module):
    """A model of transformers, called by the names of its inputs, that gives one tensor."""

    def __init__(self, model: torch.nn.Module, names: tuple[str, ...], **options: Any) -> None:
        super().__init__()
        self.model = model
        self.names = names
        self.options = options

    def forward(self, *xs: torch.Tensor) -> torch.Tensor:
        return self.model(**dict(zip(self.names, xs, strict=True)), **self.options)[0]


def _tokens(vocabulary: int, length: int, batch: int = 1) -> torch.Tensor:
    return torch.randint(vocabulary, (batch, length), generator=torch.Generator().manual_seed(3))


def _floats(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(5))


def bert() -> Made:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=101, hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96
    )
    tokens = _tokens(101, 13, 2)
    mask = torch.ones_like(tokens)
    mask[1, 9:] = 0
    return Named(BertModel(config), ("input_ids", "attention_mask")), (tokens, mask)


def vit() -> Made:
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(image_size=32, patch_size=8, hidden_size=48, num_hidden_layers=2, num_attention_heads=4,
                       intermediate_size=96)  # fmt: skip
    return Named(ViTModel(config), ("pixel_values",)), (_floats(1, 3, 32, 32),)


def llama() -> Made:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(vocab_size=101, hidden_size=48, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2, intermediate_size=96, max_position_embeddings=64)  # fmt: skip
    return Named(LlamaForCausalLM(config), ("input_ids",), use_cache=False), (_tokens(101, 11),)


def whisper_encoder() -> Made:
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(num_mel_bins=16, d_model=48, encoder_layers=2, encoder_attention_heads=4,
                           encoder_ffn_dim=96, max_source_positions=20)  # fmt: skip
    return Named(WhisperEncoder(config), ("input_features",)), (_floats(1, 16, 40),)


def convnext() -> Made:
    from transformers import ConvNextConfig, ConvNextModel

    config = ConvNextConfig(hidden_sizes=[16, 24, 32, 40], depths=[1, 1, 2, 1], image_size=64)
    return Named(ConvNextModel(config), ("pixel_values",)), (_floats(1, 3, 64, 64),)


def mobilenetv3() -> Made:
    import timm

    return timm.create_model("mobilenetv3_small_050", pretrained=False), (_floats(1, 3, 64, 64),)


def resnet() -> Made:
    import timm

    return timm.create_model("resnet10t", pretrained=False), (_floats(1, 3, 64, 64),)


def efficientnet() -> Made:
    import timm

    return timm.create_model("efficientnet_lite0", pretrained=False), (_floats(1, 3, 64, 64),)


def swin() -> Made:
    from transformers import SwinConfig, SwinModel

    config = SwinConfig(image_size=32, patch_size=4, embed_dim=12, depths=[2, 2], num_heads=[2, 2], window_size=4)
    return Named(SwinModel(config), ("pixel_values",)), (_floats(1, 3, 32, 32),)


def gpt2() -> Made:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=101, n_embd=48, n_layer=2, n_head=4, n_positions=64)
    return Named(GPT2LMHeadModel(config), ("input_ids",), use_cache=False), (_tokens(101, 11),)


ARCHITECTURES: tuple[Callable[[], Made], ...] = (
    bert, vit, llama, whisper_encoder, convnext, mobilenetv3, resnet, efficientnet, swin, gpt2,
)  # fmt: skip


def make(architecture: Callable[[], Made]) -> Made:
    """The model, whose weights are the same each time, and its inputs."""
    torch.manual_seed(0)
    model, inputs = architecture()
    return model.eval(), inputs
