"""Fourier transforms, and complex numbers: pairs (real, imaginary) along a new last axis."""

from __future__ import annotations

import numpy as np

from minnow.converter.decomposition.spectrogram import mfcc, spectrogram
from minnow.converter.operand import constant, ints, is_known, rank
from minnow.converter.tflite.frontend import frontend as tflite
from minnow.converter.tflite.ops.custom import options_of
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder


@tflite.op("RFFT2D")
@tflite.complex("RFFT2D")
def _(b, x, length):
    n = rank(x, "the input of RFFT2D")
    height, width = (int(v) for v in constant(length, "the length of RFFT2D").reshape(-1))
    pair = b.Unsqueeze(x, axes=(n,))
    y = b.DFT(pair, np.array(width), np.array(n - 1), onesided=True)
    if height == 1 and x.type.shape is not None and x.type.shape[n - 2] == 1:
        return y
    return b.DFT(y, np.array(height), np.array(n - 2))


def part(b: Builder, x: Value, i: int) -> Value:
    """The real (0) or imaginary (1) parts."""
    return b.Gather(x, np.array(i), axis=-1)


@tflite.op("REAL")
@tflite.complex("REAL")
def _(b, x):
    return part(b, x, 0)


@tflite.op("IMAG")
@tflite.complex("IMAG")
def _(b, x):
    return part(b, x, 1)


@tflite.op("COMPLEX_ABS")
@tflite.complex("COMPLEX_ABS")
def _(b, x):
    return b.ReduceL2(x, axes=(-1,), keepdims=False)


@tflite.complex("MUL")
def _(b, x, y, *, fused_activation_function="NONE"):
    (a, c), (d, e) = ((part(b, v, 0), part(b, v, 1)) for v in (x, y))
    real, imaginary = b.Sub(b.Mul(a, d), b.Mul(c, e)), b.Add(b.Mul(a, e), b.Mul(c, d))
    n = rank(real, "complex numbers")
    return b.Concat(b.Unsqueeze(real, axes=(n,)), b.Unsqueeze(imaginary, axes=(n,)), axis=n)


@tflite.complex("RESHAPE")
def _(b, x, shape=None, *, new_shape=()):
    if shape is None or is_known(shape):
        wanted = list(new_shape) if shape is None else list(ints(shape))
        return b.Reshape(x, np.array([*wanted, 2]), allowzero=0 in wanted)
    return b.Reshape(x, b.Concat(b.Cast(shape, to=DType.I64), np.array([2]), axis=0), allowzero=True)


@tflite.complex("TRANSPOSE")
def _(b, x, perm):
    order = ints(perm, "the order of the axes")
    return b.Transpose(x, perm=(*order, len(order)))


@tflite.complex("SQUEEZE")
def _(b, x, *, squeeze_dims=()):
    n = rank(x, "the input of SQUEEZE") - 1
    sizes = x.type.shape or ()
    axes = tuple(a % n for a in squeeze_dims) or tuple(i for i, d in enumerate(sizes[:-1]) if d == 1)
    return b.Squeeze(x, axes=axes) if axes else x


@tflite.complex("EXPAND_DIMS")
def _(b, x, axis):
    (at,) = ints(axis, "the axis of EXPAND_DIMS")
    return b.Unsqueeze(x, axes=(at if at >= 0 else at + rank(x, "the input of EXPAND_DIMS"),))


@tflite.op("AudioSpectrogram")
def _(b, signal, *, node):
    o = options_of(node)
    return spectrogram(b, signal, int(o["window_size"]), int(o["stride"]), bool(o["magnitude_squared"]))


@tflite.op("Mfcc")
def _(b, spectrum, rate, *, node):
    o = options_of(node)
    band = (float(o["lower_frequency_limit"]), float(o["upper_frequency_limit"]))
    (samples,) = ints(rate, "the sample rate")
    return mfcc(b, spectrum, samples, band, int(o["filterbank_channel_count"]), int(o["dct_coefficient_count"]))
