"""Convolutions and linear layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.converter.operand import rank, static_dim, turned
from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.ops.window import batched, in_float, per_axis
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import Value
from minnow.schema.ops import Builder


def _pads(padding: Any, w: Value, dilations: tuple[int, ...]) -> tuple[int, ...]:
    """All begins, then all ends. "same" puts an odd element at the end."""
    n = len(dilations)
    if not isinstance(padding, str):
        return per_axis(padding, n, "the padding") * 2
    if padding == "valid":
        return (0,) * 2 * n
    if padding != "same":
        raise ModelError(f"the padding '{padding}' is unknown")
    total = [d * (static_dim(w.type, 2 + i, "the kernel") - 1) for i, d in enumerate(dilations)]
    return (*(t // 2 for t in total), *(t - t // 2 for t in total))


def _conv(b: Builder, x: Value, w: Value, bias: Value | None, stride: Any, padding: Any, dilation: Any,
          groups: int) -> Any:  # fmt: skip
    n = rank(w, "the weight") - 2
    dilations = per_axis(dilation, n, "the dilation")
    attrs = {"strides": per_axis(stride, n, "the stride"), "pads": _pads(padding, w, dilations),
             "dilations": dilations, "group": groups}  # fmt: skip
    return batched(b, x, n, lambda v: in_float(b, lambda *o: b.Conv(*o, **attrs), v, w, bias))


def _transposed(b: Builder, x: Value, w: Value, bias: Value | None, stride: Any, padding: Any, output_padding: Any,
                groups: int, dilation: Any) -> Any:  # fmt: skip
    n = rank(w, "the weight") - 2
    attrs = {"strides": per_axis(stride, n, "the stride"), "pads": per_axis(padding, n, "the padding") * 2,
             "dilations": per_axis(dilation, n, "the dilation"), "group": groups,
             "output_padding": per_axis(output_padding, n, "the output padding")}  # fmt: skip
    return batched(b, x, n, lambda v: in_float(b, lambda *o: b.ConvTranspose(*o, **attrs), v, w, bias))


@torch.op("aten::conv1d", "aten::conv2d", "aten::conv3d")
def _(b, input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    return _conv(b, input, weight, bias, stride, padding, dilation, groups)


@torch.op("aten::_convolution_mode")
def _(b, input, weight, bias, stride, padding, dilation, groups):
    return _conv(b, input, weight, bias, stride, padding, dilation, groups)


@torch.op("aten::conv_transpose1d", "aten::conv_transpose2d", "aten::conv_transpose3d")
def _(b, input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    return _transposed(b, input, weight, bias, stride, padding, output_padding, groups, dilation)


@torch.op("aten::convolution")
def _(b, input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    return _either(b, input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


@torch.op("aten::_convolution")
def _(b, input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, benchmark=False,
      deterministic=False, cudnn_enabled=False, allow_tf32=False):  # fmt: skip
    return _either(b, input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


def _either(b: Builder, x: Value, w: Value, bias: Value | None, stride: Any, padding: Any, dilation: Any,
            transposed: bool, output_padding: Any, groups: int) -> Any:  # fmt: skip
    if transposed:
        return _transposed(b, x, w, bias, stride, padding, output_padding, groups, dilation)
    return _conv(b, x, w, bias, stride, padding, dilation, groups)


@torch.op("aten::mkldnn_convolution")
def _(b, self, weight, bias, padding, stride, dilation, groups):
    return _conv(b, self, weight, bias, stride, padding, dilation, groups)


@torch.op("aten::_nnpack_spatial_convolution")
def _(b, input, weight, bias, padding, stride=1):
    return _conv(b, input, weight, bias, stride, padding, 1, 1)


@torch.op("aten::thnn_conv2d", "aten::slow_conv3d", "aten::_slow_conv2d_forward", "aten::slow_conv_dilated2d")
def _(b, self, weight, kernel_size, bias=None, stride=1, padding=0, dilation=1):
    return _conv(b, self, weight, bias, stride, padding, dilation, 1)


@torch.op("aten::conv_depthwise3d", "aten::_conv_depthwise2d")
def _(b, self, weight, kernel_size, bias, stride, padding, dilation):
    groups = static_dim(self.type, -4 if rank(weight, "the weight") == 5 else -3, "the channels")
    return _conv(b, self, weight, bias, stride, padding, dilation, groups)


@torch.op("aten::slow_conv_transpose2d", "aten::slow_conv_transpose3d")
def _(b, self, weight, kernel_size, bias=None, stride=1, padding=0, output_padding=0, dilation=1):
    return _transposed(b, self, weight, bias, stride, padding, output_padding, 1, dilation)


@torch.op("aten::conv_tbc")
def _(b, self, weight, bias, pad=0):
    y = _conv(b, b.Transpose(self, perm=(1, 2, 0)), turned(b, weight, (2, 1, 0)), bias, 1, pad, 1, 1)
    return b.Transpose(y, perm=(2, 0, 1))


@torch.op("aten::linear", "aten::mkldnn_linear")
def _(b, input, weight, bias=None):
    return linear(b, input, weight, bias)


def linear(b: Builder, x: Value, w: Value, bias: Value | None = None) -> Any:
    """y = x w^T + bias, with w[N, K] or w[K]."""
    plain = bias is None or bias.type.rank == 1
    if w.type.rank == 2 and plain and x.type.dtype.is_float:
        return b.Linear(x, w, bias)
    y = b.MatMul(x, w, transpose_b=w.type.rank == 2)
    return y if bias is None else b.Add(y, bias)


@torch.op("aten::bilinear")
def _(b, input1, input2, weight, bias=None):
    outer = b.Mul(b.Unsqueeze(input1, axes=(-1,)), b.Unsqueeze(input2, axes=(-2,)))
    n = rank(outer, "the inputs")
    outs, one, two = (static_dim(weight.type, i, "the weight") for i in range(3))
    flat = b.Reshape(outer, np.array([*[0] * (n - 2), one * two]))
    return linear(b, flat, b.Reshape(weight, np.array([outs, one * two])), bias)


@torch.op("aten::_trilinear")
def _(b, i1, i2, i3, expand1, expand2, expand3, sumdim, unroll_dim=1):
    one, two, three = (b.Unsqueeze(v, axes=tuple(e)) if e else v
                       for v, e in ((i1, expand1), (i2, expand2), (i3, expand3)))  # fmt: skip
    return b.ReduceSum(b.Mul(b.Mul(one, two), three), axes=tuple(sumdim), keepdims=False)


@torch.op("aten::_weight_norm")
def _(b, v, g, dim=0):
    return b.Mul(v, b.Div(g, _norm_except(b, v, dim)))


@torch.op("aten::_weight_norm_interface")
def _(b, v, g, dim=0):
    norm = _norm_except(b, v, dim)
    return b.Mul(v, b.Div(g, norm)), norm


@torch.op("aten::norm_except_dim")
def _(b, v, pow=2, dim=0):
    if pow != 2:
        raise UnsupportedError(f"norm_except_dim with pow={pow} is not supported")
    return _norm_except(b, v, dim)


def _norm_except(b: Builder, v: Value, dim: int) -> Any:
    """The norm over all axes but one; -1 means over all of them, and gives a scalar."""
    if dim == -1:
        return b.ReduceL2(v, keepdims=False)
    n = rank(v, "the weight")
    return b.ReduceL2(v, axes=tuple(i for i in range(n) if i != dim % n))
