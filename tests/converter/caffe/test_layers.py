"""Each layer of Caffe on its own, judged by PyTorch, and by OpenCV, which has a Caffe reader of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from caffe_one import Array, by_opencv, by_us, definition, layer, write

import minnow
from minnow.converter import read
from minnow.schema.mnn import encode

torch = pytest.importorskip("torch")
F = torch.nn.functional


@dataclass
class Case:
    """One layer.

    Attributes:
        shapes: of the bottoms.
        judge: (bottoms, blobs) as tensors -> the tops.
        blobs: shapes, or arrays.
        opencv: whether OpenCV computes what Caffe does; a reason where it does not.
        make: the bottoms, by default normal numbers.
    """

    type: str
    params: str
    shapes: Sequence[Sequence[int]]
    judge: Callable[..., Any]
    blobs: Sequence[Any] = ()
    tops: int = 1
    opencv: bool | str = True
    make: Callable[[Any, Sequence[int]], Array] = lambda rng, shape: rng.standard_normal(shape)

    def __str__(self) -> str:
        return f"{self.type}-{self.params}"


def positive(rng: Any, shape: Sequence[int]) -> Array:
    return rng.uniform(0.1, 3, shape)


def levels(rng: Any, shape: Sequence[int]) -> Array:
    """Numbers that are equal here and there."""
    return rng.integers(-3, 4, shape)


def conv(**named: Any) -> Callable[..., Any]:
    return lambda x, w, b=None: getattr(F, f"conv{w.ndim - 2}d")(x, w, b, **named)


def deconv(**named: Any) -> Callable[..., Any]:
    return lambda x, w, b=None: getattr(F, f"conv_transpose{w.ndim - 2}d")(x, w, b, **named)


def channels(x: Any, v: Any, axis: int = 1) -> Any:
    """v so that it is broadcast from an axis of x on."""
    return v.reshape(*v.shape, *(1,) * (x.ndim - axis - v.ndim))


def mean_pool(kernel: int, stride: int, pad: int) -> Callable[[Any], Any]:
    return lambda x: F.avg_pool2d(x, kernel, stride, pad, ceil_mode=True, count_include_pad=True)


def max_pool(kernel: Any, stride: Any, pad: Any = 0, up: bool = True) -> Callable[[Any], Any]:
    return lambda x: F.max_pool2d(x, kernel, stride, pad, ceil_mode=up)


def within(size: int, alpha: float, beta: float) -> Callable[[Any], Any]:
    def judge(x: Any) -> Any:
        mean = F.avg_pool2d(x * x, size, 1, size // 2, count_include_pad=True)
        return x * (1 + alpha * mean) ** -beta

    return judge


def mvn(axes: tuple[int, ...], variance: bool = True, eps: float = 1e-9) -> Callable[[Any], Any]:
    def judge(x: Any) -> Any:
        centered = x - x.mean(axes, keepdim=True)
        return centered / (x.std(axes, keepdim=True, correction=0) + eps) if variance else centered

    return judge


def stochastic(x: Any) -> Any:
    windows = x.unfold(2, 2, 2).unfold(3, 2, 2).flatten(4)
    return (windows * windows).sum(-1) / windows.sum(-1)


def pyramid(x: Any) -> Any:
    h, w = x.shape[2:]
    out = []
    for bins in (1, 2, 4):
        kernel = [-(-h // bins), -(-w // bins)]
        pad = [(k * bins - s + 1) // 2 for k, s in zip(kernel, (h, w), strict=True)]
        out.append(F.max_pool2d(x, kernel, kernel, pad, ceil_mode=True)[:, :, :bins, :bins].flatten(1))
    return torch.cat(out, 1)


def places(x: Any) -> tuple[Any, Any]:
    y, at = F.max_pool2d(x, 2, 2, return_indices=True)
    return y, at.float()


def best(x: Any, k: int, with_values: bool) -> Any:
    """The k largest of each row; of equal ones, those behind come first."""
    flat = x.flatten(1)
    n = flat.shape[1]
    order = torch.argsort(flat.flip(1), dim=1, descending=True, stable=True)[:, :k]
    at = (n - 1 - order).float()
    return torch.stack([at, torch.gather(flat, 1, n - 1 - order)], 1) if with_values else at[:, None]


CASES = [
    Case("AbsVal", "", [(2, 3, 5)], torch.abs),
    Case("BNLL", "", [(2, 3, 5)], F.softplus),
    Case("Sigmoid", "", [(2, 3, 5)], torch.sigmoid),
    Case("TanH", "", [(2, 3, 5)], torch.tanh),
    Case("ReLU", "", [(2, 3, 5, 7)], torch.relu),
    Case("ReLU", "relu_param { negative_slope: 0.25 engine: CUDNN }", [(2, 3, 5)], lambda x: F.leaky_relu(x, 0.25)),
    Case("ELU", "elu_param { alpha: 0.5 }", [(2, 3, 5)], lambda x: F.elu(x, 0.5)),
    Case("ELU", "", [(2, 3, 5)], F.elu),
    Case("PReLU", "", [(2, 3, 5, 7)], F.prelu, [(3,)]),
    Case("PReLU", "prelu_param { channel_shared: true }", [(2, 3, 5)], F.prelu, [(1,)]),
    Case("PReLU", "", [(2, 3)], F.prelu, [(3,)]),
    Case("Power", "power_param { power: 2 scale: 0.5 shift: 1 }", [(2, 3)], lambda x: (1 + 0.5 * x) ** 2),
    Case("Power", "power_param { power: -1.5 scale: 2 shift: 1 }", [(2, 3)], lambda x: (1 + 2 * x) ** -1.5,
         make=positive),
    Case("Power", "power_param { scale: -3 }", [(2, 3)], lambda x: -3 * x),
    Case("Power", "power_param { power: 3 }", [(2, 3)], lambda x: x**3),
    Case("Power", "power_param { power: 0 scale: 2 shift: 3 }", [(2, 3)], torch.ones_like),
    Case("Power", "", [(2, 3)], lambda x: x),
    Case("Exp", "", [(2, 3)], torch.exp),
    Case("Exp", "exp_param { base: 2 scale: 0.5 shift: 1 }", [(2, 3)], lambda x: 2 ** (1 + 0.5 * x)),
    Case("Log", "", [(2, 3)], torch.log, make=positive, opencv="OpenCV has no Log"),
    Case("Log", "log_param { base: 10 scale: 2 shift: 1 }", [(2, 3)], lambda x: torch.log10(1 + 2 * x), make=positive,
         opencv="OpenCV has no Log"),
    Case("Threshold", "threshold_param { threshold: 0.5 }", [(2, 3, 5)], lambda x: (x > 0.5).float(),
         opencv="OpenCV has no Threshold"),
    Case("Threshold", "", [(2, 3, 5)], lambda x: (x > 0).float(), make=levels, opencv="OpenCV has no Threshold"),
    Case("Swish", "", [(2, 3)], F.silu, opencv="OpenCV has no scale for it"),
    Case("Swish", "swish_param { beta: 2 }", [(2, 3)], lambda x: x * torch.sigmoid(2 * x),
         opencv="OpenCV has no scale for it"),
    Case("Clip", "clip_param { min: -0.5 max: 1 }", [(2, 3, 5)], lambda x: x.clamp(-0.5, 1), opencv="no Clip"),
    Case("Dropout", "dropout_param { dropout_ratio: 0.9 }", [(2, 3)], lambda x: x),
    Case("Dropout", "dropout_param { dropout_ratio: 0.75 scale_train: false }", [(2, 3)], lambda x: x * 0.25,
         opencv="OpenCV never scales"),
    # products
    Case("Convolution", "convolution_param { num_output: 4 kernel_size: 3 pad: 1 stride: 2 }", [(2, 3, 7, 9)],
         conv(padding=1, stride=2), [(4, 3, 3, 3), (4,)]),
    Case("Convolution", "convolution_param { num_output: 4 bias_term: false kernel_h: 3 kernel_w: 1 pad_h: 2 "
         "stride_w: 2 stride_h: 1 }", [(1, 3, 7, 9)], conv(padding=(2, 0), stride=(1, 2)), [(4, 3, 3, 1)],
         opencv="OpenCV wants both of a pair"),
    Case("Convolution", "convolution_param { num_output: 6 group: 3 kernel_size: 3 dilation: 2 pad: 2 engine: CAFFE }",
         [(2, 3, 7, 9)], conv(padding=2, dilation=2, groups=3), [(6, 1, 3, 3), (6,)]),
    Case("Convolution", "convolution_param { num_output: 4 kernel_size: 3 kernel_size: 2 pad: 1 pad: 0 stride: 2 "
         "stride: 1 dilation: 1 dilation: 3 }", [(2, 3, 7, 9)],
         conv(padding=(1, 0), stride=(2, 1), dilation=(1, 3)), [(4, 3, 3, 2), (4,)]),
    Case("Convolution", "convolution_param { num_output: 4 kernel_size: 3 }", [(2, 3, 9)], conv(), [(4, 3, 3), (4,)],
         opencv="OpenCV knows kernels of images only"),
    Case("Convolution", "convolution_param { num_output: 2 kernel_size: 3 kernel_size: 2 kernel_size: 1 pad: 1 "
         "force_nd_im2col: true }", [(1, 3, 5, 4, 3)], conv(padding=1), [(2, 3, 3, 2, 1), (2,)],
         opencv="OpenCV takes one number for two axes"),
    Case("Convolution", "convolution_param { num_output: 4 kernel_size: 3 axis: 2 }", [(2, 5, 3, 7, 9)],
         lambda x, w, b: F.conv2d(x.flatten(0, 1), w, b).unflatten(0, (2, 5)), [(4, 3, 3, 3), (4,)],
         opencv="OpenCV does not know axis"),
    Case("ConvolutionDepthwise", "convolution_param { num_output: 3 group: 3 kernel_size: 3 }", [(1, 3, 7, 9)],
         conv(groups=3), [(3, 1, 3, 3), (3,)], opencv="OpenCV has no such layer"),
    Case("Deconvolution", "convolution_param { num_output: 4 kernel_size: 4 stride: 2 pad: 1 }", [(2, 3, 5, 7)],
         deconv(stride=2, padding=1), [(3, 4, 4, 4), (4,)]),
    Case("Deconvolution", "convolution_param { num_output: 6 group: 3 kernel_size: 3 stride: 2 bias_term: false }",
         [(2, 3, 5, 7)], deconv(stride=2, groups=3), [(3, 2, 3, 3)]),
    Case("Deconvolution", "convolution_param { num_output: 4 kernel_size: 3 dilation: 2 stride: 3 }", [(1, 3, 5, 7)],
         deconv(stride=3, dilation=2), [(3, 4, 3, 3), (4,)], opencv="OpenCV does not dilate"),
    Case("Deconvolution", "convolution_param { num_output: 2 kernel_size: 3 stride: 2 }", [(1, 3, 5)], deconv(stride=2),
         [(3, 2, 3), (2,)], opencv="OpenCV knows kernels of images only"),
    Case("Im2col", "convolution_param { kernel_size: 3 stride: 2 pad: 1 dilation: 2 }", [(2, 3, 7, 9)],
         lambda x: F.unfold(x, 3, 2, 1, 2).unflatten(2, (3, 4)), opencv="no Im2col"),
    Case("InnerProduct", "inner_product_param { num_output: 5 }", [(2, 3, 5, 7)],
         lambda x, w, b: F.linear(x.flatten(1), w, b), [(5, 105), (5,)]),
    Case("InnerProduct", "inner_product_param { num_output: 5 bias_term: false axis: 2 }", [(2, 3, 5, 7)],
         lambda x, w: F.linear(x.flatten(2), w), [(5, 35)]),
    Case("InnerProduct", "inner_product_param { num_output: 5 axis: -1 transpose: true }", [(2, 3, 7)],
         lambda x, w, b: x @ w + b, [(7, 5), (5,)], opencv="OpenCV does not transpose"),
    Case("InnerProduct", "inner_product_param { num_output: 4 }", [(2, 3)],
         lambda x, w, b: F.linear(x, w[0, 0], b.flatten()), [(1, 1, 4, 3), (1, 1, 1, 4)]),
    Case("Embed", "embed_param { num_output: 3 input_dim: 7 }", [(2, 5)],
         lambda x, w, b: F.embedding(x.long(), w) + b, [(7, 3), (3,)], make=lambda rng, s: rng.integers(0, 7, s),
         opencv="no Embed"),
    # pooling
    Case("Pooling", "pooling_param { pool: MAX kernel_size: 3 stride: 2 }", [(2, 3, 8, 9)], max_pool(3, 2)),
    Case("Pooling", "pooling_param { kernel_size: 3 stride: 2 pad: 1 }", [(2, 3, 8, 11)], max_pool(3, 2, 1)),
    Case("Pooling", "pooling_param { kernel_h: 2 kernel_w: 3 stride_h: 2 stride_w: 1 pad_h: 1 pad_w: 0 }",
         [(2, 3, 8, 9)], max_pool((2, 3), (2, 1), (1, 0))),
    Case("Pooling", "pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 }", [(2, 3, 8, 11)], mean_pool(3, 2, 1)),
    Case("Pooling", "pooling_param { pool: AVE kernel_size: 3 stride: 2 }", [(2, 3, 8, 10)], mean_pool(3, 2, 0)),
    Case("Pooling", "pooling_param { pool: AVE kernel_size: 5 stride: 3 pad: 2 }", [(1, 2, 9, 10)], mean_pool(5, 3, 2)),
    Case("Pooling", "pooling_param { kernel_size: 3 stride: 2 round_mode: FLOOR }", [(2, 3, 8, 8)],
         max_pool(3, 2, 0, False), opencv="OpenCV does not know round_mode"),
    Case("Pooling", "pooling_param { kernel_size: 3 stride: 2 ceil_mode: false }", [(2, 3, 8, 8)],
         max_pool(3, 2, 0, False)),
    Case("Pooling", "pooling_param { pool: AVE global_pooling: true }", [(2, 3, 5, 7)],
         lambda x: x.mean((2, 3), keepdim=True)),
    Case("Pooling", "pooling_param { pool: MAX global_pooling: true }", [(2, 3, 5, 7)],
         lambda x: x.amax((2, 3), keepdim=True)),
    Case("Pooling", "pooling_param { kernel_size: 2 stride: 2 }", [(2, 3, 6, 8)], places, tops=2),
    Case("Pooling", "pooling_param { pool: AVE kernel_size: 7 stride: 4 }", [(2, 3, 5, 6)],
         lambda x: x.mean((2, 3), keepdim=True), opencv="OpenCV finds it too large"),
    Case("Pooling", "pooling_param { pool: AVE kernel_size: 7 stride: 3 pad: 1 }", [(2, 3, 4, 4)],
         lambda x: x.sum((2, 3), keepdim=True) / 36, opencv="OpenCV finds it too large"),
    Case("Pooling", "pooling_param { pool: STOCHASTIC kernel_size: 2 stride: 2 }", [(2, 3, 6, 8)], stochastic,
         make=positive, opencv="no stochastic pooling"),
    Case("SPP", "spp_param { pyramid_height: 3 pool: MAX }", [(2, 3, 13, 11)], pyramid, opencv="no SPP"),
    Case("SPP", "spp_param { pyramid_height: 1 pool: AVE }", [(2, 3, 5, 7)], lambda x: x.mean((2, 3), keepdim=True),
         opencv="no SPP"),
    # normalization
    Case("LRN", "lrn_param { local_size: 5 alpha: 0.5 beta: 0.75 }", [(2, 7, 3, 5)],
         lambda x: F.local_response_norm(x, 5, 0.5, 0.75, 1)),
    Case("LRN", "lrn_param { local_size: 3 alpha: 0.1 beta: 0.5 k: 2 }", [(2, 7, 3, 5)],
         lambda x: F.local_response_norm(x, 3, 0.1, 0.5, 2), opencv="OpenCV takes k for 1"),
    Case("LRN", "lrn_param { norm_region: WITHIN_CHANNEL local_size: 3 alpha: 0.5 k: 9 }", [(2, 3, 7, 5)],
         within(3, 0.5, 0.75), opencv="OpenCV adds k"),
    Case("BatchNorm", "batch_norm_param { eps: 0.001 }", [(2, 3, 5, 7)],
         lambda x, m, v, s: F.batch_norm(x, m / s, v.abs() / s, eps=0.001), [(3,), np.float32([1, 2, 0.5]),
         np.float32([2])]),
    Case("BatchNorm", "", [(2, 3)], lambda x, m, v, s: F.batch_norm(x, 0 * m, 0 * v),
         [(3,), np.float32([1, 2, 3]), np.float32([0])]),
    Case("BatchNorm", "batch_norm_param { use_global_stats: false }", [(2, 3, 5, 7)],
         lambda x, *_: F.batch_norm(x, None, None, training=True), [(3,), (3,), (1,)], opencv="OpenCV keeps the sums"),
    Case("Scale", "", [(2, 3, 5, 7)], lambda x, w: x * channels(x, w), [(3,)]),
    Case("Scale", "scale_param { bias_term: true }", [(2, 3, 5, 7)],
         lambda x, w, b: x * channels(x, w) + channels(x, b), [(3,), (3,)]),
    Case("Scale", "scale_param { axis: 2 num_axes: 2 bias_term: true }", [(2, 3, 5, 7)], lambda x, w, b: x * w + b,
         [(5, 7), (5, 7)], opencv="OpenCV flattens the factors"),
    Case("Scale", "scale_param { axis: 1 num_axes: -1 }", [(2, 3, 5)], lambda x, w: x * w, [(3, 5)], opencv="as above"),
    Case("Scale", "scale_param { num_axes: 0 }", [(2, 3, 5)], lambda x, w: x * w, [()], opencv="as above"),
    Case("Scale", "scale_param { axis: 0 }", [(2, 3, 5), (2, 3)], lambda x, w: x * channels(x, w, 0),
         opencv="as above"),
    Case("Scale", "scale_param { axis: 0 bias_term: true }", [(2, 3, 5), (2,)],
         lambda x, w, b: x * channels(x, w, 0) + channels(x, b, 0), [(2,)], opencv="as above"),
    Case("Bias", "", [(2, 3, 5, 7)], lambda x, v: x + channels(x, v), [(3,)], opencv="OpenCV reads factors here"),
    Case("Bias", "bias_param { axis: -1 }", [(2, 3, 5), (5,)], lambda x, v: x + v, opencv="as above"),
    Case("MVN", "", [(2, 3, 5, 7)], mvn((2, 3))),
    Case("MVN", "mvn_param { across_channels: true eps: 0.1 }", [(2, 3, 5, 7)], mvn((1, 2, 3), eps=0.1),
         opencv="OpenCV adds eps before the root"),
    Case("MVN", "mvn_param { normalize_variance: false }", [(2, 3, 5, 7)], mvn((2, 3), False)),
    Case("Softmax", "", [(2, 3, 5, 7)], lambda x: x.softmax(1)),
    Case("Softmax", "softmax_param { axis: -1 }", [(2, 3, 5)], lambda x: x.softmax(-1)),
    # movement
    Case("Concat", "", [(2, 3, 5), (2, 4, 5), (2, 1, 5)], lambda *x: torch.cat(x, 1)),
    Case("Concat", "concat_param { axis: -1 }", [(2, 3, 5), (2, 3, 2)], lambda *x: torch.cat(x, -1)),
    Case("Concat", "concat_param { concat_dim: 0 }", [(2, 3), (1, 3)], lambda *x: torch.cat(x, 0),
         opencv="OpenCV does not know concat_dim"),
    Case("Slice", "slice_param { slice_point: 1 slice_point: 4 }", [(2, 6, 3)], lambda x: torch.split(x, [1, 3, 2], 1),
         tops=3),
    Case("Slice", "slice_param { axis: 2 }", [(2, 3, 6)], lambda x: torch.chunk(x, 3, 2), tops=3,
         opencv="OpenCV cuts in as many as are read"),
    Case("Slice", "slice_param { slice_dim: 0 slice_point: 1 }", [(3, 2)], lambda x: torch.split(x, [1, 2], 0), tops=2,
         opencv="OpenCV does not know slice_dim"),
    Case("Split", "", [(2, 3)], lambda x: (x, x), tops=2, opencv="OpenCV copies for those that read"),
    Case("Flatten", "", [(2, 3, 5, 7)], lambda x: x.flatten(1)),
    Case("Flatten", "flatten_param { axis: -3 end_axis: 2 }", [(2, 3, 5, 7)], lambda x: x.flatten(1, 2)),
    Case("Reshape", "reshape_param { shape { dim: 0 dim: -1 dim: 5 } }", [(2, 3, 5, 7)], lambda x: x.reshape(2, 21, 5)),
    Case("Reshape", "reshape_param { shape { dim: 3 dim: -1 } axis: 1 num_axes: 2 }", [(2, 6, 5, 7)],
         lambda x: x.reshape(2, 3, 10, 7)),
    Case("Reshape", "reshape_param { shape { dim: 1 dim: 1 } axis: -1 num_axes: 0 }", [(2, 3)],
         lambda x: x.reshape(2, 3, 1, 1), opencv="OpenCV counts this axis otherwise"),
    Case("Reshape", "reshape_param { shape { dim: 0 dim: 0 dim: -1 } }", [(2, 3, 5, 7)], lambda x: x.reshape(2, 3, 35)),
    Case("Permute", "permute_param { order: 0 order: 2 order: 3 order: 1 }", [(2, 3, 5, 7)],
         lambda x: x.permute(0, 2, 3, 1)),
    Case("Permute", "permute_param { order: 2 }", [(2, 3, 5)], lambda x: x.permute(2, 0, 1), opencv="all axes only"),
    Case("Tile", "tile_param { axis: 2 tiles: 3 }", [(2, 3, 5)], lambda x: x.tile(1, 1, 3), opencv="no Tile"),
    Case("Crop", "crop_param { axis: 2 offset: 1 offset: 2 }", [(2, 3, 7, 9), (1, 1, 4, 5)],
         lambda x, r: x[:, :, 1:5, 2:7]),
    Case("Crop", "crop_param { offset: 1 }", [(2, 3, 7, 9), (1, 1, 4, 5)], lambda x, r: x[:, :, 1:5, 1:6]),
    Case("Crop", "crop_param { axis: 1 }", [(2, 3, 7), (5, 2, 4)], lambda x, r: x[:, :2, :4]),
    Case("BatchReindex", "", [(5, 3), (7,)], lambda x, i: x[i.long()], opencv="no BatchReindex",
         make=lambda rng, s: rng.integers(0, 5, s)),
    # sums
    Case("Eltwise", "", [(2, 3), (2, 3), (2, 3)], lambda *x: sum(x)),
    Case("Eltwise", "eltwise_param { operation: SUM coeff: 1 coeff: -0.5 }", [(2, 3, 5, 7)] * 2,
         lambda x, y: x - 0.5 * y),
    Case("Eltwise", "eltwise_param { operation: PROD }", [(2, 3)] * 3, lambda x, y, z: x * y * z),
    Case("Eltwise", "eltwise_param { operation: MAX }", [(2, 3)] * 3,
         lambda x, y, z: torch.maximum(torch.maximum(x, y), z)),
    Case("Reduction", "", [(2, 3, 5)], lambda x: x.sum(), opencv="no Reduction"),
    Case("Reduction", "reduction_param { operation: MEAN axis: 1 coeff: 2 }", [(2, 3, 5)],
         lambda x: 2 * x.mean((1, 2)), opencv="no Reduction"),
    Case("Reduction", "reduction_param { operation: ASUM axis: -1 }", [(2, 3, 5)], lambda x: x.abs().sum(-1),
         opencv="no Reduction"),
    Case("Reduction", "reduction_param { operation: SUMSQ axis: 1 coeff: -0.5 }", [(2, 3)],
         lambda x: -0.5 * (x * x).sum(1), opencv="no Reduction"),
    Case("ArgMax", "", [(2, 3, 5, 7)], lambda x: best(x, 1, False)[..., None], opencv="OpenCV wants an axis"),
    Case("ArgMax", "argmax_param { top_k: 3 out_max_val: true }", [(2, 30)], lambda x: best(x, 3, True), make=levels,
         opencv="OpenCV wants an axis"),
    Case("ArgMax", "argmax_param { axis: 1 out_max_val: true }", [(2, 5, 7)], lambda x: x.amax(1, keepdim=True),
         opencv="OpenCV gives places only"),
    Case("ArgMax", "", [(3, 40)], lambda x: best(x, 1, False), make=levels, opencv="OpenCV wants an axis"),
    Case("ArgMax", "argmax_param { out_max_val: true }", [(3, 40)], lambda x: best(x, 1, True), make=levels,
         opencv="OpenCV wants an axis"),
    Case("Eltwise", "eltwise_param { coeff: -1 coeff: -1 coeff: 2 }", [(2, 3)] * 3, lambda x, y, z: -x - y + 2 * z),
    Case("ArgMax", "argmax_param { axis: 1 }", [(2, 5, 7)], lambda x: x.argmax(1, keepdim=True).float(),
         opencv="integers there"),
    Case("ArgMax", "argmax_param { axis: -1 top_k: 2 out_max_val: true }", [(2, 5, 7)], lambda x: x.topk(2, -1).values,
         opencv="OpenCV gives places only"),
    Case("Parameter", "parameter_param { shape { dim: 2 dim: 3 } }", [], lambda v: v, [(2, 3)], opencv="no Parameter"),
]  # fmt: skip


def files(case: Case, folder: Path) -> tuple[Path, dict[str, Array], list[Array]]:
    """The definition with its weights beside it, the bottoms, and the blobs."""
    rng = np.random.default_rng(len(case.params))
    inputs = {f"x{i}": np.asarray(case.make(rng, s), np.float32) for i, s in enumerate(case.shapes)}
    blobs = [v if isinstance(v, np.ndarray) else rng.standard_normal(v).astype(np.float32) for v in case.blobs]
    tops = [f"y{i}" for i in range(case.tops)]
    text = definition(
        {k: v.shape for k, v in inputs.items()} or {"x": (1,)}, layer(case.type, case.params, [*inputs], tops)
    )
    if not inputs:
        # A net gives what it is asked for: an input that nobody reads is no output.
        inputs = {"x": np.zeros(1, np.float32)}
    return write(folder, text, {"l": blobs} if blobs else None), inputs, blobs


def judged(case: Case, inputs: dict[str, Array], blobs: Sequence[Array]) -> list[Array]:
    given = [torch.from_numpy(v) for k, v in inputs.items() if k != "x"]
    tops = case.judge(*given, *map(torch.from_numpy, map(np.asarray, blobs)))
    return [t.numpy() for t in (tops if isinstance(tops, tuple | list) else (tops,))]


def close(got: Array, want: Array) -> None:
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_gives_what_pytorch_gives(case: Case, level: int, tmp_path: Path) -> None:
    path, inputs, blobs = files(case, tmp_path)
    want = judged(case, inputs, blobs)
    got = by_us(path, inputs, level)
    assert list(got) == [f"y{i}" for i in range(case.tops)]
    for array, expected in zip(got.values(), want, strict=True):
        close(array, expected)


@pytest.mark.parametrize("case", [c for c in CASES if c.opencv is True], ids=str)
def test_gives_what_opencv_gives(case: Case, tmp_path: Path) -> None:
    pytest.importorskip("cv2")
    path, inputs, _ = files(case, tmp_path)
    for got, want in zip(by_us(path, inputs).values(), by_opencv(path, inputs), strict=False):
        close(got, want)


def recurrent_by_torch(kind: str, x: Any, cont: Any, blobs: Sequence[Any], static: Any = None, first: Any = ()) -> Any:
    """A recurrent layer as PyTorch's cell, which forgets before the steps where a sequence begins."""
    w, bias, *more = blobs
    extra = static.flatten(1) @ more.pop(0).T if static is not None else 0
    hidden = more[0].shape[1]
    cell = {"LSTM": torch.nn.LSTMCell, "RNN": torch.nn.RNNCell}[kind](w.shape[1], hidden)
    turned = lambda v: torch.cat([v.chunk(4)[i] for i in (0, 1, 3, 2)]) if kind == "LSTM" else v  # noqa: E731  (i f g o)
    states = [s[0] for s in first] or [torch.zeros(x.shape[1], hidden) for _ in range(2 if kind == "LSTM" else 1)]
    rows = []
    with torch.no_grad():
        cell.weight_ih.copy_(turned(w))
        cell.weight_hh.copy_(turned(more[0]))
        cell.bias_hh.zero_()
        for xt, on in zip(x.flatten(2), cont, strict=True):
            states = [s * on[:, None] for s in states]
            # What is the same for all steps differs between sequences, and is no bias of the cell: each runs alone.
            after = []
            for i in range(x.shape[1]):
                cell.bias_ih.copy_(turned(bias + (extra[i] if static is not None else 0)))
                one = tuple(s[i : i + 1] for s in states)
                after.append(cell(xt[i : i + 1], one if kind == "LSTM" else one[0]))
            if kind == "LSTM":
                states = [torch.cat([a[k] for a in after]) for k in range(2)]
                rows.append(states[0])
            else:
                states = [torch.cat(after)]
                rows.append(torch.tanh(states[0] @ more[1].T + more[2]))
    return torch.stack(rows), [s[None] for s in states]


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("expose", [False, True])
@pytest.mark.parametrize("kind", ["LSTM", "RNN"])
def test_recurrent(kind: str, expose: bool, static: bool, level: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    steps, n, features, hidden = 5, 3, 4, 2
    rows = hidden * (4 if kind == "LSTM" else 1)
    shapes = [(rows, features), (rows,), *([(rows, 7)] if static else []), (rows, hidden)]
    shapes += [(hidden, hidden), (hidden,)] if kind == "RNN" else []
    blobs = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    cont = rng.integers(0, 2, (steps, n)).astype(np.float32)
    cont[0, 1:] = 1
    inputs = {"x0": rng.standard_normal((steps, n, 2, 2)).astype(np.float32), "cont": cont}
    if static:
        inputs["all"] = rng.standard_normal((n, 7)).astype(np.float32)
    names = [f"first{i}" for i in range(2 if kind == "LSTM" else 1)] if expose else []
    inputs |= {name: rng.standard_normal((1, n, hidden)).astype(np.float32) for name in names}
    params = f"recurrent_param {{ num_output: {hidden} {'expose_hidden: true' if expose else ''} }}"
    tops = ["y", *(f"last{i}" for i in range(len(names)))]
    text = definition({k: v.shape for k, v in inputs.items()}, layer(kind, params, [*inputs], tops))
    given = {k: torch.from_numpy(v) for k, v in inputs.items()}
    want, last = recurrent_by_torch(
        kind, given["x0"], given["cont"], [*map(torch.from_numpy, blobs)], given.get("all"), [given[m] for m in names]
    )
    got = by_us(write(tmp_path, text, {"l": blobs}), inputs, level)
    close(got["y"], want.numpy())
    for name, state in zip(tops[1:], last, strict=False):
        close(got[name], state.numpy())


def test_a_recurrent_layer_goes_on_where_it_ended(tmp_path: Path) -> None:
    """Without states as bottoms, a layer begins with what the last run has left, where its sequence goes on."""
    rng = np.random.default_rng(4)
    blobs = [rng.standard_normal(s).astype(np.float32) for s in ((8, 4), (8,), (8, 2))]
    x = rng.standard_normal((6, 1, 4)).astype(np.float32)
    cont = np.float32([0, 1, 1, 1, 1, 1])[:, None]
    text = definition(
        {"x0": (3, 1, 4), "cont": (3, 1)}, layer("LSTM", "recurrent_param { num_output: 2 }", ["x0", "cont"])
    )
    session = minnow.load(encode(read(write(tmp_path, text, {"l": blobs}))))
    found = [session.run({"x0": x[i : i + 3], "cont": cont[i : i + 3]})["y"] for i in (0, 3)]
    want, _ = recurrent_by_torch("LSTM", *map(torch.from_numpy, (x, cont)), [*map(torch.from_numpy, blobs)])
    close(np.concatenate(found), want.numpy())


@pytest.mark.parametrize("expose", [False, True])
@pytest.mark.parametrize("begins", [0, 1])
def test_an_lstm_over_whole_sequences(begins: int, expose: bool, tmp_path: Path) -> None:
    """Where it is known that no sequence begins later, the layer is one op."""
    rng = np.random.default_rng(5)
    blobs = [rng.standard_normal(s).astype(np.float32) for s in ((12, 4), (12,), (12, 3))]
    inputs = {"x0": rng.standard_normal((5, 2, 2, 2)).astype(np.float32)}
    inputs |= {n: rng.standard_normal((1, 2, 3)).astype(np.float32) for n in ("h", "c") if expose}
    steps = "".join(
        f'layer {{ name: "{n}" type: "DummyData" top: "{n}" dummy_data_param {{ data_filler {{ value: {v} }} '
        f"shape {{ dim: {t} dim: 2 }} }} }}"
        for n, v, t in (("on0", begins, 1), ("on1", 1, 4))
    )
    steps += 'layer { name: "on" type: "Concat" bottom: "on0" bottom: "on1" top: "on" concat_param { axis: 0 } }'
    params = f"recurrent_param {{ num_output: 3 expose_hidden: {str(expose).lower()} }}"
    bottoms, tops = ["x0", "on", *([*inputs][1:])], ["y", "h1", "c1"] if expose else ["y"]
    text = definition({k: v.shape for k, v in inputs.items()}, steps + layer("LSTM", params, bottoms, tops))
    path = write(tmp_path, text, {"l": blobs})
    ops = [node.op for node in read(path).graph]
    assert ("LSTM" in ops) == (expose or begins == 0)
    cont = torch.ones(5, 2)
    cont[0] = begins
    given = [torch.from_numpy(inputs[n]) for n in ("h", "c") if expose]
    want, last = recurrent_by_torch("LSTM", torch.from_numpy(inputs["x0"]), cont, [*map(torch.from_numpy, blobs)],
                                    None, given)  # fmt: skip
    got = by_us(path, inputs)
    close(got["y"], want.numpy())
    for name, state in zip(tops[1:], last, strict=False):
        close(got[name], state.numpy())


def test_constants_of_dummy_data(tmp_path: Path) -> None:
    filler = 'data_filler { type: "constant" value: 3 } data_filler { value: -1 }'
    text = layer("DummyData", f"dummy_data_param {{ shape {{ dim: 2 dim: 3 }} {filler} }}", [], ["a", "b"])
    text += ' layer { name: "sum" type: "Eltwise" bottom: "x0" bottom: "a" bottom: "b" top: "y" }'
    x = np.ones((2, 3), np.float32)
    close(by_us(write(tmp_path, definition({"x0": (2, 3)}, text)), {"x0": x})["y"], x + 2)
