"""Sizes at which a kernel or a plan ends: floats above 2^24, products above 2^63, chains longer than the stack."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
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


def test_an_operand_of_attention_that_is_moved_thousands_of_times() -> None:
    """What moves it is read through, but not to any depth."""
    graph = Graph()
    b = Builder(graph)
    q, k, v = (graph.add_param(TensorType(DType.F32, (2, 4, 4))) for _ in range(3))
    x = q
    for _ in range(6000):
        x = b.Transpose(x, perm=(1, 0, 2))
    scores = b.Softmax(b.MatMul(x, b.Transpose(k, perm=(0, 2, 1))), axis=-1)
    graph.outputs = [b.MatMul(scores, v)]
    file, ones = encode(model_of(graph)), np.ones((2, 4, 4), np.float32)
    before = threading.stack_size(512 << 10)
    try:
        with ThreadPoolExecutor(1) as thread:
            got = thread.submit(lambda: minnow.load(file).run({f"in{i}": ones for i in range(3)})["out0"]).result()
    finally:
        threading.stack_size(before)
    np.testing.assert_allclose(got, ones, rtol=1e-6)
