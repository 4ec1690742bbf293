"""Gradients and losses, for models that compute their own gradients: attributions, energies, optimizer steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minnow.converter.operand import rank
from minnow.converter.tensorflow.frontend import frontend as tf
from minnow.converter.tensorflow.ops.movement import wide
from minnow.schema.ir import Value
from minnow.schema.ops import Builder

# From the result y of the function and the gradient g there.
_OF_RESULT: dict[str, Callable[[Builder, Any, Any], Any]] = {
    "SigmoidGrad": lambda b, y, g: b.Mul(g, b.Mul(y, b.Add(b.Neg(y), 1.0))),
    "TanhGrad": lambda b, y, g: b.Mul(g, b.Add(b.Neg(b.Square(y)), 1.0)),
    "SqrtGrad": lambda b, y, g: b.Div(b.Mul(g, 0.5), y),
    "RsqrtGrad": lambda b, y, g: b.Mul(b.Mul(g, -0.5), b.Mul(b.Square(y), y)),
    "InvGrad": lambda b, y, g: b.Neg(b.Mul(g, b.Square(y))),
    "ReciprocalGrad": lambda b, y, g: b.Neg(b.Mul(g, b.Square(y))),
}
# From the gradient g at the result and the operand x (of Elu and Selu the result).
_OF_OPERAND: dict[str, Callable[[Builder, Any, Any], Any]] = {
    "ReluGrad": lambda b, g, x: _where(b, b.Greater(x, 0.0), g, b.Mul(g, 0.0)),
    "Relu6Grad": lambda b, g, x: _where(b, b.And(b.Greater(x, 0.0), b.Less(x, 6.0)), g, b.Mul(g, 0.0)),
    "EluGrad": lambda b, g, y: _where(b, b.Less(y, 0.0), b.Mul(g, b.Add(y, 1.0)), g),
    "SeluGrad": lambda b, g, y: _where(
        b, b.Less(y, 0.0), b.Mul(g, b.Add(y, 1.7580993408473766)), b.Mul(g, 1.0507009873554805)
    ),
    "SoftplusGrad": lambda b, g, x: b.Mul(g, b.Sigmoid(x)),
    "SoftsignGrad": lambda b, g, x: b.Div(g, b.Square(b.Add(b.Abs(x), 1.0))),
}


def _where(b: Builder, condition: Value, x: Value, y: Value) -> Any:
    return b.Where(condition, x, y)


@tf.op(*_OF_RESULT)
def _(b, y, g, *, node):
    return _OF_RESULT[node.op](b, y, g)


@tf.op(*_OF_OPERAND)
def _(b, g, x, *, node):
    return _OF_OPERAND[node.op](b, g, x)


@tf.op("LeakyReluGrad")
def _(b, g, x, *, alpha=0.2):
    return b.Where(b.Greater(x, 0.0), g, b.Mul(g, alpha))


@tf.op("BiasAddGrad")
def _(b, g, *, data_format="NHWC"):
    n = rank(g, "a gradient")
    channel = 1 if data_format == "NCHW" else n - 1
    return b.ReduceSum(g, axes=tuple(i for i in range(n) if i != channel), keepdims=False)


@tf.op("SoftmaxCrossEntropyWithLogits", outputs=("loss", "backprop"))
def _(b, x, labels):
    loss = b.Neg(b.ReduceSum(b.Mul(labels, b.LogSoftmax(x, axis=-1)), axes=(-1,), keepdims=False))
    return loss, b.Sub(b.Softmax(x, axis=-1), labels)


@tf.op("SparseSoftmaxCrossEntropyWithLogits", outputs=("loss", "backprop"))
def _(b, x, labels):
    numbers = wide(b, labels)
    at = b.Unsqueeze(numbers, axes=(1,))
    loss = b.Neg(b.Squeeze(b.GatherElements(b.LogSoftmax(x, axis=-1), at, axis=1), axes=(1,)))
    count = b.Shape(x, start=1)
    spread = b.OneHot(numbers, count, np.array([0, 1], x.type.dtype.numpy))
    return loss, b.Sub(b.Softmax(x, axis=-1), spread)
