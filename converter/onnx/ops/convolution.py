"""Convolution, pooling and their inverses: everything with a sliding window."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from minnow.converter.onnx.frontend import frontend as onnx
from minnow.converter.operand import rank, static_dim
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import UNKNOWN, Dim, DType, Value
from minnow.schema.ir.type import merge
from minnow.schema.ops import Builder


def window_of(
    x: Value, kernel: Sequence[Dim], strides: Any, pads: Any, dilations: Any, auto_pad: str
) -> dict[str, Any]:
    """The window attributes in full length. "SAME_*" is resolved where the dimensions are known, else kept."""
    n = len(kernel)
    strides, dilations = tuple(strides or (1,) * n), tuple(dilations or (1,) * n)
    pads = tuple(pads or (0,) * 2 * n)
    if len(strides) != n or len(dilations) != n or len(pads) != 2 * n:
        raise ModelError(f"the strides {strides}, dilations {dilations} and pads {pads} do not fit a {n}-D kernel")
    out = {"strides": strides, "pads": pads, "dilations": dilations}
    if auto_pad == "VALID":
        out["pads"] = (0,) * 2 * n
    elif auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        dimensions = x.type.shape[2:] if x.type.shape else ()
        if len(dimensions) == n and all(isinstance(d, int) for d in (*dimensions, *kernel)):
            out["pads"] = same_pads(dimensions, kernel, strides, dilations, lower=auto_pad == "SAME_LOWER")
        else:
            out |= {"auto_pad": auto_pad, "pads": (0,) * 2 * n}
    elif auto_pad != "NOTSET":
        raise ModelError(f"auto_pad is '{auto_pad}', which is unknown")
    return out


def same_pads(
    dimensions: Sequence[Any], kernel: Sequence[Any], strides: Sequence[int], dilations: Sequence[int], lower: bool
) -> tuple[int, ...]:
    """Pads (begins, then ends) with which the output dimension is ceil(dimension / stride)."""
    begins, ends = [], []
    for d, k, s, r in zip(dimensions, kernel, strides, dilations, strict=True):
        total = max((-(-d // s) - 1) * s + (k - 1) * r + 1 - d, 0)
        small, big = total // 2, total - total // 2
        begins.append(big if lower else small)
        ends.append(small if lower else big)
    return (*begins, *ends)


def kernel_of(w: Value, given: Any) -> tuple[Dim, ...]:
    """The kernel's dimensions: those of the weights, which `kernel_shape` repeats; dynamic where neither says."""
    try:
        kernel = merge(tuple(given) or None, None if w.type.shape is None else w.type.shape[2:])
    except ModelError:
        raise ModelError(f"kernel_shape {tuple(given)} does not fit the weights {w.type}") from None
    return (UNKNOWN,) * (rank(w, "the weights") - 2) if kernel is None else kernel


@onnx.op("Conv")
def _(b, x, w, bias=None, *, auto_pad="NOTSET", dilations=(), group=1, kernel_shape=(), pads=(), strides=()):
    window = window_of(x, kernel_of(w, kernel_shape), strides, pads, dilations, auto_pad)
    return _conv(b, x, w, bias, group, window)


def _conv(b: Builder, x: Value, w: Value, bias: Value | None, group: int, window: dict[str, Any]) -> Value:
    """A convolution over any number of axes: beyond three, what lies along the first one under a kernel is channels."""
    n = len(window["strides"])  # the rank of the input may be unknown
    if n <= 3:
        return b.Conv(x, w, bias, group=group, **window)
    channels, depth, *rest = (
        static_dim(x.type, i, "the input of a convolution over four axes") for i in range(1, n + 2)
    )
    outs, per_group, taps, *kernel = (static_dim(w.type, i, "the weights") for i in range(n + 2))
    (begin, *begins), (end, *ends) = window["pads"][:n], window["pads"][n:]
    (stride, *strides), (gap, *gaps) = window["strides"], window["dilations"]
    count = (depth + begin + end - (taps - 1) * gap - 1) // stride + 1
    if begin or end:
        x = b.Pad(x, np.array([0] * 4 + [begin, end] + [0] * 2 * (n - 1)))
    parts = [
        b.Slice(
            x, np.array([k * gap]), np.array([k * gap + (count - 1) * stride + 1]), np.array([2]), np.array([stride])
        )
        for k in range(taps)
    ]
    stacked = b.Concat(*(b.Unsqueeze(part, axes=(2,)) for part in parts), axis=2)
    spatial = tuple(range(4, n + 3))
    images = b.Reshape(b.Transpose(stacked, perm=(0, 3, 1, 2, *spatial)), np.array([-1, channels * taps, *rest]))
    weights = b.Reshape(w, np.array([outs, per_group * taps, *kernel]))
    inner = {"strides": tuple(strides), "dilations": tuple(gaps), "pads": (*begins, *ends)}
    y = _conv(b, images, weights, bias, group, inner)
    sizes = [static_dim(y.type, i, "the result of a convolution") for i in range(2, n + 1)]
    apart = b.Reshape(y, np.array([-1, count, outs, *sizes]))
    return b.Transpose(apart, perm=(0, 2, 1, *range(3, n + 2)))


@onnx.op("ConvTranspose")
def _(b, x, w, bias=None, *, auto_pad="NOTSET", dilations=(), group=1, kernel_shape=(), output_padding=(),
      output_shape=(), pads=(), strides=()):  # fmt: skip
    kernel = kernel_of(w, kernel_shape)
    n = len(kernel)
    same = auto_pad in ("SAME_UPPER", "SAME_LOWER")
    window = window_of(x, kernel, strides, pads, dilations, "NOTSET" if same else auto_pad)
    extra = tuple(output_padding or (0,) * n)
    if output_shape or same:
        begins, ends, beyond = [], [], []
        for i, (k, s, d) in enumerate(zip(kernel, window["strides"], window["dilations"], strict=True)):
            # How much more than stride * size the whole output is, and how much more than asked for.
            if not isinstance(k, int):
                raise UnsupportedError("ConvTranspose of a computed padding needs a kernel whose size is known")
            over = extra[i] + (k - 1) * d + 1 - s
            if output_shape:
                dimension = static_dim(x.type, 2 + i, "the input of ConvTranspose with output_shape")
                over += s * dimension - output_shape[i - n]
            # What is asked for beyond the full dimension lies behind the end, where no input element reaches.
            beyond.append(extra[i] + max(-over, 0))
            total = max(over, 0)
            small, big = total // 2, total - total // 2
            begins.append(small if auto_pad == "SAME_UPPER" else big)
            ends.append(big if auto_pad == "SAME_UPPER" else small)
        window["pads"], extra = (*begins, *ends), tuple(beyond)
    return b.ConvTranspose(x, w, bias, group=group, output_padding=extra, **window)


@onnx.op("DeformConv")
def _(b, x, w, offset, bias=None, mask=None, *, dilations=(), group=1, kernel_shape=(), offset_group=1, pads=(),
      strides=()):  # fmt: skip
    window = window_of(x, kernel_of(w, kernel_shape), strides, pads, dilations, "NOTSET")
    dtype = x.type.dtype
    floats = [v if v is None or dtype is DType.F32 else b.Cast(v, to=DType.F32) for v in (x, w, offset, bias, mask)]
    y = b.DeformConv(*floats, group=group, offset_group=offset_group, **window)
    return y if dtype is DType.F32 else b.Cast(y, to=dtype)


@onnx.op("MaxPool")
def _(b, x, *, auto_pad="NOTSET", ceil_mode=0, dilations=(), kernel_shape, pads=(), storage_order=0, strides=(), node):
    kernel = tuple(kernel_shape)
    window = window_of(x, kernel, strides, pads, dilations, auto_pad)
    y = b.MaxPool(x, kernel=kernel, ceil_mode=bool(ceil_mode), n_outputs=node.n_outputs, **window)
    return (y[0], _by_columns(b, x, y[1])) if storage_order and node.n_outputs > 1 else y


def _by_columns(b: Builder, x: Value, index: Value) -> Value:
    """Flat indices into images that are stored with their first spatial axis innermost."""
    n = rank(x, "the input of MaxPool")
    sizes = [b.Gather(b.Shape(x), np.array(axis)) for axis in range(2, n)]
    inner, outer = reduce(b.Mul, sizes), b.const(np.array(1))
    place = b.Mul(b.Div(index, inner), inner)
    for size in sizes:
        inner = b.Div(inner, size)
        place = b.Add(place, b.Mul(b.Mod(b.Div(index, inner), size), outer))
        outer = b.Mul(outer, size)
    return place


@onnx.op("AveragePool")
def _(b, x, *, auto_pad="NOTSET", ceil_mode=0, count_include_pad=0, dilations=(), kernel_shape, pads=(), strides=()):
    kernel = tuple(kernel_shape)
    window = window_of(x, kernel, strides, pads, dilations, auto_pad)
    return b.AveragePool(
        x, kernel=kernel, ceil_mode=bool(ceil_mode), count_include_pad=bool(count_include_pad), **window
    )


@onnx.op("LpPool")
def _(b, x, *, auto_pad="NOTSET", ceil_mode=0, dilations=(), kernel_shape, p=2, pads=(), strides=()):
    kernel = tuple(kernel_shape)
    window = window_of(x, kernel, strides, pads, dilations, auto_pad)
    return b.LpPool(x, kernel=kernel, p=p, ceil_mode=bool(ceil_mode), **window)


onnx.same("GlobalAveragePool", "GlobalMaxPool")


@onnx.op("GlobalLpPool")
def _(b, x, *, p=2):
    return b.GlobalLpPool(x, p=p)


@onnx.op("MaxRoiPool")
def _(b, x, rois, *, pooled_shape, spatial_scale=1.0):
    height, width = pooled_shape
    return b.MaxRoiPool(x, rois, height=height, width=width, scale=spatial_scale)


@onnx.op("MaxUnpool")
def _(b, x, index, shape=None, *, kernel_shape, pads=(), strides=()):
    # The indices are MaxPool's, into its whole input. That is the output here, which has the shape given, if any.
    if shape is None:
        window = window_of(x, kernel_shape, strides, pads, (), "NOTSET")
        n = len(kernel_shape)
        steps = np.array([1, 1, *window["strides"]])
        ends = [k - s - a - e for k, s, a, e in zip(kernel_shape, window["strides"], window["pads"][:n],
                                                    window["pads"][n:], strict=True)]  # fmt: skip
        shape = b.Add(b.Mul(b.Shape(x), steps), np.array([0, 0, *ends]))
    empty = b.Reshape(b.Fill(shape, np.zeros(1, x.type.dtype.numpy)), np.array([-1]))
    flat = b.ScatterElements(empty, b.Reshape(index, np.array([-1])), b.Reshape(x, np.array([-1])))
    return b.Reshape(flat, shape)


@onnx.op("Col2Im")
def _(b, x, image, block, *, dilations=(), pads=(), strides=()):
    n = static_dim(block.type, 0, "the number of axes of Col2Im")
    window = window_of(x, (1,) * n, strides, pads, dilations, "NOTSET")
    return b.Col2Im(x, image, block, **window)
