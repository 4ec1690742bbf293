"""Convolution, pooling, batch normalization: everything over images, in both layouts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from minnow.converter.decomposition.channel_last import (
    channels_last,
    channels_second,
    conv,
    groups,
    local_response,
    max_pool_with_places,
    pool,
    require_one,
    transposed_conv,
    window,
)
from minnow.converter.operand import constant, ints, reshaped, static_dim, turned
from minnow.converter.tensorflow.frontend import frontend as tf
from minnow.converter.tensorflow.ops.movement import cast
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import UNKNOWN, Dim, DType, Value
from minnow.schema.ops import Builder

_MAX_TAPS = 2048  # of a window that is taken apart
_FIRST = ("NCHW", "NCDHW")
_LAST = ("NHWC", "NDHWC")


class Layout:
    """Where the channels are, and the windows that the attributes of a node describe in that layout."""

    def __init__(self, data_format: str, spatial: int) -> None:
        if data_format not in (*_FIRST, *_LAST):
            raise UnsupportedError(f"the layout {data_format} is not supported")
        self.first = data_format in _FIRST
        self.spatial = spatial

    def inner(self, values: Sequence[int], what: str) -> tuple[int, ...]:
        """The numbers of the spatial axes; those of batch and channels must be 1."""
        if len(values) != self.spatial + 2:
            raise ModelError(f"{what} is {tuple(values)}, but must have {self.spatial + 2} numbers")
        at = 2 if self.first else 1
        require_one(what, [v for i, v in enumerate(values) if not at <= i < at + self.spatial])
        return tuple(values[at : at + self.spatial])

    def padding(self, padding: str, explicit: Sequence[int]) -> str | tuple[int, ...]:
        """As the builders of windows take it: all begins, then all ends."""
        if padding != "EXPLICIT":
            return padding
        if len(explicit) != 2 * self.spatial + 4:
            raise ModelError(f"the explicit padding {tuple(explicit)} has the wrong length")
        at = 2 if self.first else 1
        pairs = [explicit[2 * i : 2 * i + 2] for i in range(at, at + self.spatial)]
        return (*(p[0] for p in pairs), *(p[1] for p in pairs))

    def apply(self, b: Builder, x: Value, function: Callable[[Value], Any]) -> Any:
        """A function of images [N, spatial..., C] on x; the transposes of a channels-first x cancel later."""
        if not self.first:
            return function(x)
        n = self.spatial
        if x.type.rank is None:
            x.type = x.type.with_shape((UNKNOWN,) * (n + 2))
        y = function(channels_last(b, x, n))
        if isinstance(y, tuple):
            return tuple(channels_second(b, v, n) for v in y)
        return channels_second(b, y, n)


def _oihw(b: Builder, w: Value, n: int) -> Value:
    """[kernel..., I, O] -> [O, I, kernel...]; transposed, [kernel..., O, I] -> [I, O, kernel...]."""
    return turned(b, w, (n + 1, n, *range(n)))


def _conv(b: Builder, x: Value, w: Value, bias: Value | None, layout: Layout, *, strides: Any, padding: str,
          explicit_paddings: Any, dilations: Any, then: Any) -> Value:  # fmt: skip
    n = layout.spatial
    attrs: dict[str, Any] = {
        "padding": layout.padding(padding, explicit_paddings),
        "strides": layout.inner(strides, "strides"),
        "dilations": layout.inner(dilations or (1,) * (n + 2), "dilations"),
    }
    weights = _oihw(b, w, n)

    def made(image: Value) -> Value:
        group = 1
        if image.type.shape is not None and isinstance(image.type.shape[-1], int):
            group = groups(image, weights, 1)
        return conv(b, image, weights, bias, group=group, then=then, **attrs)

    return layout.apply(b, x, made)


@tf.op("Conv2D")
def _(b, x, w, *, strides, padding, explicit_paddings=(), data_format="NHWC", dilations=(1, 1, 1, 1)):
    return _conv(b, x, w, None, Layout(data_format, 2), strides=strides, padding=padding,
                 explicit_paddings=explicit_paddings, dilations=dilations, then=_same)  # fmt: skip


@tf.op("Conv3D")
def _(b, x, w, *, strides, padding, data_format="NDHWC", dilations=(1, 1, 1, 1, 1)):
    return _conv(b, x, w, None, Layout(data_format, 3), strides=strides, padding=padding, explicit_paddings=(),
                 dilations=dilations, then=_same)  # fmt: skip


@tf.op("Conv")
def _(b, x, w, *, strides, padding, explicit_paddings=(), data_format="CHANNELS_LAST", dilations=(), batch_dims=1,
      groups=1):  # fmt: skip
    n = len(strides) - 2
    if batch_dims != 1 or not 1 <= n <= 3:
        raise UnsupportedError("a convolution with several batch axes is not supported")
    layout = Layout("NHWC" if data_format == "CHANNELS_LAST" else "NCHW", n)
    return _conv(b, x, w, None, layout, strides=strides, padding=padding, explicit_paddings=explicit_paddings,
                 dilations=dilations, then=_same)  # fmt: skip


def _same(x: Value) -> Value:
    return x


def _depthwise(b: Builder, x: Value, w: Value, bias: Value | None, layout: Layout, *, strides: Any, padding: str,
               explicit_paddings: Any, dilations: Any, then: Any) -> Value:  # fmt: skip
    height, width, channels, multiple = (
        static_dim(w.type, i, "the weights of a depthwise convolution") for i in range(4)
    )
    weights = turned(b, reshaped(b, w, (height, width, 1, channels * multiple)), (3, 2, 0, 1))
    attrs: dict[str, Any] = {
        "padding": layout.padding(padding, explicit_paddings),
        "strides": layout.inner(strides, "strides"),
        "dilations": layout.inner(dilations, "dilations"),
    }
    return layout.apply(b, x, lambda image: conv(b, image, weights, bias, group=channels, then=then, **attrs))


@tf.op("DepthwiseConv2dNative")
def _(b, x, w, *, strides, padding, explicit_paddings=(), data_format="NHWC", dilations=(1, 1, 1, 1)):
    return _depthwise(b, x, w, None, Layout(data_format, 2), strides=strides, padding=padding,
                      explicit_paddings=explicit_paddings, dilations=dilations, then=_same)  # fmt: skip


# ---- gradients of convolutions, which are transposed convolutions


def numbers(value: Value) -> list[int | None]:
    """What is known of a vector: of one that is put together, the parts that are constant."""
    if value.is_const:
        return [int(v) for v in constant(value).reshape(-1)]
    producer = value.producer
    if producer is not None and producer.op == "Cast":
        return numbers(producer.input(0))
    if producer is not None and producer.op == "Concat" and producer.attrs["axis"] in (0, -1):
        return [v for x in producer.inputs if x is not None for v in numbers(x)]
    n = value.type.count
    return [None] * (1 if n is None else n)


def _backprop(b: Builder, size: Value, w: Value, y: Value, layout: Layout, *, strides: Any, padding: str,
              explicit_paddings: Any, dilations: Any, group: int = 1) -> Value:  # fmt: skip
    n = layout.spatial
    asked = numbers(size)
    if len(asked) == n + 2:
        asked = asked[2:] if layout.first else asked[1:-1]
    if len(asked) != n:
        raise UnsupportedError("the output size of a transposed convolution must be known")
    out: list[Dim] = [UNKNOWN if v is None else v for v in asked]
    attrs: dict[str, Any] = {
        "padding": layout.padding(padding, explicit_paddings),
        "strides": layout.inner(strides, "strides"),
        "dilations": layout.inner(dilations, "dilations"),
    }
    return layout.apply(b, y, lambda image: transposed_conv(b, image, w, None, out, group=group, **attrs))


@tf.op("Conv2DBackpropInput")
def _(b, size, w, y, *, strides, padding, explicit_paddings=(), data_format="NHWC", dilations=(1, 1, 1, 1)):
    return _backprop(b, size, _oihw(b, w, 2), y, Layout(data_format, 2), strides=strides, padding=padding,
                     explicit_paddings=explicit_paddings, dilations=dilations)  # fmt: skip


@tf.op("Conv3DBackpropInputV2")
def _(b, size, w, y, *, strides, padding, data_format="NDHWC", dilations=(1, 1, 1, 1, 1)):
    return _backprop(b, size, _oihw(b, w, 3), y, Layout(data_format, 3), strides=strides, padding=padding,
                     explicit_paddings=(), dilations=dilations)  # fmt: skip


@tf.op("DepthwiseConv2dNativeBackpropInput")
def _(b, size, w, y, *, strides, padding, explicit_paddings=(), data_format="NHWC", dilations=(1, 1, 1, 1)):
    height, width, channels, multiple = (
        static_dim(w.type, i, "the weights of a depthwise convolution") for i in range(4)
    )
    weights = turned(b, reshaped(b, w, (height, width, 1, channels * multiple)), (3, 2, 0, 1))
    return _backprop(b, size, weights, y, Layout(data_format, 2), strides=strides, padding=padding,
                     explicit_paddings=explicit_paddings, dilations=dilations, group=channels)  # fmt: skip


# ---- pooling


def _pool(b: Builder, kind: str, x: Value, layout: Layout, ksize: Any, strides: Any, padding: Any) -> Value:
    attrs = {"kernel": layout.inner(ksize, "a window"), "strides": layout.inner(strides, "strides"), "padding": padding}
    return layout.apply(b, x, lambda image: pool(b, kind, image, **attrs))


@tf.op("MaxPool")
def _(b, x, *, ksize, strides, padding, explicit_paddings=(), data_format="NHWC"):
    layout = Layout(data_format, 2)
    if (ksize[1] if layout.first else ksize[-1]) != 1:
        return _pool_channels(b, x, layout, ksize, strides)
    return _pool(b, "MaxPool", x, layout, ksize, strides, layout.padding(padding, explicit_paddings))


def _pool_channels(b: Builder, x: Value, layout: Layout, ksize: Any, strides: Any) -> Any:
    """The largest of so many channels at a time: the only such window that TensorFlow knows."""
    k = max(ksize)
    if sorted(ksize) != [1, 1, 1, k] or list(ksize) != list(strides):
        raise UnsupportedError(
            f"a pooling window {tuple(ksize)} over channels with strides {tuple(strides)} is not supported"
        )
    shape = [0, 0, 0, 0, k]
    shape[3] = -1
    image = channels_last(b, x, 2) if layout.first else x
    y = b.ReduceMax(b.Reshape(image, np.array(shape)), axes=(4,), keepdims=False)
    return channels_second(b, y, 2) if layout.first else y


@tf.op("MaxPoolV2")
def _(b, x, ksize, strides, *, padding, data_format="NHWC"):
    return _pool(b, "MaxPool", x, Layout(data_format, 2), ints(ksize, "the window"), ints(strides, "strides"), padding)


@tf.op("AvgPool")
def _(b, x, *, ksize, strides, padding, data_format="NHWC"):
    return _pool(b, "AveragePool", x, Layout(data_format, 2), ksize, strides, padding)


@tf.op("MaxPool3D", "AvgPool3D")
def _(b, x, *, ksize, strides, padding, data_format="NDHWC", node):
    kind = "MaxPool" if node.op == "MaxPool3D" else "AveragePool"
    return _pool(b, kind, x, Layout(data_format, 3), ksize, strides, padding)


@tf.op("MaxPoolWithArgmax", outputs=("output", "argmax"))
def _(b, x, *, ksize, strides, padding, Targmax=DType.I64, include_batch_in_index=False):
    layout = Layout("NHWC", 2)
    y, at = max_pool_with_places(
        b, x, kernel=layout.inner(ksize, "a window"), strides=layout.inner(strides, "strides"), padding=padding,
        with_batch=include_batch_in_index,
    )  # fmt: skip
    return y, cast(b, at, Targmax)


@tf.op("Dilation2D")
def _(b, x, w, *, strides, rates, padding):
    layout = Layout("NHWC", 2)
    steps, gaps = layout.inner(strides, "strides"), layout.inner(rates, "rates")
    sizes = [static_dim(x.type, i, "the image of Dilation2D") for i in (1, 2)]
    kernel = [static_dim(w.type, i, "the filter of Dilation2D") for i in (0, 1)]
    if not 0 < kernel[0] * kernel[1] <= _MAX_TAPS:
        raise UnsupportedError(f"a Dilation2D with the filter {kernel} is not supported")
    fitted = window(sizes, kernel, padding, steps, gaps)
    pads = fitted["pads"]
    low = np.array(np.finfo(x.type.dtype.numpy).min if x.type.dtype.is_float else np.iinfo(x.type.dtype.numpy).min)
    if any(pads):
        ends = np.array([0, 0, pads[0], pads[2], pads[1], pads[3], 0, 0])
        x = b.Pad(x, ends, low.astype(x.type.dtype.numpy))
    counts = [(s + pads[i] + pads[2 + i] - (k - 1) * d - 1) // t + 1
              for i, (s, k, d, t) in enumerate(zip(sizes, kernel, gaps, steps, strict=True))]  # fmt: skip
    parts = []
    for i, j in np.ndindex(*kernel):
        start = np.array([i * gaps[0], j * gaps[1]])
        end = start + (np.array(counts) - 1) * np.array(steps) + 1
        part = b.Slice(x, start, end, np.array([1, 2]), np.array(steps))
        parts.append(b.Add(part, b.Gather(b.Gather(w, np.array(i)), np.array(j))))
    return reduce(b.Max, parts)


# ---- normalization

_NORMALIZED = ("y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2", "reserve_space_3")


@tf.op("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3",
       outputs=_NORMALIZED)  # fmt: skip
def _(b, x, scale, offset, mean, variance, *, epsilon=0.0001, exponential_avg_factor=1.0, data_format="NHWC",
      is_training=True):  # fmt: skip
    return (*batch_norm(b, x, scale, offset, mean, variance, epsilon, data_format, is_training), None, None, None)


def batch_norm(
    b: Builder, x: Value, scale: Value, offset: Value, mean: Value, variance: Value, epsilon: float, data_format: str,
    is_training: bool,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """(y, mean, variance); while training they are those of the batch."""
    n = (x.type.rank or len(data_format)) - 2
    layout = Layout(data_format, n)
    image = x if layout.first else channels_second(b, x, n)
    dtype = x.type.dtype
    if is_training:
        wide = cast(b, image, scale.type.dtype)
        axes = (0, *range(2, n + 2))
        mean = b.ReduceMean(wide, axes=axes, keepdims=False)
        apart = b.Sub(wide, b.Reshape(mean, np.array([-1, *[1] * n])))
        biased = b.ReduceMean(b.Square(apart), axes=axes, keepdims=False)
        count = b.Cast(b.Div(b.Size(image), b.Size(mean)), to=mean.type.dtype)
        variance = b.Mul(biased, b.Div(count, b.Max(b.Sub(count, 1), 1)))
        y = b.BatchNorm(wide, scale, offset, mean, biased, epsilon=epsilon)
        y = cast(b, y, dtype)
    else:
        parts = [cast(b, v, dtype) for v in (scale, offset, mean, variance)]
        y = b.BatchNorm(image, *parts, epsilon=epsilon)
    return y if layout.first else channels_last(b, y, n), mean, variance


@tf.op("BatchNormWithGlobalNormalization")
def _(b, x, mean, variance, beta, gamma, *, variance_epsilon, scale_after_normalization):
    if not scale_after_normalization:
        gamma = b.Fill(b.Shape(beta), np.ones((), beta.type.dtype.numpy))
    return batch_norm(b, x, gamma, beta, mean, variance, variance_epsilon, "NHWC", False)[0]


@tf.op("LRN")
def _(b, x, *, depth_radius=5, bias=1.0, alpha=1.0, beta=0.5):
    return local_response(b, x, depth_radius, bias, alpha, beta)


# ---- what TensorFlow's own optimizer has fused


_FUSED_ONLY: dict[str, Callable[[Builder, Value], Any]] = {
    "GeluExact": lambda b, x: b.Gelu(x),
    "GeluApproximate": lambda b, x: b.Gelu(x, approximate="tanh"),
    "_FusedHardSwish": lambda b, x: b.HardSwish(x),
    "_MklSwish": lambda b, x: b.Silu(x),
}
"""Fused activations that are not operators of their own."""

# op list: which of TensorFlow's operators its optimizer fuses
_FUSED = frozenset({"Relu", "Relu6", "Elu", "LeakyRelu", "Tanh", "Sigmoid"})


def _activated(b: Builder, x: Value, name: str, alpha: float) -> Any:
    """The value after a fused activation. Raises UnsupportedError for an unknown one."""
    if name in _FUSED_ONLY:
        return _FUSED_ONLY[name](b, x)
    mapping = tf.find(name, 1) if name in _FUSED else None
    if mapping is None:
        raise UnsupportedError(f"a fused {name} is not supported")
    return mapping.function(b, x, **({"alpha": alpha} if "alpha" in mapping.attrs else {}))


def _fused(
    b: Builder, x: Value, args: Sequence[Value], ops: Sequence[str], epsilon: float, alpha: float, data_format: str
) -> Value:
    left = list(args)
    for op in ops:
        if op == "BiasAdd":
            bias = left.pop(0)
            if data_format in _FIRST:
                bias = b.Reshape(bias, np.array([-1, 1, 1]))
            x = b.Add(x, bias)
        elif op == "Add":
            x = b.Add(x, left.pop(0))
        elif op == "FusedBatchNorm":
            scale, offset, mean, variance = (left.pop(0) for _ in range(4))
            x = batch_norm(b, x, scale, offset, mean, variance, epsilon, data_format, False)[0]
        else:
            x = _activated(b, x, op, alpha)
    return x


@tf.op("_FusedConv2D", "_FusedDepthwiseConv2dNative")
def _(b, x, w, *args, num_args, strides, padding, explicit_paddings=(), data_format="NHWC", dilations=(1, 1, 1, 1),
      fused_ops=(), epsilon=0.0001, leakyrelu_alpha=0.2, num_host_args=0, filter_format="HWIO", node):  # fmt: skip
    if filter_format != "HWIO":
        raise UnsupportedError(f"weights in the layout {filter_format} are not supported")
    made = _conv if node.op == "_FusedConv2D" else _depthwise
    y = made(b, x, w, None, Layout(data_format, 2), strides=strides, padding=padding,
             explicit_paddings=explicit_paddings, dilations=dilations, then=_same)  # fmt: skip
    return _fused(b, y, args, fused_ops, epsilon, leakyrelu_alpha, data_format)


@tf.op("_FusedMatMul")
def _(b, x, y, *args, num_args, transpose_a=False, transpose_b=False, fused_ops=(), epsilon=0.0001,
      leakyrelu_alpha=0.2):  # fmt: skip
    z = b.MatMul(x, y, transpose_a=transpose_a, transpose_b=transpose_b)
    return _fused(b, z, args, fused_ops, epsilon, leakyrelu_alpha, "NHWC")


@tf.op("_FusedBatchNormEx",
       outputs=_NORMALIZED)  # fmt: skip
def _(b, x, scale, offset, mean, variance, *side, epsilon=0.0001, exponential_avg_factor=1.0, num_side_inputs=0,
      activation_mode="Identity", data_format="NHWC", is_training=True):  # fmt: skip
    y, mean, variance = batch_norm(b, x, scale, offset, mean, variance, epsilon, data_format, is_training)
    y = reduce(b.Add, side, y)
    if activation_mode != "Identity":
        y = _activated(b, y, activation_mode, 0.2)
    return y, mean, variance, None, None, None
