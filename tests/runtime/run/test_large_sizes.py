"""Sizes at which a kernel or a plan ends: floats above 2^24, products above 2^63, chains longer than the stack."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
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


def test_more_windows_than_have_a_table() -> None:
    """Of packed channels, of bytes, and with places."""
    n = (1 << 14) + 77
    x = np.random.default_rng(3).standard_normal((1, 3, n)).astype(np.float32)
    window: dict[str, Any] = {"kernel": (3,), "strides": (1,), "pads": (1, 1), "dilations": (1,)}
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1)), constant_values=-np.inf)
    rows = np.stack([padded[..., :-2], padded[..., 1:-1], padded[..., 2:]])
    np.testing.assert_array_equal(run(lambda b, x: b.MaxPool(x, **window), x), rows.max(0))
    places = run(lambda b, x: b.node("MaxPool", [x], window, 2).outputs[1], x)
    np.testing.assert_array_equal(places, rows.argmax(0) - 1 + np.arange(3 * n).reshape(x.shape))
    numbers = (x * 40).astype(np.int8)
    small = np.pad(numbers, ((0, 0), (0, 0), (1, 1)), constant_values=-128)
    wanted = np.maximum(np.maximum(small[..., :-2], small[..., 1:-1]), small[..., 2:])
    np.testing.assert_array_equal(run(lambda b, x: b.MaxPool(x, **window), numbers), wanted)
    mean = run(lambda b, x: b.AveragePool(x, **window), x)
    np.testing.assert_allclose(mean[..., 1:-1], rows.mean(0)[..., 1:-1], atol=1e-6)


@pytest.mark.slow
def test_windows_by_the_million_take_no_memory(tmp_path: Path) -> None:
    """A table of them had 24 bytes for each, which no limit counted: 2 GB for a file of 1 kB."""
    graph = Graph()
    b = Builder(graph)
    x = b.Tile(graph.add_param(TensorType(DType.U8, (1, 1, 1))), np.array([1, 1, 1 << 26]))
    y = b.MaxPool(x, kernel=(1,), strides=(1,), pads=(0, 0), dilations=(1,))
    graph.outputs = [b.Gather(y, np.array(5), axis=2)]
    path = tmp_path / "windows.mnn"
    path.write_bytes(encode(model_of(graph)))
    worker = Path(__file__).parents[1] / "open_worker.py"
    done = subprocess.run([sys.executable, str(worker), str(path)], capture_output=True, text=True, check=True)
    assert int(done.stdout.splitlines()[-1]) < 1 << 30


FAR = 2**31 - 1
WIDE: dict[str, Any] = {"strides": (1, 1), "pads": (1 << 30, 1 << 30, (1 << 30) - 1, (1 << 30) - 1)}


@pytest.mark.parametrize("channels", [1, 4, 64])
def test_a_padded_image_whose_size_overflows(channels: int) -> None:
    """Two taps that are 2^31 pixels apart, along each axis: as much as 2^62 pixels, times channels, in workspace."""
    with pytest.raises(UnsupportedError, match="too large an image"):
        run(
            lambda b, x: b.Conv(x, np.ones((channels, channels, 2, 2), np.float32), dilations=(FAR, FAR), **WIDE),
            np.ones((1, channels, 1, 1), np.float32),
        )


def test_a_padded_image_of_bytes_whose_size_overflows() -> None:
    pads = (1 << 30,) * 3 + ((1 << 30) - 1,) * 3
    with pytest.raises(UnsupportedError, match="too large an image"):
        run(
            lambda b, x: b.ConvInteger(
                x, np.ones((1, 1, 2, 2, 2), np.uint8), strides=(1, 1, 1), pads=pads, dilations=(FAR,) * 3
            ),
            np.ones((1, 1, 1, 1, 1), np.uint8),
        )


def test_a_transposed_convolution_whose_size_overflows() -> None:
    """Of no channels, the input may be as long as it likes."""
    with pytest.raises(UnsupportedError, match="a stride of"):
        run(
            lambda b, x: b.ConvTranspose(
                x, np.ones((0, 4, 3), np.float32), strides=(1 << 24,), pads=(0, 0), dilations=(1,), output_padding=(0,)
            ),
            np.zeros((1, 0, FAR), np.float32),
        )


@pytest.mark.parametrize("channels", [1, 3])
def test_a_kernel_of_bytes_with_more_taps_than_are_kept(channels: int) -> None:
    taps = (1 << 16) + 300
    random = np.random.default_rng(4)
    x = random.integers(0, 255, (1, channels, taps + 40), np.uint8)
    w = random.integers(0, 255, (2 * channels, 1, taps), np.uint8)
    window: dict[str, Any] = {"strides": (2,), "pads": (1, 0), "dilations": (1,), "group": channels}
    got = run(lambda b, x, w: b.ConvInteger(x, w, **window), x, w)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 0))).astype(np.int64)
    windows = np.lib.stride_tricks.sliding_window_view(padded[0], taps, axis=-1)[:, ::2]
    wanted = np.einsum("cpt,cot->cop", windows, w.reshape(channels, 2, taps).astype(np.int64))
    np.testing.assert_array_equal(got[0], wanted.reshape(2 * channels, -1))


def test_small_matrices_of_bytes_that_are_not_kept() -> None:
    """A packed matrix of one number has as many bytes as a whole panel."""
    numbers = np.random.default_rng(5).integers(0, 255, (3000, 1, 1), np.uint8)
    x = np.full((3000, 2, 1), 3, np.uint8)
    got = run(lambda b, x: b.MatMulInteger(x, numbers), x)
    np.testing.assert_array_equal(got, 3 * np.repeat(numbers.astype(np.int32), 2, axis=1))


@pytest.mark.parametrize("outs", [0, 4])
def test_windows_of_bytes_without_channels(outs: int) -> None:
    """As many taps as there may be, of nothing."""
    shape = (1, 0, FAR - 1)
    got = run(
        lambda b, x: b.ConvInteger(
            x, np.zeros(shape, np.uint8).repeat(outs, 0), strides=(1,), pads=(0, 0), dilations=(1,)
        ),
        np.zeros((1, 0, FAR), np.uint8),
    )
    np.testing.assert_array_equal(got, np.zeros((1, outs, 2), np.int32))


BESIDE: dict[str, Any] = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1)}


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(1, 1, 1 << 27, 1), (1, 0, 1 << 27, 1)])
def test_lines_of_bytes_by_the_million_take_no_memory(tmp_path: Path, shape: tuple[int, ...]) -> None:
    """A table of them had 8 bytes for each, which no limit counted."""
    graph = Graph()
    b = Builder(graph)
    x = b.Tile(graph.add_param(TensorType(DType.U8, (1, shape[1], 1, 1))), np.array([1, 1, 1 << 27, 1]))
    graph.outputs = [b.ConvInteger(x, np.ones((1, shape[1], 1, 1), np.uint8), **BESIDE)]
    path = tmp_path / "lines.mnn"
    path.write_bytes(encode(model_of(graph)))
    worker = Path(__file__).parents[1] / "open_worker.py"
    done = subprocess.run([sys.executable, str(worker), str(path)], capture_output=True, text=True, check=False)
    assert int(done.stdout.splitlines()[-1]) < 768 << 20


def test_a_pair_of_convolutions_of_an_image_without_columns() -> None:
    graph = Graph()
    b = Builder(graph)
    x = graph.add_param(TensorType(DType.F32, (1, 8, 5, "w")))
    wide = b.Conv(x, np.ones((32, 8, 1, 1), np.float32), **BESIDE)
    around: dict[str, Any] = BESIDE | {"pads": (1, 1, 1, 1)}
    graph.outputs = [b.Conv(wide, np.ones((32, 1, 3, 3), np.float32), **around, group=32)]
    session = minnow.load(encode(model_of(graph)))
    assert session.run({"in0": np.zeros((1, 8, 5, 0), np.float32)})["out0"].shape == (1, 32, 5, 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8])
def test_any_number_of_empty_matrices(dtype: Any) -> None:
    """2^40 of them, each of no rows."""
    many = np.zeros((1 << 20, 1 << 20, 0, 3), dtype)
    op = "MatMulInteger" if dtype == np.uint8 else "MatMul"
    got = run(lambda b, x: b.node(op, [x, many], {}).outputs[0], np.zeros((0, 0), dtype), max_memory=1 << 46)
    assert got.size == 0
