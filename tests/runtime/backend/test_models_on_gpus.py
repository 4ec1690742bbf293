"""Whole models on OpenCL and Vulkan, in software where there is no GPU: a device runs all that it can compute."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from engine_oracle import check, f32, model_of, normal
from gpu_drivers import full_name
from graph_grower import grown

import minnow
from minnow.schema.errors import DeviceError
from minnow.schema.ir import Graph
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"
DEVICES = os.environ.get("MINNOW_TEST_DEVICES", "opencl,vulkan").split(",")
RNG = np.random.default_rng(0)


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("MINNOW_PLACEMENT", "greedy")
    try:
        minnow.load(encoder(1), device=request.param)
    except DeviceError:
        pytest.skip(f"this machine has no {request.param}")
    return str(request.param)


def encoder(length: int) -> bytes:
    """Attention with a cache, a layer of products and an LSTM behind it, and its result at twice the resolution."""
    graph = Graph()
    b = Builder(graph)
    x = graph.add_param(f32(2, length, 24))
    past = [graph.add_param(f32(2, 3, 5, 8)) for _ in range(2)]
    q, k, v = (b.MatMul(x, normal(RNG, 24, 24)) for _ in range(3))
    y, keys, values = b.Attention(q, k, v, *past, n_outputs=3, num_heads=3, scale=0.35, causal=True)
    y = b.Relu(b.Add(b.MatMul(y, normal(RNG, 24, 16)), normal(RNG, 16)))
    weights = normal(RNG, 1, 4 * 8, 16), normal(RNG, 1, 4 * 8, 8)
    states, *_ = b.LSTM(y, *weights, n_outputs=3, hidden=8)
    wide = b.Resize(states, None, np.array([1, 1, 2, 2], np.float32), mode="linear")
    graph.outputs = [wide, keys, values]
    return encode(model_of(graph))


def test_a_convolutional_network(device: str, tmp_path: Path) -> None:
    path = tmp_path / "digits.mnn"
    minnow.convert(DIGITS, output=path, verify=False)
    assert minnow.verify(DIGITS, path, device=device).verdict == "pass"
    rows = minnow.load(path, device=device).placement({"image": (1, 1, 8, 8)})
    assert {row["device"] for row in rows if row["op"] == "Conv"} == {full_name(device)}


def test_attention_with_a_cache_and_a_recurrent_layer(device: str) -> None:
    model = encoder(7)
    inputs = {"in0": normal(RNG, 2, 7, 24), "in1": normal(RNG, 2, 3, 5, 8), "in2": normal(RNG, 2, 3, 5, 8)}
    session = minnow.load(model, device=device)
    for _ in range(3):  # the later ones are recorded, and run again
        got, want = session.run(inputs), minnow.load(model).run(inputs)
        for name, array in want.items():
            np.testing.assert_allclose(got[name], array, rtol=1e-4, atol=1e-4 * np.abs(array).max())
    placed = {row["op"]: row["device"] for row in session.placement()}
    assert {placed[op] for op in ("LSTM", "Resize")} == {full_name(device)}


def u_shaped(channels: int) -> bytes:
    """An image, half as large and again as large, beside itself; read by two convolutions."""
    graph = Graph()
    b = Builder(graph)
    x = graph.add_param(f32(2, 5, 18, 14))
    same = {"strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1)}
    first = b.Conv(x, normal(RNG, channels, 5, 3, 3), normal(RNG, channels), **same, activation="relu")
    half = b.MaxPool(first, kernel=(2, 2), strides=(2, 2), pads=(0,) * 4, dilations=(1, 1))
    half = b.Conv(half, normal(RNG, 24, channels, 3, 3) * 0.2, **same, activation="silu")
    wide = b.ConvTranspose(
        half, normal(RNG, 24, channels, 2, 2), normal(RNG, channels), strides=(2, 2), pads=(0,) * 4,
        dilations=(1, 1), output_padding=(0, 0), activation="relu",
    )  # fmt: skip
    joined = b.Concat(first, wide, axis=1)
    y = b.Conv(joined, normal(RNG, 9, 2 * channels, 3, 3), normal(RNG, 9), **same)
    point = {**same, "pads": (0, 0, 0, 0)}
    graph.outputs = [y, b.Conv(joined, normal(RNG, 40, 2 * channels, 1, 1), **point, activation="relu")]
    return encode(model_of(graph))


@pytest.mark.parametrize("channels", [8, 64, 13])
def test_images_that_are_joined_and_convolved(channels: int, device: str) -> None:
    model, inputs = u_shaped(channels), {"in0": normal(RNG, 2, 5, 18, 14)}
    want = minnow.load(model).run(inputs)
    for precision, room in (("high", 1e-4), ("low", 2e-2)):
        session = minnow.load(model, device=device, precision=precision)
        for _ in range(3):
            got = session.run(inputs)
            for name, array in want.items():
                np.testing.assert_allclose(got[name], array, rtol=room, atol=room * np.abs(array).max())
    ops = [row["op"] for row in session.placement()]
    assert ("Concat" in ops) != (device.startswith(("cuda", "vulkan")) and channels % 8 == 0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_random_graph(seed: int, device: str) -> None:
    if device != "opencl":
        pytest.skip("one device is enough")
    grower = grown(seed, 6 + seed % 20)
    session = minnow.load(encode(model_of(grower.graph)), device=device)
    for _ in range(2):
        check(grower.graph, grower.inputs, session, scale=20)
