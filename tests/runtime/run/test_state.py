"""What models remember from run to run, beside the same steps in numpy."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import mnn_oracle
import numpy as np
import pytest

import minnow
from minnow.optimizer import optimize
from minnow.schema.errors import FormatError, UsageError
from minnow.schema.ir import DType, Graph, Model, State, TensorType
from minnow.schema.mnn import decode, encode
from minnow.schema.ops import Builder


def running_sum(dtype: DType = DType.F32, start: float = 0.0, size: int = 3, level: int = 2) -> Model:
    """sum += x; count += 1; y = sum * 2, with the states between inputs and outputs, not behind them."""
    graph = Graph()
    count = graph.add_param(TensorType(DType.I32, ()), "count")
    x = graph.add_param(TensorType(dtype, (size,)), "x")
    total = graph.add_param(TensorType(dtype, (size,)), "total")
    b = Builder(graph)
    new_total, new_count = b.Add(total, x), b.Add(count, np.int32(1))
    graph.outputs = [new_total, b.Mul(new_total, np.asarray(2, dtype.numpy)), new_count]
    names = ["total_out", "y", "count_out"]
    model = Model(
        graph,
        [(p.name, p.type) for p in graph.params],
        [(n, v.type) for n, v in zip(names, graph.outputs, strict=True)],
        states=[
            State("total", "total_out", np.full(size, start, dtype.numpy)),
            State("count", "count_out", np.zeros((), np.int32)),
        ],
    )
    optimize(model, level)
    return model


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("dtype", [DType.F32, DType.I32, DType.I64])
@pytest.mark.parametrize(("start", "size"), [(0, 3), (5, 3), (5, 1), (0, 0), (-1, 1031)])
def test_runs_hand_on_their_states(dtype: DType, level: int, start: float, size: int) -> None:
    session = minnow.load(encode(running_sum(dtype, start, size, level)))
    assert [i.name for i in session.inputs] == ["x"]
    assert [o.name for o in session.outputs] == ["y"]
    rng = np.random.default_rng(0)
    total = np.full(size, start, dtype.numpy)
    for step in range(4):
        np.testing.assert_array_equal(session.states["total"], total)
        assert session.states["count"] == step
        x = rng.integers(-9, 9, size).astype(dtype.numpy)
        total = total + x
        np.testing.assert_array_equal(session.run({"x": x})["y"], total * 2)


def test_reset_and_states_that_the_caller_gives() -> None:
    session = minnow.load(encode(running_sum(start=1)))
    one = {"x": np.ones(3, np.float32)}
    session.run(one)
    kept = session.states
    after = session.run(one)["y"]
    session.reset(kept)
    np.testing.assert_array_equal(session.run(one)["y"], after)
    session.reset({"total": [10, 20, 30]})
    np.testing.assert_array_equal(session.run(one)["y"], [22, 42, 62])
    session.reset()
    np.testing.assert_array_equal(session.run(one)["y"], [4, 4, 4])
    assert session.states["count"] == 1
    with pytest.raises(UsageError, match="no state 'nothing'"):
        session.reset({"nothing": 1})
    with pytest.raises(UsageError, match="'total' is f32"):
        session.reset({"total": np.zeros(2, np.float32)})


def test_profiles_and_failures_leave_the_states_alone() -> None:
    session = minnow.load(encode(running_sum()))
    session.run({"x": np.ones(3, np.float32)})
    session.profile({"x": np.ones(3, np.float32)}, runs=3)
    with pytest.raises(UsageError):
        session.run({"x": np.ones(4, np.float32)})
    np.testing.assert_array_equal(session.states["total"], np.ones(3))


def test_states_are_those_between_two_runs() -> None:
    """Another thread runs the model, and takes its states back, while they are copied."""
    model = minnow.Model(encode(running_sum(size=1 << 16)))
    session, over = model.session(threads=1), threading.Event()

    def run() -> None:
        ones = np.ones(1 << 16, np.float32)
        while not over.is_set():
            session.run({"x": ones})
            session.reset()
            session.run({"x": ones})

    with ThreadPoolExecutor(2) as others:
        running = [others.submit(run) for _ in range(2)]
        try:
            for _ in range(200):
                total = session.states["total"]
                assert (total == total[0]).all()
        finally:
            over.set()
        for thread in running:
            thread.result()


def test_sessions_of_one_model_remember_apart() -> None:
    model = minnow.Model(encode(running_sum()))
    one, other = model.session(), model.session()
    one.run({"x": np.ones(3, np.float32)})
    np.testing.assert_array_equal(other.states["total"], np.zeros(3))
    np.testing.assert_array_equal(other.run({"x": np.full(3, 2, np.float32)})["y"], np.full(3, 4))


def test_the_file_tells_the_states() -> None:
    model = decode(encode(running_sum(start=-2.5)))
    assert [(s.input, s.output) for s in model.states] == [("total", "total_out"), ("count", "count_out")]
    np.testing.assert_array_equal(model.states[0].value, np.full(3, -2.5, np.float32))
    assert encode(model) == encode(running_sum(start=-2.5))


def _rows(change: Callable[[list[dict[str, str]]], object]) -> str:
    rows = [{"input": "total", "output": "total_out", "value": "00" * 12}]
    change(rows)
    return json.dumps(rows)


@pytest.mark.parametrize(
    "text",
    [
        "{}{",
        '"x"',
        "[1]",
        _rows(lambda r: r[0].pop("input")),
        _rows(lambda r: r[0].update(input="nothing")),
        _rows(lambda r: r[0].update(output="nothing")),
        _rows(lambda r: r[0].update(value="00" * 13)),
        _rows(lambda r: r[0].update(value="0")),
        _rows(lambda r: r[0].update(value="zz" * 12)),
        _rows(lambda r: r.append(r[0])),
    ],
)
def test_damaged_states_are_refused(text: str) -> None:
    model = running_sum()
    model.metadata["minnow.states"], model.states = text, []
    damaged = encode(model)
    with pytest.raises(FormatError, match=re.escape("minnow.states")):
        minnow.load(damaged)
    if "zz" not in text and text.count("total_out") < 2:
        with pytest.raises(FormatError, match=re.escape("minnow.states")):
            decode(damaged)


def test_a_state_of_another_type_than_its_output_is_refused() -> None:
    model = running_sum()
    model.states = [replace(model.states[0], output="count_out")]
    session = minnow.load(encode(model))
    with pytest.raises(Exception, match="'total' gets another type"):
        session.run({"x": np.ones(3, np.float32), "count": np.zeros((), np.int32)})


@mnn_oracle.needs_mnn
def test_other_runtimes_see_inputs_and_outputs(tmp_path: Path) -> None:
    inputs = {
        "count": np.int32(4), "x": np.ones(3, np.float32), "total": np.full(3, 2, np.float32)
    }  # fmt: skip
    (answer,) = mnn_oracle.run([mnn_oracle.Job(running_sum(), inputs)], tmp_path)
    assert answer.outputs is not None, answer.log
    np.testing.assert_array_equal(answer.outputs[0], np.full(3, 3))
    np.testing.assert_array_equal(answer.outputs[1], np.full(3, 6))
    assert int(answer.outputs[2].reshape(())) == 5
