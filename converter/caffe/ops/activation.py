"""Functions of single elements."""

from __future__ import annotations

import math

import numpy as np

from minnow.converter.caffe.frontend import Layer, frontend
from minnow.converter.operand import reshaped
from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder

frontend.same("Sigmoid", TanH="Tanh", AbsVal="Abs", BNLL="Softplus")


def _affine(b: Builder, x: Value, scale: float, shift: float) -> Value:
    """shift + scale * x"""
    y = b.Mul(x, np.float32(scale)) if scale != 1 else x
    return b.Add(y, np.float32(shift)) if shift else y


@frontend.op("Dropout")
def _(b, x, *, dropout_ratio=0.5, scale_train=True):
    """What is kept in a training is scaled up there; a fork can scale down here instead."""
    return b.Identity(x) if scale_train else b.Mul(x, np.float32(1 - dropout_ratio))


@frontend.op("ReLU")
def _(b, x, *, negative_slope=0.0):
    return b.LeakyRelu(x, alpha=negative_slope) if negative_slope else b.Relu(x)


@frontend.op("ELU")
def _(b, x, *, alpha=1.0):
    return b.Elu(x, alpha=alpha)


@frontend.op("PReLU")
def _(b, x, *, node: Layer, channel_shared=False):
    slope = node.weight(0)
    size = slope.type.count or 0
    if channel_shared and size != 1:
        raise ModelError(f"channel_shared needs one slope, but the weights hold {size}")
    trailing = max((x.type.rank or 4) - 2, 0)
    return b.PRelu(x, reshaped(b, slope, (size, *(1,) * trailing) if size > 1 else (1,)))


@frontend.op("Power")
def _(b, x, *, power=1.0, scale=1.0, shift=0.0):
    y = _affine(b, x, scale, shift)
    if power == 1:
        return b.Identity(y) if y is x else y
    return b.Square(y) if power == 2 else b.Pow(y, np.float32(power))


@frontend.op("Exp")
def _(b, x, *, base=-1.0, scale=1.0, shift=0.0):
    factor = _log(base)
    return b.Exp(_affine(b, x, scale * factor, shift * factor))


@frontend.op("Log")
def _(b, x, *, base=-1.0, scale=1.0, shift=0.0):
    return _affine(b, b.Log(_affine(b, x, scale, shift)), 1 / _log(base), 0)


def _log(base: float) -> float:
    """The natural logarithm of a base, -1 standing for e."""
    if base == -1:
        return 1.0
    if base <= 0 or base == 1:
        raise ModelError(f"the base {base} is invalid: it must be -1 (for e), or positive and not 1")
    return math.log(base)


@frontend.op("Threshold")
def _(b, x, *, threshold=0.0):
    return b.Cast(b.Greater(x, np.float32(threshold)), to=DType.F32)


@frontend.op("Swish")
def _(b, x, *, beta=1.0):
    return b.Silu(x) if beta == 1 else b.Mul(x, b.Sigmoid(b.Mul(x, np.float32(beta))))


@frontend.op("Clip")
def _(b, x, *, min, max):
    return b.Clip(x, min=min, max=max)
