"""Fusions for devices: each is applied on the devices that it names, and on no others."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import engine_oracle
import numpy as np
import pytest
from engine_oracle import Array, f32, model_of, normal
from fake import open_on

from minnow.schema.ir import DType, Graph, TensorType
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder


def joined_images() -> tuple[Graph, list[Array]]:
    """Two images that are concatenated only to be convolved: `join_channels`, for CUDA and Vulkan."""
    rng = np.random.default_rng(3)
    graph = Graph("g")
    b = Builder(graph)
    x, y = (graph.add_param(f32(1, 8, 5, 5), name) for name in "xy")
    attrs = {"strides": (1, 1), "pads": (0,) * 4, "dilations": (1, 1)}
    graph.outputs = [b.Conv(b.Concat(x, y, axis=1), normal(rng, 6, 16, 1, 1), **attrs)]
    return graph, [normal(rng, 1, 8, 5, 5) for _ in range(2)]


def layer_with_a_table() -> tuple[Graph, list[Array]]:
    """A layer of bytes and a function of its results: `fuse_quantized_tables`, for CUDA."""
    rng = np.random.default_rng(4)
    graph = Graph("g")
    b = Builder(graph)
    x = graph.add_param(TensorType(DType.U8, (1, 4, 5, 5)), "x")
    weights = rng.integers(-127, 128, (6, 4, 1, 1), dtype=np.int8)
    factor = np.full((6, 1, 1), 0.004, np.float32)
    attrs = {"strides": (1, 1), "pads": (0,) * 4, "dilations": (1, 1), "to": DType.U8}
    y = b.QuantizedConv(x, weights, np.uint8(3), None, None, factor, np.uint8(100), **attrs)
    graph.outputs = [b.LookUp(y, rng.permutation(256).astype(np.uint8))]
    return graph, [rng.integers(0, 256, (1, 4, 5, 5), dtype=np.uint8)]


def ops(rows: list[Mapping[str, str]]) -> set[str]:
    return {row["op"] for row in rows}


CASES = pytest.mark.parametrize(
    ("make", "op"),
    [(joined_images, "Concat"), (layer_with_a_table, "LookUp")],
    ids=lambda case: getattr(case, "__name__", ""),
)


@CASES
def test_the_cpu_takes_none_that_is_for_other_devices(make: Callable[[], tuple[Graph, list[Array]]], op: str) -> None:
    graph, inputs = make()
    session = engine_oracle.session_of(graph)
    assert op in ops(session.profile({f"in{i}": a for i, a in enumerate(inputs)}, 1))
    engine_oracle.check(graph, inputs, session)


@CASES
def test_a_device_gets_those_of_its_kind(
    fake: pytest.MonkeyPatch, make: Callable[[], tuple[Graph, list[Array]]], op: str
) -> None:
    graph, inputs = make()
    model = encode(model_of(graph))
    shapes = {f"in{i}": a.shape for i, a in enumerate(inputs)}
    found = {}
    for kind in ("cpu", "cuda", "vulkan", "another"):
        fake.setenv("MINNOW_FAKE_KERNELS", kind)
        found[kind] = op in ops(open_on(model, "fake").placement(shapes))
    assert found == {"cpu": True, "cuda": False, "vulkan": op != "Concat", "another": True}
