"""Layers of quantized networks with constant weights, as networks have them: CUDA's tensor cores multiply these, while
operands that are computed go to the portable kernels. All results are the same to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minnow
from minnow.runtime import _engine
from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import DType, Graph, TensorType
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder, get
from minnow.schema.registry.interpreter import evaluate
from tests.kernels.gpu.test_ops_on_gpu import DEVICES, is_there
from tests.kernels.test_ops import arrays, plain
from tests.runtime.engine_oracle import model_of

LAYERS = ("QuantizedConv", "ConvInteger", "QuantizedMatMul", "MatMulInteger")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", LAYERS)
def test_constant_weights(name: str, device: str) -> None:
    if not is_there(device):
        pytest.skip(f"no {device}")
    op, computed, refused = get(name), 0, []
    for sample in op.cases():
        try:
            got = _engine.run_op(
                name, plain(sample.attrs), arrays(sample), sample.n_outputs, 1, False, constants=True, device=device
            )
        except UnsupportedError as e:
            refused.append(str(e))
            continue
        computed += 1
        for one, want in zip(got, op.evaluate(list(sample.inputs), sample.attrs), strict=True):
            assert one.dtype == want.dtype
            np.testing.assert_array_equal(one, want, err_msg=f"{name} {sample}")
    assert computed > 0, refused


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", [(1, 64, 14, 14, 96, 3, 1), (2, 24, 9, 9, 144, 1, 1), (1, 40, 13, 11, 40, 3, 40)])
def test_convolutions_of_networks(shape: tuple[int, ...], device: str) -> None:
    if not is_there(device):
        pytest.skip(f"no {device}")
    n, c, h, w, o, k, group = shape
    rng = np.random.default_rng(c)
    attrs = {"strides": (1, 1), "pads": (k // 2,) * 4, "dilations": (1, 1), "group": group, "to": DType.U8, "zero": 3}
    attrs |= {"min": 3, "max": 255}
    inputs = [
        rng.integers(0, 256, (n, c, h, w)).astype(np.uint8),
        rng.integers(0, 256, (o, c // group, k, k)).astype(np.uint8),
        np.uint8(131),
        np.uint8(117),
        rng.integers(-5000, 5000, (o, 1, 1)).astype(np.int32),
        rng.integers(2**30, 2**31, (o, 1, 1)).astype(np.int32),
        rng.integers(-12, -7, (o, 1, 1)).astype(np.int32),
    ]
    want = get("QuantizedConv").evaluate(inputs, attrs)[0]
    arrays_ = [np.asarray(v) for v in inputs]
    got = _engine.run_op("QuantizedConv", plain(attrs), arrays_, 1, 1, False, constants=True, device=device)[0]
    np.testing.assert_array_equal(got, want)
    assert len(np.unique(want)) > 50  # most are neither the least nor the greatest


def network(signed: bool) -> tuple[Graph, np.ndarray]:
    """A block with a residual, as converters write it: activations, other scales and the sum are tables."""
    rng = np.random.default_rng(7)
    to = DType.I8 if signed else DType.U8
    least = -128 if signed else 0
    limits = {"to": to, "min": least, "max": least + 255}
    x = rng.integers(0, 256, (2, 24, 12, 10)).astype(np.uint8)
    graph = Graph()
    b = Builder(graph)

    def convolved(v: Any, inputs: int, outputs: int, kernel: int, group: int = 1) -> Any:
        w = rng.integers(-128, 128, (outputs, inputs // group, kernel, kernel)).astype(np.int8)
        window = {"strides": (1, 1), "pads": (kernel // 2,) * 4, "dilations": (1, 1), "group": group}
        bias = rng.integers(-5000, 5000, (outputs, 1, 1)).astype(np.int32)
        factor = rng.integers(2**30, 2**31, (outputs, 1, 1)).astype(np.int32)
        shift = rng.integers(-10, -7, (outputs, 1, 1)).astype(np.int32)
        zero = np.uint8(3) if v is graph.params[0] else np.asarray(3, to.numpy)
        return b.QuantizedConv(v, w, zero, None, bias, factor, shift, **window, zero=3, **limits)

    def table() -> np.ndarray:
        return rng.integers(least, least + 256, 256).astype(to.numpy)

    def terms() -> np.ndarray:
        return rng.integers(-(2**20), 2**20, 256).astype(np.int32)

    first = b.LookUp(convolved(graph.add_param(TensorType(DType.U8, x.shape)), 24, 40, 3), table())
    second = convolved(b.LookUp(convolved(first, 40, 40, 3, group=40), table()), 40, 40, 1)
    total = b.QuantizedSum(first, np.int32(1518500250), np.int32(-13), terms(), second, terms(), zero=3, **limits)
    pool = {"kernel": (3, 3), "strides": (2, 2), "pads": (1,) * 4, "dilations": (1, 1)}
    pooled = b.MaxPool(b.LookUp(total, table()), **pool)
    graph.outputs = [convolved(pooled, 40, 19, 1)]
    return graph, x


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("device", DEVICES)
def test_a_network(device: str, signed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not is_there(device):
        pytest.skip(f"no {device}")
    monkeypatch.setenv("MINNOW_PLACEMENT", "greedy")
    graph, x = network(signed)
    (want,) = evaluate(graph, [x])
    session = minnow.load(encode(model_of(graph)), device=device)
    name = session.inputs[0].name
    for _ in range(3):  # the first runs try several kernels
        (got,) = session.run({name: x}).values()
        np.testing.assert_array_equal(got, want)
    assert len(np.unique(want)) > 100
    rows = [r for r in session.profile({name: x}, runs=1) if r["op"] not in ("Upload", "Download", "Pack", "Unpack")]
    assert all(r["device"].startswith(device) for r in rows)
    if device == "cuda":  # the tables and the sum are part of the layers
        assert [r["op"] for r in rows] == ["QuantizedConv"] * 3 + ["MaxPool", "QuantizedConv"]
