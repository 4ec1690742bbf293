"""Elementwise nodes that the plan runs as one, piece by piece: against the numpy references of the nodes."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from engine_oracle import check, model_of, run, session_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sampling import some_of

import minnow
from minnow.schema.ir import DType, Graph, TensorType, Value
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder, get

ISAS = ("avx512", "avx2", "sse4")

# Several pieces, whole ones and a rest; rows of all lengths; channels of one block, of several, and of part of one.
SHAPES = [(), (0, 5), (1,), (4097,), (3, 1), (5, 1013, 3), (2, 3, 5, 7), (1, 16, 20, 31), (2, 19, 13, 17), (97, 101)]


def profile(session: minnow.Session, inputs: list[np.ndarray]) -> list[dict[str, Any]]:
    return session.profile({f"in{i}": a for i, a in enumerate(inputs)}, runs=1)


def schemes_of(session: minnow.Session, inputs: list[np.ndarray]) -> list[str]:
    return [row["scheme"] for row in profile(session, inputs) if row["op"] == "Fused"]


def samples() -> list[str]:
    """What goes wrong with the samples of the op: its body in the file, and the same nodes without it."""
    failures = []
    for sample in get("Fused").cases():
        body = sample.attrs["body"]
        whole = Graph()
        operands = [whole.add_param(TensorType(DType.of(a.dtype), a.shape)) for a in sample.inputs]
        whole.outputs = list(Builder(whole).node("Fused", operands, sample.attrs, sample.n_outputs).outputs)
        for graph in (whole, body):
            for threads in (1, 2):
                try:
                    check(graph, list(sample.inputs), session_of(graph, threads), scale=10)
                except AssertionError as e:
                    failures.append(f"{body} {sample}: {e}")
    return failures


@pytest.mark.sampled(3)
@pytest.mark.parametrize("isa", ISAS)
def test_samples_on_each_instruction_set(isa: str) -> None:
    env = {**os.environ, "MINNOW_ISA": isa, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, __file__], env=env, capture_output=True, text=True, check=False)
    if "this machine has no such instruction set" in done.stderr:
        pytest.skip(f"this processor has no {isa}")
    assert done.returncode == 0, done.stdout + done.stderr


UNARY = {
    DType.F32: ("Abs", "Neg", "Relu", "Sigmoid", "Tanh", "HardSwish", "Softplus", "Square"),
    DType.I32: ("Abs", "Neg", "Relu", "Square"),
    DType.I64: ("Abs", "Neg", "Relu"),
    DType.BOOL: ("Not",),
}
BINARY = {
    DType.F32: ("Add", "Sub", "Mul", "Max", "Min", "SquaredDifference", "PRelu"),
    DType.I32: ("Add", "Sub", "Mul", "Max", "Min", "Div"),
    DType.I64: ("Add", "Sub", "Mul", "Max", "Min"),
    DType.BOOL: ("And", "Or", "Xor"),
}
NUMBERS = st.integers(-3, 3)


def contents(draw: Any, dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    if dtype is DType.F32:
        return rng.standard_normal(shape).astype(np.float32)
    return (
        rng.integers(0, 2, shape).astype(bool)
        if dtype is DType.BOOL
        else rng.integers(-9, 9, shape).astype(dtype.numpy)
    )


@st.composite
def graphs(draw: Any) -> tuple[Graph, list[np.ndarray]]:
    """A few elementwise nodes on tensors of one shape and of what broadcasts to it, with others among them."""
    shape = draw(st.sampled_from(SHAPES))
    graph = Graph()
    b = Builder(graph)
    inputs: list[np.ndarray] = []

    def operand(dtype: DType, full: bool) -> Value:
        extents = shape if full else tuple(draw(st.sampled_from((1, d))) for d in shape)
        array = contents(draw, dtype, extents if full else extents[draw(st.integers(0, len(shape))) :])
        if draw(st.booleans()) and not full:
            return Value.constant(array)
        inputs.append(array)
        return graph.add_param(TensorType(dtype, array.shape))

    pool = [operand(DType.F32, True), operand(draw(st.sampled_from(list(UNARY))), True)]
    for _ in range(draw(st.integers(2, 14))):
        x = pool[draw(st.integers(max(0, len(pool) - 4), len(pool) - 1))]
        dtype = x.type.dtype
        match draw(st.integers(0, 8)):
            case 0 | 1 | 2:
                y = getattr(b, draw(st.sampled_from(UNARY[dtype])))(x)
            case 3 | 4 | 5:
                same = [v for v in pool if v.type.dtype is dtype]
                other = draw(st.sampled_from(same)) if draw(st.booleans()) else operand(dtype, False)
                op = draw(st.sampled_from(BINARY[dtype]))
                if op == "Div":
                    other = Value.constant(np.asarray(draw(st.sampled_from((2, 3, -4))), dtype.numpy))
                y = getattr(b, op)(x, other)
            case 6:
                y = b.Cast(x, to=draw(st.sampled_from([d for d in UNARY if d is not dtype])))
            case 7:
                other = pool[0] if dtype is DType.F32 else operand(dtype, False)
                test = b.Less(x, other) if dtype is not DType.BOOL else x
                y = b.Where(test, operand(DType.F32, False), pool[0])
            case _:
                if not shape or dtype is DType.BOOL or not all(shape):
                    continue
                y = b.ReduceMax(x, axes=(draw(st.integers(0, len(shape) - 1)),), keepdims=True)
                y = b.Sub(x, y)
        pool.append(y)
    last = pool[-1]
    extra = [v for v in pool[2:-1] if v.producer is not None and draw(st.integers(0, 4)) == 0]
    graph.outputs = [last, *extra] if last.producer is not None else [b.Neg(pool[0])]
    return graph, inputs


@settings(max_examples=some_of(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs(), st.sampled_from((1, 2)))
def test_random_programs(made: tuple[Graph, list[np.ndarray]], threads: int) -> None:
    graph, inputs = made
    finite = [np.nan_to_num(a) for a in inputs]
    check(graph, finite, session_of(graph, threads), scale=100)


def vector(n: int, *dtypes: DType) -> tuple[Graph, Builder, list[np.ndarray]]:
    graph = Graph()
    rng = np.random.default_rng(n)
    for dtype in dtypes:
        graph.add_param(TensorType(dtype, (n,)))
    return graph, Builder(graph), [rng.standard_normal(n).astype(d.numpy) for d in dtypes]


def test_a_chain_is_one_step_without_memory_of_its_own() -> None:
    graph, b, inputs = vector(100_003, DType.F32, DType.F32)
    x, c = graph.params
    graph.outputs = [b.Sub(b.Mul(x, b.Sigmoid(b.Add(b.Mul(x, 1.5), 0.25))), c)]
    session = session_of(graph)
    check(graph, inputs, session)
    assert schemes_of(session, inputs) == ["Mul+Add+Sigmoid+Mul+Sub"]
    assert session.stats["arena_bytes"] < 200_000  # of 400,012 that each of the tensors between them takes


def test_the_first_operand_gives_its_memory_to_the_result() -> None:
    """Between two products nothing but the chain: what it reads and what it makes lie in one place."""
    graph = Graph()
    x = graph.add_param(TensorType(DType.F32, (300, 301)))
    b = Builder(graph)
    rng = np.random.default_rng(3)
    w = [rng.standard_normal((301, 301)).astype(np.float32) / 17 for _ in range(2)]
    made = b.MatMul(x, w[0])
    chain = b.Mul(b.Exp(b.Neg(b.Square(made))), made)
    graph.outputs = [b.MatMul(chain, w[1])]
    inputs = [rng.standard_normal((300, 301)).astype(np.float32)]
    session = session_of(graph)
    check(graph, inputs, session, scale=30)
    assert "Square+Neg+Exp+Mul" in schemes_of(session, inputs)


def test_a_broadcast_operand_of_the_bytes_of_the_result_keeps_its_memory() -> None:
    """Four floats take the bytes of sixteen bools."""
    graph = Graph()
    x = graph.add_param(TensorType(DType.F32, (4,)))
    y = graph.add_param(TensorType(DType.F32, (4, 4)))
    b = Builder(graph)
    row = b.Softmax(x)  # in the arena
    graph.outputs = [b.Not(b.Less(row, y)), b.Reshape(b.Not(b.Not(b.Less(row, y))), (16,))]
    inputs = [np.arange(4, dtype=np.float32), np.linspace(0, 0.6, 16, dtype=np.float32).reshape(4, 4)]
    check(graph, inputs, session_of(graph))


def test_what_others_read_is_a_result_too() -> None:
    graph, b, inputs = vector(5003, DType.F32)
    (x,) = graph.params
    inner = b.Add(b.Mul(x, 2.0), 1.0)
    graph.outputs = [b.Neg(b.Tanh(inner)), inner, b.Softmax(inner)]
    session = session_of(graph)
    check(graph, inputs, session)
    assert schemes_of(session, inputs) == ["Mul+Add+Tanh+Neg"]


def test_no_path_leaves_a_step_and_comes_back() -> None:
    """The sum at the end of a chain is a factor in it: what is before the sum and what is behind it are two steps."""
    graph = Graph()
    x = graph.add_param(TensorType(DType.F32, (70, 71)))
    b = Builder(graph)
    before = b.Exp(b.Mul(x, 0.5))
    total = b.ReduceSum(before, axes=(1,), keepdims=True)
    graph.outputs = [b.Sqrt(b.Div(before, total))]
    inputs = [np.random.default_rng(1).standard_normal((70, 71)).astype(np.float32)]
    session = session_of(graph)
    check(graph, inputs, session)
    assert schemes_of(session, inputs) == ["Mul+Exp", "Div+Sqrt"]


def test_channel_blocks_stay_between_convolutions() -> None:
    graph = Graph()
    x = graph.add_param(TensorType(DType.F32, (1, 32, 15, 17)))
    b = Builder(graph)
    rng = np.random.default_rng(5)
    w = [rng.standard_normal((32, 32, 3, 3)).astype(np.float32) / 17 for _ in range(2)]
    scale = rng.standard_normal((1, 32, 1, 1)).astype(np.float32)
    first = b.Conv(x, w[0], strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1))
    gated = b.Mul(b.Tanh(b.Mul(b.Square(first), scale)), first)
    graph.outputs = [b.Conv(gated, w[1], strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1))]
    inputs = [rng.standard_normal((1, 32, 15, 17)).astype(np.float32)]
    session = session_of(graph)
    check(graph, inputs, session, scale=30)
    ops = [row["op"] for row in profile(session, inputs)]
    assert ops.count("Fused") == 1
    between = ops[ops.index("Conv") : len(ops) - 1 - ops[::-1].index("Conv")]
    assert not {"Pack", "Unpack"} & set(between), ops


def test_sizes_that_change_from_run_to_run() -> None:
    graph = Graph()
    x = graph.add_param(TensorType(DType.F32, ("N", 3)))
    b = Builder(graph)
    graph.outputs = [b.Mul(b.Sigmoid(b.Add(x, np.float32([1, 2, 3]))), x)]
    session = session_of(graph, threads=2)
    for n in (1, 7, 4099, 0, 3, 20011, 7):
        a = np.random.default_rng(n).standard_normal((n, 3)).astype(np.float32)
        (got,) = run(session, [a])
        np.testing.assert_allclose(got, a / (1 + np.exp(-(a + np.float32([1, 2, 3])))), rtol=3e-5, atol=1e-6)


@pytest.mark.parametrize("damage", ["operands", "results", "name"])
def test_a_body_that_does_not_fit_is_refused(damage: str) -> None:
    from minnow.schema.errors import MinnowError
    from minnow.schema.mnn import wire

    sample = next(s for s in get("Fused").cases() if s.n_outputs == 2)
    graph = Graph()
    operands = [graph.add_param(TensorType(DType.of(a.dtype), a.shape)) for a in sample.inputs]
    graph.outputs = list(Builder(graph).node("Fused", operands, sample.attrs, 2).outputs)
    net = wire.read(encode(model_of(graph)))
    op = next(o for o in net["oplists"] if o["type"] == "Extra")
    if damage == "operands":
        op["inputIndexes"] = op["inputIndexes"][:-1]
    elif damage == "results":
        op["outputIndexes"] = op["outputIndexes"][:1]
    else:
        op["main"]["attr"][0]["s"] = "nowhere"
    with pytest.raises(MinnowError, match=r"Fused|subgraph|body|output"):
        minnow.load(wire.write(net))


def chain_failures() -> list[str]:
    """Chains of arithmetic give the bits of the ops one by one, for all lengths of rows and all kinds of numbers."""
    rng = np.random.default_rng(5)
    special = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 3e38, 1], np.float32)
    ops = ("Add", "Sub", "Mul", "Div", "Max", "Min", "Abs", "Neg", "Square", "Sqrt", "Relu")
    failures = []
    for n in (1, 7, 31, 128, 129, 300, 1000, 4099, 20001):
        graph = Graph()
        x, row = (graph.add_param(TensorType(DType.F32, (n,))) for _ in range(2))
        b = Builder(graph)
        value, steps = x, []
        for _ in range(22):
            op = get(str(rng.choice(ops)))
            if len(op.inputs) == 1:
                operands = [value]
            else:
                other = row if rng.random() < 0.5 else Value.constant(np.float32(rng.choice([*special, 0.5, -2])))
                operands = [value, other] if rng.random() < 0.5 else [other, value]
            value = b.node(op, operands, {}).output
            steps.append(value)
        graph.outputs = [value]
        arrays = [rng.normal(size=n).astype(np.float32) for _ in range(2)]
        for array in arrays:
            array[rng.integers(0, n, n // 3 + 1)] = rng.choice(special, n // 3 + 1)
        together = run(session_of(graph, 1), arrays)[0]
        graph.outputs = [*steps, value]  # every value is an output, so that nothing stays in registers
        apart = run(session_of(graph, 1), arrays)[-1]
        if together.tobytes() != apart.tobytes():
            same = (together == apart) | (np.isnan(together) & np.isnan(apart))
            failures += [] if same.all() else [f"{n}: {[v.producer.op for v in steps]}"]
    return failures


def test_chains_in_registers() -> None:
    assert not chain_failures()


if __name__ == "__main__":
    lines = [*samples(), *chain_failures()]
    sys.stdout.write("\n".join([*lines, ""]))
    sys.exit(bool(lines))
