"""`load`, `Session.run`, `profile` and `stats`: what they take, and what they say of what they do not take."""

from __future__ import annotations

import os
import threading

import ml_dtypes
import numpy as np
import pytest
from engine_oracle import check, f32, model_of, normal, run, session_of

import minnow
from minnow.schema.errors import FormatError, UnsupportedError, UsageError
from minnow.schema.ir import DType, Graph, Model, TensorType
from minnow.schema.mnn import decode, encode
from minnow.schema.ops import Builder

RNG = np.random.default_rng(0)


def small() -> Graph:
    """y = relu(x w), z = the shape of x."""
    graph = Graph()
    x = graph.add_param(f32("batch", 3))
    b = Builder(graph)
    graph.outputs = [b.Relu(b.MatMul(x, np.arange(12, dtype=np.float32).reshape(3, 4) - 5)), b.Shape(x)]
    return graph


@pytest.fixture(scope="module")
def session():
    return session_of(small())


def test_inputs_and_outputs_are_those_of_the_source(session):
    assert session.inputs == [minnow.TensorInfo("in0", "float32", ("batch", 3))]
    assert [str(o) for o in session.outputs] == ["out0: float32[batch, 4]", "out1: int64[2]"]


def test_from_a_file_and_from_bytes(tmp_path):
    data = encode(model_of(small()))
    path = tmp_path / "m.mnn"
    path.write_bytes(data)
    x = normal(RNG, 2, 3)
    results = [run(minnow.load(m), [x]) for m in (data, bytearray(data), path, str(path))]
    for result in results:
        np.testing.assert_array_equal(result[0], results[0][0])


@pytest.mark.parametrize(
    "value",
    [
        [[1, 2, 3], [4, 5, 6]],
        np.arange(12, dtype=np.float32).reshape(2, 6)[:, ::2],
        np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)),
        np.arange(6).reshape(2, 3),
        np.arange(6, dtype=np.float64).reshape(2, 3),
        np.arange(6, dtype=np.float16).reshape(2, 3),
        np.arange(6, dtype=">f4").reshape(2, 3),
        np.array([[True, False, True]]),
        np.zeros((0, 3), np.float32),
    ],
    ids=lambda v: "list" if isinstance(v, list) else f"{v.dtype}{v.shape}",
)
def test_takes_what_is_safe(session, value):
    array = np.array(value, np.float32).reshape(-1, 3)
    check(small(), [array])
    got = session.run({"in0": value})["out0"]
    np.testing.assert_allclose(
        got, np.maximum(array @ (np.arange(12, dtype=np.float32).reshape(3, 4) - 5), 0), rtol=1e-6
    )


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ({}, "input 'in0' is missing"),
        ({"in0": np.zeros((2, 3), np.float32), "in1": 0}, "no input 'in1'"),
        ({"IN0": np.zeros((2, 3), np.float32)}, "no input 'IN0'"),
        ({"in0": np.zeros((2, 4), np.float32)}, r"\[2,4\], the model wants \[batch,3\]: axis 1 is fixed"),
        ({"in0": np.zeros(3, np.float32)}, r"\[3\], the model wants \[batch,3\]"),
        ({"in0": np.float32(1)}, r"\[\], the model wants"),
        ({"in0": np.zeros((2, 3), np.complex64)}, "complex64, the model wants float32"),
        ({"in0": [["a", "b", "c"]]}, "the model wants float32"),
        ({"in0": None}, "the model wants float32"),
        ({"in0": [[1, 2], [3]]}, "is not an array"),
        ([np.zeros((2, 3), np.float32)], "by name"),
    ],
)
def test_refuses_what_does_not_fit(session, inputs, says):
    with pytest.raises(UsageError, match=says):
        session.run(inputs)


def identity_of(dtype: DType, declared: DType | None = None) -> minnow.Session:
    """A model whose file computes in one type, and declares another."""
    graph = Graph()
    x = graph.add_param(TensorType(dtype, ("n",)))
    graph.outputs = [Builder(graph).Identity(x)]
    kind = TensorType(declared or dtype, ("n",))
    return minnow.load(encode(Model(graph, [("x", kind)], [("y", kind)])))


@pytest.mark.parametrize("dtype", DType, ids=str)
def test_every_type_goes_in_and_out(dtype):
    x = np.array([0, 1, 1, 0]).astype(dtype.numpy)
    if dtype.is_storage:
        x = np.arange(2**dtype.bits, dtype=np.uint8).view(dtype.numpy)
    y = identity_of(dtype).run({"x": x})["y"]
    assert y.dtype == x.dtype
    assert y.tobytes() == x.tobytes()


@pytest.mark.parametrize("dtype", DType, ids=str)
def test_arrays_come_back_from_files(dtype, tmp_path):
    """As bytes without a type, where numpy itself does not have it."""
    x = np.array([0, 1, 1, 0]).astype(dtype.numpy)
    np.savez(tmp_path / "x.npz", x=x.view(f"V{dtype.size}") if x.dtype.isbuiltin == 2 else x)
    y = identity_of(dtype).run(np.load(tmp_path / "x.npz"))["y"]
    assert y.dtype == x.dtype
    assert y.tobytes() == x.tobytes()


@pytest.mark.parametrize("dtype", [t for t in DType if t.is_storage], ids=str)
def test_small_types_take_numbers_that_they_hold(dtype):
    session = identity_of(dtype)
    one = np.array([1, 1], np.float32 if dtype.is_float else np.int64)
    np.testing.assert_array_equal(session.run({"x": one})["y"], one.astype(dtype.numpy))
    for x in (one * 1000000, np.array([1.03]), np.array(["1"])):
        with pytest.raises(UsageError, match=dtype.numpy.name):
            session.run({"x": x})


@pytest.mark.parametrize("text", ["[]", "nonsense", '{"x": "f9"}', '{"x": 3}', '{"x": "f64"}', '{"x": "u32"}'])
def test_types_that_the_metadata_invents_are_refused(text):
    graph = Graph()
    x = graph.add_param(TensorType(DType.U8, (2,)))
    graph.outputs = [Builder(graph).Identity(x)]
    kind = TensorType(DType.U8, (2,))
    data = encode(Model(graph, [("x", kind)], [("y", kind)], metadata={"minnow.types": text}))
    with pytest.raises(FormatError):
        minnow.load(data)
    with pytest.raises(FormatError):
        decode(data)


@pytest.mark.parametrize(
    ("inner", "outer", "numbers"),
    [
        (DType.I32, DType.I64, [0, -5, 2**31 - 1]),
        (DType.I32, DType.BOOL, [True, False]),
        (DType.F32, DType.F16, [0.5, -65504.0, np.inf]),
        (DType.F32, DType.BF16, [0.5, -3.0]),
        (DType.F32, DType.F64, [0.5, -3.0]),
        (DType.I32, DType.U8, [0, 255]),
    ],
    ids=lambda v: str(v),
)
def test_casts_between_the_file_and_the_source(inner, outer, numbers):
    session = identity_of(inner, outer)
    x = np.array(numbers).astype(outer.numpy)
    assert session.inputs[0].dtype == x.dtype.name
    y = session.run({"x": x})["y"]
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y, x)


def test_integers_must_not_lose_anything():
    session = identity_of(DType.I32)
    np.testing.assert_array_equal(session.run({"x": np.array([1, -1], np.int64)})["y"], np.array([1, -1], np.int32))
    for x in (np.array([2**31]), np.array([2**40], np.uint64), np.array([0.0]), [0.5]):
        with pytest.raises(UsageError, match="int32"):
            session.run({"x": x})
    with pytest.raises(UsageError, match="bool"):
        identity_of(DType.BOOL).run({"x": np.array([1])})


def test_bfloat16_arrays_are_those_of_ml_dtypes():
    y = identity_of(DType.BF16).run({"x": np.array([1.5, 2], np.float32)})["y"]
    assert y.dtype == np.dtype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(y.astype(np.float32), [1.5, 2])


def test_one_symbol_is_one_size():
    graph = Graph()
    a, b = (graph.add_param(f32("n", 2)) for _ in range(2))
    graph.outputs = [Builder(graph).Add(a, b)]
    session = session_of(graph)
    with pytest.raises(UsageError, match="n is 3 elsewhere"):
        run(session, [normal(RNG, 3, 2), normal(RNG, 1, 2)])


def test_results_are_independent_of_later_runs(session):
    first = run(session, [np.ones((2, 3), np.float32)])[0]
    kept = first.copy()
    run(session, [np.zeros((2, 3), np.float32)])
    np.testing.assert_array_equal(first, kept)
    first += 1  # and belong to the caller


def test_results_may_outlive_the_session():
    y = run(session_of(small()), [np.ones((1, 3), np.float32)])[0]
    assert y.tolist() == [[0, 0, 3, 6]]


def test_shapes_may_change_from_run_to_run(session):
    for n in (1, 5, 0, 2, 1, 17, 3, 4, 6, 7, 8, 9, 1):
        check(small(), [normal(RNG, n, 3)], session)


def test_threads_give_the_same_bits():
    graph = Graph()
    x = graph.add_param(f32(1, 19, 33, 29))
    b = Builder(graph)
    y = b.Conv(x, normal(RNG, 37, 19, 3, 3), strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1))
    y = b.Softmax(b.Relu(y), axis=1)
    graph.outputs = [y, b.ReduceMean(y, axes=(2, 3))]
    inputs = [normal(RNG, 1, 19, 33, 29)]
    one, two, four = (run(session_of(graph, threads=t), inputs) for t in (1, 2, 4))
    for other in (two, four):
        for a, c in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, c)


def test_runs_of_one_session_at_the_same_time(session):
    inputs = [normal(RNG, n, 3) for n in range(1, 9)]
    wanted = [run(session_of(small()), [x])[0] for x in inputs]
    failed = []

    def work(k: int) -> None:
        same = [np.array_equal(run(session, [inputs[k]])[0], wanted[k]) for _ in range(50)]
        failed.extend(k for equal in same if not equal)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed


def test_profile_tells_of_every_node(session):
    rows = session.profile({"in0": np.ones((7, 3), np.float32)}, runs=3)
    assert [r["op"] for r in rows] == ["MatMul", "Relu"] or [r["op"] for r in rows] == ["MatMul"]
    assert rows[0]["macs"] == 7 * 3 * 4
    assert rows[0]["bytes"] == 4 * (7 * 3 + 3 * 4 + 7 * 4)
    assert rows[0]["shape"] == "[7,4]"
    assert all(r["ms"] >= 0 for r in rows)
    with pytest.raises(UsageError, match="0 runs"):
        session.profile({"in0": np.ones((7, 3), np.float32)}, runs=0)


def test_stats():
    cores = len(os.sched_getaffinity(0))
    session = session_of(small(), threads=2)
    assert session.stats["threads"] == min(2, cores)
    assert session_of(small(), threads=256).stats["threads"] == min(256, cores)
    assert session.stats["weight_bytes"] == 12 * 4
    assert minnow.load(encode(model_of(small()))).stats["threads"] == cores


@pytest.mark.parametrize("threads", [0, -1, 1.5, True, "2", 100000])
def test_refuses_such_numbers_of_threads(threads):
    with pytest.raises(UsageError, match="thread"):
        minnow.load(encode(model_of(small())), threads=threads)


def test_refuses_unknown_precision():
    with pytest.raises(UsageError, match="precision 'double'"):
        minnow.load(encode(model_of(small())), precision="double")


def test_refuses_what_is_no_model(tmp_path):
    empty, text = tmp_path / "empty.mnn", tmp_path / "text.mnn"
    empty.touch()
    text.write_text("hello" * 100)
    for source, says in (
        (tmp_path / "none.mnn", "No such file"),
        (tmp_path, "not a file"),
        (empty, "empty"),
        (text, "not a .mnn file"),
        (b"", "empty"),
        (b"\0" * 64, "not a .mnn file"),
    ):
        with pytest.raises(FormatError, match=says):
            minnow.load(source)


def test_lists_all_it_cannot_run():
    net = {"oplists": [], "tensorName": ["x", "a", "b"], "outputName": ["b"]}
    op = {"inputIndexes": [0], "outputIndexes": [1], "type": "Svd", "name": "first"}
    net["oplists"] = [
        {"type": "Input", "main_type": "Input", "main": {"dims": [1]}, "outputIndexes": [0], "name": "x"},
        op,
        op | {"inputIndexes": [1], "outputIndexes": [2], "type": "Histogram", "name": "second"},
    ]
    from minnow.schema.mnn import wire

    with pytest.raises(UnsupportedError) as caught:
        minnow.load(wire.write(net))
    assert caught.value.items == ("Svd 'first'", "Histogram 'second'")
    assert "2 of its ops" in str(caught.value)
