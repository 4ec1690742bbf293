"""Convolution, pooling, matrix products, resampling of images."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from minnow.converter.decomposition import channel_last, image
from minnow.converter.operand import constant, count, rank, static_dim, turned
from minnow.converter.tflite.frontend import frontend as tflite
from minnow.converter.tflite.ops.activation import activate
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import UNKNOWN, Dim, Value
from minnow.schema.ops import Builder


def then(b: Builder, function: str) -> Any:
    """What a fused activation does to a result, wherever that stands."""
    return functools.partial(activate, b, function=function)


@tflite.op("CONV_2D")
def _(b, x, w, bias=None, *, padding="SAME", stride_w=1, stride_h=1, dilation_w_factor=1, dilation_h_factor=1,
      fused_activation_function="NONE", quantized_bias_type=None):  # fmt: skip
    return channel_last.conv(
        b, x, turned(b, w, (0, 3, 1, 2)), bias,
        padding=padding, strides=(stride_h, stride_w), dilations=(dilation_h_factor, dilation_w_factor),
        group=channel_last.groups(x, w, 3), then=then(b, fused_activation_function),
    )  # fmt: skip


@tflite.op("DEPTHWISE_CONV_2D")
def _(b, x, w, bias=None, *, padding="SAME", stride_w=1, stride_h=1, depth_multiplier=0, dilation_w_factor=1,
      dilation_h_factor=1, fused_activation_function="NONE"):  # fmt: skip
    channels, outs = static_dim(x.type, -1, "the channels"), static_dim(w.type, 3, "the channels of the weights")
    if not channels or outs % channels:
        raise ModelError(f"the weights {w.type} do not fit {channels} channels")
    return channel_last.conv(
        b, x, turned(b, w, (3, 0, 1, 2)), bias,
        padding=padding, strides=(stride_h, stride_w), dilations=(dilation_h_factor, dilation_w_factor),
        group=channels, then=then(b, fused_activation_function),
    )  # fmt: skip


@tflite.op("CONV_3D")
def _(b, x, w, bias=None, *, padding="SAME", stride_d=1, stride_w=1, stride_h=1, dilation_d_factor=1,
      dilation_w_factor=1, dilation_h_factor=1, fused_activation_function="NONE"):  # fmt: skip
    return channel_last.conv(
        b, x, turned(b, w, (4, 3, 0, 1, 2)), bias, padding=padding, strides=(stride_d, stride_h, stride_w),
        dilations=(dilation_d_factor, dilation_h_factor, dilation_w_factor), group=channel_last.groups(x, w, 3),
        then=then(b, fused_activation_function),
    )  # fmt: skip


@tflite.op("TRANSPOSE_CONV")
def _(b, shape, w, x, bias=None, *, padding="SAME", stride_w=0, stride_h=0, fused_activation_function="NONE",
      quantized_bias_type=None, node):  # fmt: skip
    return channel_last.transposed_conv(
        b, x, turned(b, w, (3, 0, 1, 2)), bias, spatial_of(shape, node, 2),
        padding=padding, strides=(stride_h, stride_w), then=then(b, fused_activation_function),
    )  # fmt: skip


@tflite.op("CONV_3D_TRANSPOSE")
def _(b, shape, w, x, bias=None, *, padding="SAME", stride_d=1, stride_w=1, stride_h=1, dilation_d_factor=1,
      dilation_w_factor=1, dilation_h_factor=1, fused_activation_function="NONE", node):  # fmt: skip
    return channel_last.transposed_conv(
        b, x, turned(b, w, (4, 3, 0, 1, 2)), bias, spatial_of(shape, node, 3), padding=padding,
        strides=(stride_d, stride_h, stride_w), dilations=(dilation_d_factor, dilation_h_factor, dilation_w_factor),
        then=then(b, fused_activation_function),
    )  # fmt: skip


def spatial_of(shape: Value, node: Any, n: int) -> list[Dim]:
    """The spatial dimensions that a transposed convolution is asked for, or that the file declares."""
    if shape.data is not None:
        numbers = [int(v) for v in constant(shape).reshape(-1)]
        return list(numbers[1:-1]) if len(numbers) == n + 2 else list(numbers)
    return list((node.type_out().shape or (UNKNOWN,) * (n + 2))[1:-1])


@tflite.op("FULLY_CONNECTED")
def _(b, x, w, bias=None, *, fused_activation_function="NONE", weights_format="DEFAULT", keep_num_dims=False,
      asymmetric_quantize_inputs=False, quantized_bias_type=None):  # fmt: skip
    if weights_format != "DEFAULT":
        raise UnsupportedError(f"weights in the format {weights_format} are not supported")
    depth = static_dim(w.type, 1, "the weights of FULLY_CONNECTED")
    if keep_num_dims:
        if rank(x, "the input of FULLY_CONNECTED") == 0:
            raise ModelError("the input of FULLY_CONNECTED is a scalar")
    elif x.type.rank != 2 or x.type.shape[1] != depth:
        x = b.Reshape(x, np.array([-1, depth]))
    y = b.Linear(x, w, None if bias is None or count(bias) == 0 else bias)
    return activate(b, y, fused_activation_function)


@tflite.op("BATCH_MATMUL")
def _(b, x, y, *, adj_x=False, adj_y=False, asymmetric_quantize_inputs=False):
    return b.MatMul(x, y, transpose_a=adj_x, transpose_b=adj_y)


def _pool(name: str, kind: str, **attrs: Any) -> None:
    @tflite.op(name)
    def _(b, x, *, padding="SAME", stride_w=0, stride_h=0, filter_width=0, filter_height=0,
          fused_activation_function="NONE"):  # fmt: skip
        return channel_last.pool(
            b, kind, x, kernel=(filter_height, filter_width), padding=padding, strides=(stride_h, stride_w),
            then=then(b, fused_activation_function), **attrs,
        )  # fmt: skip


_pool("MAX_POOL_2D", "MaxPool")
_pool("AVERAGE_POOL_2D", "AveragePool")


@tflite.op("L2_POOL_2D")
def _(b, x, *, padding="SAME", stride_w=0, stride_h=0, filter_width=0, filter_height=0,
      fused_activation_function="NONE"):  # fmt: skip
    mean = channel_last.pool(
        b, "AveragePool", b.Square(x), kernel=(filter_height, filter_width), padding=padding,
        strides=(stride_h, stride_w),
    )  # fmt: skip
    return activate(b, b.Sqrt(mean), fused_activation_function)


@tflite.op("LOCAL_RESPONSE_NORMALIZATION")
def _(b, x, *, radius=0, bias=0.0, alpha=0.0, beta=0.0):
    return channel_last.local_response(b, x, radius, bias, alpha, beta)


@tflite.op("RESIZE_BILINEAR")
def _(b, x, size, *, align_corners=False, half_pixel_centers=False):
    return image.resize_bilinear(b, x, size, align_corners=align_corners, half_pixel_centers=half_pixel_centers)


@tflite.op("RESIZE_NEAREST_NEIGHBOR", moves=True)
def _(b, x, size, *, align_corners=False, half_pixel_centers=False):
    return image.resize_nearest(b, x, size, align_corners=align_corners, half_pixel_centers=half_pixel_centers)
