"""What crashes MNN's Python layer, or gives wrong numbers there, gives the right ones, or an error."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import minnow.numpy as mnp
from minnow import expr
from minnow.errors import MinnowError, UsageError
from minnow.expr import Var


def equal(var: Any, want: Any, dtype: Any) -> None:
    assert var.dtype == dtype
    np.testing.assert_array_equal(var.read(), want)


def test_arithmetic_of_bytes() -> None:
    u = Var(np.array([200, 100], np.uint8))
    equal(u + u, [144, 200], np.uint8)
    equal(-u, [56, 156], np.uint8)


def test_tuples_of_ints_and_floats_as_operands() -> None:
    u = Var(np.full((2, 3), 10, np.uint8))
    equal(u - (1.5, 2, 3), [[8.5, 8, 7]] * 2, np.float32)


def test_conversion_of_ints_to_channel_blocks() -> None:
    i = expr.const(np.arange(12), [1, 2, 2, 3], expr.NHWC, expr.int)
    blocks = expr.convert(i, expr.NC4HW4)
    equal(blocks, np.arange(12).reshape(1, 2, 2, 3).transpose(0, 3, 1, 2), np.int32)


def test_arrays_of_other_types_as_operands() -> None:
    f = Var([0.5, 1.5])
    equal(f + np.array([1.0, 2.0]), [1.5, 3.5], np.float32)
    equal(f + np.array([1, 2]), [1.5, 3.5], np.float32)
    equal(np.array([1, 2], np.int16) - f, [0.5, 0.5], np.float32)
    equal(f * np.array([True, False]), [0.5, 0], np.float32)


@pytest.mark.parametrize("dtype", [np.float64, np.uint8, np.int64, np.float16, ">f4", bool])
def test_constants_of_arrays_of_any_type(dtype: Any) -> None:
    equal(expr.const(np.array([1, 0, 1], dtype), [3]), [1, 0, 1], np.float32)
    assert mnp.array(np.array([1, 0], dtype)).shape == [2]


def test_arrays_without_elements_and_of_bytes() -> None:
    equal(mnp.array([]), [], np.float32)
    equal(mnp.array(np.array([1, 255], np.uint8)), [1, 255], np.uint8)


def test_large_integers_keep_their_value() -> None:
    equal(mnp.array([1, 2**40]), [1, 2**40], np.int64)
    equal(mnp.array([1, 2**40]) + 1, [2, 2**40 + 1], np.int64)
    assert mnp.sum(mnp.array([2**31 - 1, 1])) == 2**31
    with pytest.raises(UsageError):
        mnp.array([2**64])


def test_remainders_of_floats() -> None:
    equal(Var([5.5, -5.5]) % Var([2.0, 2.0]), [1.5, 0.5], np.float32)


def test_losses_of_temporary_vars_in_graphs() -> None:
    expr.lazy_eval(True)
    try:
        p, t = expr.const([1.0, 2.0, 4.0, 4.0], [2, 2]), expr.const([0.0, 0.0, 2.0, 3.0], [2, 2])
        loss = expr.reduce_mean(expr.reduce_sum(expr.square(p * 1.0 - t), [1]))
        gc.collect()
        assert float(loss) == 5.0
        assert loss.read() == 5.0
    finally:
        expr.lazy_eval(False)


def test_an_array_may_change_or_go_after_a_constant_was_made_of_it() -> None:
    frame = np.zeros((1, 2, 2, 3), np.float32)
    for i in range(4):
        frame[...] = i
        equal(
            expr.convert(expr.const(frame, [1, 2, 2, 3], expr.NHWC), expr.NC4HW4), np.full((1, 3, 2, 2), i), np.float32
        )
    var = expr.convert(expr.const(np.full((1, 2, 2, 3), 7.0, np.float32), [1, 2, 2, 3], expr.NHWC), expr.NCHW)
    gc.collect()
    equal(var, np.full((1, 3, 2, 2), 7), np.float32)


def test_a_failure_to_load_says_why(tmp_path: Any) -> None:
    with pytest.raises(MinnowError, match=r"missing\.mnn"):
        expr.load_as_dict(str(tmp_path / "missing.mnn"))
