"""Operators of neural networks: activations, convolution, pooling, normalization, padding, resampling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
import torch_oracle  # noqa: E402

Function = Callable[..., Any]


def x_(*shape: int, dtype: Any = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape) + len(shape))).to(dtype)


def check(function: Function, *args: Any, **options: Any) -> None:
    """`torch_oracle.check` of the tensors among the arguments; the others are bound."""
    places = [i for i, a in enumerate(args) if isinstance(a, torch.Tensor)]

    def bound(*tensors: torch.Tensor) -> Any:
        given = dict(zip(places, tensors, strict=True))
        return function(*(given.get(i, a) for i, a in enumerate(args)))

    torch_oracle.check(bound, *(args[i] for i in places), **options)


ODD = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 25.0, -3.0, 0.5, -0.5, 1.0, -1.0, 88.0])


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "function",
    [
        F.relu, F.relu6, F.leaky_relu, F.elu, F.selu, F.celu, F.silu, F.mish, F.hardtanh, F.hardsigmoid,
        F.softshrink, F.softplus, F.logsigmoid, F.softsign, F.rrelu, torch.sigmoid,
        lambda x: F.elu(x, 0.7), lambda x: F.celu(x, 2.5), lambda x: F.celu(x, -0.5), lambda x: F.hardshrink(x, 0.3),
        lambda x: F.softplus(x, 2.0, 5.0), lambda x: F.threshold(x, 0.25, -7.0), lambda x: F.threshold(x, 0.0, 0.0),
        lambda x: F.hardtanh(x, -0.3, 0.7), lambda x: torch.ops.aten.elu(x, 0.5, 1.5, 2.0),
        lambda x: F.leaky_relu(x, -0.5), lambda x: F.gelu(x, approximate="tanh"),
    ],
)  # fmt: skip
def test_activations_of_numbers_that_are_not_ordinary(function: Function) -> None:
    check(function, ODD)


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (F.hardswish, (x_(3, 5),)),
        (F.gelu, (x_(3, 5),)),
        (F.glu, (x_(2, 6, 3), 1)),
        (F.glu, (x_(7, 2),)),
        (F.prelu, (x_(2, 3, 5), x_(3))),
        (F.prelu, (x_(4), x_(1))),
        (F.relu6, (torch.arange(-3, 9),)),
        (F.softmax, (x_(2, 3, 5), -2)),
        (F.softmax, (torch.tensor(3.0), 0)),
        (lambda x: F.softmax(x, 1, dtype=torch.float64), (x_(2, 5),)),
        (lambda x: F.softmin(x, 0), (x_(3, 5),)),
        (F.log_softmax, (torch.tensor([[1.0, -float("inf"), 2.0], [700.0, -700.0, 0.0]]), 1)),
        (F.mish, (x_(3, 7, dtype=torch.float16),)),
        (F.silu, (x_(0, 3),)),
    ],
)
def test_activations_along_axes_and_of_other_types(function: Function, args: tuple[Any, ...]) -> None:
    check(function, *args)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("function", "args"),
    [
        (F.conv1d, (x_(2, 3, 11), x_(5, 3, 3), x_(5), 2, 1)),
        (F.conv2d, (x_(2, 3, 7, 9), x_(4, 3, 3, 2), x_(4))),
        (lambda x, w: F.conv2d(x, w, padding="same", dilation=(2, 1)), (x_(1, 2, 7, 5), x_(3, 2, 2, 4))),
        (lambda x, w: F.conv1d(x, w, padding="valid", groups=3), (x_(1, 6, 9), x_(9, 2, 4))),
        (F.conv3d, (x_(1, 2, 4, 5, 3), x_(3, 2, 2, 3, 1), None, (1, 2, 1), (1, 0, 1))),
        (lambda x, w: F.conv_transpose1d(x, w, None, 2, 1, 1), (x_(2, 4, 5), x_(4, 3, 3))),
        (lambda x, w, b: F.conv_transpose2d(x, w, b, (2, 3), 1, (1, 0), 2, (1, 2)),
         (x_(1, 4, 5, 3), x_(4, 3, 3, 2), x_(6))),
        (lambda x, w: F.conv_transpose3d(x, w), (x_(1, 2, 2, 3, 2), x_(2, 3, 2, 1, 3))),
        (lambda x, w, b: torch.conv_tbc(x, w, b, 1), (x_(7, 2, 3), x_(3, 3, 5), x_(5))),
        (lambda x, w: torch.convolution(x, w, None, [1, 2], [0, 1], [1, 1], False, [0, 0], 1),
         (x_(1, 3, 5, 6), x_(2, 3, 3, 3))),
        (F.linear, (x_(2, 3, 5), x_(7, 5), x_(7))),
        (F.linear, (x_(5), x_(5))),
        (F.linear, (torch.arange(6).reshape(2, 3), torch.arange(12).reshape(4, 3))),
        (F.bilinear, (x_(2, 3, 5), x_(2, 3, 4), x_(6, 5, 4), x_(6))),
        (lambda v, g: torch._weight_norm(v, g, 0), (x_(3, 5, 2), x_(3, 1, 1))),
        (lambda v, g: torch._weight_norm(v, g, -1), (x_(3, 5), torch.tensor(2.0))),
    ],
)  # fmt: skip
def test_convolutions_and_products(function: Function, args: tuple[Any, ...]) -> None:
    check(function, *args)


def test_images_without_a_batch() -> None:
    check(F.conv2d, x_(3, 7, 9), x_(4, 3, 3, 2), x_(4))
    check(F.conv_transpose1d, x_(3, 7), x_(3, 2, 3))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("function", "args"),
    [
        (lambda x: F.max_pool1d(x, 3, 2, 1), (x_(2, 3, 11),)),
        (lambda x: F.max_pool2d(x, (3, 2), 2, 1, ceil_mode=True), (x_(3, 8, 7),)),
        (lambda x: F.max_pool2d(x, 3, 1, 0, (1, 2)), (torch.arange(48).reshape(1, 1, 6, 8),)),
        (lambda x: F.max_pool3d(x, 2), (x_(1, 2, 5, 4, 3),)),
        (lambda x: F.max_pool1d(x, 3, 2, 1, return_indices=True), (x_(2, 3, 11),)),
        (lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), (x_(2, 3, 7, 6),)),
        (lambda x: F.max_pool3d(x, 2, 1, return_indices=True), (x_(2, 3, 2, 4),)),
        (lambda x: F.avg_pool1d(x, 3, 2, 1, True, False), (x_(2, 3, 10),)),
        (lambda x: F.avg_pool2d(x, 3, 2, 1, True), (x_(2, 3, 8, 7),)),
        (lambda x: F.avg_pool2d(x, (3, 2), (2, 3), (1, 0), True, True, 5), (x_(2, 3, 8, 7),)),
        (lambda x: F.avg_pool3d(x, 2, 1, 1, False, False, 3), (x_(2, 4, 5, 3),)),
        (lambda x: F.adaptive_avg_pool1d(x, 3), (x_(2, 3, 7),)),
        (lambda x: F.adaptive_avg_pool2d(x, (5, 3)), (x_(3, 7, 11),)),
        (lambda x: F.adaptive_avg_pool2d(x, 1), (x_(2, 3, 7, 5),)),
        (lambda x: F.adaptive_avg_pool2d(x, (7, 4)),
         (torch.cat([x_(1, 2, 3, 6), torch.full((1, 2, 1, 6), torch.inf)], 2),)),
        (lambda x: F.adaptive_avg_pool3d(x, (2, 3, 2)), (x_(1, 2, 5, 4, 3),)),
        (lambda x: F.adaptive_max_pool1d(x, 4, True), (x_(2, 3, 7),)),
        (lambda x: F.adaptive_max_pool2d(x, (3, 5), True), (x_(2, 3, 7, 11),)),
        (lambda x: F.adaptive_max_pool3d(x, 2, True), (x_(2, 4, 5, 6),)),
        (lambda x, i: F.max_unpool2d(x, i, 2, 2, output_size=(5, 7)),
         F.max_pool2d(x_(2, 3, 5, 7), 2, 2, return_indices=True)),
    ],
)  # fmt: skip
def test_pooling(function: Function, args: tuple[Any, ...]) -> None:
    check(function, *args, roads=["export"])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.avg_pool2d(x, 2560, ceil_mode=True),
        lambda x: F.avg_pool2d(x, (2560, 4), ceil_mode=True),
        lambda x: F.avg_pool2d(x, 12, 4, 1, True, False),
        lambda x: F.avg_pool2d(x, (20, 12), (10, 2), (3, 2), True, True),
        lambda x: F.avg_pool2d(x, 2560, ceil_mode=True, divisor_override=7),
        lambda x: F.avg_pool2d(x, (20, 4), (10, 3), (3, 2), True, False, 11),
        lambda x: F.max_pool2d(x, 2560, ceil_mode=True),
        lambda x: F.max_pool2d(x, (20, 12), (10, 2), (3, 2), 1, True),
        lambda x: F.max_pool2d(x, (5, 4), 9, 1, (4, 5), ceil_mode=True),
        lambda x: F.max_pool2d(x, 20, ceil_mode=True, return_indices=True),
        lambda x: F.avg_pool1d(x[:, 0], 40, ceil_mode=True),
        lambda x: F.max_pool1d(x[:, 0], 40, ceil_mode=True),
        lambda x: F.max_pool3d(x[None], 40, 50, 1, 1, True),
    ],
)  # fmt: skip
def test_windows_larger_than_the_input(function: Function) -> None:
    """With `ceil_mode` there is one window that reaches over the end."""
    check(function, x_(2, 3, 9, 9), roads=["export"])


def test_a_window_larger_than_the_input_through_a_file(tmp_path: Any) -> None:
    torch_oracle.check(torch.nn.AvgPool2d(2560, ceil_mode=True), x_(1, 4, 9, 9), roads=["script"])


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("function", "args"),
    [
        (F.batch_norm, (x_(2, 3, 5), x_(3), x_(3).abs(), x_(3), x_(3))),
        (F.batch_norm, (x_(5, 3), x_(3), x_(3).abs())),
        (lambda x: F.batch_norm(x, None, None, training=True), (x_(2, 3, 4, 5),)),
        (lambda x, m, v: (F.batch_norm(x, m, v, training=True, momentum=0.3), m, v), (x_(2, 3, 4), x_(3), x_(3).abs())),
        (torch.ops.aten._native_batch_norm_legit_no_training,
         (x_(2, 3, 5), x_(3), None, x_(3), x_(3).abs(), 0.1, 1e-3)),
        (F.instance_norm, (x_(2, 3, 7),)),
        (lambda x, w, b: F.instance_norm(x, weight=w, bias=b), (x_(2, 3, 5, 4), x_(3), x_(3))),
        (lambda x, m, v: F.instance_norm(x, m, v, use_input_stats=False), (x_(2, 3, 5), x_(3), x_(3).abs())),
        (F.group_norm, (x_(2, 6, 5), 3, x_(6), x_(6))),
        (lambda x: torch.ops.aten.native_group_norm(x, None, None, 2, 6, 20, 2, 1e-5), (x_(2, 6, 5, 4),)),
        (F.layer_norm, (x_(2, 3, 5), (3, 5), x_(3, 5))),
        (lambda x, w, b: torch.ops.aten.native_layer_norm(x, [5], w, b, 1e-5), (x_(2, 3, 5), x_(5), x_(5))),
        (F.layer_norm, (x_(2, 3, 5, dtype=torch.float16), (5,))),
        (F.rms_norm, (x_(2, 3, 5), (3, 5), x_(3, 5))),
        (F.rms_norm, (x_(2, 5, dtype=torch.float16) * 1e-3, (5,))),
        (lambda x, w: torch.ops.aten._fused_rms_norm(x, [5], w, 1e-3), (x_(3, 5), x_(5))),
    ],
)  # fmt: skip
def test_normalization(function: Function, args: tuple[Any, ...]) -> None:
    check(function, *args)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("function", "args"),
    [
        (lambda x: F.pad(x, (1, 2, 0, 3), value=1.5), (x_(2, 3, 5),)),
        (lambda x: F.pad(x, (-1, 2, 3, -2), value=-1), (torch.arange(35).reshape(5, 7),)),
        (lambda x: F.pad(x, (2, 1), mode="reflect"), (x_(3, 5),)),
        (lambda x: F.pad(x, (2, -1, -1, 3), mode="reflect"), (x_(1, 2, 6, 5),)),
        (lambda x: F.pad(x, (-4, 5, 1, 0), mode="replicate"), (x_(1, 2, 3, 4),)),
        (lambda x: F.pad(x, (2, 1, 1, 0, 1, 1), mode="replicate"), (x_(1, 2, 3, 4, 2),)),
        (lambda x: F.pad(x, (2, 3, 1, -1), mode="circular"), (x_(1, 2, 3, 4),)),
        (lambda x: F.pixel_shuffle(x, 3), (x_(2, 18, 2, 5),)),
        (lambda x: F.pixel_shuffle(x, 2), (x_(2, 3, 8, 2, 5),)),
        (lambda x: F.pixel_shuffle(x, 2), (x_(4, 2, 5),)),
        (lambda x: F.pixel_unshuffle(x, 2), (x_(3, 2, 4, 6),)),
        (lambda x: F.channel_shuffle(x, 3), (x_(2, 6, 5),)),
        (lambda x: F.unfold(x, (2, 3), (1, 2), 1, (2, 1)), (x_(2, 3, 6, 7),)),
        (lambda x: F.unfold(x, 2), (torch.tensor([[[1.0, float("inf")], [2.0, float("nan")]]]),)),
        (lambda x: F.fold(x, (5, 6), (2, 3), padding=1, stride=2), (x_(2, 12, 9),)),
        (lambda x: F.fold(x, (3, 4), 2), (x_(8, 6),)),
    ],
)
def test_padding_and_movement(function: Function, args: tuple[Any, ...]) -> None:
    check(function, *args)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("shape", "keywords"),
    [
        ((1, 2, 7), {"size": 5}),
        ((1, 2, 7), {"scale_factor": 3}),
        ((2, 3, 5, 7), {"scale_factor": (2, 3)}),
        ((2, 3, 5, 7), {"size": (11, 3)}),
        ((2, 3, 5, 7), {"scale_factor": 1.7}),
        ((1, 2, 3, 5, 4), {"size": (4, 5, 9)}),
        ((2, 3, 5, 7), {"size": (11, 3), "mode": "nearest-exact"}),
        ((2, 3, 7), {"scale_factor": 2, "mode": "nearest-exact"}),
        ((1, 2, 7), {"size": 12, "mode": "linear"}),
        ((1, 2, 7), {"scale_factor": 0.6, "mode": "linear"}),
        ((1, 2, 5, 7), {"size": (9, 1), "mode": "bilinear", "align_corners": True}),
        ((1, 2, 5, 7), {"scale_factor": (2, 2.5), "mode": "bilinear"}),
        ((1, 2, 5, 7), {"scale_factor": 1.3, "mode": "bilinear", "recompute_scale_factor": True}),
        ((1, 2, 10, 7), {"scale_factor": 0.7, "mode": "bilinear"}),
        ((1, 2, 5, 7), {"size": (8, 3), "mode": "bicubic"}),
        ((1, 2, 5, 7), {"scale_factor": 1.37, "mode": "bicubic"}),
        ((1, 2, 5, 7), {"size": (8, 3), "mode": "bicubic", "align_corners": True}),
        ((1, 2, 3, 4, 5), {"size": (5, 3, 9), "mode": "trilinear"}),
        ((1, 2, 3, 4, 5), {"scale_factor": 1.9, "mode": "trilinear"}),
        ((1, 2, 9, 11), {"size": (4, 13), "mode": "bilinear", "antialias": True}),
        ((1, 2, 9, 11), {"size": (4, 7), "mode": "bicubic", "antialias": True}),
        ((1, 2, 9, 11), {"scale_factor": 0.37, "mode": "bicubic", "antialias": True}),
        ((1, 2, 9, 11), {"size": (4, 7), "mode": "bilinear", "antialias": True, "align_corners": True}),
        ((1, 2, 9, 11), {"size": (4, 7), "mode": "area"}),
    ],
)
def test_interpolation(shape: tuple[int, ...], keywords: dict[str, Any]) -> None:
    check(lambda x: F.interpolate(x, **keywords), x_(*shape), roads=["export"])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_sampling_on_a_grid(mode: str, padding: str) -> None:
    def sample(x: torch.Tensor, grid: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(F.grid_sample(x, grid, mode, padding, align_corners=a) for a in (False, True))

    check(sample, x_(2, 3, 5, 7), x_(2, 4, 3, 2), roads=["export"])


def test_sampling_of_volumes_on_an_affine_grid() -> None:
    def sample(x: torch.Tensor, theta: torch.Tensor) -> torch.Tensor:
        return F.grid_sample(x, F.affine_grid(theta, [2, 3, 4, 1, 5], align_corners=True), align_corners=True)

    check(sample, x_(2, 3, 3, 4, 5), x_(2, 3, 4))
    check(lambda theta: F.affine_grid(theta, [2, 3, 4, 5], align_corners=False), x_(2, 2, 3))
