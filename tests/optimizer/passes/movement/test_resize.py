"""Repeated elements and padding: every place and rounding by which elements are only repeated, and in all orders."""

from __future__ import annotations

from itertools import product
from typing import get_args

import numpy as np
import pytest
from rewriting import assert_same_numbers, read

from minnow.optimizer import optimize
from minnow.optimizer.passes.movement.resize import _REPEATING
from minnow.schema.ir import Model
from minnow.schema.ops import get
from minnow.schema.ops.resize import CoordinateMode, NearestMode


@pytest.mark.parametrize(("places", "rounding"), list(product(get_args(CoordinateMode), get_args(NearestMode))))
def test_elements_are_repeated_exactly_where_that_is_known(places: str, rounding: str) -> None:
    """For every whole scale, also where the places are rounded."""
    if places == "tf_crop_and_resize":
        assert (places, rounding) not in _REPEATING
        return
    attrs = {"coordinate_mode": places, "nearest_mode": rounding, "axes": (0,)}
    same = []
    for n, times in product((1, 2, 3, 7, 1021), (1, 2, 3, 5, 6, 7, 10, 13, 49)):
        x = np.arange(n)
        (y,) = get("Resize").evaluate([x, None, np.array([times], np.float32), None], attrs)
        same.append(np.array_equal(y, x.repeat(times)))
    assert all(same) == ((places, rounding) in _REPEATING)


_TWICE = "Resize({}, _, f32[4](1.0, 1.0, 2.0, 2.0))"
_CONV = "Conv({}, f32[1,1,3,3](1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0)) " \
        "{{strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}}"  # fmt: skip


def _pad(n: int, mode: str = "constant") -> str:
    return f'Pad({{}}, i64[8](0, 0, 0, 0, {n}, {n}, {n}, {n})) {{{{mode="{mode}"}}}}'


@pytest.mark.parametrize(
    ("steps", "left"),
    [
        ((_pad(1), _TWICE, _CONV), ["Resize", "Conv"]),
        ((_TWICE, _pad(2), _CONV), ["Resize", "Conv"]),
        ((_pad(1), _TWICE, _pad(1), _CONV), ["Resize", "Conv"]),
        ((_pad(1), _TWICE, _pad(3)), ["Resize", "Pad"]),
        ((_pad(1), _TWICE, _pad(2)), ["Pad", "Resize"]),
        ((_pad(1, "edge"), _TWICE, _pad(2, "edge"), _CONV), ["Pad", "Resize", "Conv"]),
        ((_TWICE, _pad(2, "wrap"), _TWICE, _CONV), ["Pad", "Resize", "Conv"]),
        ((_TWICE, _TWICE, _TWICE), ["Resize"]),
        ((_TWICE, _pad(1, "reflect"), _CONV), ["Resize", "Pad", "Conv"]),
    ],
)
@pytest.mark.parametrize("extent", ["5", "S"])
def test_padding_and_interpolation(steps: tuple[str, ...], left: list[str], extent: str) -> None:
    lines, value = [], "%x"
    for i, step in enumerate(steps):
        lines.append(f"%v{i}: f32[*] = {step.format(value)}")
        value = f"%v{i}"
    text = f"graph g(%x: f32[1,1,{extent},4]) {{ {' '.join(lines)} return {value} }}"
    before, after = read(text), read(text)
    optimize(Model(after), target="minnow")
    assert [node.op for node in after] == left
    assert_same_numbers(before, after)
