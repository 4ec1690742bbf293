"""Random elementwise programs on a GPU, where a single kernel text runs them step by step, against the references."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import minnow
from minnow.schema.ir import DType, Graph, TensorType
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder
from tests.kernels.gpu.test_ops_on_gpu import DEVICES, is_there
from tests.runtime.engine_oracle import check, model_of
from tests.runtime.fuse.test_elementwise_programs import graphs


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if not is_there(request.param):
        pytest.skip(f"this machine has no {request.param}")
    monkeypatch.setenv("MINNOW_PLACEMENT", "greedy")
    return request.param


def session_on(device: str, graph: Graph) -> minnow.Session:
    return minnow.load(encode(model_of(graph)), device=device)


def run_random_programs(device: str, examples: int) -> None:
    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), derandomize=examples < 50)
    @given(graphs())
    def run(made: tuple[Graph, list[np.ndarray]]) -> None:
        graph, inputs = made
        check(graph, [np.nan_to_num(a) for a in inputs], session_on(device, graph), scale=100)

    run()


def test_random_programs(device: str) -> None:
    run_random_programs(device, 15)


@pytest.mark.slow
def test_many_random_programs(device: str) -> None:
    run_random_programs(device, 300)


def rows_of(session: minnow.Session, inputs: list[np.ndarray]) -> list[tuple[str, str, str]]:
    rows = session.profile({f"in{i}": a for i, a in enumerate(inputs)}, runs=1)
    return [(r["op"], r["scheme"], r["device"]) for r in rows if r["op"] not in ("Upload", "Download")]


def test_a_chain_is_one_launch(device: str) -> None:
    graph = Graph()
    x, c = (graph.add_param(TensorType(DType.F32, s)) for s in ((3, 7, 11), (7, 1)))
    b = Builder(graph)
    graph.outputs = [b.Sub(b.Mul(x, b.Sigmoid(b.Add(b.Mul(x, 1.5), 0.25))), c)]
    inputs = [np.random.default_rng(1).standard_normal(s).astype(np.float32) for s in ((3, 7, 11), (7, 1))]
    session = session_on(device, graph)
    check(graph, inputs, session)
    (row,) = rows_of(session, inputs)
    assert row[:2] == ("Fused", "Mul+Add+Sigmoid+Mul+Sub")
    assert row[2].startswith(device)


def test_a_program_of_more_values_than_registers_takes_several_launches(device: str) -> None:
    """Twenty operands, all of which are read again at the end, and five results."""
    graph = Graph()
    b = Builder(graph)
    params = [graph.add_param(TensorType(DType.F32, (2, 131))) for _ in range(20)]
    made = [b.Add(b.Neg(p), q) for p, q in pairwise(params)]
    total = made[0]
    for m in made[1:]:
        total = b.Max(total, b.Mul(m, 0.5))
    for m in reversed(made):
        total = b.Sub(total, m)
    graph.outputs = [total, *made[:4]]
    rng = np.random.default_rng(2)
    check(graph, [rng.standard_normal((2, 131)).astype(np.float32) for _ in params], session_on(device, graph))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int64])
def test_programs_of_many_shapes(device: str, dtype: type) -> None:
    """All ways in which two operands of rank 4 broadcast."""
    rng = np.random.default_rng(3)
    full = (2, 3, 5, 7)
    for mask in range(16):
        for other in range(16):
            shapes = [tuple(d if m >> i & 1 else 1 for i, d in enumerate(full)) for m in (mask, other)]
            graph = Graph()
            x, y = (graph.add_param(TensorType(DType.of(np.dtype(dtype)), s)) for s in shapes)
            b = Builder(graph)
            graph.outputs = [b.Sub(b.Mul(x, y), y)]
            check(graph, [rng.integers(-9, 9, s).astype(dtype) for s in shapes], session_on(device, graph))
