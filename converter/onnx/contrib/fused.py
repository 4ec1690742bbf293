"""Contrib operators that fuse elementwise math, products and convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.converter.onnx.contrib.domain import activated, cast, contrib, parameters_of, standard
from minnow.converter.operand import rank, static_dim
from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder


@contrib("Gelu")
def _(b, x):
    return b.Gelu(x)


@contrib("BiasGelu")
def _(b, x, bias):
    return b.Gelu(b.Add(x, bias))


@contrib("FastGelu")
def _(b, x, bias=None):
    return b.Gelu(x if bias is None else b.Add(x, bias), approximate="tanh")


@contrib("QuickGelu")
def _(b, x, *, alpha=1.702):
    return b.Silu(x) if alpha == 1.0 else b.Mul(x, b.Sigmoid(b.Mul(x, alpha)))


@contrib("GatedAdd")
def _(b, x, y, gate, weight=None):
    if weight is not None:  # the gate is what a projection of it gives
        gate = b.Sigmoid(b.MatMul(gate, weight))
    return b.Add(x, b.Mul(y, gate))


@contrib("LinearAttentionGate")
def _(b, a, bias, scale, rate=None):
    wide, bias, scale = (cast(b, v, DType.F32) for v in (a, bias, scale))
    decay = b.Mul(b.Softplus(b.Add(wide, bias)), scale)
    return cast(b, decay, a.type.dtype), None if rate is None else b.Sigmoid(rate)


@contrib("BiasAdd")
def _(b, x, bias, skip):
    return b.Add(b.Add(x, bias), skip)


@contrib("BiasSplitGelu")
def _(b, x, bias):
    total = b.Add(x, bias)
    half = static_dim(total.type, -1, "the last axis of BiasSplitGelu") // 2
    left, right = b.Split(total, axis=-1, sizes=(half, half), n_outputs=2)
    return b.Mul(left, b.Gelu(right))


@contrib("BiasSoftmax")
def _(b, x, bias, *, axis=1, is_inner_broadcast, node):
    n, m = rank(x, "the input of BiasSoftmax"), rank(bias, "the bias of BiasSoftmax")
    if is_inner_broadcast and m < n:
        # The bias has the axes in front of those that it is broadcast along, and those of the softmax.
        at = axis % n
        front = m - (n - at)
        bias = b.Unsqueeze(bias, axes=tuple(range(max(front, 0), max(front, 0) + n - m)))
    return standard(b, node, "Softmax", b.Add(x, bias), version=12, axis=axis)


@contrib("BiasDropout")
def _(b, x, bias, residual=None, ratio=None, training=None, *, seed=0, node):
    y = b.Add(x, bias)
    y, *mask = standard(b, node, "Dropout", y, ratio, training)
    return (y if residual is None else b.Add(y, residual), *mask)


@contrib("FusedMatMul", "TransposeMatMul")
def _(b, x, y, *, alpha=1.0, transA=0, transB=0, transBatchA=0, transBatchB=0):
    return _product(b, x, y, alpha, transA, transB, transBatchA, transBatchB)


@contrib("FusedMatMulActivation")
def _(b, x, y, *, activation, activation_alpha=None, activation_axis=None, activation_beta=None, activation_gamma=None,
      alpha=1.0, transA=0, transB=0, transBatchA=0, transBatchB=0):  # fmt: skip
    out = _product(b, x, y, alpha, transA, transB, transBatchA, transBatchB)
    return activated(b, out, activation, _parameters(alpha=activation_alpha, beta=activation_beta))


def _product(b: Builder, x: Value, y: Value, alpha: float, turn_x: int, turn_y: int, roll_x: int, roll_y: int) -> Value:
    out = b.MatMul(_rolled(b, x, roll_x), _rolled(b, y, roll_y), transpose_a=bool(turn_x), transpose_b=bool(turn_y))
    return out if alpha == 1.0 else b.Mul(out, alpha)


def _rolled(b: Builder, x: Value, roll: int) -> Value:
    """The first axis comes to stand before the last one, and the batch axes come to the front."""
    if not roll:
        return x
    n = rank(x, "an operand of FusedMatMul with transBatch")
    return b.Transpose(x, perm=(*range(1, n - 1), 0, n - 1)) if n > 2 else x


@contrib("GemmFastGelu")
def _(b, x, w, bias=None):
    y = b.MatMul(x, w)
    return b.Gelu(y if bias is None else b.Add(y, bias), approximate="tanh")


def _parameters(**given: float | None) -> dict[str, float]:
    return {k: v for k, v in given.items() if v is not None}


@contrib("FusedGemm")
def _(b, x, y, c=None, *, activation="", activation_alpha=None, activation_beta=None, activation_gamma=None,
      alpha=1.0, beta=1.0, transA=0, transB=0, node):  # fmt: skip
    (out,) = standard(b, node, "Gemm", x, y, c, alpha=alpha, beta=beta, transA=transA, transB=transB)
    return activated(b, out, activation, _parameters(alpha=activation_alpha, beta=activation_beta))


def _conv(b: Builder, node: Any, x: Value, w: Value, bias: Value | None, z: Value | None, activation: str,
          parameters: Any, window: dict[str, Any]) -> Value:  # fmt: skip
    (y,) = standard(b, node, "Conv", x, w, bias, **window)
    names = parameters_of(activation)
    if len(parameters) > max(len(names), 1):  # onnxruntime ignores one that an activation does not take
        raise ModelError(f"the activation {activation} has {len(parameters)} parameters, which do not fit")
    return activated(b, y if z is None else b.Add(y, z), activation, dict(zip(names, parameters, strict=False)))


@contrib("FusedConv")
def _(b, x, w, bias=None, z=None, *, activation="", activation_params=(), auto_pad="NOTSET", dilations=(), group=1,
      kernel_shape=(), pads=(), strides=(), node):  # fmt: skip
    window = {"auto_pad": auto_pad, "dilations": dilations, "group": group, "kernel_shape": kernel_shape,
              "pads": pads, "strides": strides}  # fmt: skip
    return _conv(b, node, x, w, bias, z, activation, activation_params, window)


@contrib("NhwcFusedConv", "NhwcConv")
def _(b, x, w, bias=None, z=None, *, activation="", activation_params=(), auto_pad="NOTSET", dilations=(), group=1,
      kernel_shape=(), pads=(), strides=(), node):  # fmt: skip
    window = {"auto_pad": auto_pad, "dilations": dilations, "group": group, "kernel_shape": kernel_shape,
              "pads": pads, "strides": strides}  # fmt: skip
    n = rank(w, "the weights")
    z = None if z is None else channels_first(b, z, n)
    y = _conv(b, node, channels_first(b, x, n), w, bias, z, activation, activation_params, window)
    return channels_last(b, y, n)


def channels_first(b: Builder, x: Value, rank: int) -> Value:
    """[N, spatial..., C] as [N, C, spatial...]."""
    return b.Transpose(x, perm=(0, rank - 1, *range(1, rank - 1)))


def channels_last(b: Builder, x: Value, rank: int) -> Value:
    """[N, C, spatial...] as [N, spatial..., C]."""
    return b.Transpose(x, perm=(0, *range(2, rank), 1))


@contrib("NhwcMaxPool")
def _(b, x, *, auto_pad="NOTSET", ceil_mode=0, dilations=(), kernel_shape, pads=(), strides=(), node):
    n = rank(x, "the input of NhwcMaxPool")
    # The largest of small integers is the same among floats.
    y = cast(b, channels_first(b, x, n), DType.F32)
    (y,) = standard(b, node, "MaxPool", y, auto_pad=auto_pad, ceil_mode=ceil_mode, dilations=dilations,
                    kernel_shape=kernel_shape, pads=pads, strides=strides)  # fmt: skip
    return cast(b, channels_last(b, y, n), x.type.dtype)


@contrib("ConvTransposeWithDynamicPads")
def _(b, x, w, pads=None, bias=None, *, auto_pad="NOTSET", dilations=(), group=1, kernel_shape=(), output_padding=(),
      strides=(), node):  # fmt: skip
    window = {"dilations": dilations, "group": group, "kernel_shape": kernel_shape, "strides": strides,
              "output_padding": output_padding}  # fmt: skip
    if pads is None or auto_pad != "NOTSET":
        return standard(b, node, "ConvTranspose", x, w, bias, auto_pad=auto_pad, **window)
    if pads.data is not None:
        fixed = [int(p) for p in pads.data.numpy().reshape(-1)]
        return standard(b, node, "ConvTranspose", x, w, bias, pads=fixed, **window)
    (full,) = standard(b, node, "ConvTranspose", x, w, bias, **window)
    n = rank(w, "the weights") - 2
    # What is padded is cut off the full result.
    begins, ends = b.Split(b.Reshape(pads, np.array([2 * n])), axis=0, sizes=(n, n), n_outputs=2)
    stops = b.Sub(b.Shape(full, start=2), ends)
    return b.Slice(full, begins, stops, np.arange(2, 2 + n, dtype=np.int64))
