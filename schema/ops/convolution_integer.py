"""Convolution of 8-bit integers, exact."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, TensorType
from minnow.schema.ops import window
from minnow.schema.ops.convolution import Conv, conv_macs
from minnow.schema.ops.matmul import Int8
from minnow.schema.ops.window import AutoPad
from minnow.schema.registry.op import Arg, op


@op()
def ConvInteger(
    x: Int8,
    w: Int8,
    x_zero: Int8 | None = None,
    w_zero: Int8 | None = None,
    *,
    strides: tuple[int, ...],
    pads: tuple[int, ...],
    dilations: tuple[int, ...],
    group: int = 1,
    auto_pad: AutoPad = "",
):
    """`Conv` of (x - x_zero) and (w - w_zero) in i32, whose sums wrap; padding counts as `x_zero`.

    x is [N, C, spatial...], w [O, C / group, kernel...]; x_zero is one number, w_zero one, or one for each of the O.
    """
    n, _, *sizes = x.shape
    o, per_group, *kernel = w.shape
    span = window.spread(kernel, dilations)
    ends = window.resolve(sizes, span, strides, pads, auto_pad)
    out = window.counts(sizes, span, strides, ends)
    wide = x.astype(np.int64) - (0 if x_zero is None else int(x_zero.reshape(())))
    weights = w.astype(np.int64)
    if w_zero is not None:
        weights = weights - w_zero.astype(np.int64).reshape(-1, *(1,) * (w.ndim - 1))
    weights = weights.reshape(group, o // group, per_group, *kernel)
    count = int(np.prod(out))
    y = np.zeros((n, group, o // group, count), np.int64)
    for k, part in window.taps(window.padded(wide, ends, 0), out, kernel, strides, dilations):
        y += window.trailing(weights, *k) @ part.reshape(n, group, per_group, count)
    return y.astype(np.int32).reshape(n, o, *out)


@ConvInteger.shape
def _(x: Arg, w: Arg, x_zero: Arg | None, w_zero: Arg | None, **attrs: Any) -> TensorType:
    for operand, zero, what in ((x, x_zero, "input"), (w, w_zero, "weights")):
        if zero is not None and zero.dtype is not operand.dtype:
            raise ModelError(f"the {what} are {operand.dtype}, their zero point is {zero.dtype}")
        if zero is not None and zero.shape is not None and len(zero.shape) > 1:
            raise ModelError(f"the zero point of the {what} has the shape {zero.shape}")
    if x_zero is not None and x_zero.shape not in (None, (), (1,), ("?",)):
        raise ModelError(f"the zero point of the input is one number, not of shape {x_zero.shape}")
    # The zero points of the weights are one number, or as many as there are biases.
    each = w_zero if w_zero is not None and w_zero.shape not in ((), (1,)) else None
    bias = None if each is None else Arg(each.type.with_dtype(DType.F32))
    floats = [Arg(a.type.with_dtype(DType.F32)) for a in (x, w)]
    (y,) = Conv.infer([*floats, bias], attrs, 1)
    return y.with_dtype(DType.I32)


ConvInteger.macs(conv_macs)


@ConvInteger.samples
def _(rng):
    def bytes_of(shape, dtype):
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max + 1, shape).astype(dtype)

    def case(x, w, zeros="xw", types=(np.uint8, np.int8), strides=None, pads=None, dilations=None, **more):
        n = len(x) - 2
        attrs = {
            "strides": strides or (1,) * n,
            "pads": pads or (0,) * 2 * n,
            "dilations": dilations or (1,) * n,
            **more,
        }
        x_zero = bytes_of((), types[0]) if "x" in zeros else None
        w_zero = bytes_of((w[0],) if "W" in zeros else (), types[1]) if "w" in zeros.lower() else None
        return (bytes_of(x, types[0]), bytes_of(w, types[1]), x_zero, w_zero), attrs

    yield case((1, 3, 7, 5), (4, 3, 3, 3), "")
    for types in ((np.uint8, np.uint8), (np.int8, np.int8), (np.int8, np.uint8)):
        yield case((1, 3, 7, 5), (4, 3, 3, 3), "xw", types)
    yield case((2, 5, 7, 11), (17, 5, 3, 3), "xW", pads=(1, 0, 2, 1))
    yield case((1, 17, 5, 5), (33, 17, 1, 1), "x")
    yield case((1, 33, 9, 9), (13, 33, 3, 3), "xW", strides=(2, 3), dilations=(2, 1), pads=(1, 1, 1, 1))
    yield case((2, 6, 8, 7), (9, 2, 3, 3), "xw", group=3)
    yield case((1, 17, 9, 7), (17, 1, 3, 3), "xW", pads=(1, 1, 1, 1), group=17)
    yield case((1, 3, 10, 9), (5, 3, 4, 3), "x", strides=(3, 2), auto_pad="SAME_UPPER")
    yield case((1, 3, 10, 9), (5, 3, 4, 2), "x", strides=(3, 2), auto_pad="SAME_LOWER")
    yield case((2, 5, 11), (7, 5, 3), "xW", strides=(2,), pads=(1, 0))
    yield case((1, 3, 4, 5, 6), (4, 3, 2, 3, 3), "xw", strides=(1, 2, 1), pads=(1, 1, 0, 0, 1, 2))
    yield case((0, 3, 5, 5), (4, 3, 3, 3), "xw")
    yield case((1, 1, 1, 1), (1, 1, 1, 1), "xw")
    yield case((1, 0, 3, 3), (2, 0, 1, 1), "xw")
