"""Fourier transforms, complex numbers (pairs along a last axis), spectrograms and MFCC."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from minnow.converter.decomposition.spectrogram import mfcc, spectrogram
from minnow.converter.decomposition.strided_slice import strided_slice
from minnow.converter.operand import constant, ints, rank
from minnow.converter.tensorflow.frontend import frontend as tf
from minnow.converter.tensorflow.ops.movement import axis_operand, cast, split_evenly, wide
from minnow.converter.tensorflow.tensor import COMPLEX
from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder
from minnow.schema.registry.dimension import axes_of

# ---- transforms


def _transform(b: Builder, x: Value, axes: Sequence[int], inverse: bool) -> Any:
    for axis in axes:
        x = b.DFT(x, None, np.array(axis), inverse=inverse)
    return x


@tf.op("FFT", "FFT2D", "FFT3D", "IFFT", "IFFT2D", "IFFT3D", "BatchFFT", "BatchIFFT", complex=True)
def _(b, x, *, node):
    n = 2 if "2D" in node.op else 3 if "3D" in node.op else 1
    return _transform(b, x, [-2 - i for i in range(n)], "IFFT" in node.op)


@tf.op("RFFT", "RFFT2D", "RFFT3D", complex=True)
def _(b, x, length, *, node):
    sizes = _lengths(b, length, node.op)
    n = len(sizes)
    y = b.DFT(b.Unsqueeze(x, axes=(-1,)), sizes[-1], np.array(-2), onesided=True)
    for i in range(1, n):
        y = b.DFT(y, sizes[n - 1 - i], np.array(-2 - i))
    return y


@tf.op("IRFFT", "IRFFT2D", "IRFFT3D", complex=True)
def _(b, x, length, *, node):
    sizes = _lengths(b, length, node.op)
    n = len(sizes)
    for i in range(n - 1, 0, -1):
        x = b.DFT(x, sizes[n - 1 - i], np.array(-2 - i), inverse=True)
    return b.Squeeze(b.DFT(x, sizes[-1], np.array(-2), inverse=True, onesided=True), axes=(-1,))


def _lengths(b: Builder, length: Value, op: str) -> list[Any]:
    n = 2 if "2D" in op else 3 if "3D" in op else 1
    if length.is_const:
        return [np.array(v) for v in ints(length)]
    return [b.Gather(wide(b, length), np.array(i)) for i in range(n)]


# ---- complex numbers


def _part(b: Builder, x: Value, i: int) -> Any:
    return b.Gather(x, np.array(i), axis=-1)


def _pair(b: Builder, real: Value, imaginary: Value) -> Any:
    return b.Concat(b.Unsqueeze(real, axes=(-1,)), b.Unsqueeze(imaginary, axes=(-1,)), axis=-1)


@tf.op("Real", complex=True)
def _(b, x):
    return _part(b, x, 0)


@tf.op("Imag", complex=True)
def _(b, x):
    return _part(b, x, 1)


@tf.op("ComplexAbs", complex=True)
def _(b, x):
    return b.ReduceL2(x, axes=(-1,), keepdims=False)


@tf.op("Angle", complex=True)
def _(b, x):
    return b.Atan2(_part(b, x, 1), _part(b, x, 0))


@tf.op("Complex", complex=True)
def _(b, real, imaginary):
    if not (real.type.is_static and real.type.shape == imaginary.type.shape):
        shape = b.Shape(b.Add(real, imaginary))
        real, imaginary = b.Expand(real, shape), b.Expand(imaginary, shape)
    return _pair(b, real, imaginary)


@tf.op("Conj", complex=True)
def _(b, x):
    return b.Mul(x, np.array([1, -1], x.type.dtype.numpy))


@tf.complex("Add", "AddV2", "Sub", "AddN", "Neg", "ZerosLike")
def _(b, *xs, shape=None, node):
    if node.op == "Neg":
        return b.Neg(xs[0])
    if node.op == "ZerosLike":
        return b.Fill(b.Shape(xs[0]), np.zeros((), xs[0].type.dtype.numpy))
    return reduce(b.Sub if node.op == "Sub" else b.Add, xs)


@tf.complex("Mul")
def _(b, x, y):
    return _product(b, x, y)


@tf.complex("Square")
def _(b, x):
    return _product(b, x, x)


def _product(b: Builder, x: Value, y: Value) -> Any:
    a, c = (_part(b, x, i) for i in (0, 1))
    d, e = (_part(b, y, i) for i in (0, 1))
    return _pair(b, b.Sub(b.Mul(a, d), b.Mul(c, e)), b.Add(b.Mul(a, e), b.Mul(c, d)))


@tf.complex("Div", "RealDiv")
def _(b, x, y):
    conjugate = b.Mul(y, np.array([1, -1], y.type.dtype.numpy))
    return b.Div(_product(b, x, conjugate), b.ReduceSumSquare(y, axes=(-1,), keepdims=True))


@tf.complex("Exp")
def _(b, x):
    size, angle = b.Exp(_part(b, x, 0)), _part(b, x, 1)
    return _pair(b, b.Mul(size, b.Cos(angle)), b.Mul(size, b.Sin(angle)))


@tf.complex("Equal", "NotEqual")
def _(b, x, y, *, incompatible_shape_error=True, node):
    same = b.Cast(b.Equal(x, y), to=DType.I32)
    both = b.Equal(b.ReduceMin(same, axes=(-1,), keepdims=False), 1)
    return both if node.op == "Equal" else b.Not(both)


@tf.complex("Cast")
def _(b, x, *, SrcT, DstT, Truncate=False):
    if SrcT not in COMPLEX:
        real = cast(b, x, COMPLEX[DstT])
        return _pair(b, real, b.Fill(b.Shape(real), np.zeros((), COMPLEX[DstT].numpy)))
    if DstT not in COMPLEX:
        return cast(b, _part(b, x, 0), DstT)
    return cast(b, x, COMPLEX[DstT])


@tf.complex("Shape")
def _(b, x, *, out_type=DType.I32):
    return cast(b, b.Shape(x, end=-1), out_type)


@tf.complex("Reshape")
def _(b, x, shape):
    return b.Reshape(x, b.Concat(wide(b, shape), np.array([2]), axis=0), allowzero=True)


@tf.complex("ExpandDims")
def _(b, x, axis):
    at = axis_operand(axis)
    return b.Unsqueeze(x, axes=(at if at >= 0 else at - 1,))


@tf.complex("Squeeze")
def _(b, x, *, squeeze_dims=()):
    n = rank(x, "complex numbers") - 1
    shape = x.type.shape or ()
    axes = axes_of(squeeze_dims, n) if squeeze_dims else tuple(i for i in range(n) if shape[i] == 1)
    return b.Squeeze(x, axes=axes) if axes else x


@tf.complex("Transpose", "ConjugateTranspose")
def _(b, x, perm, *, node):
    order = ints(perm, "the order of axes")
    y = b.Transpose(x, perm=(*axes_of(order, len(order)), len(order)))
    return b.Mul(y, np.array([1, -1], x.type.dtype.numpy)) if node.op == "ConjugateTranspose" else y


def _front(axis: int) -> int:
    """An axis of complex numbers as one of pairs."""
    return axis if axis >= 0 else axis - 1


@tf.complex("ConcatV2")
def _(b, *xs):
    return b.Concat(*xs[:-1], axis=_front(axis_operand(xs[-1])))


@tf.complex("Pack")
def _(b, *xs, axis=0):
    at = _front(axis)
    return b.Concat(*(b.Unsqueeze(x, axes=(at,)) for x in xs), axis=at)


@tf.complex("Unpack")
def _(b, x, *, num, axis=0):
    at = _front(axis)
    return tuple(b.Squeeze(part, axes=(at,)) for part in split_evenly(b, x, at, num))


@tf.complex("Split")
def _(b, axis, x, *, num_split):
    return tuple(split_evenly(b, x, _front(axis_operand(axis)), num_split))


@tf.complex("GatherV2")
def _(b, x, indices, axis, *, batch_dims=0):
    if batch_dims:
        raise UnsupportedError("a Gather of complex numbers with batch_dims is not supported")
    return b.Gather(x, indices, axis=_front(axis_operand(axis)))


@tf.complex("Pad")
def _(b, x, pads):
    ends = constant(pads, "the padding of complex numbers").reshape(-1)
    return b.Pad(x, np.concatenate([ends, [0, 0]]).astype(np.int64))


@tf.complex("Slice")
def _(b, x, begin, size):
    start, dimension = (constant(v, "a slice of complex numbers").astype(np.int64) for v in (begin, size))
    return b.Slice(x, start, np.where(dimension == -1, np.iinfo(np.int64).max, start + dimension))


@tf.complex("StridedSlice")
def _(b, x, begin, end, strides, *, begin_mask=0, end_mask=0, ellipsis_mask=0, new_axis_mask=0, shrink_axis_mask=0):
    if ellipsis_mask:  # the pairs stand behind what the ellipsis is followed by
        known = [constant(v, "a slice of complex numbers") for v in (begin, end, strides)]
        mask = 1 << len(known[0])
        begin_mask, end_mask = begin_mask | mask, end_mask | mask
        begin, end, strides = (b.const(np.append(v, 1)) for v in known)
    return strided_slice(b, x, begin, end, strides, begin_mask=begin_mask, end_mask=end_mask,
                         ellipsis_mask=ellipsis_mask, new_axis_mask=new_axis_mask,
                         shrink_axis_mask=shrink_axis_mask)  # fmt: skip


@tf.complex("Sum", "Mean")
def _(b, x, axes, *, keep_dims=False, node):
    at = axes_of(ints(axes, "the axes"), rank(x, "complex numbers") - 1)
    op = b.ReduceSum if node.op == "Sum" else b.ReduceMean
    return op(x, axes=at, keepdims=keep_dims) if at else x


@tf.complex("MatMul", "BatchMatMulV2")
def _(b, x, y, *, transpose_a=False, transpose_b=False, adj_x=False, adj_y=False):
    if adj_x or adj_y:
        raise UnsupportedError("a product with the adjoint of complex matrices is not supported")
    (a, c), (d, e) = ([_part(b, v, i) for i in (0, 1)] for v in (x, y))

    def product(p: Value, q: Value) -> Any:
        return b.MatMul(p, q, transpose_a=transpose_a, transpose_b=transpose_b)

    return _pair(b, b.Sub(product(a, d), product(c, e)), b.Add(product(a, e), product(c, d)))


# ---- sound


@tf.op("AudioSpectrogram")
def _(b, signal, *, window_size, stride, magnitude_squared=False):
    return spectrogram(b, signal, window_size, stride, magnitude_squared)


@tf.op("Mfcc")
def _(b, spectrum, rate, *, upper_frequency_limit=4000.0, lower_frequency_limit=20.0, filterbank_channel_count=40,
      dct_coefficient_count=13):  # fmt: skip
    band = (lower_frequency_limit, upper_frequency_limit)
    rate = axis_operand(rate, "the sample rate")
    return mfcc(b, spectrum, rate, band, filterbank_channel_count, dct_coefficient_count)
