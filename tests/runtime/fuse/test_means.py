"""Means over all spatial axes are poolings of channel blocks and a view, whatever the ranks and extents."""

from __future__ import annotations

import engine_oracle
import numpy as np
import pytest
from engine_oracle import f32, normal

from minnow.schema.ir import Graph
from minnow.schema.ops import Builder


@pytest.mark.parametrize("shape", [(2, 17, 5, 7), (1, 3, 1, 1), (3, 8, 9), (1, 5, 2, 3, 4), (2, 0, 3, 3), (0, 4, 2, 2)])
@pytest.mark.parametrize("packed", [True, False])
def test_a_mean_of_channels_is_a_pooling(shape: tuple[int, ...], packed: bool) -> None:
    rng = np.random.default_rng(3)
    graph = Graph("g")
    x = graph.add_param(f32(*shape), "x")
    b = Builder(graph)
    n = len(shape) - 2
    weights = normal(rng, 6, shape[1], *(1,) * n)
    y = b.Conv(x, weights, strides=(1,) * n, pads=(0,) * 2 * n, dilations=(1,) * n) if packed and shape[1] else b.Exp(x)
    graph.outputs = [b.ReduceMean(y, axes=tuple(range(-n, 0)), keepdims=False)]
    inputs = [normal(rng, *shape)]
    session = engine_oracle.session_of(graph)
    engine_oracle.check(graph, inputs, session)
    if 0 not in shape:
        ops = [row["op"] for row in session.profile({"in0": inputs[0]}, 1)]
        assert "GlobalAveragePool" in ops


def test_a_mean_of_nothing_stays_one() -> None:
    graph = Graph("g")
    x = graph.add_param(f32(2, 3, 0, 4), "x")
    graph.outputs = [Builder(graph).ReduceMean(x, axes=(2, 3), keepdims=False)]
    with np.errstate(invalid="ignore"):
        engine_oracle.check(graph, [np.zeros((2, 3, 0, 4), np.float32)])
