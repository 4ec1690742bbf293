"""Layers in a row, by the numpy reference: all strides, paddings and kernels for which one layer can stand for both."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from rewriting import assert_same_numbers

from minnow.optimizer import optimize
from minnow.schema.ir import DType, Graph, Model, TensorType, Value
from minnow.schema.ops import Builder

Array = np.ndarray[Any, Any]


def _conv(b: Builder, x: Value, w: Array, bias: bool, stride: int, pads: tuple[int, ...], dilation: int = 1) -> Value:
    n = w.ndim - 2
    operands = [x, w, np.arange(len(w), dtype=np.float32) + 1][: 2 + bias]
    return b.Conv(*operands, strides=(stride,) * n, pads=pads, dilations=(dilation,) * n)


@pytest.mark.parametrize(("inner", "outer"), [((1, 1), (1, 1)), ((3, 2), (1, 1)), ((1, 1), (2, 3)), ((1,), (3,))])
@pytest.mark.parametrize("biases", list(product((False, True), repeat=2)))
def test_convolutions_in_a_row(inner: tuple[int, ...], outer: tuple[int, ...], biases: tuple[bool, bool]) -> None:
    rng = np.random.default_rng(0)
    first = rng.standard_normal((5, 2, *inner)).astype(np.float32)
    second = rng.standard_normal((3, 5, *outer)).astype(np.float32)
    for strides, wide in product(((1, 1), (2, 1), (1, 3), (2, 2)), (0, 1)):
        pads = [tuple((i + wide) % 2 for i in range(2 * len(k))) if wide else (0,) * 2 * len(k) for k in (inner, outer)]
        graphs = []
        for _ in range(2):
            graph = Graph("g")
            x = graph.add_param(TensorType(DType.F32, ("N", 2, *(23, 17)[: len(inner)])), "x")
            b = Builder(graph)
            a = _conv(b, x, first, biases[0], strides[0], pads[0], 2)
            graph.outputs = [_conv(b, a, second, biases[1], strides[1], pads[1], 2)]
            graphs.append(graph)
        before, after = graphs
        optimize(Model(after), 3, target="minnow")
        one = {"inner": set(inner) == {1} and not any(pads[0]), "outer": set(outer) == {1} and not any(pads[1])}
        kept = not one["outer"] and (not one["inner"] or strides[0] > 1 or (biases[0] and any(pads[1])))
        assert len(after) == 1 + kept
        assert_same_numbers(before, after)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("rank", [2, 3])
def test_products_in_a_row(bias: bool, rank: int) -> None:
    rng = np.random.default_rng(0)
    sizes = (4, 7, 5, 6)
    graphs = []
    for _ in range(2):
        graph, rng = Graph("g"), np.random.default_rng(0)
        y = x = graph.add_param(TensorType(DType.F32, ("N", 3, 4)[-rank:]), "x")
        b = Builder(graph)
        for rows, columns in pairwise(sizes):
            y = b.MatMul(y, rng.standard_normal((rows, columns)).astype(np.float32))
            y = b.Add(y, rng.standard_normal(columns).astype(np.float32)) if bias else y
        graph.outputs = [b.Sigmoid(y)]
        graphs.append(graph)
    before, after = graphs
    optimize(Model(after), 3)
    assert x.name == "x"
    assert [node.op for node in after] == ["Linear", "Sigmoid"]
    assert_same_numbers(before, after)


def test_adapters_of_low_rank_stay_apart() -> None:
    """Their product would be as large as the layer that they adapt."""
    graph = Graph("g")
    x = graph.add_param(TensorType(DType.F32, ("N", 64)), "x")
    b = Builder(graph)
    low = b.Linear(x, np.ones((4, 64), np.float32))
    graph.outputs = [b.Linear(low, np.ones((64, 4), np.float32))]
    optimize(Model(graph), 3)
    assert [node.op for node in graph] == ["Linear", "Linear"]
