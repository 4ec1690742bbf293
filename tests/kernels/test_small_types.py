"""Types of 8 bits and less in the engine, bit by bit against ml_dtypes and against ONNX's reference."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import numpy_helper

from minnow.runtime import _engine
from minnow.schema.ir import DType

Array = np.ndarray[Any, Any]

SMALL = [t for t in DType if t.is_storage]
FLOATS = [t for t in SMALL if t.is_float and t is not DType.F8E8M0]
INTS = [t for t in SMALL if t.is_int]


def codes(dtype: DType) -> Array:
    return np.arange(2**dtype.bits, dtype=np.uint8).view(dtype.numpy)


def cast(x: Array, to: DType, **attrs: Any) -> Array:
    result: Array = _engine.run_op("Cast", {"to": to, **attrs}, [np.ascontiguousarray(x)])[0]
    return result


def bits(x: Array) -> Array:
    return np.atleast_1d(x).view(f"u{x.dtype.itemsize}")


def assert_same_bits(got: Array, want: Array, of: Array) -> None:
    assert got.dtype == want.dtype
    wrong = np.flatnonzero(bits(got) != bits(want))
    assert not wrong.size, f"{wrong.size} differ, {of[wrong[0]]!r} becomes {got[wrong[0]]!r}, not {want[wrong[0]]!r}"


def numbers(dtype: DType) -> Array:
    """f32 numbers: all of the type, what lies between two of them and beside that, all of f16, any bits."""
    rng = np.random.default_rng(0)
    exact = np.unique(codes(dtype).astype(np.float32))
    exact = exact[np.isfinite(exact)]
    ties = (exact[1:] + exact[:-1]) / 2
    factors = np.array([1.01, 1.03, 1.0625, 1.1, 1.125, 1.25, 1.5, 2, 1e6])
    beyond = np.minimum(float(exact[-1]) * factors, 3.4e38).astype(np.float32)
    near = [np.nextafter(ties, np.float32(s) * np.float32(np.inf)) for s in (-1, 1)]
    halves = np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float32)
    anything = rng.integers(0, 2**32, 20000, np.uint32).view(np.float32)
    found = np.concatenate([exact, ties, *near, beyond, -beyond, halves, anything])
    return found[~np.isnan(found)]


@pytest.mark.parametrize("to", [DType.F32, DType.F16, DType.BF16, DType.F64], ids=str)
@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_every_code_is_the_number_it_is_elsewhere(dtype, to):
    x = codes(dtype)
    with np.errstate(all="ignore"):
        want = x.astype(np.float32).astype(to.numpy)
    got = cast(x, to)
    same = np.isnan(got) & np.isnan(want) | (bits(got) == bits(want))
    assert same.all(), x[~same]


@pytest.mark.parametrize("source", [DType.F32, DType.F16, DType.BF16, DType.F64], ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_floats_round_as_elsewhere(dtype, source):
    with np.errstate(all="ignore"):
        x = numbers(dtype).astype(source.numpy)
        x = x[~np.isnan(x)]
        narrow = x.astype(np.float32)
        most = np.float32(ml_dtypes.finfo(dtype.numpy).max)
        assert_same_bits(cast(x, dtype, saturate=False), narrow.astype(dtype.numpy), x)
        assert_same_bits(cast(x, dtype), np.clip(narrow, -most, most).astype(dtype.numpy), x)


@pytest.mark.parametrize("saturate", [True, False])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_nan_stays_nan_where_there_is_one(dtype, saturate):
    x = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0], np.float32)
    got = cast(x, dtype, saturate=saturate)
    want = x.astype(dtype.numpy)
    if saturate:
        most = np.float32(ml_dtypes.finfo(dtype.numpy).max)
        want[2:4] = np.array([most, -most]).astype(dtype.numpy)
    assert_same_bits(got, want, x)


@pytest.mark.parametrize("saturate", [True, False])
@pytest.mark.parametrize("mode", ["up", "down", "nearest"])
def test_powers_of_two_round_as_in_the_reference(mode, saturate):
    x = np.abs(numbers(DType.F8E8M0))
    x = x[np.isfinite(x) & (x >= np.finfo(np.float32).tiny)]
    want = numpy_helper.to_float8e8m0(x, saturate, mode)
    assert_same_bits(cast(x, DType.F8E8M0, saturate=saturate, round_mode=mode), want, x)


def test_powers_of_two_beyond_the_range_are_as_the_table_of_the_operator_says():
    x = np.array([0.0, np.nan, np.inf, 3.4e38, 1e-45], np.float32)
    assert bits(cast(x, DType.F8E8M0)).tolist() == [0, 255, 254, 254, 0]
    assert bits(cast(x, DType.F8E8M0, saturate=False, round_mode="nearest")).tolist() == [255] * 5


@pytest.mark.parametrize("source", [t for t in DType if t.is_int and not t.is_storage], ids=str)
@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_integers_wrap_around(dtype, source):
    x = np.arange(-400, 400).astype(source.numpy)
    assert_same_bits(cast(x, dtype), (x.astype(np.int64) & (2**dtype.bits - 1)).astype(np.uint8).view(dtype.numpy), x)
    back = cast(codes(dtype), source)
    np.testing.assert_array_equal(back, codes(dtype).astype(np.int32).astype(source.numpy))


@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_floats_lose_their_fraction(dtype):
    info = ml_dtypes.iinfo(dtype.numpy)
    x = np.arange(int(info.min) * 4, int(info.max) * 4 + 1, dtype=np.float32) / 4
    np.testing.assert_array_equal(cast(x, dtype).astype(np.int32), np.trunc(x).astype(np.int32))


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_what_stands_above_the_bits_of_a_type_means_nothing(dtype):
    low = codes(dtype)
    dirty = (low.view(np.uint8) | np.uint8(256 - 2**dtype.bits & 255)).view(dtype.numpy)
    assert_same_bits(cast(dirty, DType.F32), cast(low, DType.F32), low)


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_truth_is_not_zero(dtype):
    np.testing.assert_array_equal(cast(codes(dtype), DType.BOOL), codes(dtype).astype(np.float32) != 0)


def test_an_unknown_rounding_is_refused():
    with pytest.raises(Exception, match="round_mode 'sideways'"):
        cast(np.ones(1, np.float32), DType.F8E8M0, round_mode="sideways")


def test_bits_need_a_type_of_the_same_size():
    for x, to in ((np.ones(2, np.float32), DType.I64), (np.ones(2, ml_dtypes.int4), DType.U8)):
        with pytest.raises(Exception, match="bits"):
            _engine.run_op("BitCast", {"to": to}, [x])
