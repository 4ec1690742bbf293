"""Fourier transforms, and the matrix of the mel scale. Complex numbers are pairs along a last axis of size 2."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.schema.errors import ModelError
from minnow.schema.ir import UNKNOWN, Dim, DType, TensorType
from minnow.schema.registry.dimension import agree, axis_of, need_rank, scalar
from minnow.schema.registry.op import Arg, Float, Int, Sizes, op

Array = np.ndarray[Any, Any]


@op()
def DFT(
    x: Float,
    length: Sizes | None = None,
    axis: Sizes | None = None,
    *,
    inverse: bool = False,
    onesided: bool = False,
):
    """Discrete Fourier transform of x[..., 1 (real) or 2 (complex)] along an axis (a scalar, default -2).

    y[k] = sum of x[n] exp(-2 pi i k n / N); the inverse turns the other way and divides by N. The signal is cut or
    padded with zeros to `length` = N, by default its size. `onesided` gives the first N // 2 + 1 values only; the
    inverse takes only these, N being 2 * (size - 1) by default, and gives a real signal, [..., 1].
    """
    at = axis_of(-2 if axis is None else int(np.reshape(axis, ())), x.ndim)
    signal = _complex(x)
    n = _default_length(x.shape[at], inverse, onesided) if length is None else int(np.reshape(length, ()))
    if inverse and onesided:
        return np.fft.irfft(signal, n, at)[..., None].astype(x.dtype)
    y = (np.fft.ifft if inverse else np.fft.fft)(signal, n, at)
    return _pairs(np.take(y, range(n // 2 + 1), at) if onesided else y).astype(x.dtype)


@op()
def STFT(
    signal: Float,
    step: Sizes,
    window: Float | None = None,
    length: Sizes | None = None,
    *,
    onesided: bool = True,
):
    """Fourier transforms of the windows of signal[B, L, 1 (real) or 2 (complex)], one every `step` samples.

    A window has `length` samples (default: those of `window`, or all) and is multiplied with `window`. The result is
    [B, frames, bins, 2], with frames = (L - length) // step + 1, and with length // 2 + 1 bins if `onesided`.
    """
    n, hop = _frame(signal.shape[1], window, length), int(np.reshape(step, ()))
    frames = max((signal.shape[1] - n) // hop + 1, 0)
    places = np.arange(frames)[:, None] * hop + np.arange(n)
    parts = _complex(signal)[:, places] * (1 if window is None else window.astype(np.float64))
    y = np.fft.fft(parts, n, -1)
    return _pairs(y[..., : n // 2 + 1] if onesided else y).astype(signal.dtype)


@op()
def MelWeightMatrix(bins: Int, length: Int, sample_rate: Int, low: Float, high: Float, *, to: DType = DType.F32):
    """Weights[length // 2 + 1, bins] that turn a one-sided spectrum into one over the mel scale. Operands: scalars.

    Each column is a triangle with peak 1; their edges lie evenly on mel(f) = 2595 log10(1 + f / 700) from `low` to
    `high`, in hertz, rounded down to multiples of sample_rate / (length + 1).
    """
    n, size, rate = (int(np.reshape(v, ())) for v in (bins, length, sample_rate))
    ends = [2595 * np.log10(1 + float(np.reshape(v, ())) / 700) for v in (low, high)]
    mels = ends[0] + np.arange(n + 2) * ((ends[1] - ends[0]) / (n + 2))
    edges = np.floor((size + 1) * (700 * (10 ** (mels / 2595) - 1)) / rate)[:, None]
    at = np.arange(size // 2 + 1)
    left, peak, right = edges[:-2], edges[1:-1], edges[2:]
    rising = np.where(peak == left, at == peak, (at - left) / (peak - left))
    falling = (right - at) / (right - peak)
    triangle = np.where(at <= peak, np.maximum(rising, 0), np.maximum(np.where(right > peak, falling, 0), 0))
    # From the peak on the falling side counts, if it has one.
    return np.where((at == peak) & (right > peak), 1, triangle).T.astype(to.numpy)


def _complex(x: Array) -> Array:
    wide = x.astype(np.float64)
    return wide[..., 0] + 1j * wide[..., 1] if x.shape[-1] == 2 else wide[..., 0] + 0j


def _pairs(y: Array) -> Array:
    return np.stack([y.real, y.imag], -1)


def _default_length(dim: int, inverse: bool, onesided: bool) -> int:
    return 2 * (dim - 1) if inverse and onesided else dim


def _frame(dim: int, window: Array | None, length: Array | None) -> int:
    if length is not None:
        return int(np.reshape(length, ()))
    return dim if window is None else len(window)


# ---- types -------------------------------------------------------------------------------------------------------


def _known(arg: Arg | None, what: str) -> int | None:
    """The number of a scalar operand, which must be one."""
    if arg is not None and arg.type.count not in (1, None):
        raise ModelError(f"{what} is {arg.type}, not one number")
    return scalar(arg)


def _parts(x: Arg) -> None:
    if x.shape is not None and x.shape[-1] not in (1, 2) and isinstance(x.shape[-1], int):
        raise ModelError(f"the last axis of {x.type} is not 1 (real) or 2 (complex)")


def _bins(n: Dim, onesided: bool) -> Dim:
    if isinstance(n, int):
        if n < 1:
            raise ModelError(f"the length of the transform is {n}", why="it must be positive")
        return n // 2 + 1 if onesided else n
    return UNKNOWN if onesided else n


@DFT.shape
def _(x: Arg, length: Arg | None, axis: Arg | None, inverse: bool, onesided: bool) -> TensorType:
    given, at = _known(length, "the length"), -2 if axis is None else _known(axis, "the axis")
    if x.shape is None:
        return x.type
    if len(x.shape) < 2:
        raise ModelError(f"the input {x.type} has no axis but that of real and imaginary parts")
    _parts(x)
    last = 1 if inverse and onesided else 2
    if at is None:
        return x.type.with_shape((UNKNOWN,) * (len(x.shape) - 1) + (last,))
    at = axis_of(at, len(x.shape))
    if at == len(x.shape) - 1:
        raise ModelError(f"axis {at} of {x.type} holds real and imaginary parts", why="no transform runs along it")
    dim = x.shape[at]
    n: Dim = UNKNOWN if length is not None else dim
    if given is not None:
        n = given
    elif length is None and inverse and onesided:
        n = 2 * (dim - 1) if isinstance(dim, int) else UNKNOWN
    return x.type.with_shape((*x.shape[:at], _bins(n, onesided and not inverse), *x.shape[at + 1 : -1], last))


@STFT.shape
def _(signal: Arg, step: Arg, window: Arg | None, length: Arg | None, onesided: bool) -> TensorType:
    need_rank(signal, 3, "the signal")
    _parts(signal)
    if window is not None:
        need_rank(window, 1, "the window")
        if window.dtype is not signal.dtype:
            raise ModelError(f"the window is {window.dtype}, the signal {signal.dtype}")
    hop, given = _known(step, "the step"), _known(length, "the length of a frame")
    if hop is not None and hop < 1:
        raise ModelError(f"the step is {hop}", why="it must be positive")
    batch, dim = (UNKNOWN, UNKNOWN) if signal.shape is None else signal.shape[:2]
    n: Dim = UNKNOWN if given is None else given
    if window is not None:
        n = agree([n, (window.shape or (UNKNOWN,))[0]], "the window and the length of a frame")
    elif length is None:
        n = dim
    bins = _bins(n, onesided)
    frames: Dim = UNKNOWN
    if isinstance(n, int) and isinstance(dim, int) and hop is not None:
        frames = max((dim - n) // hop + 1, 0)
    return TensorType(signal.dtype, (batch, frames, bins, 2))


@MelWeightMatrix.shape
def _(bins: Arg, length: Arg, sample_rate: Arg, low: Arg, high: Arg, to: DType) -> TensorType:
    n, size, rate = (_known(a, w) for a, w in ((bins, "bins"), (length, "length"), (sample_rate, "sample_rate")))
    for what, value, least in (("bins", n, 0), ("length", size, 1), ("sample_rate", rate, 1)):
        if value is not None and value < least:
            raise ModelError(f"{what} is {value}, it must be at least {least}")
    _known(low, "low"), _known(high, "high")
    return TensorType(to, (UNKNOWN if size is None else size // 2 + 1, UNKNOWN if n is None else n))


# ---- samples -----------------------------------------------------------------------------------------------------


def _number(n: int, dtype: Any = np.int64) -> Array:
    return np.array(n, dtype)


@DFT.samples
def _(rng):
    for n in (1, 2, 3, 4, 5, 8, 12, 17, 30, 49, 64, 67, 121, 143, 210, 256, 400, 1009):
        yield ((2, n, 1),), {}
        yield ((3, n, 1),), {"onesided": True}
    for n in (1, 6, 13, 15, 97, 128, 202):
        yield ((2, n, 2),), {}
        yield ((1, n, 2),), {"inverse": True}
        yield ((9, n, 3, 2), None, _number(1)), {"inverse": True}
        yield ((2, n // 2 + 1, 2), _number(n)), {"inverse": True, "onesided": True}
    yield ((2, 9, 2),), {"inverse": True, "onesided": True}
    yield ((2, 9, 1),), {"inverse": True}
    yield ((5, 4, 3, 2), None, _number(0, np.int32)), {}
    yield ((5, 4, 3, 1), _number(7, np.int32), _number(-3)), {}
    yield ((5, 4, 6, 1), np.array([4]), np.array([2])), {"onesided": True}
    yield ((0, 4, 1),), {}
    yield ((2, 0, 1), _number(3)), {}
    yield (rng.standard_normal((2, 37, 2)),), {}
    yield (rng.standard_normal((2, 40, 1)),), {"onesided": True}
    yield (rng.standard_normal((2, 24, 1)).astype(np.float16),), {}
    yield ((200, 5, 1),), {"onesided": True}
    yield ((17, 40, 2),), {}


@STFT.samples
def _(rng):
    hann = np.hanning(16).astype(np.float32)
    yield ((1, 128, 1), _number(8), hann), {}
    yield ((2, 61, 1), _number(5), hann[:15], _number(15)), {"onesided": False}
    yield ((2, 50, 2), _number(7, np.int32), None, _number(10, np.int32)), {"onesided": False}
    yield ((1, 33, 1), _number(3)), {}
    yield ((3, 40, 1), np.array([50]), hann, None), {}
    yield ((1, 10, 1), _number(1), hann), {}
    yield (rng.standard_normal((2, 90, 1)), _number(4), None, _number(34)), {}
    yield (rng.standard_normal((1, 64, 1)).astype(np.float16), _number(8), hann.astype(np.float16)), {}
    yield ((1, 1600, 1), _number(160), np.hanning(400).astype(np.float32)), {}


@MelWeightMatrix.samples
def _(rng):
    def row(bins, length, rate, low, high, dtype=np.float32):
        return (*(_number(v) for v in (bins, length, rate)), np.array(low, dtype), np.array(high, dtype))

    yield row(8, 16, 8192, 0.0, 4096.0), {}
    yield row(40, 400, 16000, 20.0, 7600.0), {}
    yield row(5, 13, 8000, 100.0, 3000.0, np.float64), {"to": DType.F64}
    yield row(64, 128, 16000, 0.0, 8000.0), {}
    yield row(0, 16, 8000, 0.0, 4000.0), {}
    yield row(4, 32, 8000, 0.0, 4000.0), {"to": DType.I32}
