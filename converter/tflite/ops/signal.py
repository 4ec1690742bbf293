"""The audio front end of TFLite for microcontrollers: custom operators `Signal*`, in integers and exact to the bit.

Their arithmetic is that of 32-bit and 64-bit integers with shifts; here it is all int64, which holds every step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.converter.operand import constant, rank, static_dim
from minnow.converter.tflite.frontend import Operation
from minnow.converter.tflite.frontend import frontend as tflite
from minnow.converter.tflite.ops.custom import options_of
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import DType, TensorType, Value
from minnow.schema.ops import Builder

_Q15 = 15
_HALF = 1 << (_Q15 - 1)
_MAX = (1 << _Q15) - 1
_LONGEST = 1 << 14


def _wide(b: Builder, x: Value) -> Value:
    return b.Cast(x, to=DType.I64)


def _right(b: Builder, x: Value, bits: int | Value) -> Value:
    return b.BitShift(x, bits if isinstance(bits, Value) else np.array(bits), direction="RIGHT")


def _left(b: Builder, x: Value, bits: int | Value) -> Value:
    return b.BitShift(x, bits if isinstance(bits, Value) else np.array(bits), direction="LEFT")


def _bits(b: Builder, x: Value, most: int = 32) -> Value:
    """How many bits a number that is not negative needs: 0 for 0, 1 for 1, 2 for 2 and 3."""
    powers = np.left_shift(np.int64(1), np.arange(most, dtype=np.int64))
    reached = b.GreaterOrEqual(b.Unsqueeze(x, axes=(rank(x, "a number"),)), powers)
    return b.ReduceSum(_wide(b, reached), axes=(-1,), keepdims=False)


def _low_32(b: Builder, x: Value) -> Value:
    """The number that is left in an unsigned integer of 32 bits."""
    return b.BitwiseAnd(x, np.array(0xFFFFFFFF))


def _option(node: Operation, name: str, low: int, high: int) -> int:
    value = options_of(node).get(name)
    if not isinstance(value, int) or not low <= value <= high:
        raise ModelError(f"the option '{name}' of {node.op} has the invalid value {value}")
    return value


@tflite.op("SignalWindow")
def _(b, x, window, *, node):
    product = _right(b, b.Mul(_wide(b, x), _wide(b, window)), _option(node, "shift", 0, 31))
    return b.Cast(b.Min(b.Max(product, -(_MAX + 1)), _MAX), to=DType.I16)


@tflite.op("SignalFftAutoScale")
def _(b, x, *, node):
    wide = _wide(b, x)
    most = b.Min(b.ReduceMax(b.Abs(wide), axes=(-1,), keepdims=False), _MAX)
    bits = b.Sub(b.const(np.array(15)), _bits(b, most))
    scaled = _left(b, wide, b.Unsqueeze(bits, axes=(rank(bits, "the scale"),)))
    return b.Cast(scaled, to=DType.I16), b.Cast(bits, to=DType.I32)


def _rounded(b: Builder, x: Value) -> Value:
    """A product of Q15 numbers as one of them."""
    return _right(b, b.Add(x, _HALF), _Q15)


Pair = tuple[Value, Value]


def _scaled(b: Builder, x: Pair, by: int) -> Pair:
    """Both parts divided, by way of a product with 1 / by."""
    return _rounded(b, b.Mul(x[0], _MAX // by)), _rounded(b, b.Mul(x[1], _MAX // by))


def _times(b: Builder, x: Pair, w: np.ndarray[Any, Any]) -> Pair:
    real, imaginary = w[..., 0], w[..., 1]
    return (
        _rounded(b, b.Sub(b.Mul(x[0], real), b.Mul(x[1], imaginary))),
        _rounded(b, b.Add(b.Mul(x[0], imaginary), b.Mul(x[1], real))),
    )


def _add(b: Builder, x: Pair, y: Pair) -> Pair:
    return b.Add(x[0], y[0]), b.Add(x[1], y[1])


def _sub(b: Builder, x: Pair, y: Pair) -> Pair:
    return b.Sub(x[0], y[0]), b.Sub(x[1], y[1])


def _twiddles(phases: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.floor(0.5 + _MAX * np.stack([np.cos(phases), np.sin(phases)], -1)).astype(np.int64)


def _factors(n: int) -> list[int]:
    """Fours first, then a two: the order in which lengths that are powers of two are taken apart."""
    found = []
    while n > 1:
        p = 4 if n % 4 == 0 else 2
        found.append(p)
        n //= p
    return found


def _transform(b: Builder, x: Pair, n: int) -> Pair:
    """Fourier transform of n complex Q15 numbers along the last axis, divided by n, in the steps of kissfft."""
    order = np.arange(n).reshape(1, n)
    for p in _factors(n):  # each stage takes every p-th element
        order = np.swapaxes(order.reshape(order.shape[0], -1, p), 1, 2).reshape(order.shape[0] * p, -1)
    x = (b.Gather(x[0], order.reshape(-1), axis=-1), b.Gather(x[1], order.reshape(-1), axis=-1))
    done = 1
    for p in reversed(_factors(n)):
        x = _stage(b, x, n, p, done)
        done *= p
    return x


def _stage(b: Builder, x: Pair, n: int, p: int, m: int) -> Pair:
    """Butterflies over p transforms of length m each."""
    grid = np.array([-1, n // (p * m), p, m])
    both = tuple(b.Reshape(v, grid) for v in x)
    parts = [_scaled(b, (b.Gather(both[0], np.array(k), axis=2), b.Gather(both[1], np.array(k), axis=2)), p)
             for k in range(p)]  # fmt: skip
    stride = n // (p * m)
    phases = -2 * np.pi * np.arange(m) * stride / n
    turned = [parts[0], *(_times(b, parts[k], _twiddles(phases * k)) for k in range(1, p))]
    if p == 2:
        out = [_add(b, parts[0], turned[1]), _sub(b, parts[0], turned[1])]
    else:
        far, near = _sub(b, turned[0], turned[2]), _add(b, turned[0], turned[2])
        total, (dr, di) = _add(b, turned[1], turned[3]), _sub(b, turned[1], turned[3])
        out = [_add(b, near, total), (b.Add(far[0], di), b.Sub(far[1], dr)), _sub(b, near, total),
               (b.Sub(far[0], di), b.Add(far[1], dr))]  # fmt: skip
    whole = np.array([-1, n])
    return tuple(b.Reshape(b.Concat(*(b.Unsqueeze(v[i], axes=(2,)) for v in out), axis=2), whole) for i in (0, 1))


@tflite.op("SignalRfft")
def _(b, x, *, node):
    n = _option(node, "fft_length", 4, _LONGEST)
    size = static_dim(x.type, -1, "the input of SignalRfft")
    if n & (n - 1):
        raise UnsupportedError(f"SignalRfft of the length {n} is not supported", why="it must be a power of two")
    if x.type.dtype is not DType.I16:
        raise UnsupportedError(f"SignalRfft of {x.type.dtype} is not supported")
    lead = list((x.type.shape or ())[:-1])
    flat = b.Reshape(_wide(b, x), np.array([-1, size]))
    flat = b.Slice(flat, np.array([0]), np.array([n]), np.array([1])) if size > n else flat
    if size < n:
        flat = b.Pad(flat, np.array([0, 0, 0, n - size]))
    half = n // 2
    pairs = b.Reshape(flat, np.array([-1, half, 2]))
    real, imaginary = (b.Gather(pairs, np.array(k), axis=2) for k in (0, 1))
    spectrum = _scaled(b, _transform(b, (real, imaginary), half), 2)
    # Bins k and half - k of the real transform come from the same two bins of the complex one.
    k = np.arange(half + 1)

    def bins(at: np.ndarray[Any, Any]) -> Pair:
        return b.Gather(spectrum[0], at % half, axis=1), b.Gather(spectrum[1], at % half, axis=1)

    low = np.where(k <= half // 2, k, half - k)
    first, (second_r, second_i) = bins(low), bins(half - low)
    mirror = (second_r, b.Neg(second_i))
    one, two = _add(b, first, mirror), _sub(b, first, mirror)
    turned = _times(b, two, _twiddles(-np.pi * (low / half + 0.5)))
    is_low = k <= half // 2
    yr = _right(b, b.Where(b.const(is_low), b.Add(one[0], turned[0]), b.Sub(one[0], turned[0])), 1)
    yi = _right(b, b.Where(b.const(is_low), b.Add(one[1], turned[1]), b.Sub(turned[1], one[1])), 1)
    # The ends are real: the sum and the difference of both parts.
    zero_r, zero_i = bins(np.zeros(1, np.int64))
    ends = b.Concat(b.Add(zero_r, zero_i), *([b.Slice(yr, np.array([1]), np.array([half]), np.array([1]))]),
                    b.Sub(zero_r, zero_i), axis=1)  # fmt: skip
    inner = (k > 0) & (k < half)
    yi = b.Where(b.const(inner), yi, b.const(np.array(0)))
    y = b.Concat(b.Unsqueeze(ends, axes=(2,)), b.Unsqueeze(yi, axes=(2,)), axis=2)
    return b.Cast(b.Reshape(y, np.array([*lead, 2 * (half + 1)])), to=DType.I16)


@tflite.op("SignalEnergy")
def _(b, x, *, node):
    size = static_dim(x.type, -1, "the input of SignalEnergy") // 2
    begin, end = (_option(node, name, 0, size) for name in ("start_index", "end_index"))
    pairs = b.Reshape(_wide(b, x), np.array([size, 2]))
    energy = b.ReduceSum(b.Mul(pairs, pairs), axes=(1,), keepdims=False)
    index = np.arange(size)
    within = b.Where(b.const((index >= begin) & (index < end)), energy, b.const(np.array(0)))
    return b.Cast(within, to=DType.U32)


@tflite.op("SignalFilterBank")
def _(b, x, weights, unweights, starts, weight_starts, widths, *, node):
    n = _option(node, "num_channels", 1, 1 << 12)
    size = static_dim(x.type, -1, "the input of SignalFilterBank")
    tables = [constant(v, "a table of SignalFilterBank").astype(np.int64).reshape(-1) for v in
              (weights, unweights, starts, weight_starts, widths)]  # fmt: skip
    matrix = np.zeros((n + 1, size), np.int64)
    for i, (start, at, width) in enumerate(zip(*(t[: n + 1] for t in tables[2:]), strict=True)):
        if min(start, at, width) < 0 or start + width > size or at + width > min(len(tables[0]), len(tables[1])):
            raise ModelError(f"channel {i} of SignalFilterBank lies outside of its tables")
        matrix[i, start : start + width] += tables[0][at : at + width]
        if i < n:  # what one channel leaves is the next one's
            matrix[i + 1, start : start + width] += tables[1][at : at + width]
    # Elements in the sums of a row are few: the products of all are no cost.
    sums = b.ReduceSum(b.Mul(_wide(b, x), matrix[1:]), axes=(1,), keepdims=False)
    return b.Cast(sums, to=DType.U64)


@tflite.op("SignalFilterBankSquareRoot")
def _(b, x, bits):
    n = _wide(b, x)
    root = _wide(b, b.Floor(b.Sqrt(b.Cast(n, to=DType.F64))))
    # The root of the nearest double may be one off.
    root = b.Sub(root, _wide(b, b.Greater(b.Mul(root, root), n)))
    more = b.Add(root, 1)
    root = b.Add(root, _wide(b, b.LessOrEqual(b.Mul(more, more), n)))
    rest = b.Sub(n, b.Mul(root, root))
    short = b.LessOrEqual(n, 0xFFFFFFFF)
    full = b.And(short, b.Equal(root, 0xFFFF))
    up = b.And(b.Greater(rest, root), b.Not(full))
    return b.Cast(_right(b, b.Add(root, _wide(b, up)), _wide(b, bits)), to=DType.U32)


@tflite.op("SignalFilterBankSpectralSubtraction")
def _(b, x, *, node):
    n = _option(node, "num_channels", 1, 1 << 12)
    up, down = (_option(node, name, 0, 31) for name in ("smoothing_bits", "spectral_subtraction_bits"))
    factors = [_option(node, name, 0, 1 << 30) for name in
               ("smoothing", "alternate_smoothing", "one_minus_smoothing", "alternate_one_minus_smoothing",
                "min_signal_remaining")]  # fmt: skip
    odd = np.arange(n) % 2 == 1
    smoothing, rest = np.where(odd, factors[1], factors[0]), np.where(odd, factors[3], factors[2])
    variables, key = node.context.variables, f"{node.name}/noise"
    variables.initial.setdefault(key, np.zeros(n, np.uint32))
    noise = _wide(b, variables.read(key, TensorType(DType.U32, (n,))))
    signal = _wide(b, x)
    scaled = _low_32(b, _left(b, signal, up))
    estimate = _low_32(b, _right(b, b.Add(b.Mul(scaled, smoothing), b.Mul(noise, rest)), down))
    below = b.Min(estimate, scaled)
    least = _low_32(b, _right(b, b.Mul(signal, factors[4]), down))
    result = b.Max(_right(b, b.Sub(scaled, below), up), least)
    after = b.Cast(below if options_of(node).get("clamping") else estimate, to=DType.U32)
    variables.assign(key, after)
    return b.Cast(result, to=DType.U32), after


@tflite.op("SignalPCAN")
def _(b, x, noise, table, *, node):
    shift = _option(node, "snr_shift", 0, 63)
    lut = constant(table, "the table of SignalPCAN").astype(np.int64).reshape(-1)
    if len(lut) < 125:
        raise ModelError(f"the table of SignalPCAN has {len(lut)} numbers, but must have 125")
    at = _wide(b, noise)
    bits = b.Max(_bits(b, at), 2)  # the first three numbers have entries of their own
    low = b.LessOrEqual(bits, 11)
    apart = b.Sub(bits, 11)
    shifted = b.Where(low, _left(b, at, b.Max(b.Neg(apart), 0)), _right(b, at, b.Max(apart, 0)))
    part = b.BitwiseAnd(shifted, np.array(0x3FF))
    first = b.Sub(b.Mul(bits, 4), 6)

    def entry(k: int) -> Value:
        return b.Gather(b.const(lut), b.Add(first, k))

    value = b.Add(_right(b, b.Mul(entry(2), part), 5), b.Mul(entry(1), 32))
    value = b.Add(_right(b, b.Add(b.Mul(value, part), 1 << 14), 15), entry(0))
    value = b.Where(b.LessOrEqual(at, 2), b.Gather(b.const(lut), b.Min(at, 2)), value)
    gain = _low_32(b, _wide(b, b.Cast(value, to=DType.I16)))
    snr = _low_32(b, _right(b, b.Mul(_wide(b, x), gain), shift))
    small = _right(b, b.Mul(snr, snr), 20)
    big = b.Sub(_right(b, snr, 6), 64)
    return b.Cast(b.Where(b.Less(snr, 2 << 12), small, big), to=DType.U32)


@tflite.op("SignalFilterBankLog")
def _(b, x, *, node):
    scale, correction = _option(node, "output_scale", 0, 1 << 30), _option(node, "input_correction_bits", 0, 31)
    steps = np.arange(130) / 128
    table = np.where(steps < 1, np.rint((np.log2(1 + steps) - steps) * 65536), 0).astype(np.int64)
    number = _low_32(b, _left(b, _wide(b, x), correction))
    whole = b.Max(b.Sub(_bits(b, number), 1), 0)
    over = b.Sub(number, _left(b, b.const(np.array(1)), whole))
    apart = b.Sub(whole, 16)
    part = b.Where(b.Less(apart, 0), _left(b, over, b.Max(b.Neg(apart), 0)), _right(b, over, b.Max(apart, 0)))
    part = b.Max(part, 0)
    segment = _right(b, part, 9)
    low, high = (b.Gather(b.const(table), b.Add(segment, k)) for k in (0, 1))
    inside = _right(b, b.Mul(b.Sub(high, low), b.Sub(part, b.Mul(segment, 512))), 16)
    log2 = b.Add(b.Mul(whole, 65536), b.Add(b.Add(part, low), inside))
    log = _right(b, b.Add(b.Mul(log2, 45426), 32768), 16)
    scaled = _right(b, _low_32(b, b.Add(b.Mul(log, scale), 32768)), 16)
    result = b.Where(b.Greater(number, 1), b.Min(scaled, _MAX), b.const(np.array(0)))
    return b.Cast(result, to=DType.I16)
