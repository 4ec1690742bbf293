"""The gradient of training with fake quantization, against PyTorch's: rounding counts as no change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import DType, Graph, TensorType
from minnow.schema.ops import Builder
from minnow.schema.registry.gradient import add_gradients
from minnow.schema.registry.interpreter import evaluate


def _graph(shape: tuple[int, ...], scales: tuple[int, ...], w: Any, zero: Any, to: DType, axis: int) -> Graph:
    """Parameters x and scale; outputs the result and both gradients."""
    graph = Graph()
    x, scale = (graph.add_param(TensorType(DType.F32, s)) for s in (shape, scales))
    b = Builder(graph)
    q = b.QuantizeLinear(x, scale, zero, axis=axis, to=to)
    y = b.DequantizeLinear(q, scale, zero, axis=axis)
    loss = b.ReduceSum(b.Mul(y, b.const(w)), keepdims=False)
    graph.outputs = [y, *add_gradients(graph, loss, [x, scale])]
    return graph


@pytest.mark.parametrize("to", [DType.I8, DType.U8])
@pytest.mark.parametrize("channels", [False, True])
def test_rounding_counts_as_no_change(to: DType, channels: bool) -> None:
    import torch

    rng = np.random.default_rng(3)
    x = (rng.standard_normal((4, 3, 5)) * 2).astype(np.float32)  # a few beyond the range
    w = rng.standard_normal(x.shape).astype(np.float32)
    info = np.iinfo(to.numpy)
    scale = np.array([0.013, 0.02, 0.011] if channels else [0.015], np.float32)
    zero = np.full(scale.shape, 3, to.numpy)
    y, by_x, by_scale = evaluate(_graph(x.shape, scale.shape, w, zero, to, 1), [x, scale])

    tx, ts = (torch.from_numpy(v).requires_grad_() for v in (x, scale))
    tz = torch.full(scale.shape, 3.0)
    limits = (int(info.min), int(info.max))
    if channels:
        ty = torch._fake_quantize_learnable_per_channel_affine(tx, ts, tz, 1, *limits, 1.0)
    else:
        ty = torch._fake_quantize_learnable_per_tensor_affine(tx, ts, tz, *limits, 1.0)
    (ty * torch.from_numpy(w)).sum().backward()
    np.testing.assert_allclose(y, ty.detach().numpy(), atol=1e-6)
    np.testing.assert_allclose(by_x, tx.grad.numpy(), atol=1e-6)
    np.testing.assert_allclose(by_scale, ts.grad.numpy(), rtol=1e-4, atol=1e-3)
    assert 0 < np.count_nonzero(by_x == 0) < by_x.size, "some are beyond the range"


def test_casts_and_roundings_pass_the_gradient_on() -> None:
    graph = Graph()
    x = graph.add_param(TensorType(DType.F32, (5,)))
    b = Builder(graph)
    narrow = b.Cast(b.Cast(x, to=DType.F16), to=DType.F32)
    loss = b.ReduceSum(b.Add(b.Mul(narrow, 3.0), b.Cast(b.Cast(x, to=DType.I32), to=DType.F32)), keepdims=False)
    graph.outputs = add_gradients(graph, loss, [x])
    (by_x,) = evaluate(graph, [np.linspace(-2, 2, 5, dtype=np.float32)])
    np.testing.assert_array_equal(by_x, np.full(5, 3, np.float32))  # an integer is a step: flat


def test_quantization_by_blocks_is_refused_by_name() -> None:
    graph = Graph()
    x = graph.add_param(TensorType(DType.F32, (4, 6)), "x")
    b = Builder(graph, origin="onnx:/quant")
    scale = np.full((4, 2), 0.5, np.float32)
    q = b.QuantizeLinear(x, scale, np.zeros((4, 2), np.int8), axis=1, block_size=3, to=DType.I8)
    loss = b.ReduceSum(b.DequantizeLinear(q, scale, axis=1, block_size=3), keepdims=False)
    with pytest.raises(UnsupportedError, match="by blocks has no gradient") as error:
        add_gradients(graph, loss, [x])
    assert error.value.where == "onnx:/quant"
