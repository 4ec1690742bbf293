"""Gradients of convolutions and pooling for windows of many forms, against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from minnow.schema.ir import DType, Graph, TensorType
from minnow.schema.ops import Builder
from minnow.schema.registry.gradient import add_gradients
from minnow.schema.registry.interpreter import evaluate


def _gradients(op: str, arrays: list[Any], weights: Any, attrs: Any) -> tuple[list[Any], Graph]:
    """Of the sum of the results times `weights`, by each array."""
    graph = Graph()
    values = [graph.add_param(TensorType(DType.F32, a.shape), f"x{i}") for i, a in enumerate(arrays)]
    b = Builder(graph, origin="test:net")
    y = b.node(op, values, attrs).outputs[0]
    loss = b.ReduceSum(b.Mul(y, weights), keepdims=False)
    graph.outputs = add_gradients(graph, loss, values)
    return evaluate(graph, arrays), graph


def _whole(rng: Any, *shape: int) -> Any:
    """Small integers: sums of them are exact in any order."""
    return rng.integers(-3, 4, shape).astype(np.float32)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(40))
def test_weights_of_a_convolution(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 4))
    group, n = int(rng.choice([1, 1, 2, 3])), int(rng.integers(1, 4))
    per_group, per_out = (1, 1) if seed % 4 == 0 else (int(rng.integers(1, 3)), int(rng.integers(1, 3)))
    kernel, strides, dilations = ([int(v) for v in rng.integers(1, 4, rank)] for _ in range(3))
    pads = [int(v) for v in rng.integers(0, 3, rank)]
    sizes = [d * (k - 1) + 1 + int(rng.integers(0, 5)) for d, k in zip(dilations, kernel, strict=True)]
    x, w = _whole(rng, n, group * per_group, *sizes), _whole(rng, group * per_out, per_group, *kernel)
    convolve = [torch.conv1d, torch.conv2d, torch.conv3d][rank - 1]
    tensors = [torch.from_numpy(a).requires_grad_() for a in (x, w)]
    y = convolve(*tensors, None, strides, pads, dilations, group)
    weights = _whole(rng, *y.shape)
    (y * torch.from_numpy(weights)).sum().backward()
    attrs = {"strides": strides, "pads": pads * 2, "dilations": dilations, "group": group}
    found, _ = _gradients("Conv", [x, w], weights, attrs)
    for tensor, gradient in zip(tensors, found, strict=True):
        np.testing.assert_array_equal(gradient, tensor.grad.numpy())


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_the_largest_of_equals(rank: int) -> None:
    """Of a window the first one; windows next to each other, and a rest that is in none."""
    rng = np.random.default_rng(rank)
    kernel = [int(v) for v in rng.integers(2, 4, rank)]
    x = rng.integers(0, 2, (2, 3, *(2 * k + 1 for k in kernel))).astype(np.float32)
    pool = [torch.max_pool1d, torch.max_pool2d, torch.max_pool3d][rank - 1]
    tensor = torch.from_numpy(x).requires_grad_()
    y = pool(tensor, kernel)
    weights = _whole(rng, *y.shape)
    (y * torch.from_numpy(weights)).sum().backward()
    attrs = {"kernel": kernel, "strides": kernel, "pads": [0] * 2 * rank, "dilations": [1] * rank}
    (found,), graph = _gradients("MaxPool", [x], weights, attrs)
    np.testing.assert_array_equal(found, tensor.grad.numpy())
    assert "ScatterElements" not in {node.op for node in graph}


def test_a_window_without_a_largest_element() -> None:
    x = np.array([[[1, np.nan, 3, 2]]], np.float32)
    attrs = {"kernel": [2], "strides": [2], "pads": [0, 0], "dilations": [1]}
    (found,), _ = _gradients("MaxPool", [x], np.array([[[5, 7]]], np.float32), attrs)
    np.testing.assert_array_equal(found, [[[0, 0, 7, 0]]])
