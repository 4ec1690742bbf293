"""Whole models on OpenCL and Vulkan, in software where there is no GPU: a device runs all that it can compute."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from engine_oracle import check, f32, model_of, normal
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
    assert {row["device"].partition(":")[0] for row in rows if row["op"] == "Conv"} == {device}


def test_attention_with_a_cache_and_a_recurrent_layer(device: str) -> None:
    model = encoder(7)
    inputs = {"in0": normal(RNG, 2, 7, 24), "in1": normal(RNG, 2, 3, 5, 8), "in2": normal(RNG, 2, 3, 5, 8)}
    session = minnow.load(model, device=device)
    for _ in range(3):  # the later ones are recorded, and run again
        got, want = session.run(inputs), minnow.load(model).run(inputs)
        for name, array in want.items():
            np.testing.assert_allclose(got[name], array, rtol=1e-4, atol=1e-4 * np.abs(array).max())
    placed = {row["op"]: row["device"].partition(":")[0] for row in session.placement()}
    assert {placed[op] for op in ("LSTM", "Resize")} == {device}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_random_graph(seed: int, device: str) -> None:
    if device != "opencl":
        pytest.skip("one device is enough")
    grower = grown(seed, 6 + seed % 20)
    session = minnow.load(encode(model_of(grower.graph)), device=device)
    for _ in range(2):
        check(grower.graph, grower.inputs, session, scale=20)
