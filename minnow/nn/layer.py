"""Layers with parameters: convolution, linear, batch normalization; and dropout."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from minnow.expr.argument import integer, integers
from minnow.expr.constant import CAFFE, NC4HW4, NCHW, NHWC, SAME, VALID, Padding_Mode
from minnow.expr.layout import convert
from minnow.expr.names import named
from minnow.expr.operation import apply, apply_one
from minnow.expr.setting import SETTINGS
from minnow.expr.var import Var, as_var
from minnow.nn.module import Module
from minnow.schema.errors import UsageError
from minnow.schema.ir import DType

_MOST = 1 << 29
"""Elements of a parameter: more of them no file can hold."""


def _checked(shape: tuple[int, ...]) -> tuple[int, ...]:
    if math.prod(shape) > _MOST:
        raise UsageError(f"a layer with a parameter of the shape {list(shape)} is too large")
    return shape


def _full(shape: tuple[int, ...], value: float) -> Var:
    return trainable(np.full(_checked(shape), value, np.float32))


def trainable(array: Any) -> Var:
    """A Var that an optimizer changes, with a copy of an array."""
    var = Var.from_array(np.array(array, np.float32))
    var.fix_as_trainable()
    return var


def _weight(shape: tuple[int, ...]) -> Var:
    """Uniform, with a variance of one by the number of inputs of an output (Xavier's)."""
    bound = math.sqrt(3 / math.prod(_checked(shape)[1:]))
    return trainable(np.random.uniform(-bound, bound, shape))


def _pair(value: Any, what: str, least: int = 1) -> tuple[int, int]:
    """Height and width, of a list of width and height, or of an integer that counts for both."""
    numbers = [integer(n, what, least) for n in integers(value, what)]
    if len(numbers) not in (1, 2):
        raise UsageError(f"{what} is {value!r}, not one or two integers")
    return numbers[-1], numbers[0]


def _ratio(value: Any, what: str, least: float, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not least <= value <= most:
        raise UsageError(f"{what} is {value!r}, not a number from {least:g} to {most:g}")
    return float(value)


class _Layer(Module):
    """A module whose parameters have no names of their own."""

    def _parameter(self, name: str, var: Var) -> Var:
        self._vars[name] = var
        return var


class Convolution(_Layer):
    """A convolution of images."""

    def __init__(self, weight: Var, bias: Var | None, attributes: dict[str, Any]) -> None:
        super().__init__()
        # The order is that of MNN, so that files of parameters are the same.
        if bias is not None:
            self._parameter("bias", bias)
        self._parameter("weight", weight)
        self._attributes = attributes

    def forward(self, x: Any) -> Var:
        """[N, C, H, W] -> [N, O, H', W'], in the data format NC4HW4; one in NHWC is converted."""
        image = as_var(x)
        if image.data_format is NHWC:
            image = convert(image, NC4HW4)
        weight = self._vars["weight"]
        channels = weight.shape[1] * self._attributes["group"]
        if image.ndim != 4 or image.shape[1] not in (channels, -1):
            raise UsageError(
                f"a convolution of {channels} channels is given the shape {image.shape}",
                where=self.name, hint=f"[N, {channels}, H, W]",
            )  # fmt: skip
        return apply_one("Conv", image, weight, self._vars.get("bias"), format=NC4HW4, **self._attributes)


@named(
    "nn",
    like="torch.nn.Conv2d",
    note="Pairs are (width, height); weights are uniform with a variance of 1 / fan_in, the bias is 0; `padding` needs "
    "padding_mode CAFFE.",
)
def conv(
    in_channel: int,
    out_channel: int,
    kernel_size: Any,
    stride: Any = (1, 1),
    padding: Any = (0, 0),
    dilation: Any = (1, 1),
    depthwise: bool = False,
    bias: bool = True,
    padding_mode: Padding_Mode = VALID,
) -> Module:
    """A convolution of images.

    Args:
        in_channel: channels of the input.
        out_channel: channels of the output.
        kernel_size: width and height, in this order, or one number for both; so are `stride`, `padding` and `dilation`.
        stride: of the kernel over the image.
        padding: zeros on each side, if `padding_mode` is expr.CAFFE.
        dilation: steps between the elements of the kernel.
        depthwise: each input channel makes out_channel / in_channel output channels of its own.
        bias: whether a number is added to each output channel.
        padding_mode: expr.VALID: none; expr.SAME: so many that the output has ceil(size / stride); expr.CAFFE:
            `padding`.

    Raises:
        UsageError: an argument has a wrong type or value.
    """
    inputs, outputs = integer(in_channel, "in_channel", 1), integer(out_channel, "out_channel", 1)
    kernel = _pair(kernel_size, "kernel_size")
    if depthwise and outputs % inputs:
        raise UsageError(f"a depthwise convolution of {inputs} channels cannot make {outputs}", hint="a multiple")
    if not isinstance(padding_mode, Padding_Mode):
        raise UsageError(f"padding_mode is {padding_mode!r}", hint="expr.VALID, expr.SAME or expr.CAFFE")
    pads = _pair(padding, "padding", 0) if padding_mode is CAFFE else (0, 0)
    attributes = {
        "strides": _pair(stride, "stride"),
        "pads": (*pads, *pads),
        "dilations": _pair(dilation, "dilation"),
        "group": inputs if depthwise else 1,
        "auto_pad": "SAME_UPPER" if padding_mode is SAME else "",
    }
    weight = _weight((outputs, 1 if depthwise else inputs, *kernel))
    return Convolution(weight, _full((outputs,), 0) if bias else None, attributes)


class Linear(_Layer):
    """A product with a matrix."""

    def __init__(self, weight: Var, bias: Var | None) -> None:
        super().__init__()
        if bias is not None:
            self._parameter("bias", bias)
        self._parameter("weight", weight)

    def forward(self, x: Any) -> Var:
        """[..., in_channel] -> [..., out_channel]."""
        var, weight = as_var(x), self._vars["weight"]
        size = weight.shape[1]
        if not var.shape or var.shape[-1] not in (size, -1):
            raise UsageError(
                f"a linear layer of {size} inputs is given the shape {var.shape}",
                where=self.name,
                hint=f"[..., {size}]",
            )
        product = apply_one("MatMul", var, weight, transpose_b=True)
        bias = self._vars.get("bias")
        return product if bias is None else product + bias


@named("nn", like="torch.nn.Linear", note="Weights are uniform with a variance of 1 / in_channel, the bias is 0.")
def linear(in_channel: int, out_channel: int, bias: bool = True) -> Module:
    """y = x w^T + bias on the last axis.

    Args:
        in_channel: size of the last axis of the input.
        out_channel: that of the output.
        bias: whether a number is added to each output.

    Raises:
        UsageError: a size is not a positive integer.
    """
    inputs, outputs = integer(in_channel, "in_channel", 1), integer(out_channel, "out_channel", 1)
    return Linear(_weight((outputs, inputs)), _full((1, outputs), 0) if bias else None)


class BatchNormalization(_Layer):
    """Normalizes channels: in training by the statistics of the batch, otherwise by what it has collected of them."""

    def __init__(self, channels: int, dims: int, momentum: float, epsilon: float) -> None:
        super().__init__()
        self._shape = (1, channels, *(1,) * (dims - 2))
        self._momentum = momentum
        self._epsilon = epsilon
        self._new: list[tuple[Var, Var]] = []
        for name, value in (("scale", 1), ("bias", 0), ("variance", 0), ("mean", 0)):
            self._parameter(name, _full(self._shape, value))

    def _statistics(self) -> Sequence[Var]:
        return self._vars["variance"], self._vars["mean"]

    def _pending(self) -> list[tuple[Var, Var]]:
        return self._new

    def _settle(self) -> None:
        new, self.__dict__["_new"] = self._new, []
        m = self._momentum
        for var, value in new:
            var.write(var.read() * np.float32(m) + value.read() * np.float32(1 - m))

    def forward(self, x: Any) -> Var:
        """Of the shape of the input, whose axis 1 are the channels; an image in NHWC is converted to NC4HW4."""
        image = as_var(x)
        if image.data_format is NHWC:
            image = convert(image, NC4HW4)
        rank, channels = len(self._shape), self._shape[1]
        if image.ndim != rank or image.shape[1] not in (channels, -1):
            raise UsageError(
                f"a batch normalization of {channels} channels and {rank} axes is given the shape {image.shape}",
                where=self.name, hint=f"dims={image.ndim}" if image.ndim != rank else "",
            )  # fmt: skip
        scale, bias, variance, mean = (self._vars[name] for name in ("scale", "bias", "variance", "mean"))
        if not self.is_training:
            row = Var.from_array(np.asarray([-1], np.int64))
            rows = [apply("Reshape", v, row, format=NCHW) for v in (scale, bias, mean, variance)]
            return apply_one("BatchNorm", image, *rows, epsilon=self._epsilon)
        self._settle()
        axes = (0, *range(2, rank))
        flat = Var.from_array(np.asarray([-1], np.int64))
        mean_now = apply_one("ReduceMean", image, axes=axes, keepdims=True)
        # The mean that is a part of the variance has no influence on it: no gradient goes through the integers.
        fixed = apply_one("BitCast", apply("BitCast", mean_now, to=DType.I32), to=DType.F32)
        spread = apply_one("ReduceMean", apply("Square", image - fixed), axes=axes, keepdims=True)
        rows = [apply_one("Reshape", v, flat, format=NCHW) for v in (scale, bias, mean_now, spread)]
        result = apply_one("BatchNorm", image, *rows, epsilon=self._epsilon)
        self.__dict__["_new"] = [(variance, spread), (mean, mean_now)]
        if not SETTINGS.lazy:
            self._settle()
        return result


@named(
    "nn",
    like="torch.nn.BatchNorm2d",
    note="The running variance is not corrected, and begins at 0; `momentum` is the share that is kept.",
)
def batch_norm(channels: int, dims: int = 4, momentum: float = 0.99, epsilon: float = 1e-5) -> Module:
    """Batch normalization: (x - mean) / sqrt(variance + epsilon) * scale + bias for each channel.

    Args:
        channels: size of axis 1.
        dims: number of axes of the input, 2 or 4.
        momentum: of the collected statistics so much is kept in each step of training.
        epsilon: added to the variance.

    Raises:
        UsageError: an argument has a wrong type or value.
    """
    if isinstance(dims, bool) or not isinstance(dims, (int, np.integer)) or dims not in (2, 4):
        raise UsageError(f"dims is {dims!r}, not 2 or 4")
    return BatchNormalization(
        integer(channels, "channels", 1),
        int(dims),
        _ratio(momentum, "momentum", 0, 1),
        _ratio(epsilon, "epsilon", 0, 1),
    )


class Dropout(Module):
    """Zeros at random places, in training."""

    def __init__(self, ratio: float) -> None:
        super().__init__()
        self._ratio = ratio

    def forward(self, x: Any) -> Var:
        """Of the shape of the input."""
        var = as_var(x)
        if not self.is_training or self._ratio == 0:
            return var
        if any(d < 0 for d in var.shape):
            raise UsageError("dropout needs the shape of its input", hint="write the placeholders, or train(False)")
        kept = np.random.random_sample(var.shape) >= self._ratio
        result: Var = var * Var.from_array((kept / (1 - self._ratio)).astype(np.float32))
        return result


@named("nn", like="torch.nn.Dropout")
def dropout(dropout_ratio: float) -> Module:
    """In training each element is 0 with this probability, and the others are divided by one minus it.

    Raises:
        UsageError: it is not a number from 0 to below 1.
    """
    ratio = _ratio(dropout_ratio, "dropout_ratio", 0, 1)
    if ratio == 1:
        raise UsageError("dropout_ratio is 1: nothing would be left")
    return Dropout(ratio)
