"""Fourier transforms and the mel scale."""

from __future__ import annotations

import numpy as np

from minnow.converter.onnx.frontend import frontend as onnx
from minnow.converter.onnx.tensor import dtype_of


@onnx.op("DFT", until=19)
def _(b, x, length=None, *, axis=1, inverse=0, onesided=0):
    return b.DFT(x, length, np.array(axis), inverse=bool(inverse), onesided=bool(onesided))


@onnx.op("DFT", since=20)
def _(b, x, length=None, axis=None, *, inverse=0, onesided=0):
    return b.DFT(x, length, axis, inverse=bool(inverse), onesided=bool(onesided))


@onnx.op("STFT")
def _(b, signal, step, window=None, length=None, *, onesided=1):
    return b.STFT(signal, step, window, length, onesided=bool(onesided))


@onnx.op("MelWeightMatrix")
def _(b, bins, length, rate, low, high, *, output_datatype=1):
    return b.MelWeightMatrix(bins, length, rate, low, high, to=dtype_of(output_datatype, "MelWeightMatrix"))
