"""What callbacks see of a run: the arrays of each node, as the references of the ops compute them."""

from __future__ import annotations

import ctypes as c
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from capi import Options, Tensor, tensor
from engine_oracle import f32, graph_of, model_of, normal, session_of

import minnow
from minnow.runtime import _engine
from minnow.schema.errors import CancelledError, UsageError
from minnow.schema.ir import DType, Graph, Model, State, TensorType, Value
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder, get

RNG = np.random.default_rng(0)
Arrays = list[Any]
BOOL, I64 = TensorType(DType.BOOL, ()), TensorType(DType.I64, ())


def body_of(make: Callable[..., Any], *types: TensorType) -> Graph:
    graph = Graph()
    graph.outputs = list(make(Builder(graph), *(graph.add_param(t) for t in types)))
    return graph


def loop(b: Builder, trips: Any, x: Value, make: Callable[..., Any]) -> Value:
    """`make` gets the builder and what is carried."""
    body = body_of(lambda d, k, go, v: (go, make(d, v)), I64, BOOL, x.type)
    return b.node("Loop", [trips, None, x], {"body": body, "num_carried": 1}, 1).outputs[0]


class Seen:
    """Keeps what the callbacks get."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, str]] = []
        self.inputs: dict[str, Arrays] = {}
        self.again: dict[str, Arrays] = {}
        self.outputs: dict[str, Arrays] = {}

    def before(self, name: str, op: str, inputs: Arrays) -> None:
        self.calls.append(("before", name, op))
        self.inputs[op] = inputs

    def after(self, name: str, op: str, inputs: Arrays, outputs: Arrays) -> None:
        self.calls.append(("after", name, op))
        self.again[op] = inputs
        self.outputs[op] = outputs


def convolution() -> tuple[Graph, np.ndarray, np.ndarray]:
    """softmax(max_pool(conv(x))): packed tensors within, and 5 channels, which fill no block."""
    graph = Graph()
    b = Builder(graph)
    w = normal(RNG, 5, 3, 1, 1)
    y = b.Conv(graph.add_param(f32(2, 3, 6, 4)), w, strides=(1, 1), pads=(0,) * 4, dilations=(1, 1))
    pooled = b.MaxPool(y, kernel=(2, 2), strides=(2, 2), pads=(0,) * 4, dilations=(1, 1))
    graph.outputs = [b.Softmax(pooled, axis=1)]
    return graph, normal(RNG, 2, 3, 6, 4), w


@pytest.mark.parametrize("threads", [1, 2])
def test_arrays_are_plain_and_have_the_shapes_of_the_ops(threads: int) -> None:
    graph, x, w = convolution()
    session, seen = session_of(graph, threads), Seen()
    plain = session.run({"in0": x})["out0"]
    assert session.run({"in0": x}, before=seen.before, after=seen.after)["out0"].tobytes() == plain.tobytes()
    assert [call[0] for call in seen.calls] == ["before", "after"] * (len(seen.calls) // 2)
    assert [call[2] for call in seen.calls[::2]] == [row["op"] for row in session.placement()]
    conv = np.einsum("oc,nchw->nohw", w[:, :, 0, 0], x)
    np.testing.assert_array_equal(seen.inputs["Conv"][0], x)
    np.testing.assert_array_equal(seen.inputs["Conv"][1], w)
    np.testing.assert_allclose(seen.outputs["Conv"][0], conv, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(seen.inputs["MaxPool"][0], seen.outputs["Conv"][0])
    pooled = seen.outputs["Conv"][0].reshape(2, 5, 3, 2, 2, 2).max((3, 5))
    np.testing.assert_array_equal(seen.outputs["MaxPool"][0], pooled)
    np.testing.assert_array_equal(seen.outputs["Softmax"][0], plain)
    for op, inputs in seen.inputs.items():
        for one, other in zip(inputs, seen.again[op], strict=True):
            np.testing.assert_array_equal(one, other)


def test_inputs_are_those_before_the_node_where_it_works_in_place() -> None:
    graph = Graph()
    b = Builder(graph)
    graph.outputs = [b.Softmax(b.Softmax(graph.add_param(f32(3, 4)), axis=1), axis=0)]
    x = normal(RNG, 3, 4)
    pairs: list[tuple[Arrays, Arrays]] = []

    def after(name: str, op: str, inputs: Arrays, outputs: Arrays) -> None:
        if op == "Softmax":
            pairs.append((inputs, outputs))

    session_of(graph).run({"in0": x}, after=after)
    np.testing.assert_array_equal(pairs[0][0][0], x)
    np.testing.assert_array_equal(pairs[1][0][0], pairs[0][1][0])
    soft = np.exp(pairs[1][0][0])
    np.testing.assert_allclose(pairs[1][1][0], soft / soft.sum(0), rtol=1e-5)


def test_a_missing_input_is_none() -> None:
    op = get("Resize")
    sample = next(s for s in op.cases() if s.inputs[1] is None and len(s.inputs) > 2)
    graph, feeds = graph_of(op, sample, 1)
    seen = Seen()
    session_of(graph).run({"in0": feeds[0]}, before=seen.before)
    image, roi, scales, *_ = seen.inputs["Resize"]
    assert (image.shape, roi, scales.tolist()) == (feeds[0].shape, None, sample.inputs[2].tolist())


def test_an_input_without_elements_is_an_array() -> None:
    graph = Graph()
    graph.outputs = [Builder(graph).Softmax(graph.add_param(f32("n", 3)), axis=1)]
    session = session_of(graph)
    for n in (2, 0):
        seen = Seen()
        session.run({"in0": normal(RNG, n, 3)}, before=seen.before, after=seen.after)
        assert [a.shape for a in (*seen.inputs["Softmax"], *seen.outputs["Softmax"])] == [(n, 3)] * 2


@pytest.mark.parametrize("known", [True, False], ids=["a step", "between stages"])
def test_nodes_of_a_loop_are_seen_in_every_round(known: bool) -> None:
    graph = Graph()
    x = graph.add_param(f32(2, 3))
    n = np.int64(3) if known else graph.add_param(I64)
    b = Builder(graph)
    graph.outputs = [b.Relu(loop(b, n, x, lambda d, v: d.Softmax(v, axis=1)))]
    session, seen, value = session_of(graph), Seen(), normal(RNG, 2, 3)
    feeds = {"in0": value} | ({} if known else {"in1": np.int64(3)})
    results: Arrays = []

    def after(name: str, op: str, inputs: Arrays, outputs: Arrays) -> None:
        seen.after(name, op, inputs, outputs)
        if op == "Softmax":
            results.append(outputs[0])

    out = session.run(feeds, before=seen.before, after=after)["out0"]
    inner = [call for call in seen.calls if call[2] == "Softmax"]
    (loop_name,) = {call[1] for call in seen.calls if call[2] == "Loop"}
    assert len(inner) == 6
    assert {call[1].split("/")[0] for call in inner} == {loop_name}
    whole = [call for call in seen.calls if call[2] in ("Loop", "Softmax")]
    assert (whole[0][::2], whole[-1][::2]) == (("before", "Loop"), ("after", "Loop"))
    for k in range(1, 3):
        soft = np.exp(results[k - 1])
        np.testing.assert_allclose(results[k], soft / soft.sum(1, keepdims=True), rtol=1e-5)
    np.testing.assert_array_equal(out, np.maximum(results[2], 0))
    assert seen.inputs["Loop"][0].tolist() == 3
    np.testing.assert_array_equal(seen.inputs["Loop"][2], value)


def test_only_the_branch_that_is_taken_is_seen() -> None:
    graph = Graph()
    flag, x = graph.add_param(BOOL), graph.add_param(f32(2, 3))
    b = Builder(graph)
    then = body_of(lambda d, v: [d.Softmax(v, axis=1)], x.type)
    other = body_of(lambda d, v: [d.Softmax(d.Softmax(v, axis=0), axis=1)], x.type)
    graph.outputs = b.node("If", [flag, x], {"then_branch": then, "else_branch": other}, 1).outputs
    session = session_of(graph)
    for taken, count in ((True, 1), (False, 2), (True, 1)):
        seen = Seen()
        session.run({"in0": np.array(taken), "in1": normal(RNG, 2, 3)}, after=seen.after)
        assert [call[2] for call in seen.calls].count("Softmax") == count


def test_false_ends_the_run_and_states_stay() -> None:
    graph = Graph()
    x, total = (graph.add_param(TensorType(DType.F32, (2,)), name) for name in ("x", "total"))
    graph.outputs = [Builder(graph).Add(x, total)] * 2
    model = Model(graph, [("x", x.type), ("total", x.type)], [("y", x.type), ("next", x.type)])
    model.states = [State("total", "next", np.ones(2, np.float32))]
    session, one = minnow.load(encode(model)), {"x": np.ones(2, np.float32)}
    for stop in ({"before": lambda *_: False}, {"after": lambda *_: False}):
        with pytest.raises(CancelledError, match=r".*: the callback has stopped the run") as caught:
            session.run(one, **stop)
        assert caught.value.exit_code == 9
        assert session.states["total"].tolist() == [1, 1]
    assert session.run(one, after=lambda *_: None)["y"].tolist() == [2, 2]
    assert session.run(one, fetch=["y"])["y"].tolist() == [3, 3]
    assert session.run(one)["y"].tolist() == [3, 3], "a run of a part leaves the states as they are"


@pytest.mark.parametrize("inside", [False, True])
def test_an_exception_of_a_callback_is_raised(inside: bool) -> None:
    graph = Graph()
    x = graph.add_param(f32(2, 3))
    b = Builder(graph)
    graph.outputs = [loop(b, np.int64(2), x, lambda d, v: d.Softmax(v, axis=1))]
    session = session_of(graph)

    def fails(name: str, op: str, inputs: Arrays) -> None:
        if not inside or op == "Softmax":
            raise LookupError(op)

    for _ in range(2):
        with pytest.raises(LookupError, match="Softmax" if inside else "Loop"):
            session.run({"in0": normal(RNG, 2, 3)}, before=fails)
    session.run({"in0": normal(RNG, 2, 3)})


def test_a_callback_cannot_use_its_session() -> None:
    graph, x, _ = convolution()
    session, other = session_of(graph), session_of(graph)
    uses: list[Callable[[], Any]] = [
        lambda: session.run({"in0": x}),
        lambda: session.run({"in0": x}, fetch=["in0"]),
        lambda: session.profile({"in0": x}),
        session.placement,
        session.reset,
        lambda: session.stats,
        lambda: session.states,
    ]

    def before(name: str, op: str, inputs: Arrays) -> None:
        other.run({"in0": x})
        for use in uses:
            with pytest.raises(UsageError, match="a callback cannot use the session"):
                use()

    session.run({"in0": x}, before=before)
    for use in uses:
        use()


def test_parallel_nodes_come_one_after_the_other() -> None:
    graph = Graph()
    x = graph.add_param(f32(1, 64, 7, 7))
    b = Builder(graph)
    w = [normal(RNG, 64, 64, 3, 3) / np.float32(24) for _ in range(4)]
    conv = {"strides": (1, 1), "pads": (1,) * 4, "dilations": (1, 1)}
    left, right = (b.Conv(b.Conv(x, w[i], **conv), w[i + 1], **conv) for i in (0, 2))
    graph.outputs = [b.Add(left, right)]
    session, seen, value = session_of(graph, 2), Seen(), normal(RNG, 1, 64, 7, 7)
    plain = session.run({"in0": value})["out0"]
    assert session.run({"in0": value}, before=seen.before, after=seen.after)["out0"].tobytes() == plain.tobytes()
    assert [call[0] for call in seen.calls] == ["before", "after"] * (len(seen.calls) // 2)


class Node(c.Structure):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("name", c.c_char_p),
        ("op", c.c_char_p),
        ("num_inputs", c.c_size_t),
        ("num_outputs", c.c_size_t),
        ("inputs", c.POINTER(Tensor)),
        ("outputs", c.POINTER(Tensor)),
    ]


CALLBACK = c.CFUNCTYPE(c.c_int32, c.c_void_p, c.POINTER(Node))


def test_callbacks_and_parts_in_c() -> None:
    api = c.CDLL(_engine.__file__)
    api.minnow_last_error.restype = c.c_char_p
    graph, x, _ = convolution()
    data, one = encode(model_of(graph)), c.c_size_t(1)
    model, session = c.c_void_p(), c.c_void_p()
    assert api.minnow_load_memory(data, c.c_size_t(len(data)), c.byref(model)) == 0
    assert api.minnow_create_session(model, c.byref(Options(threads=1)), c.byref(session)) == 0
    seen: list[tuple[bytes, int, bool]] = []

    def see(user: int, node: Any) -> int:
        it = node.contents
        assert (user, it.struct_size) == (7, c.sizeof(Node))
        assert bool(it.outputs) == (it.num_outputs > 0)
        seen.append((it.op, it.inputs[0].rank, bool(it.outputs)))
        return int(len(seen) > 3)

    callback = CALLBACK(see)
    assert api.minnow_set_callback(session, callback, c.c_void_p(7)) == 0
    out = Tensor()
    assert api.minnow_run(session, c.byref(tensor(x)), one, c.byref(out), one) == 9
    assert b"MaxPool" in api.minnow_last_error()
    assert seen == [(b"Conv", 4, False), (b"Conv", 4, True), (b"MaxPool", 4, False), (b"MaxPool", 4, True)]
    inner: list[int] = []
    again = CALLBACK(
        lambda *_: inner.append(api.minnow_run(session, c.byref(tensor(x)), one, None, c.c_size_t(0))) or 0
    )
    assert api.minnow_set_callback(session, again, None) == 0
    assert api.minnow_run(session, c.byref(tensor(x)), one, c.byref(out), one) == 0
    assert set(inner) == {2}
    assert api.minnow_set_callback(session, None, None) == 0
    assert api.minnow_run(session, c.byref(tensor(x)), one, c.byref(out), one) == 0
    assert len(seen) == 4
    parts = (Tensor * 2)(Tensor(b"out0"), Tensor(b"in0"))
    assert api.minnow_run_part(session, c.byref(tensor(x)), one, parts, c.c_size_t(2)) == 0
    assert (parts[0].rank, parts[0].shape[:4]) == (out.rank, out.shape[:4])
    assert c.string_at(parts[0].data, 4 * 2 * 5 * 6) == c.string_at(out.data, 4 * 2 * 5 * 6)
    assert c.string_at(parts[1].data, x.nbytes) == x.tobytes()
    assert api.minnow_run_part(session, c.byref(tensor(x)), one, c.byref(Tensor(b"out")), one) == 2
    assert b"similar names are 'out0'" in api.minnow_last_error()
    assert api.minnow_run_part(session, c.byref(tensor(x)), one, c.byref(Tensor()), one) == 2
    assert b"the name of an output is NULL" in api.minnow_last_error()
    api.minnow_free_session(session)
    api.minnow_free_model(model)
