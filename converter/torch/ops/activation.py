"""Activations, and softmax."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.converter.operand import rank, static_dim
from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.symbolic.dimension import axis_in, known
from minnow.converter.torch.symbolic.dtype import as_value, dtype_of
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import Value
from minnow.schema.ops import Builder


def _simple(name: str, op: str, **attrs: Any) -> None:
    """An operator without arguments that is an op of ours."""

    def translate(b: Builder, self: Value) -> Value:
        made: Value = getattr(b, op)(self, **attrs)
        return made

    torch.op(f"aten::{name}")(translate)


_simple("relu6", "Clip", min=0.0, max=6.0)
_simple("silu", "Silu")
_simple("mish", "Mish")
_simple("hardswish", "HardSwish")
_simple("hardsigmoid", "HardSigmoid", alpha=1 / 6, beta=0.5)
_simple("selu", "Selu")


@torch.op("aten::leaky_relu")
def _(b, self, negative_slope=0.01):
    return b.LeakyRelu(self, alpha=float(known(negative_slope, "the slope")))


@torch.op("aten::gelu")
def _(b, self, approximate="none"):
    return b.Gelu(self, approximate=approximate)


@torch.op("aten::hardtanh")
def _(b, self, min_val=-1, max_val=1):
    return b.Clip(self, min=float(known(min_val, "the limit")), max=float(known(max_val, "the limit")))


@torch.op("aten::rrelu")
def _(b, self, lower=0.125, upper=1 / 3, training=False, generator=None):
    return _rrelu(b, self, lower, upper, training)


@torch.op("aten::rrelu_with_noise")
def _(b, self, noise, lower=0.125, upper=1 / 3, training=False, generator=None):
    return _rrelu(b, self, lower, upper, training)


@torch.op("aten::rrelu_with_noise_functional")
def _(b, self, noise, lower=0.125, upper=1 / 3, training=False, generator=None):
    return _rrelu(b, self, lower, upper, training), noise


def _rrelu(b: Builder, x: Value, lower: Any, upper: Any, training: bool) -> Any:
    if training:
        raise UnsupportedError(
            "rrelu with random slopes (training mode) is not supported", hint="export the model after `model.eval()`"
        )
    return b.LeakyRelu(x, alpha=(known(lower, "the slope") + known(upper, "the slope")) / 2)


@torch.op("aten::prelu")
def _(b, self, weight):
    n = rank(self, "the input")
    one = weight.type.count == 1
    shape = [] if one and n == 0 else [1] if one else [-1, *[1] * (n - 2)]
    return b.PRelu(self, b.Reshape(weight, np.array(shape, np.int64)))


@torch.op("aten::_prelu_kernel")
def _(b, self, weight):
    return b.PRelu(self, weight)


@torch.op("aten::elu")
def _(b, self, alpha=1, scale=1, input_scale=1):
    alpha, scale, input_scale = (float(known(v, "the scale")) for v in (alpha, scale, input_scale))
    return _elu(b, self, alpha, scale, input_scale)


def _elu(b: Builder, x: Value, alpha: float, scale: float, input_scale: float) -> Any:
    if scale == input_scale == 1:
        return b.Elu(x, alpha=alpha)
    below = b.Mul(b.Expm1(b.Mul(x, input_scale)), alpha)
    y = b.Where(b.LessOrEqual(x, 0.0), below, x)
    return y if scale == 1 else b.Mul(y, scale)


@torch.op("aten::celu")
def _(b, self, alpha=1.0):
    alpha = float(known(alpha, "alpha"))
    return b.Celu(self, alpha=alpha) if alpha > 0 else _elu(b, self, alpha, 1.0, 1 / alpha)


@torch.op("aten::hardshrink")
def _(b, self, lambd=0.5):
    # `Shrink` makes 0 of what is not a number.
    return b.Where(b.LessOrEqual(b.Abs(self), float(known(lambd, "lambda"))), b.const(_zero(self)), self)


@torch.op("aten::softshrink")
def _(b, self, lambd=0.5):
    limit = float(known(lambd, "lambda"))
    return b.Sub(self, b.Clip(self, min=-limit, max=limit))


@torch.op("aten::softplus")
def _(b, self, beta=1, threshold=20):
    beta, threshold = float(known(beta, "beta")), float(known(threshold, "the threshold"))
    scaled = self if beta == 1 else b.Mul(self, beta)
    y = b.Softplus(scaled) if beta == 1 else b.Div(b.Softplus(scaled), beta)
    # Above 20 the function and the line are one in f32.
    return y if threshold >= 20 else b.Where(b.Greater(scaled, threshold), self, y)


@torch.op("aten::log_sigmoid")
def _(b, self):
    return b.Neg(b.Softplus(b.Neg(self)))


@torch.op("aten::log_sigmoid_forward")
def _(b, self):
    return b.Neg(b.Softplus(b.Neg(self))), b.Exp(b.Neg(b.Abs(self)))


@torch.op("aten::glu")
def _(b, self, dim=-1):
    axis = axis_in(dim, rank(self, "the input"))
    size = static_dim(self.type, axis, "what is halved")
    if size % 2:
        raise ModelError(f"glu needs an even number of elements, but has {size}")
    value, gate = b.Split(self, axis=axis, sizes=(size // 2, size // 2), n_outputs=2)
    return b.Mul(value, b.Sigmoid(gate))


@torch.op("aten::threshold")
def _(b, self, threshold, value):
    if known(threshold, "the threshold") == known(value, "the value") == 0:
        return b.Relu(self)
    dtype = self.type.dtype
    return b.Where(b.LessOrEqual(self, as_value(b, threshold, dtype)), as_value(b, value, dtype), self)


def _zero(x: Value) -> Any:
    return np.zeros((), x.type.dtype.numpy)


# ---- softmax


def _along(b: Builder, op: str, x: Value, dim: int) -> Any:
    """Softmax or LogSoftmax; a scalar is a vector of one element."""
    if rank(x, "the input") == 0:
        return b.Reshape(getattr(b, op)(b.Reshape(x, np.array([1])), axis=0), np.zeros(0, np.int64))
    return getattr(b, op)(x, axis=axis_in(dim, rank(x, "the input")))


@torch.op("aten::softmax", "aten::special_softmax")
def _(b, self, dim, dtype=None):
    return _along(b, "Softmax", as_value(b, self, dtype_of(dtype, self.type.dtype)), dim)


@torch.op("aten::log_softmax", "aten::special_log_softmax")
def _(b, self, dim, dtype=None):
    return _along(b, "LogSoftmax", as_value(b, self, dtype_of(dtype, self.type.dtype)), dim)


@torch.op("aten::_softmax")
def _(b, self, dim, half_to_float):
    return _along(b, "Softmax", as_value(b, self, dtype_of(6) if half_to_float else self.type.dtype), dim)


@torch.op("aten::_log_softmax")
def _(b, self, dim, half_to_float):
    return _along(b, "LogSoftmax", as_value(b, self, dtype_of(6) if half_to_float else self.type.dtype), dim)


@torch.op("aten::_safe_softmax")
def _(b, self, dim, dtype=None):
    x = as_value(b, self, dtype_of(dtype, self.type.dtype))
    return without_masked(b, x, _along(b, "Softmax", x, dim), dim)


def without_masked(b: Builder, scores: Value, weights: Value, axis: int = -1) -> Any:
    """The weights, 0 where all scores along the axis are minus infinity."""
    if rank(scores, "the scores") == 0:
        masked = b.Equal(scores, -np.inf)
    else:
        masked = b.Equal(b.ReduceMax(scores, axes=(axis,)), -np.inf)
    return b.Where(masked, b.const(_zero(weights)), weights)
