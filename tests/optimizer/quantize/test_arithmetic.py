"""The arithmetic of quantization, on random rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from minnow.optimizer.quantize.arithmetic import Method, fits_half, quantized, restored
from minnow.schema.ir import QuantizedBlob
from minnow.schema.ir.compressed import pack

Array = np.ndarray[Any, Any]
ROWS = arrays(
    np.float32,
    st.tuples(st.integers(1, 5), st.integers(1, 40)),
    elements=st.one_of(st.floats(-100, 100, width=32), st.floats(-(2.0**-10), 2.0**-10, width=32), st.just(0.0)),
)
BITS = st.integers(2, 8)
METHODS: list[Method] = ["rtn", "mse", "hqq"]


def worst(rows: Array) -> Array:
    """Rounding errors of f32 in what is as large as the row's numbers, and of its smallest numbers."""
    return np.asarray(np.abs(rows.astype(np.float64)).max(1, keepdims=True) * 1e-6 + 1e-43)


@given(ROWS, BITS, st.booleans())
def test_rounding_is_off_by_half_a_step(rows: Array, bits: int, symmetric: bool) -> None:
    found = quantized(rows, bits, symmetric, False, "rtn")
    assert found.codes.max() < 1 << bits
    assert not symmetric or found.codes.min() >= 1
    error = np.abs(restored(found, bits).astype(np.float64) - rows)
    assert (error <= 0.5001 * found.scale[:, None] + worst(rows)).all()


@given(ROWS, BITS, st.booleans(), st.sampled_from(METHODS))
def test_rows_do_not_depend_on_each_other(rows: Array, bits: int, symmetric: bool, method: Method) -> None:
    together = quantized(rows, bits, symmetric, False, method)
    for i, row in enumerate(rows):
        alone = quantized(row[None], bits, symmetric, False, method)
        assert np.array_equal(alone.codes[0], together.codes[i])
        assert alone.scale[0] == together.scale[i]


@given(ROWS, BITS, st.booleans(), st.booleans())
def test_least_squares_are_never_worse(rows: Array, bits: int, symmetric: bool, half: bool) -> None:
    if half and not fits_half(rows, bits, symmetric):
        return
    errors = []
    for method in ("rtn", "mse"):
        got = restored(quantized(rows, bits, symmetric, half, method), bits)
        errors.append(np.square(got.astype(np.float64) - rows).sum(1))
    assert (errors[1] <= errors[0] * (1 + 1e-5) + worst(rows)[:, 0] ** 2 * rows.shape[1]).all()


@given(ROWS, BITS, st.booleans(), st.sampled_from(METHODS))
def test_the_codes_are_the_nearest_to_their_scales(rows: Array, bits: int, symmetric: bool, method: Method) -> None:
    for half in (False, True):
        if half and not fits_half(rows, bits, symmetric):
            continue
        symmetric &= method != "hqq"
        found = quantized(rows, bits, symmetric, half, method)
        error = np.abs(restored(found, bits).astype(np.float64) - rows)
        least = 1 if symmetric else 0
        for code in range(least, 1 << bits, max(1, (1 << bits) // 7)):
            other = restored(type(found)(np.full_like(found.codes, code), found.scale, found.low), bits)
            assert (error <= np.abs(other.astype(np.float64) - rows) + 4 * worst(rows)).all()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("value", [0.0, 3.25, -1e-7, 1e-30, -65000.0])
def test_rows_of_one_number_are_exact(value: float, method: Method) -> None:
    """Also below 1e-6, where MNN's converter stops dividing."""
    rows = np.full((2, 9), value, np.float32)
    for bits in range(2, 9):
        got = restored(quantized(rows, bits, False, False, method), bits)
        assert np.array_equal(got, rows)
        got = restored(quantized(rows, bits, True, False, "rtn"), bits)
        np.testing.assert_allclose(got, rows, rtol=1e-6)


def test_small_weights_keep_their_digits() -> None:
    """MNN's converter makes one number of all weights of a row whose scale is below 1e-6."""
    rows = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32) * np.float32(1e-6)
    got = restored(quantized(rows, 8, False, False, "rtn"), 8)
    assert np.linalg.norm(got - rows) < 0.02 * np.linalg.norm(rows)


@given(st.integers(1, 8), arrays(np.uint8, st.integers(1, 200)))
@settings(max_examples=60)
def test_packed_codes_are_read_bit_by_bit(bits: int, codes: Array) -> None:
    codes = codes & ((1 << bits) - 1)
    text = "".join(f"{byte:08b}" for byte in pack(codes, bits))
    assert [int(text[i * bits : (i + 1) * bits], 2) for i in range(codes.size)] == codes.tolist()
    assert len(text) == -(-codes.size * bits // 8) * 8
    assert set(text[codes.size * bits :]) <= {"0"}


@given(ROWS, BITS, st.booleans())
def test_the_blob_has_the_numbers_of_its_codes(rows: Array, bits: int, symmetric: bool) -> None:
    found = quantized(rows, bits, symmetric, False, "rtn")
    blob = QuantizedBlob(found.codes, bits, found.scale, found.low, (rows.size,))
    assert np.array_equal(blob.numpy(), restored(found, bits).reshape(-1))
    assert blob.packed_bytes == -(-rows.size * bits // 8) + 4 * len(rows) * (1 if symmetric else 2)
