"""Depthwise convolutions and the pointwise ones that read them: one kernel on CUDA, with precision "low"."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engine_oracle import f32, model_of, normal

import minnow
from minnow.schema.ir import Graph
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder
from minnow.schema.registry.interpreter import evaluate
from tests.kernels.gpu.test_ops_on_gpu import device  # noqa: F401

ONE = {"strides": (1, 1), "pads": (0,) * 4, "dilations": (1, 1)}
# the image, channels of the result, size and stride of the window, activations of both, whether something is added
CASES: list[tuple[tuple[int, ...], int, int, int, str, str, bool]] = [
    ((1, 24, 9, 7), 13, 3, 1, "relu6", "", True),
    ((2, 70, 8, 11), 16, 3, 2, "relu", "relu", False),
    ((1, 19, 12, 10), 40, 5, 1, "hardswish", "hardsigmoid", False),
    ((1, 130, 7, 7), 66, 5, 2, "", "silu", True),
]


def layers(case: tuple[tuple[int, ...], int, int, int, str, str, bool]) -> tuple[Graph, list[np.ndarray]]:
    shape, outputs, size, stride, first, last, adds = case
    rng = np.random.default_rng(7)
    graph = Graph("g")
    b = Builder(graph)
    x = graph.add_param(f32(*shape), "x")
    channels, pad = shape[1], size // 2
    window: dict[str, Any] = {"strides": (stride, stride), "pads": (pad,) * 4, "dilations": (1, 1), "group": channels}
    middle = b.Conv(x, normal(rng, channels, 1, size, size), normal(rng, channels), activation=first, **window)
    y = b.Conv(middle, normal(rng, outputs, channels, 1, 1), normal(rng, outputs), activation=last, **ONE)
    inputs = [normal(rng, *shape)]
    if adds:
        assert y.type.shape is not None
        inputs.append(normal(rng, *y.type.shape))
        y = b.Add(y, graph.add_param(f32(*y.type.shape), "added"))
    graph.outputs = [y]
    return graph, inputs


@pytest.mark.parametrize("case", CASES, ids=str)
def test_are_right_with_low_precision(device: str, case: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setenv("MINNOW_PLACEMENT", "greedy")
    graph, inputs = layers(case)
    want = evaluate(graph, inputs)[0]
    session = minnow.load(encode(model_of(graph)), device=device, precision="low")
    given = {info.name: a for info, a in zip(session.inputs, inputs, strict=True)}
    for _ in range(3):  # the first run tries other ways
        got = next(iter(session.run(given).values()))
    assert np.abs(got - want).max() < 6e-3 * np.abs(want).max()
