"""The networks of the comparison on a GPU, as PyTorch modules with random weights, and an input of each."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn


def _timm(name: str) -> Callable[[int], tuple[nn.Module, tuple[Any, ...]]]:
    def make(batch: int) -> tuple[nn.Module, tuple[Any, ...]]:
        import timm

        return timm.create_model(name, pretrained=False), (torch.randn(batch, 3, 224, 224),)

    return make


def _bert(batch: int) -> tuple[nn.Module, tuple[Any, ...]]:
    from transformers import BertConfig, BertModel

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bert = BertModel(BertConfig(attn_implementation="sdpa"), add_pooling_layer=False)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.bert(ids).last_hidden_state

    return Encoder(), (torch.randint(0, 30000, (batch, 128)),)


class _UNet(nn.Module):
    """Four levels, 32 to 256 channels, for 256 x 256 pictures."""

    def __init__(self) -> None:
        super().__init__()
        widths = [32, 64, 128, 256]

        def block(c: int, o: int) -> nn.Module:
            return nn.Sequential(
                nn.Conv2d(c, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(),
                nn.Conv2d(o, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(),
            )  # fmt: skip

        self.down = nn.ModuleList(block(c, o) for c, o in zip([3, *widths[:-1]], widths, strict=True))
        self.up = nn.ModuleList(nn.ConvTranspose2d(o, c, 2, stride=2) for c, o in itertools.pairwise(widths))
        self.join = nn.ModuleList(block(2 * c, c) for c in widths[:-1])
        self.head = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for i, block in enumerate(self.down):
            x = block(x if i == 0 else nn.functional.max_pool2d(x, 2))
            kept.append(x)
        for i in reversed(range(len(self.up))):
            x = self.join[i](torch.cat([kept[i], self.up[i](x)], 1))
        return self.head(x)


def _unet(batch: int) -> tuple[nn.Module, tuple[Any, ...]]:
    return _UNet(), (torch.randn(batch, 3, 256, 256),)


class _Last(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(256, 512, num_layers=2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lstm(x)[0]


def _lstm(batch: int) -> tuple[nn.Module, tuple[Any, ...]]:
    return _Last(), (torch.randn(batch, 128, 256),)


def _yolox(batch: int) -> tuple[nn.Module, tuple[Any, ...]]:
    from yolox import Detector

    return Detector(), (torch.randn(batch, 3, 416, 416),)


NETS: dict[str, Callable[[int], tuple[nn.Module, tuple[Any, ...]]]] = {
    "resnet50": _timm("resnet50"),
    "mobilenetv2": _timm("mobilenetv2_100"),
    "vit_s": _timm("vit_small_patch16_224"),
    "bert_base": _bert,
    "efficientnet_b0": _timm("efficientnet_b0"),
    "mobilenetv3": _timm("mobilenetv3_large_100"),
    "unet": _unet,
    "yolox_nano": _yolox,
    "lstm": _lstm,
}


def make(name: str, batch: int) -> tuple[nn.Module, tuple[Any, ...]]:
    """The module, for inference, and inputs on the CPU; the same numbers each time."""
    torch.manual_seed(0)
    module, inputs = NETS[name](batch)
    for part in module.modules():  # as after training: batch norms that do something
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.normal_(0, 0.1)
            part.running_var.uniform_(0.5, 1.5)
    return module.eval(), inputs
