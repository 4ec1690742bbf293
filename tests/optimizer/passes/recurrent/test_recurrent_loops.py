"""Loops that are recurrent layers, however spelled, become one node with the same numbers; others stay."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from random_graphs import model_of
from rewriting import apply

import minnow
from minnow.optimizer.facts.format import is_encodable
from minnow.optimizer.passes.recurrent.form import applied
from minnow.optimizer.passes.recurrent.layer import fuse_other_recurrent_loops, fuse_recurrent_loops
from minnow.schema.errors import MinnowError
from minnow.schema.ir import DType, Graph, TensorType, Value
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder
from minnow.schema.registry.interpreter import evaluate
from minnow.schema.registry.verify import verify

T, B, N, H = 5, 3, 4, 7
LAYERS = ("LSTM", "GRU", "RNN", "Loop")
rng = np.random.default_rng(3)
Step = Callable[..., tuple[Value, ...]]


def numbers(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return rng.uniform(-1, 1, shape).astype(dtype)


def type_of(*shape: Any, dtype: DType = DType.F32) -> TensorType:
    return TensorType(dtype, shape)


def loop(
    step: Step,
    states: int = 1,
    length: Any = T,
    trip: Any = T,
    batch: Any = B,
    dtype: DType = DType.F32,
    start: str = "given",
    index: Callable[[Builder, Value], Value] = lambda b, t: t,
    last: bool = False,
) -> Graph:
    """A graph whose only node of weight is a loop over the rows of x; results: the states, the counter, all rows.

    Args:
        trip: how many rounds, "n" for an operand, "dimension" for the first dimension of x.
        start: where the states are from: "given" by operands, or "zero", as many as there are rows.
        last: the loop also carries the last row as a list of one.
    """
    graph, body = Graph("g"), Graph("body")
    x = graph.add_param(type_of(length, batch, N, dtype=dtype), "x")
    b = Builder(graph)
    count: Any = np.array(trip, np.int64) if isinstance(trip, int) else None
    if trip == "n":
        count = graph.add_param(type_of(dtype=DType.I64), "n")
    elif trip == "extent":
        count = b.Squeeze(b.Shape(x, start=0, end=1), axes=(0,))
    first: list[Value] = []
    for k in range(states):
        if start == "given":
            first.append(graph.add_param(type_of(batch, H, dtype=dtype), f"s{k}"))
        else:
            shape = b.Concat(b.Shape(x, start=1, end=2), np.array([H], np.int64), axis=0)
            first.append(b.Fill(shape, Value.constant(np.zeros((), dtype.numpy))))
    t, go = body.add_param(type_of(dtype=DType.I64), "t"), body.add_param(type_of(dtype=DType.BOOL), "go")
    inner = [body.add_param(v.type, f"h{k}") for k, v in enumerate(first)]
    counter = body.add_param(type_of(dtype=DType.I32), "counter")
    lists = [body.add_param(type_of(1, B, H, dtype=dtype), "list")] if last else []
    whole = body.add_param(x.type, "all")
    inside = Builder(body)
    after = step(inside, inside.Gather(whole, index(inside, t), axis=0), *inner)
    more = [inside.Unsqueeze(after[0], axes=(0,))] if last else []
    body.outputs = [go, *after, inside.Add(counter, np.array(1, np.int32)), *more, after[0]]
    zeros = [Value.constant(np.zeros((1, B, H), dtype.numpy)) for _ in lists]
    made = b.Loop(
        count, None, *first, Value.constant(np.array(2, np.int32)), *zeros, x,
        body=body, num_carried=states + 1 + len(lists), n_outputs=states + 2 + len(lists),
    )  # fmt: skip
    graph.outputs = list(made)
    verify(graph)
    return graph


def feed(graph: Graph, trip: int = T, length: int = T) -> list[Any]:
    known = {"x": (length, B, N), "s0": (B, H), "s1": (B, H)}
    return [
        np.array(trip, np.int64) if p.name == "n" else numbers(*known[p.name], dtype=p.type.dtype.numpy)
        for p in graph.params
    ]


def becomes(graph: Graph, trip: int = T, length: int = T) -> str:
    """The op that the loop becomes; the numbers are those from before in any case."""
    after = graph.clone()
    apply(fuse_recurrent_loops, after)
    assert all(n.op == "Loop" or is_encodable(n) for n in after if n.op in LAYERS)
    apply(fuse_other_recurrent_loops, after)
    given = feed(graph, trip, length)
    for wanted, got in zip(evaluate(graph, given), evaluate(after, given), strict=True):
        assert wanted.dtype == got.dtype
        # Rows of no round have dimensions that only a round would show.
        assert wanted.shape == got.shape or wanted.shape[:1] == got.shape[:1] == (0,)
        if wanted.size:
            np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-6)
    (name,) = [n.op for n in after if n.op in LAYERS]
    return name


# ---- how a step may be spelled


def joined(b: Builder, x: Value, h: Value, gates: int, how: str) -> Value:
    """x w + h r + bias."""
    dtype = x.type.dtype.numpy
    w, r, bias = numbers(N, gates * H, dtype=dtype), numbers(H, gates * H, dtype=dtype), numbers(gates * H, dtype=dtype)
    if how == "one matrix":
        return b.Add(b.MatMul(b.Concat(x, h, axis=1), np.concatenate([w, r])), bias)
    if how == "linear":
        return b.Add(b.Linear(x, w.T.copy(), bias), b.Linear(h, r.T.copy()))
    if how == "subtracted":
        return b.Sub(b.Sub(b.MatMul(x, w), bias), b.MatMul(h, r))
    return b.Add(b.Add(b.MatMul(x, w), b.MatMul(h, r)), b.Mul(bias[None], np.float32(0.5)) if how == "scaled" else bias)


def parts(b: Builder, x: Value, count: int, how: str) -> list[Value]:
    if how == "split":
        return list(b.Split(x, axis=-1, sizes=(H,) * count, n_outputs=count))
    ends = [(k * H, (k + 1) * H) for k in range(count)]
    return [b.Slice(x, [0, start], [2**31 - 1, end], [0, 1]) for start, end in ends]


def hard(b: Builder, v: Value, how: str) -> Value:
    if how == "sigmoid":
        return b.Sigmoid(v)
    if how == "op":
        return b.HardSigmoid(v)
    if how == "clip":
        return b.Clip(b.Add(b.Mul(v, np.float32(0.2)), np.float32(0.5)), min=0.0, max=1.0)
    if how == "relu6":
        return b.Div(b.Clip(b.Add(v, np.float32(3)), min=0.0, max=6.0), np.float32(6))
    return b.Min(b.Max(b.Sub(np.float32(0.5), b.Mul(v, np.float32(-0.2))), np.float32(0)), np.float32(1))


HARD = ("sigmoid", "op", "clip", "relu6", "limits")
JOINED = ("two", "one matrix", "linear", "subtracted", "scaled")


def lstm(how: str = "two", cut: str = "split", gate: str = "sigmoid", order: Any = (0, 1, 2, 3), forget: float = 1.0,
         inner: str = "Tanh", last: str = "Tanh") -> Step:  # fmt: skip
    def step(b: Builder, x: Value, h: Value, c: Value) -> tuple[Value, ...]:
        i, f, g, o = (parts(b, joined(b, x, h, 4, how), 4, cut)[k] for k in order)
        g = getattr(b, inner)(g) if inner else g
        f = hard(b, b.Add(f, np.array(forget, x.type.dtype.numpy)), gate)
        c = b.Add(b.Mul(f, c), b.Mul(g, hard(b, i, gate)))
        return b.Mul(getattr(b, last)(c) if last else c, hard(b, o, gate)), c

    return step


def gru(how: str = "two", cut: str = "split", gate: str = "sigmoid", kept: str = "z h + (1 - z) n", inner: str = "Tanh",
        before: bool = False) -> Step:  # fmt: skip
    def step(b: Builder, x: Value, h: Value) -> tuple[Value, ...]:
        if before:
            z, r = (hard(b, v, gate) for v in parts(b, joined(b, x, h, 2, how), 2, cut))
            n = joined(b, x, b.Mul(r, h), 1, how)
        else:
            ours = parts(b, b.Linear(x, numbers(3 * H, N), numbers(3 * H)), 3, cut)
            own = parts(b, b.Linear(h, numbers(3 * H, H), numbers(3 * H)), 3, cut)
            z, r = (hard(b, b.Add(ours[k], own[k]), gate) for k in range(2))
            n = b.Add(ours[2], b.Mul(r, own[2]))
        n = getattr(b, inner)(n) if inner else n
        one = np.float32(1)
        if kept == "n + z (h - n)":
            return (b.Add(n, b.Mul(z, b.Sub(h, n))),)
        if kept == "h + z (n - h)":
            return (b.Add(h, b.Mul(b.Sub(n, h), z)),)
        if kept == "(1 - z) h + z n":
            return (b.Add(b.Mul(b.Sub(one, z), h), b.Mul(n, z)),)
        return (b.Add(b.Mul(z, h), b.Mul(b.Sub(one, z), n)),)

    return step


def rnn(how: str = "two", inner: str = "Tanh") -> Step:
    def step(b: Builder, x: Value, h: Value) -> tuple[Value, ...]:
        v = joined(b, x, h, 1, how)
        return (getattr(b, inner)(v) if inner else v,)

    return step


FUNCTIONS = ("Tanh", "Relu", "Softsign", "Softplus", "Elu", "LeakyRelu", "ThresholdedRelu", "Sigmoid", "")


@pytest.mark.parametrize(("how", "cut", "gate"), [*product(JOINED, ("split", "slices"), HARD)])
def test_lstm_however_it_is_spelled(how: str, cut: str, gate: str) -> None:
    order = tuple(rng.permutation(4).tolist())
    assert becomes(loop(lstm(how, cut, gate, order, forget=float(rng.integers(0, 2))), 2)) == "LSTM"


@pytest.mark.parametrize("kept", ["z h + (1 - z) n", "n + z (h - n)", "h + z (n - h)", "(1 - z) h + z n"])
@pytest.mark.parametrize(("before", "gate"), [*product((False, True), HARD)])
def test_gru_however_it_is_spelled(kept: str, before: bool, gate: str) -> None:
    assert becomes(loop(gru("one matrix" if gate == "clip" else "two", "slices", gate, kept, before=before))) == "GRU"


@pytest.mark.parametrize("inner", FUNCTIONS)
def test_functions(inner: str) -> None:
    assert becomes(loop(rnn(inner=inner))) == "RNN"
    assert becomes(loop(gru(inner=inner))) == "GRU"
    assert becomes(loop(gru(inner=inner, before=True))) == "GRU"
    assert becomes(loop(lstm(inner=inner, last="Relu"), 2)) == "LSTM"
    assert becomes(loop(lstm(last=inner), 2)) == "LSTM"


def test_softsign_in_parts() -> None:
    def step(b: Builder, x: Value, h: Value) -> tuple[Value, ...]:
        v = joined(b, x, h, 1, "two")
        return (b.Div(v, b.Add(b.Abs(v), np.float32(1))),)

    assert becomes(loop(step)) == "RNN"


def test_doubles() -> None:
    assert becomes(loop(lstm(), 2, dtype=DType.F64)) == "LSTM"
    assert becomes(loop(rnn("one matrix"), dtype=DType.F64)) == "RNN"


# ---- how often it runs


@pytest.mark.parametrize("extent", ["B", "N", "H"])
@pytest.mark.parametrize(("step", "states"), [(lstm(), 2), (gru(), 1), (rnn(), 1)])
def test_extents_of_0(monkeypatch: pytest.MonkeyPatch, extent: str, step: Step, states: int) -> None:
    monkeypatch.setitem(globals(), extent, 0)
    assert becomes(loop(step, states, batch=B)) in LAYERS


@pytest.mark.parametrize("start", ["given", "zero"])
@pytest.mark.parametrize(("step", "states", "op"), [(lstm(), 2, "LSTM"), (gru(), 1, "GRU"), (rnn(), 1, "RNN")])
def test_lengths(step: Step, states: int, op: str, start: str) -> None:
    assert becomes(loop(step, states, start=start)) == op
    assert becomes(loop(step, states, trip=2, start=start)) == op
    assert becomes(loop(step, states, length="L", trip=2, start=start)) == op
    for rounds in (0, 1, T):
        assert becomes(loop(step, states, length="L", trip="n", start=start), rounds) == op
        assert becomes(loop(step, states, length="L", trip="extent", batch="M", start=start), length=rounds) == op
    assert becomes(loop(step, states, length="L", trip="n", start=start), -3) == op


@pytest.mark.parametrize("start", ["given", "zero"])
def test_last_row_as_a_list(start: str) -> None:
    """It is what it was before the loop if that does not run."""
    assert becomes(loop(rnn(), start=start, last=True)) == "RNN"
    for rounds in (0, 1, T):
        assert becomes(loop(rnn(), length="L", trip="n", start=start, last=True), rounds) == "RNN"


def test_more_rounds_than_rows_are_refused_as_before() -> None:
    assert becomes(loop(rnn(), length=T, trip=T - 1)) == "RNN"
    graph = loop(rnn(), length="L", trip="n")
    assert apply(fuse_recurrent_loops, graph) == 1
    for run in (lambda v: evaluate(graph, v), lambda v: _run(graph, v)):
        with pytest.raises((MinnowError, IndexError)):
            run(feed(graph, T + 1))


def _run(graph: Graph, arrays: list[Any]) -> Any:
    session = minnow.load(encode(model_of(graph.clone())))
    return session.run({p.name: v for p, v in zip(graph.params, arrays, strict=True)})


def test_a_state_of_another_batch_is_refused() -> None:
    """Dimensions of which nothing is known may differ at run time."""
    graph = loop(rnn(), batch="M")
    graph.params[1].type = type_of("K", H)
    assert apply(fuse_recurrent_loops, graph) == 1
    given = feed(graph)
    _run(graph, given)
    for rows in (1, 2, 4):
        with pytest.raises(MinnowError):
            _run(graph, [given[0], numbers(rows, H)])


def test_zeros_of_another_batch_are_said() -> None:
    graph = loop(rnn(), batch="M", start="zero", trip="extent", length="L")
    assert apply(fuse_recurrent_loops, graph) == 1
    (layer,) = [n for n in graph if n.op == "RNN"]
    assert layer.has_input(5)  # nobody has named the dimensions yet


# ---- what is no layer


def _changed(change: Callable[[Builder, Value, Value], Value], states: int = 2) -> Step:
    """An LSTM whose new memory is changed, or a GRU or RNN whose new state is."""

    def step(b: Builder, x: Value, h: Value, *c: Value) -> tuple[Value, ...]:
        if not c:
            (new,) = rnn()(b, x, h)
            return (change(b, new, h),)
        i, f, g, o = parts(b, joined(b, x, h, 4, "two"), 4, "split")
        after = change(b, b.Add(b.Mul(b.Sigmoid(f), c[0]), b.Mul(b.Sigmoid(i), b.Tanh(g))), c[0])
        return b.Mul(b.Sigmoid(o), b.Tanh(after)), after

    return step


@pytest.mark.parametrize("states", [1, 2])
@pytest.mark.parametrize("change", [
    lambda b, new, old: b.Clip(new, min=-5000.0, max=5000.0),
    lambda b, new, old: b.Mul(new, np.float32(1.0001)),
    lambda b, new, old: b.Add(new, np.float32(1e-4)),
    lambda b, new, old: b.Add(new, old),
    lambda b, new, old: b.Add(new, np.ones((B, H), np.float32)),
    lambda b, new, old: b.Where(b.Greater(new, np.float32(0.9)), old, new),
    lambda b, new, old: b.Sin(new),
])  # fmt: skip
def test_a_change_of_the_state_makes_it_none(change: Any, states: int) -> None:
    assert becomes(loop(_changed(change, states), states)) == "Loop"


def test_what_only_looks_like_a_layer() -> None:
    one = np.float32(1)

    def other_functions(b: Builder, x: Value, h: Value, c: Value) -> tuple[Value, ...]:
        i, f, g, o = parts(b, joined(b, x, h, 4, "two"), 4, "split")
        c = b.Add(b.Mul(b.HardSigmoid(f), c), b.Mul(b.Sigmoid(i), b.Tanh(g)))
        return b.Mul(b.Sigmoid(o), b.Tanh(c)), c

    def peephole(b: Builder, x: Value, h: Value, c: Value) -> tuple[Value, ...]:
        i, f, g, o = parts(b, joined(b, x, h, 4, "two"), 4, "split")
        c = b.Add(b.Mul(b.Sigmoid(b.Add(f, b.Mul(c, numbers(H)))), c), b.Mul(b.Sigmoid(i), b.Tanh(g)))
        return b.Mul(b.Sigmoid(o), b.Tanh(c)), c

    def one_gate_for_all(b: Builder, x: Value, h: Value) -> tuple[Value, ...]:
        z = b.Sigmoid(b.Add(b.MatMul(x, numbers(N, 1)), b.MatMul(h, numbers(H, 1))))
        n = b.Tanh(b.Add(b.MatMul(x, numbers(N, H)), b.Mul(z, b.MatMul(h, numbers(H, H)))))
        return (b.Add(b.Mul(z, h), b.Mul(b.Sub(one, z), n)),)

    def other_gates_kept(b: Builder, x: Value, h: Value) -> tuple[Value, ...]:
        z, r, y = (b.Sigmoid(v) for v in parts(b, joined(b, x, h, 3, "two"), 3, "split"))
        n = b.Tanh(joined(b, x, b.Mul(r, h), 1, "two"))
        return (b.Add(b.Mul(z, h), b.Mul(b.Sub(one, y), n)),)

    def without_matrices(b: Builder, x: Value, h: Value) -> tuple[Value, ...]:
        return (b.Tanh(b.Add(b.MatMul(x, numbers(N, H)), h)),)

    def rows_moved(b: Builder, x: Value, h: Value) -> tuple[Value, ...]:
        first = b.Slice(joined(b, x, h, 1, "two"), [0], [1], [0])
        return (b.Tanh(b.Add(first, b.MatMul(h, numbers(H, H)))),)

    def product_of_states(b: Builder, x: Value, h: Value) -> tuple[Value, ...]:
        return (b.Tanh(b.Add(joined(b, x, h, 1, "two"), b.MatMul(b.Mul(h, h), numbers(H, H)))),)

    for step in (other_functions, peephole):
        assert becomes(loop(step, 2)) == "Loop"
    for step in (one_gate_for_all, other_gates_kept, without_matrices, rows_moved, product_of_states):
        assert becomes(loop(step)) == "Loop"


def test_other_rows() -> None:
    def but_one(b: Builder, t: Value) -> Value:
        return b.Where(b.Equal(t, np.array(3)), np.array(0), t)

    for index in (lambda b, t: b.Sub(np.array(T - 1), t), lambda b, t: np.array(0), but_one):
        assert becomes(loop(rnn(), index=index)) == "Loop"
    assert becomes(loop(rnn(), index=lambda b, t: b.Mod(t, np.array(T)))) == "RNN"


def test_a_sum_of_many_equal_parts_ends() -> None:
    def step(b: Builder, x: Value, h: Value) -> tuple[Value, ...]:
        v = joined(b, x, h, 1, "two")
        for _ in range(90):
            v = b.Add(v, v)
        return (b.Tanh(b.Mul(v, np.float32(2.0**-90))),)

    assert becomes(loop(step)) == "RNN"


@pytest.mark.parametrize(("end", "is_one"), [(6.0, True), (-6.0, False), (5.0, False)])
def test_a_hard_sigmoid_ends_at_1(end: float, is_one: bool) -> None:
    """What is clipped from 0 to a number below it is that number, and 1 when it is divided by it."""
    graph = Graph("g")
    b = Builder(graph)
    x = graph.add_param(type_of(4), "x")
    y = b.Div(b.Clip(b.Add(x, 3.0), min=0.0, max=end), 6.0 if end > 0 else end)
    assert (applied(y) is not None) is is_one
