"""Layers of real activations and quantized weights, and recurrent ones, against LiteRT's own kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tflite_one import Tensor, by_litert, by_us, constant, file_of, random_quanta

RNG = np.random.default_rng(5)
START = RNG.bit_generator.state
SIGMOID_TANH = 4
Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """The numbers of a test do not depend on the tests before: a sum at the edge between two quanta may round apart."""
    RNG.bit_generator.state = START


def weights(*shape: int, axis: int | None = None, scale: float = 0.02) -> Tensor:
    scales: Any = scale if axis is None else list(RNG.uniform(scale / 2, scale, shape[axis]))
    return constant(RNG.integers(-127, 128, shape).astype(np.int8), scales, 0, axis or 0)


def reals(*shape: int, scale: float = 1.0) -> Tensor:
    return constant((RNG.standard_normal(shape) * scale).astype(np.float32))


def check(content: bytes, inputs: list[Array], folder: Path, runs: int = 1) -> None:
    """Rounded alike, the quanta are the same ones; what remains is the rounding of sums in f32."""
    want = by_litert(content, inputs, reference=False, runs=runs)
    got = by_us(content, inputs, folder, runs=runs)
    for w, g in zip(want, got, strict=False):
        assert g.shape == w.shape
        assert np.abs(g - w).max() <= 2e-6 * max(1, np.abs(w).max())


@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("op", ["FULLY_CONNECTED", "BATCH_MATMUL"])
def test_rows(op: str, zero: bool, tmp_path: Path) -> None:
    x, options = Tensor((4, 37)), {"asymmetric_quantize_inputs": zero}
    if op == "FULLY_CONNECTED":
        operands: list[Tensor | None] = [x, weights(11, 37), reals(11)]
        content = file_of(
            op, operands, [Tensor((4, 11))], {**options, "fused_activation_function": 1}, "FullyConnectedOptions"
        )
    else:
        content = file_of(op, [x, weights(37, 11)], [Tensor((4, 11))], options, "BatchMatMulOptions")
    rows = random_quanta(RNG, x)
    rows[2] = 0
    check(content, [rows], tmp_path)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("axis", [0, None])
def test_convolution(batch: int, axis: int | None, tmp_path: Path) -> None:
    x = Tensor((batch, 7, 6, 5))
    options = {"stride_h": 2, "stride_w": 1, "padding": 0, "fused_activation_function": 3}
    content = file_of("CONV_2D", [x, weights(9, 3, 3, 5, axis=axis), reals(9)], [Tensor((batch, 4, 6, 9))], options,
                      "Conv2DOptions")  # fmt: skip
    check(content, [random_quanta(RNG, x)], tmp_path)


@pytest.mark.parametrize("batch", [1, 3])
def test_depthwise(batch: int, tmp_path: Path) -> None:
    x = Tensor((batch, 7, 6, 5))
    options = {"stride_h": 1, "stride_w": 1, "padding": 0, "depth_multiplier": 1}
    operands = [x, weights(1, 3, 3, 5, axis=3), reals(5)]
    content = file_of("DEPTHWISE_CONV_2D", operands, [Tensor((batch, 7, 6, 5))], options, "DepthwiseConv2DOptions")
    check(content, [random_quanta(RNG, x)], tmp_path)


def state(*shape: int, dtype: Any = np.float32, scale: Any = None, zero: int = 0) -> Tensor:
    return Tensor(shape, dtype, scale, zero, variable=True)


@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("kind", ["plain", "coupled", "peepholes", "projection", "norm"])
def test_lstm_of_reals(kind: str, zero: bool, tmp_path: Path) -> None:
    n, k, units, steps = 2, 5, 6, 4
    out = 3 if kind == "projection" else units
    xs: list[Tensor | None] = [Tensor((steps, n, k)), *(weights(units, k) for _ in range(4))]
    xs += [*(weights(units, out) for _ in range(4)), None, None, None, *(reals(units) for _ in range(4)), None, None]
    xs += [state(n, out), state(n, units), None, None, None, None]
    if kind == "coupled":
        xs[1] = xs[5] = xs[12] = None
    if kind == "peepholes":
        xs[9:12] = [weights(units) for _ in range(3)]
    if kind == "projection":
        xs[16], xs[17] = weights(out, units), reals(out)
    if kind == "norm":
        xs[20:24] = [reals(units) for _ in range(4)]
    options = {"fused_activation_function": SIGMOID_TANH, "cell_clip": 5.0, "time_major": True,
               "asymmetric_quantize_inputs": zero}  # fmt: skip
    content = file_of("UNIDIRECTIONAL_SEQUENCE_LSTM", xs, [Tensor((steps, n, out))], options,
                      "UnidirectionalSequenceLSTMOptions")  # fmt: skip
    check(content, [random_quanta(RNG, xs[0])], tmp_path)  # type: ignore[arg-type]


@pytest.mark.parametrize("merge", [False, True])
@pytest.mark.parametrize("aux", [False, True])
def test_lstm_of_two_directions(aux: bool, merge: bool, tmp_path: Path) -> None:
    n, k, units, steps = 2, 5, 6, 4
    xs: list[Tensor | None] = [Tensor((steps, n, k))]
    for _ in range(2):
        xs += [*(weights(units, k) for _ in range(4)), *(weights(units, units) for _ in range(4)), None, None, None]
        xs += [*(reals(units) for _ in range(4)), None, None]
    xs += [*(state(n, units) for _ in range(4)), Tensor((steps, n, k)) if aux else None, *[None] * 8]
    options = {"fused_activation_function": SIGMOID_TANH, "time_major": True, "merge_outputs": merge}
    shape = (steps, n, 2 * units if merge else units)
    content = file_of("BIDIRECTIONAL_SEQUENCE_LSTM", xs, [Tensor(shape)] * (1 if merge else 2), options,
                      "BidirectionalSequenceLSTMOptions")  # fmt: skip
    inputs = [random_quanta(RNG, Tensor((steps, n, k))) for _ in range(1 + aux)]
    check(content, inputs, tmp_path)


@pytest.mark.parametrize("zero", [False, True])
def test_rnn_of_reals(zero: bool, tmp_path: Path) -> None:
    x = Tensor((3, 5, 7))
    xs = [x, weights(6, 7), weights(6, 6), reals(6), state(3, 6)]
    options = {"fused_activation_function": SIGMOID_TANH, "asymmetric_quantize_inputs": zero}
    content = file_of("UNIDIRECTIONAL_SEQUENCE_RNN", xs, [Tensor((3, 5, 6))], options, "SequenceRNNOptions")
    check(content, [random_quanta(RNG, x)], tmp_path)


@pytest.mark.parametrize("zero", [False, True])
def test_svdf_of_reals(zero: bool, tmp_path: Path) -> None:
    x = Tensor((2, 5))
    xs = [x, weights(6, 5), weights(6, 4), reals(3), state(2, 24)]
    options = {"rank": 2, "fused_activation_function": 1, "asymmetric_quantize_inputs": zero}
    check(file_of("SVDF", xs, [Tensor((2, 3))], options, "SVDFOptions"), [random_quanta(RNG, x)], tmp_path)


def same(content: bytes, inputs: list[Array], folder: Path) -> None:
    (want,), (got, *_) = by_litert(content, inputs), by_us(content, inputs, folder)
    assert got.dtype == want.dtype
    assert np.array_equal(got, want), f"{np.abs(got.astype(int) - want).max()} apart"


def test_svdf_of_quanta(tmp_path: Path) -> None:
    x = Tensor((2, 5), np.int8, 0.02, 3)
    time = constant(RNG.integers(-32767, 32768, (6, 4)).astype(np.int16), 1e-4)
    bias = constant(RNG.integers(-90000, 90000, 3).astype(np.int32), 1e-7)
    xs = [x, weights(6, 5), time, bias, state(2, 24, dtype=np.int16, scale=0.001)]
    options = {"rank": 2, "fused_activation_function": 1}
    content = file_of("SVDF", xs, [Tensor((2, 3), np.int8, 0.05, -100)], options, "SVDFOptions")
    same(content, [random_quanta(RNG, x)], tmp_path)


@pytest.mark.parametrize("kind", ["plain", "coupled", "peepholes", "projection"])
def test_lstm_of_quanta(kind: str, tmp_path: Path) -> None:
    n, k, units, steps = 2, 5, 6, 7
    out = 3 if kind == "projection" else units

    def bias() -> Tensor:
        return constant(RNG.integers(-9000, 9000, units).astype(np.int32), 0.0004)

    xs: list[Tensor | None] = [Tensor((n, steps, k), np.int8, 0.02, 7), *(weights(units, k) for _ in range(4))]
    xs += [*(weights(units, out) for _ in range(4)), None, None, None, *(bias() for _ in range(4)), None, None]
    xs += [state(n, out, dtype=np.int8, scale=0.008, zero=-5), state(n, units, dtype=np.int16, scale=2.0**-11)]
    xs += [None, None, None, None]
    if kind == "coupled":
        xs[1] = xs[5] = xs[12] = None
    if kind == "peepholes":
        words = [RNG.integers(-32767, 32768, units).astype(np.int16) for _ in range(3)]
        xs[9:12] = [constant(w, 2.0**-15) for w in words]
    if kind == "projection":
        xs[16], xs[17] = weights(out, units), constant(RNG.integers(-900, 900, out).astype(np.int32), 0.0001)
    hidden = Tensor((0,), np.int8, 0.0078 if kind == "projection" else 0.008, -5)
    between = [*(Tensor((0,)) for _ in range(4)), hidden]
    options = {"fused_activation_function": SIGMOID_TANH, "cell_clip": 10.0, "time_major": False}
    content = file_of("UNIDIRECTIONAL_SEQUENCE_LSTM", xs, [Tensor((n, steps, out), np.int8, 0.008, -5)], options,
                      "UnidirectionalSequenceLSTMOptions", between=between)  # fmt: skip
    same(content, [random_quanta(RNG, xs[0])], tmp_path)  # type: ignore[arg-type]
