"""Sizes at which the arithmetic of a kernel ends: of floats above 2^24, and of products above 2^63."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engine_oracle import model_of

import minnow
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import DType, Graph, TensorType
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder

ROUNDED_UP = (1 << 24) + 3
"""As a float it is one more."""


def run(make: Any, *inputs: Any, **limits: Any) -> Any:
    graph = Graph()
    params = [graph.add_param(TensorType(DType.of(x.dtype), x.shape)) for x in inputs]
    graph.outputs = [make(Builder(graph), *params)]
    session = minnow.load(encode(model_of(graph)), **limits)
    return session.run({f"in{i}": x for i, x in enumerate(inputs)})["out0"]


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("padding", ["border", "reflection"])
def test_the_last_element_is_sampled(mode: str, padding: str) -> None:
    """Behind it lies nothing, in the memory of a plan zeros or other tensors."""
    grid = np.ones((1, 2, 1), np.float32)
    got = run(
        lambda b, x, g: b.GridSample(
            b.Tile(x, np.array([1, 1, ROUNDED_UP + 1])), g, mode=mode, padding=padding, align_corners=True
        ),
        np.full((1, 1, 1), 5, np.float32),
        grid,
    )
    np.testing.assert_array_equal(got, np.full((1, 1, 2), 5))


def test_blocks_whose_product_overflows() -> None:
    """65535 * 65537 elements of each of 641 * 6700417 blocks are 2^64 - 1, of no planes."""
    with pytest.raises(ModelError, match="the blocks are too large"):
        run(
            lambda b, x: b.Col2Im(
                b.Tile(x, np.array([1, 1, 6700417])),
                np.array([65535 + 640, 65537 + 6700416]),
                np.array([65535, 65537]),
                strides=(1, 1),
                pads=(0, 0, 0, 0),
                dilations=(1, 1),
            ),
            np.zeros((1, 0, 641), np.float32),
            max_memory=1 << 44,
        )


def test_what_unique_takes_beside_its_tensors_counts() -> None:
    """It needs 56 bytes an element to find out how many differ."""
    with pytest.raises(UnsupportedError, match="not enough memory: 896"):
        run(
            lambda b, x: b.Unique(b.Tile(x, np.array([1 << 24])))[0],
            np.ones(1, np.uint8),
            max_memory=64 << 20,
        )
