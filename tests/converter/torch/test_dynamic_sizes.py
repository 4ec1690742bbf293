"""Layers exported for open sizes, run with sizes that are not those of the example."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch_oracle import difference, exported, flat, run  # noqa: E402

from minnow.converter.torch.reader import translate  # noqa: E402
from minnow.schema.errors import UnsupportedError  # noqa: E402

pytestmark = pytest.mark.slow

DIM = torch.export.Dim


def x_(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def check(module: Any, axes: tuple[int, ...], example: tuple[Any, ...], other: tuple[Any, ...]) -> None:
    """The model of a program whose inputs are open along some axes gives what PyTorch gives at other sizes."""
    torch.manual_seed(7)
    module = module if isinstance(module, nn.Module) else module()
    dynamic = tuple({a: DIM.AUTO for a in axes if a < x.ndim} for x in example)
    model = translate(exported(module, example, dynamic), "export")
    with torch.no_grad():
        want = flat(module.eval()(*other))
    for got, expected in zip(run(model, other), want, strict=True):
        assert difference(got, expected) <= 2e-5


@pytest.mark.parametrize(
    ("make", "axes", "example", "other"),
    [
        (lambda: nn.Conv2d(3, 4, 3, 2, padding=1), (0, 2, 3), (x_(2, 3, 8, 9),), (x_(3, 3, 11, 5),)),
        (lambda: nn.Conv1d(3, 4, 4, padding="same"), (0, 2), (x_(2, 3, 8),), (x_(1, 3, 13),)),
        (lambda: nn.ConvTranspose2d(3, 4, 3, 2, 1, 1), (2, 3), (x_(2, 3, 4, 5),), (x_(2, 3, 7, 2),)),
        (lambda: nn.MaxPool2d(3, 2, 1, return_indices=True), (0, 2, 3), (x_(2, 3, 8, 9),), (x_(3, 3, 11, 6),)),
        (lambda: nn.AdaptiveAvgPool2d(1), (0, 2, 3), (x_(2, 3, 8, 9),), (x_(3, 3, 11, 6),)),
        (lambda: nn.GroupNorm(3, 6), (0, 2), (x_(2, 6, 5),), (x_(3, 6, 7),)),
        (lambda: nn.LayerNorm(5), (0, 1), (x_(2, 6, 5),), (x_(4, 3, 5),)),
        (lambda: nn.Upsample(scale_factor=2), (0, 2, 3), (x_(2, 3, 4, 5),), (x_(3, 3, 7, 2),)),
        (lambda: nn.Upsample(scale_factor=2.5, mode="nearest-exact"), (2, 3), (x_(2, 3, 4, 5),), (x_(2, 3, 7, 2),)),
        (lambda: nn.Upsample(scale_factor=1.5, mode="bilinear"), (2, 3), (x_(2, 3, 4, 5),), (x_(2, 3, 7, 2),)),
        (lambda: nn.Upsample(scale_factor=2, mode="bicubic", align_corners=True), (2, 3), (x_(1, 2, 4, 5),),
         (x_(1, 2, 7, 3),)),
        (lambda: nn.PixelShuffle(2), (0, 2, 3), (x_(2, 8, 4, 5),), (x_(3, 8, 7, 2),)),
        (lambda: nn.PixelUnshuffle(2), (0,), (x_(2, 3, 4, 6),), (x_(5, 3, 4, 6),)),
        (lambda: nn.ReflectionPad2d((1, 2, 0, 1)), (0, 2, 3), (x_(2, 3, 4, 5),), (x_(3, 3, 7, 4),)),
        (lambda: nn.LSTM(3, 5, 2, bidirectional=True, batch_first=True), (0,), (x_(2, 4, 3),), (x_(3, 4, 3),)),
        (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (0, 1), (x_(2, 4, 8),), (x_(3, 7, 8),)),
        (lambda: nn.Embedding(5, 3), (0, 1), (torch.zeros(2, 4, dtype=torch.int64),), (torch.tensor([[1, 4, 2]]),)),
    ],
)  # fmt: skip
def test_layers(make: Any, axes: tuple[int, ...], example: tuple[Any, ...], other: tuple[Any, ...]) -> None:
    check(make, axes, example, other)


def test_attention_of_causal_masks() -> None:
    class Attention(nn.Module):
        def forward(self, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
            return F.scaled_dot_product_attention(q, k, k, is_causal=True)

    check(Attention(), (0, 2), (x_(2, 3, 4, 5), x_(2, 3, 6, 5)), (x_(3, 3, 7, 5), x_(3, 3, 2, 5)))


def test_what_needs_a_size_says_so() -> None:
    module = nn.AdaptiveAvgPool2d((3, 2))
    program = exported(module, (x_(2, 3, 8, 9),), ({2: DIM.AUTO},))
    with pytest.raises(UnsupportedError, match="known size"):
        translate(program, "export")


def test_a_scale_that_is_no_number_of_f32() -> None:
    program = exported(nn.Upsample(scale_factor=1.7), (x_(1, 2, 8, 9),), ({2: DIM.AUTO},))
    with pytest.raises(UnsupportedError, match="dynamic size"):
        translate(program, "export")
