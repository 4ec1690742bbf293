"""Activation functions: stand-alone ones, and those fused with the operator before them."""

from __future__ import annotations

import numpy as np

from minnow.converter.tflite.frontend import frontend as tflite
from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import Value
from minnow.schema.ops import Builder

tflite.same(LOGISTIC="Sigmoid", TANH="Tanh", RELU="Relu", ELU="Elu", HARD_SWISH="HardSwish")

LIMITS: dict[str, tuple[int, int | None]] = {
    "RELU": (0, None),
    "RELU6": (0, 6),
    "RELU_N1_TO_1": (-1, 1),
    "RELU_0_TO_1": (0, 1),
}
"""The operators that only limit their operand, which may also be fused: the lowest and the highest result."""


def activate(b: Builder, x: Value, function: str) -> Value:
    """The value after a fused activation. Raises UnsupportedError for SIGN_BIT."""
    if function == "NONE":
        return x
    if function == "TANH":
        return b.Tanh(x)
    if function in LIMITS:
        return limited(b, x, *LIMITS[function])
    raise UnsupportedError(f"the fused activation {function} is not supported")


def limited(b: Builder, x: Value, low: int, high: int | None) -> Value:
    """The value, not below one number and not above the other, if there is one."""
    if x.type.dtype.is_float:
        return b.Relu(x) if high is None else b.Clip(x, min=float(low), max=float(high))
    return b.Max(x, low) if high is None else b.Min(b.Max(x, low), high)


@tflite.op("RELU6", "RELU_N1_TO_1", "RELU_0_TO_1")
def _(b, x, *, node):
    return limited(b, x, *LIMITS[node.op])


@tflite.op("LEAKY_RELU")
def _(b, x, *, alpha=0.0):
    return b.LeakyRelu(x, alpha=alpha)


@tflite.op("PRELU")
def _(b, x, slope):
    return b.PRelu(x, slope)


@tflite.op("GELU")
def _(b, x, *, approximate=False):
    return b.Gelu(x, approximate="tanh" if approximate else "none")


@tflite.op("SOFTMAX")
def _(b, x, *, beta=1.0):
    return b.Softmax(x if beta == 1.0 else b.Mul(x, beta), axis=-1)


@tflite.op("LOG_SOFTMAX")
def _(b, x):
    return b.LogSoftmax(x, axis=-1)


@tflite.op("L2_NORMALIZATION")
def _(b, x, *, fused_activation_function="NONE"):
    length = b.Max(b.ReduceL2(x, axes=(-1,)), np.float32(1e-6))
    return activate(b, b.Div(x, length), fused_activation_function)
