"""Normalization."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from minnow.converter.operand import rank, static_dim
from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.ops.window import channels_of, filled
from minnow.converter.torch.symbolic.dimension import known
from minnow.converter.torch.symbolic.dtype import as_value
from minnow.converter.torch.symbolic.tensor import Tensor
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder


def _wide(b: Builder, make: Callable[..., Any], x: Value, *numbers: Value | None) -> Any:
    """`make` in the type of the numbers where that is wider than the input's, whose type the first result has."""
    dtype = x.type.dtype
    wide = next((v.type.dtype for v in numbers if v is not None), dtype)
    if wide is dtype:
        return make(x, *numbers)
    made = make(*(v and as_value(b, v, wide) for v in (x, *numbers)))
    if isinstance(made, tuple):
        return b.Cast(made[0], to=dtype), *made[1:]
    return b.Cast(made, to=dtype)


def _per_channel(x: Value, weight: Value | None, bias: Value | None, *more: Value | None) -> tuple[Value, Value]:
    """Scale and bias, 1 and 0 where they are left out."""
    if weight is not None and bias is not None:
        return weight, bias
    count = channels_of(x, weight, bias, *more)
    return weight or filled(x, count, 1), bias or filled(x, count, 0)


def _batch_norm(b: Builder, x: Value, weight: Value | None, bias: Value | None, mean: Value, var: Value,
                eps: float) -> Any:  # fmt: skip
    if x.type.count == 0 and rank(x, "the input") < 2:
        return b.Identity(x)  # an empty vector has no axis of channels

    def normalized(v: Value, s: Value | None, o: Value | None, m: Value, d: Value) -> Any:
        return b.BatchNorm(v, *_per_channel(v, s, o, m), m, d, epsilon=eps)

    return _wide(b, normalized, x, weight, bias, mean, var)


def _of_batch(b: Builder, x: Value, weight: Value | None, bias: Value | None, eps: float) -> tuple[Value, ...]:
    """Normalized by the statistics of the batch itself; with these: mean, variance, 1 / deviation, and the count."""
    n = rank(x, "the input")
    axes = (0, *range(2, n))

    def normalized(v: Value, s: Value | None, o: Value | None) -> tuple[Value, ...]:
        mean = b.ReduceMean(v, axes=axes)
        centered = b.Sub(v, mean)
        variance = b.ReduceMean(b.Square(centered), axes=axes)
        invstd = b.Rsqrt(b.Add(variance, eps))
        y = b.Mul(centered, invstd)
        shape = np.array([-1, *[1] * (n - 2)])
        y = y if s is None else b.Mul(y, b.Reshape(s, shape))
        y = y if o is None else b.Add(y, b.Reshape(o, shape))
        flat = (b.Reshape(t, np.array([-1])) for t in (mean, variance, invstd))
        return y, *flat

    made: tuple[Value, ...] = _wide(b, normalized, x, weight, bias)
    return made


def _trained(t: Any, x: Tensor, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float,
             eps: float) -> tuple[Tensor, ...]:  # fmt: skip
    """The result, and mean and 1 / deviation of the batch, of which the running statistics learn."""
    b = t.builder
    v, w, o, m, d = map(t.value, (x, weight, bias, mean, var))
    if not training and m is not None and d is not None:
        empty = Tensor(b.const(np.zeros(0, m.type.dtype.numpy)))
        return Tensor(_batch_norm(b, v, w, o, m, d, eps)), empty, empty
    y, own_mean, own_var, invstd = _of_batch(b, v, w, o, eps)
    if isinstance(mean, Tensor) and isinstance(var, Tensor):
        count = math.prod(static_dim(v.type, i, "the batch") for i in range(rank(v, "the input")) if i != 1)
        _learn(t, (mean, var), (own_mean, b.Mul(own_var, count / max(count - 1, 1))), momentum)
    return Tensor(y), Tensor(own_mean), Tensor(invstd)


def _learn(t: Any, running: tuple[Tensor, Tensor], own: tuple[Value, Value], momentum: float) -> None:
    """The running statistics after a batch with mean and unbiased variance of its own."""
    b = t.builder
    for statistic, new in zip(running, own, strict=True):
        old = t.value(statistic)
        step = as_value(b, b.Mul(new, float(momentum)), old.type.dtype)
        t.write(statistic, Tensor(b.Add(b.Mul(old, 1.0 - momentum), step)))


@torch.op("aten::batch_norm", plain=True)
def _(t, input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled=True):
    return _trained(t, input, weight, bias, running_mean, running_var, training, momentum, eps)[0]


@torch.op("aten::native_batch_norm", "aten::_native_batch_norm_legit", plain=True)
def _(t, input, weight, bias, running_mean, running_var, training, momentum, eps):
    return _trained(t, input, weight, bias, running_mean, running_var, training, momentum, eps)


@torch.op("aten::_native_batch_norm_legit.no_stats", plain=True)
def _(t, input, weight, bias, training, momentum, eps):
    return _trained(t, input, weight, bias, None, None, True, momentum, eps)


@torch.op("aten::_native_batch_norm_legit_no_training", plain=True)
def _(t, input, weight, bias, running_mean, running_var, momentum, eps):
    return _trained(t, input, weight, bias, running_mean, running_var, False, momentum, eps)


def _reserved(t: Any, results: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return *results, Tensor(t.builder.const(np.zeros(0, np.uint8)))


@torch.op("aten::_batch_norm_with_update", plain=True)
def _(t, input, weight, bias, running_mean, running_var, momentum, eps):
    return _reserved(t, _trained(t, input, weight, bias, running_mean, running_var, True, momentum, eps))


@torch.op("aten::_batch_norm_no_update", plain=True)
def _(t, input, weight, bias, running_mean, running_var, momentum, eps):
    return _reserved(t, _trained(t, input, weight, bias, running_mean, running_var, False, momentum, eps))


@torch.op("aten::cudnn_batch_norm", "aten::miopen_batch_norm", plain=True)
def _(t, input, weight, bias, running_mean, running_var, training, exponential_average_factor, epsilon):
    return _reserved(t, _trained(t, input, weight, bias, running_mean, running_var, training,
                                 exponential_average_factor, epsilon))  # fmt: skip


@torch.op("aten::_batch_norm_impl_index", plain=True)
def _(t, input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled=True):
    return *_reserved(t, _trained(t, input, weight, bias, running_mean, running_var, training, momentum, eps)), 0


@torch.op("aten::instance_norm", plain=True)
def _(t, input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled=True):
    b = t.builder
    x, w, o, m, d = map(t.value, (input, weight, bias, running_mean, running_var))
    if not use_input_stats:
        return Tensor(_batch_norm(b, x, w, o, m, d, eps))
    if m is not None and d is not None:
        n = rank(x, "the input")
        space = tuple(range(2, n))
        mean = b.ReduceMean(x, axes=space)
        variance = b.ReduceMean(b.Square(b.Sub(x, mean)), axes=(0, *space), keepdims=False)
        count = math.prod(static_dim(x.type, i, "the image") for i in space)
        own = b.ReduceMean(mean, axes=(0, *space), keepdims=False), b.Mul(variance, count / max(count - 1, 1))
        _learn(t, (running_mean, running_var), own, momentum)

    def normalized(v: Value, s: Value | None, o: Value | None) -> Any:
        return b.InstanceNorm(v, *_per_channel(v, s, o), epsilon=eps)

    return Tensor(_wide(b, normalized, x, w, o))


def _group_norm(b: Builder, x: Value, groups: int, weight: Value | None, bias: Value | None, eps: float) -> Any:
    def normalized(v: Value, s: Value | None, o: Value | None) -> Any:
        return b.GroupNorm(v, *_per_channel(v, s, o), num_groups=groups, epsilon=eps)

    return _wide(b, normalized, x, weight, bias)


@torch.op("aten::group_norm")
def _(b, input, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):
    return _group_norm(b, input, num_groups, weight, bias, eps)


@torch.op("aten::native_group_norm")
def _(b, input, weight, bias, N, C, HxW, group, eps):
    grouped = b.Reshape(input, np.array([0, group, -1]))
    mean = b.ReduceMean(grouped, axes=(2,))
    variance = b.ReduceMean(b.Square(b.Sub(grouped, mean)), axes=(2,), keepdims=False)
    invstd = b.Rsqrt(b.Add(variance, eps))
    return _group_norm(b, input, group, weight, bias, eps), b.Squeeze(mean, axes=(2,)), invstd


def _layer_norm(b: Builder, x: Value, shape: list[Any], weight: Value | None, bias: Value | None, eps: float) -> Any:
    return _wide(b, lambda *o: b.LayerNorm(*o, axis=-len(shape), epsilon=eps), x, weight, bias)


@torch.op("aten::layer_norm")
def _(b, input, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    return _layer_norm(b, input, normalized_shape, weight, bias, eps)


@torch.op("aten::native_layer_norm")
def _(b, input, normalized_shape, weight, bias, eps):
    n = rank(input, "the input")
    axes = tuple(range(n - len(normalized_shape), n))
    x = b.Cast(input, to=DType.F32) if input.type.dtype.size < 4 else input
    mean = b.ReduceMean(x, axes=axes)
    invstd = b.Rsqrt(b.Add(b.ReduceMean(b.Square(b.Sub(x, mean)), axes=axes), eps))
    own = (input if weight is None else weight).type.dtype
    statistics = (as_value(b, v, own) for v in (mean, invstd))
    return _layer_norm(b, input, normalized_shape, weight, bias, eps), *statistics


def _rms_norm(b: Builder, x: Value, shape: list[Any], weight: Value | None, eps: Any) -> Any:
    epsilon = _epsilon(x, eps)
    return _wide(b, lambda *o: b.RMSNorm(*o, axis=-len(shape), epsilon=epsilon), x, weight)


def _epsilon(x: Value, eps: Any) -> float:
    """By default the smallest difference to 1, of f32 for narrower types, too."""
    smallest = np.finfo(np.float64 if x.type.dtype is DType.F64 else np.float32).eps
    return float(smallest if eps is None else known(eps, "epsilon"))


@torch.op("aten::rms_norm")
def _(b, input, normalized_shape, weight=None, eps=None):
    return _rms_norm(b, input, normalized_shape, weight, eps)


@torch.op("aten::_fused_rms_norm")
def _(b, input, normalized_shape, weight, eps):
    n = rank(input, "the input")
    axes = tuple(range(n - len(normalized_shape), n))
    x = b.Cast(input, to=DType.F32) if input.type.dtype.size < 4 else input
    inverse = b.Rsqrt(b.Add(b.ReduceMean(b.Square(x), axes=axes), _epsilon(input, eps)))
    return _rms_norm(b, input, normalized_shape, weight, eps), inverse
