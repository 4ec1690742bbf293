"""Fixed-point arithmetic against plain Python numbers, one at a time, as its definition reads in C."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, TensorType
from minnow.schema.ops import Arg, all_ops, get


def _int32(x: int) -> int:
    return (x + 2**31) % 2**32 - 2**31


def _toward_zero(a: int, b: int) -> int:
    return abs(a) // b * (1 if a >= 0 else -1)


def _short(x: int, multiplier: int, shift: int) -> int:
    x = _int32(x << max(shift, 0))
    if x == multiplier == -(2**31):
        high = 2**31 - 1
    else:
        product = x * multiplier
        high = _toward_zero(product + (2**30 if product >= 0 else 1 - 2**30), 2**31)
    right = max(-shift, 0)
    rest, half = high & (2**right - 1), (2**right - 1) >> 1
    return (high >> right) + (rest > half + (high < 0))


def _long(x: int, multiplier: int, shift: int) -> int:
    reduced = (multiplier + 2**15) >> 16 if multiplier < 0x7FFF0000 else 0x7FFF
    return _int32((x * reduced + 2 ** (14 - shift)) >> (15 - shift))


def _requantized(x: Any, multiplier: Any, shift: Any, zero: int, least: int, most: int) -> list[int]:
    one = _long if x.dtype == np.int64 else _short
    numbers = zip(*(v.reshape(-1).tolist() for v in np.broadcast_arrays(x, multiplier, shift)), strict=True)
    return [min(max(_int32(one(*n) + zero), least), most) for n in numbers]


def test_requantize() -> None:
    op = get("Requantize")
    for sample in op.cases():
        (y,) = op.evaluate(sample.inputs, sample.attrs)
        a = sample.attrs
        assert y.reshape(-1).tolist() == _requantized(*sample.inputs, a["zero"], a["min"], a["max"]), str(sample)
        assert y.dtype == a["to"].numpy


def test_look_up() -> None:
    op = get("LookUp")
    for sample in op.cases():
        x, table = sample.inputs
        assert x is not None
        assert table is not None
        lowest = np.iinfo(x.dtype).min
        want = [table[n - lowest] for n in x.reshape(-1).tolist()]
        (y,) = op.evaluate(sample.inputs, {})
        assert np.array_equal(y.reshape(-1), np.array(want, table.dtype), equal_nan=table.dtype.kind == "f")


@pytest.mark.parametrize(
    ("factors", "shifts", "shift", "attrs", "message"),
    [
        ((3, 5), (3, 5), -3, {}, "multipliers of shape"),
        ((4,), (4,), -3, {}, "multipliers of shape"),
        ((5,), (1,), -3, {}, "shifts of the same shape"),
        ((), (), 32, {}, "shifts from 32"),
        ((), (), -1, {"to": DType.F32}, "cannot give f32"),
        ((), (), -1, {"max": 300}, "min=-128, max=300"),
    ],
)
def test_refuses(factors: Any, shifts: Any, shift: int, attrs: dict[str, Any], message: str) -> None:
    values = [np.full(factors, 2**30, np.int32), np.full(shifts, shift, np.int32)]
    args = [Arg(TensorType(DType.I32, (3, 5))), *(Arg(TensorType(DType.I32, v.shape), v) for v in values)]
    with pytest.raises(ModelError, match=message):
        get("Requantize").infer(args, {"to": DType.I8, "min": -128, "max": 127, **attrs})


def test_every_op_is_judged() -> None:
    assert {o.name for o in all_ops() if o.module.endswith(".fixed_point")} == {"Requantize", "LookUp"}
