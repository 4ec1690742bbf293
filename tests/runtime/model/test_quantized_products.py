"""Products with weights of 2 to 8 bits, which stay packed: against the numbers that they stand for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engine_oracle import normal
from quantized_streams import packed
from wire_net import Net

import minnow

RNG = np.random.default_rng(3)
FORMS = ["symmetric", "least", "zero"]


def layer(quan: dict[str, Any], shape: tuple[int, ...], x: tuple[int, ...], bias: np.ndarray, **common: Any) -> bytes:
    net = Net()
    net.input("x", x)
    sizes = {"kernelY": shape[2], "kernelX": shape[3], "outputCount": shape[0], "inputCount": shape[1]}
    net.op("Convolution", ["x"], ["y"], "Convolution2D",
           {"common": {**sizes, **common}, "bias": bias, "quanParameter": quan})  # fmt: skip
    return net.bytes("y")


def quantized(
    shape: tuple[int, ...], bits: int, blocks: int, form: str, half: bool
) -> tuple[dict[str, Any], np.ndarray]:
    rows, length = shape[0] * blocks, int(np.prod(shape[1:])) // blocks
    least = -(1 << (bits - 1))
    table, w = packed(RNG.integers(least, -least, (rows, length)), bits, rows, form, half)
    return table, w.reshape(shape)


def run(model: bytes, x: np.ndarray, scheme: str, precision: str = "high") -> np.ndarray:
    session = minnow.load(model, precision=precision)
    y = session.run({"x": x})["y"]
    schemes = [row["scheme"] for row in session.profile({"x": x}, runs=1)]
    assert any(scheme in s for s in schemes), schemes
    return np.asarray(y)


@pytest.mark.parametrize("bits", range(2, 9))
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.sampled(4)
@pytest.mark.parametrize(("k", "blocks"), [(128, 4), (127, 1), (192, 4), (640, 5), (1100, 1)])
def test_rows(bits, form, half, k, blocks):
    n = 193 + 2 * bits
    table, w = quantized((n, k, 1, 1), bits, blocks, form, half)
    bias = normal(RNG, n)
    for m in (1, 2, 3, 5, 9, 33):
        x = normal(RNG, m, k, 1, 1)
        model = layer(table, w.shape, (-1, k, 1, 1), bias, relu=m == 3)
        want = x[:, :, 0, 0].astype(np.float64) @ w[:, :, 0, 0].T + bias
        want = np.maximum(want, 0) if m == 3 else want
        y = run(model, x, "quantized_row" if m == 1 else "quantized_panels")
        scale = np.abs(x[:, :, 0, 0]) @ np.abs(w[:, :, 0, 0]).T + np.abs(bias)
        assert np.max(np.abs(y[:, :, 0, 0] - want) / scale) < 2e-6
        y = run(model, x, "quantized", "low")
        size = np.sqrt(np.mean(want**2))
        assert np.sqrt(np.mean((y[:, :, 0, 0] - want) ** 2)) < 1e-2 * size


@pytest.mark.parametrize(
    ("bits", "blocks", "form"), [(4, 1, "least"), (4, 4, "symmetric"), (3, 2, "zero"), (8, 4, "symmetric")]
)
@pytest.mark.parametrize(("kernel", "stride"), [((1, 1), 1), ((3, 3), 2), ((5, 1), 1), ((2, 3), 1)])
def test_images(bits, blocks, form, kernel, stride):
    c, n = 128, 150
    table, w = quantized((n, c, *kernel), bits, blocks, form, False)
    bias = normal(RNG, n)
    x = normal(RNG, 2, c, 7, 6)
    y = run(layer(table, w.shape, x.shape, bias, strideX=stride, strideY=stride), x, "unpacked_direct")
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), kernel, axis=(2, 3))
    want = np.einsum("nchwij,ocij->nohw", windows[:, :, ::stride, ::stride], w) + bias.reshape(1, -1, 1, 1)
    np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-4 * np.max(np.abs(want)))


def test_values_that_are_not_finite():
    table, w = quantized((200, 128, 1, 1), 4, 4, "symmetric", False)
    x = normal(RNG, 1, 128, 1, 1)
    x[0, 40] = np.inf
    for precision in ("high", "low"):
        y = run(layer(table, w.shape, x.shape, np.zeros(200, np.float32)), x, "quantized", precision)
        assert not np.isfinite(y[np.broadcast_to(w[:, 40, 0, 0, None, None] != 0, y[0].shape)[None]]).any()
