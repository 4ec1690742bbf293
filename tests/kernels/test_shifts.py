"""Shifts that come while a model runs may be any number: each kernel refuses those that `Requantize` does not take."""

from __future__ import annotations

import numpy as np
import pytest

from minnow.runtime import _engine
from minnow.schema.errors import MinnowError
from minnow.schema.ops import get

PLACES = {"QuantizedConv": 6, "QuantizedMatMul": 6, "QuantizedSum": 2, "Requantize": 2}


@pytest.mark.parametrize("shift", [-(2**31), -32, 32, 1139525486, 2**31 - 1])
@pytest.mark.parametrize("name", PLACES)
def test_shifts_that_are_too_large(name: str, shift: int) -> None:
    op, place, tried = get(name), PLACES[name], 0
    for sample in op.cases():
        shifts = sample.inputs[place] if place < len(sample.inputs) else None
        if shifts is None or shifts.dtype != np.int32 or not op.evaluate(sample.inputs, sample.attrs)[0].size:
            continue
        inputs = list(sample.inputs)
        inputs[place] = shifts.copy()
        inputs[place].flat[-1] = shift
        with pytest.raises(MinnowError, match=f"a shift of {shift}, which is not between -31 and"):
            _engine.run_op(op.name, sample.attrs, inputs, threads=2, constants=False)
        tried += 1
    assert tried > 1
