"""Quantized convolutions and matrix products: exact sums, requantized by fixed-point factors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minnow.converter.decomposition.channel_last import channels_last, channels_second, groups, window
from minnow.converter.tflite.frontend import frontend as tflite
from minnow.converter.tflite.ops.neural import spatial_of
from minnow.converter.tflite.ops.quantized import hybrid
from minnow.converter.tflite.ops.quantized.fixed_point import limits_of, look_up, requantized, scale_of, zero_of
from minnow.converter.tflite.ops.quantized.hybrid import is_hybrid
from minnow.converter.tflite.quantization import Quantization
from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder

Product = Callable[..., Value]
"""(x, zero point of x) -> sums of x's products with the weights, i32."""


def halves(b: Builder, x: Value) -> tuple[Value, Value]:
    """16-bit numbers as 256 * i8 + u8."""
    numbers = np.arange(-32768, 32768)
    return look_up(b, x, (numbers >> 8).astype(np.int8)), look_up(b, x, (numbers & 255).astype(np.uint8))


def total(b: Builder, x: Value, q: Quantization, bias: Value | None, product: Product, narrow: bool = False) -> Value:
    """The sums of a layer with its bias, which has the shape of the channels.

    They are i32, but i64 where TFLite has that, unless `narrow` says that 32 bits hold them.
    """
    if q.dtype is not DType.I16:
        sums = product(x, q.zero.astype(q.dtype.numpy).reshape(()))
        return sums if bias is None else b.Add(sums, bias)
    if zero_of(q):
        raise UnsupportedError("16-bit activations with a zero point are not supported")
    kind = DType.I32 if narrow or (bias is not None and bias.type.dtype is DType.I32) else DType.I64
    bias = None if bias is None else b.Cast(bias, to=kind)
    high, low = (b.Cast(product(part, None), to=kind) for part in halves(b, x))
    sums = b.Add(b.Mul(high, 256), low)
    return sums if bias is None else b.Add(sums, bias)


def zero_operand(q: Quantization) -> Any:
    """The zero points of weights: None where all are 0."""
    if not np.any(q.zero):
        return None
    return (q.zero if q.per_axis else q.zero.reshape(())).astype(q.dtype.numpy)


def factors(qx: Quantization, qw: Quantization, q: Quantization, rounds: bool) -> Any:
    """From sums to quantized values of the result (f64). With `rounds` the product of the scales is rounded to f32."""
    x, y, w = scale_of(qx), float(scale_of(q)), qw.scale.astype(np.float32)
    product = (x * w).astype(np.float64) if rounds else float(x) * w.astype(np.float64)
    factor = product / y
    return factor if qw.per_axis else factor.reshape(())


def is_layer(*quants: Quantization | None) -> bool:
    """Activations, weights and results are quantized."""
    return all(q is not None and q.is_activation for q in quants)


def _has_bytes(q: Quantization | None) -> bool:
    return q is not None and q.dtype is not DType.I16


def planes(b: Builder, x: Value) -> Value:
    """[N, H, W, C] as [N, C, H, W]."""
    return channels_second(b, x, 2)


def window_of(x: Value, kernel: Sequence[int], padding: str, strides: Sequence[int], dilations: Sequence[int]) -> Any:
    """Attributes of a window over [N, H, W, C]."""
    return window((x.type.shape or ("?",) * 4)[1:3], kernel, padding, strides, dilations)


def _columns(factor: Any) -> Any:
    """Factors per channel beside [N, C, H, W]."""
    return factor.reshape(-1, 1, 1) if factor.ndim else factor


def _convolved(b: Builder, x: Value, w: Value, bias: Value | None, node: Any, activation: str, attrs: Any) -> Value:
    qx, qw, q = node.quant(0), node.quant(1), node.quant_out()
    if is_hybrid(x, qx, qw):

        def convolve(image: Any, zero: Value | None) -> Value:
            return b.ConvInteger(image, w, zero, **attrs)

        return hybrid.convolution(b, planes(b, x), qw, bias, activation, convolve)
    if not is_layer(qx, qw, q) or not _has_bytes(qw):
        return NotImplemented
    # A product of scales rounds for 8 bits without sign only.
    bias = None if bias is None else b.Reshape(bias, np.array([-1, 1, 1]))
    sums = total(b, planes(b, x), qx, bias, lambda v, z: b.ConvInteger(v, w, z, zero_operand(qw), **attrs))
    factor = _columns(factors(qx, qw, q, rounds=qx.dtype is DType.U8))
    return channels_last(b, requantized(b, sums, factor, q, limits_of(q, activation)), 2)


def shape_of(w: Value) -> tuple[int, ...]:
    """The shape of weights. Raises UnsupportedError where it is unknown."""
    shape = w.type.shape
    if shape is None or any(not isinstance(d, int) for d in shape):
        raise UnsupportedError("weights of unknown shape are not supported")
    return tuple(int(d) for d in shape)


@tflite.quantized("CONV_2D")
def _(b, x, w, bias=None, *, padding="SAME", stride_w=1, stride_h=1, fused_activation_function="NONE",
      dilation_w_factor=1, dilation_h_factor=1, quantized_bias_type=None, node):  # fmt: skip
    o, h, kw, _ = shape_of(w)
    attrs = window_of(x, (h, kw), padding, (stride_h, stride_w), (dilation_h_factor, dilation_w_factor))
    attrs["group"] = groups(x, w, -1)
    quants = (node.quant(0), node.quant(1), node.quant_out())
    if (
        (x.type.shape or ())[1:3] == (1, 1) == (h, kw)
        and attrs["group"] == 1
        and is_layer(*quants)
        and _has_bytes(quants[1])
    ):
        # One pixel, as behind a pooling over the image: a product of matrices.
        (qx, qw, q), columns = quants, b.Transpose(b.Reshape(w, np.array([o, -1])), perm=(1, 0))
        sums = total(b, x, qx, bias, lambda v, z: b.MatMulInteger(v, columns, z, zero_operand(qw)))
        factor = factors(qx, qw, q, rounds=qx.dtype is DType.U8)
        return requantized(b, sums, factor, q, limits_of(q, fused_activation_function))
    return _convolved(b, x, b.Transpose(w, perm=(0, 3, 1, 2)), bias, node, fused_activation_function, attrs)


@tflite.quantized("DEPTHWISE_CONV_2D")
def _(b, x, w, bias=None, *, padding="SAME", stride_w=1, stride_h=1, depth_multiplier=0,
      fused_activation_function="NONE", dilation_w_factor=1, dilation_h_factor=1, node):  # fmt: skip
    _, h, kw, _ = shape_of(w)
    attrs = window_of(x, (h, kw), padding, (stride_h, stride_w), (dilation_h_factor, dilation_w_factor))
    channels = (x.type.shape or ("?",))[-1]
    if not isinstance(channels, int):
        raise UnsupportedError("a depthwise convolution with an unknown number of channels is not supported")
    return _convolved(b, x, b.Transpose(w, perm=(3, 0, 1, 2)), bias, node, fused_activation_function,
                      {**attrs, "group": channels})  # fmt: skip


@tflite.quantized("TRANSPOSE_CONV")
def _(b, output_shape, w, x, bias=None, *, padding="SAME", stride_w=1, stride_h=1, fused_activation_function="NONE",
      quantized_bias_type=None, node):  # fmt: skip
    qw, qx, q = node.quant(1), node.quant(2), node.quant_out()
    if not is_layer(qw, qx, q) or not _has_bytes(qw):
        return NotImplemented
    sizes, wanted = (x.type.shape or ())[1:3], spatial_of(output_shape, node, 2)
    if len(sizes) != 2 or not all(isinstance(d, int) for d in (*sizes, *wanted)):
        raise UnsupportedError("a transposed convolution of unknown shape is not supported")
    kernel, strides = shape_of(w)[1:3], (stride_h, stride_w)
    starts = [
        max(((-(-out // s) if padding == "SAME" else -(-(out - k + 1) // s)) - 1) * s + k - out, 0) // 2
        for s, k, out in zip(strides, kernel, map(int, wanted), strict=True)
    ]
    limits = limits_of(q, fused_activation_function)
    uniform = not np.any(qw.zero) or not qw.per_axis
    if stride_h == stride_w > 1 and uniform and all(p < k for p, k in zip(starts, kernel, strict=True)):
        return _phases(b, x, w, bias, (qx, qw, q), stride_h, starts, [int(d) for d in wanted], limits)
    pads, crops = [[0, 0], [0, 0]], [[0, 0], [0, 0]]
    for i, (n, s, k, out, before) in enumerate(zip(sizes, strides, kernel, map(int, wanted), starts, strict=True)):
        spread = (int(n) - 1) * s + 1
        for side, pad in enumerate((k - 1 - before, out - spread + before)):
            pads[i][side], crops[i][side] = max(pad, 0), max(-pad, 0)
    zero = qx.zero.astype(qx.dtype.numpy).reshape(())
    spread_x = _spread(b, planes(b, x), strides, zero)
    flipped = w.array[:, ::-1, ::-1] if w.array is not None else None
    if flipped is None:
        raise UnsupportedError("a transposed convolution with computed weights is not supported")
    weights = np.ascontiguousarray(flipped.transpose(0, 3, 1, 2))
    attrs = {"strides": (1, 1), "dilations": (1, 1), "pads": (pads[0][0], pads[1][0], pads[0][1], pads[1][1])}
    bias = None if bias is None else b.Reshape(bias, np.array([-1, 1, 1]))
    sums = total(b, spread_x, qx, bias, lambda v, z: b.ConvInteger(v, weights, z, zero_operand(qw), **attrs))
    if any(any(c) for c in crops):
        ends = [np.iinfo(np.int32).max if not c[1] else -c[1] for c in crops]
        sums = b.Slice(sums, np.array([c[0] for c in crops]), np.array(ends), np.array([2, 3]))
    factor = _columns(factors(qx, qw, q, rounds=qx.dtype is DType.U8))
    return channels_last(b, requantized(b, sums, factor, q, limits), 2)


def _phases(
    b: Builder, x: Value, w: Value, bias: Value | None, quants: Any, stride: int, starts: Sequence[int],
    wanted: Sequence[int], limits: tuple[int, int],
) -> Value:  # fmt: skip
    """A transposed convolution as one whose channels are those of all `stride` x `stride` neighbors of the result.

    Args:
        starts: how many results before the first one are left out, along each axis.
    """
    (qx, qw, q), sizes = quants, (x.type.shape or ())[1:3]
    if w.array is None:
        raise UnsupportedError("a transposed convolution with computed weights is not supported")
    # Result `stride * i + phase` takes element i - t of x times weight `stride * t + phase + start`.
    outs, (h, kw), channels = w.array.shape[0], w.array.shape[1:3], w.array.shape[3]
    last = [(k - 1 - start) // stride for k, start in zip((h, kw), starts, strict=True)]
    first = [-((stride - 1 + start) // stride) for start in starts]
    rows, columns = (n - m + 1 for n, m in zip(last, first, strict=True))
    weights = np.full((stride, stride, outs, channels, rows, columns), zero_of(qw), w.array.dtype)
    for y in range(h):
        for at in range(kw):
            (t, phase), (u, other) = divmod(y - starts[0], stride), divmod(at - starts[1], stride)
            weights[phase, other, ..., last[0] - t, last[1] - u] = w.array[:, y, at]
    neighbors = stride * stride
    counts = [max(-(-out // stride), int(n) + m) for out, n, m in zip(wanted, sizes, first, strict=True)]
    ends = [count - m - int(n) for count, m, n in zip(counts, first, sizes, strict=True)]
    attrs = {"strides": (1, 1), "dilations": (1, 1), "pads": (*last, *ends)}
    if bias is not None:
        bias = b.Reshape(b.Concat(*[bias] * neighbors, axis=0), np.array([-1, 1, 1]))
    weights = weights.reshape(neighbors * outs, channels, rows, columns)
    sums = total(b, planes(b, x), qx, bias, lambda v, z: b.ConvInteger(v, weights, z, zero_operand(qw), **attrs))
    factor = factors(qx, qw, q, rounds=qx.dtype is DType.U8)
    factor = _columns(np.tile(factor, neighbors) if factor.ndim else factor)
    result = b.DepthToSpace(requantized(b, sums, factor, q, limits), blocksize=stride, mode="DCR")
    if any(count * stride != out for count, out in zip(counts, wanted, strict=True)):
        result = b.Slice(result, np.array([0, 0]), np.array(wanted), np.array([2, 3]))
    return channels_last(b, result, 2)


def _spread(b: Builder, x: Value, strides: Sequence[int], zero: Any) -> Value:
    """Zero points between neighbors of [N, C, H, W], so that these are `strides` apart."""
    if tuple(strides) == (1, 1):
        return x
    (h, w), (sh, sw) = (x.type.shape or ("?",) * 4)[2:], strides
    apart = b.Reshape(x, np.array([0, 0, h, 1, w, 1]))
    apart = b.Pad(apart, np.array([0, 0, 0, 0, 0, 0, 0, sh - 1, 0, 0, 0, sw - 1]), zero)
    full = b.Reshape(apart, np.array([0, 0, int(h) * sh, int(w) * sw]))
    most = np.array([(int(h) - 1) * sh + 1, (int(w) - 1) * sw + 1])
    return b.Slice(full, np.array([0, 0]), most, np.array([2, 3]))


@tflite.quantized("FULLY_CONNECTED")
def _(b, x, w, bias=None, *, fused_activation_function="NONE", weights_format="DEFAULT", keep_num_dims=False,
      asymmetric_quantize_inputs=False, quantized_bias_type=None, node):  # fmt: skip
    qx, qw, q = node.quant(0), node.quant(1), node.quant_out()
    if weights_format != "DEFAULT":
        raise UnsupportedError(f"weights in the format {weights_format} are not supported")
    _, k = shape_of(w)
    rows = x if keep_num_dims and x.type.rank and x.type.rank > 1 else b.Reshape(x, np.array([-1, k]))
    if is_hybrid(x, qx, qw):
        return hybrid.fully_connected(b, rows, w, qw, bias, fused_activation_function, asymmetric_quantize_inputs)
    if not is_layer(qx, qw, q) or not _has_bytes(qw):
        return NotImplemented
    columns = b.Transpose(w, perm=(1, 0))
    # The kernel of TFLite is more exact than its 64-bit factors: so are 32-bit ones, where they can stand in.
    narrow = bias is None or (bias.array is not None and int(np.abs(bias.array).max(initial=0)) < 1 << 29)
    sums = total(b, rows, qx, bias, lambda v, z: b.MatMulInteger(v, columns, z, zero_operand(qw)), narrow and k < 128)
    factor = factors(qx, qw, q, rounds=not qw.per_axis)
    return requantized(b, sums, factor, q, limits_of(q, fused_activation_function))


@tflite.quantized("BATCH_MATMUL")
def _(b, x, y, *, adj_x=False, adj_y=False, asymmetric_quantize_inputs=False, node):
    qx, qy, q = node.quant(0), node.quant(1), node.quant_out()
    if not is_hybrid(x, qx, qy) and not is_layer(qx, qy, q):
        return NotImplemented
    x, y = (_adjoint(b, v) if turn else v for v, turn in ((x, adj_x), (y, adj_y)))
    if qx is None:
        return hybrid.scaled_rows(b, x, y, qy, asymmetric_quantize_inputs)
    factor = factors(qx, qy, q, rounds=True)
    if qx.dtype is not DType.I16 or qy.dtype is not DType.I16:
        zero = zero_operand(qy)
        sums = total(b, x, qx, None, lambda v, z: b.MatMulInteger(v, y, z, zero))
        return requantized(b, sums, factor, q)
    if zero_of(qy):
        raise UnsupportedError("16-bit operands with a zero point are not supported")
    parts = [total(b, x, qx, None, lambda v, z, part=part: b.MatMulInteger(v, part, z)) for part in halves(b, y)]
    return requantized(b, b.Add(b.Mul(parts[0], 256), parts[1]), factor, q)


def _adjoint(b: Builder, x: Value) -> Value:
    rank = x.type.rank
    if rank is None:
        raise UnsupportedError("a matrix product of unknown rank is not supported")
    return b.Transpose(x, perm=(*range(rank - 2), rank - 1, rank - 2))
