"""Graphs run by the engine, from the bytes of a file, beside the numpy references of their ops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import minnow
from minnow.schema.ir import DType, Graph, Model, TensorType, Value
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder, Op, Sample
from minnow.schema.registry.interpreter import evaluate

Array = np.ndarray[Any, Any]

TOLERANCE = {np.dtype(np.float16): 5e-3, np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-12}


def model_of(graph: Graph) -> Model:
    """The graph as a model: inputs are called in0, in1, ..., outputs out0, out1, ...; sequences are plain bytes."""
    return Model(
        graph,
        [(f"in{i}", _plain(p.type)) for i, p in enumerate(graph.params)],
        [(f"out{i}", _plain(v.type)) for i, v in enumerate(graph.outputs)],
    )


def _plain(type: TensorType) -> TensorType:
    return TensorType(type.dtype, type.shape) if type.holds_tensors else type


def graph_of(op: Op, sample: Sample, first_constant: int) -> tuple[Graph, list[Array]]:
    """The sample as a graph, its operands from this one on as constants; and what the graph is given."""
    graph = Graph()
    operands: list[Value | None] = []
    feeds = []
    for i, a in enumerate(sample.inputs):
        if a is None:
            operands.append(None)
        elif i >= first_constant:
            operands.append(Value.constant(a))
        else:
            operands.append(graph.add_param(TensorType(DType.of(a.dtype), a.shape)))
            feeds.append(a)
    graph.outputs = list(Builder(graph).node(op, operands, sample.attrs, sample.n_outputs).outputs)
    return graph, feeds


def session_of(graph: Graph, threads: int = 1) -> minnow.Session:
    return minnow.load(encode(model_of(graph)), threads=threads)


def run(session: minnow.Session, inputs: Sequence[Array]) -> list[Array]:
    return list(session.run({f"in{i}": a for i, a in enumerate(inputs)}).values())


def check(graph: Graph, inputs: Sequence[Array], session: minnow.Session | None = None, scale: float = 1.0) -> None:
    """The engine gives what the references give; `scale` widens the tolerance for long chains of rounding."""
    want = evaluate(graph, inputs)
    got = run(session or session_of(graph), inputs)
    for i, (w, g) in enumerate(zip(want, got, strict=True)):
        assert_close(g, w, scale, f"output {i} of\n{graph}")


def assert_close(got: Array, want: Array, scale: float = 1.0, what: str = "") -> None:
    """Equal types and shapes; integers equal, floats within the tolerance of their type, relative to the largest."""
    assert got.dtype == want.dtype, what
    assert got.shape == want.shape, what
    if DType.of(want.dtype).is_storage:
        np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64), err_msg=what)
        return
    if want.dtype.kind not in "fV":
        np.testing.assert_array_equal(got, want, err_msg=what)
        return
    tolerance = TOLERANCE.get(want.dtype, 2e-2) * scale
    g, w = got.astype(np.float64), want.astype(np.float64)
    largest = float(np.max(np.abs(w), where=np.isfinite(w), initial=0))
    np.testing.assert_allclose(g, w, rtol=10 * tolerance, atol=tolerance * (1 + largest), err_msg=what)


def f32(*shape: int | str) -> TensorType:
    return TensorType(DType.F32, shape)


def normal(rng: np.random.Generator, *shape: int) -> Array:
    return rng.standard_normal(shape).astype(np.float32)


def feeds(session: minnow.Session, rng: np.random.Generator, sizes: Mapping[str, int]) -> dict[str, Array]:
    """Random inputs; `sizes` of symbolic dims."""
    made = {}
    for info in session.inputs:
        assert info.shape is not None
        shape = [d if isinstance(d, int) else sizes.get(d, 1) for d in info.shape]
        made[info.name] = rng.standard_normal(shape).astype(info.dtype)
    return made
