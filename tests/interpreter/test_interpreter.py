"""`Interpreter` and its sessions."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minnow
from minnow.errors import FormatError, MinnowError, ModelError, UsageError
from minnow.interpreter import Session
from minnow.schema.ir import DType, Graph, Model, TensorType
from minnow.schema.mnn import encode, save
from minnow.schema.ops import Builder

from .test_like_mnn import small_model

Array = np.ndarray[Any, Any]
FLOAT, CAFFE = minnow.Halide_Type_Float, minnow.Tensor_DimensionType_Caffe
IMAGE = np.random.default_rng(0).random((1, 3, 12, 10), np.float32)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.mnn"
    path.write_bytes(small_model())
    return path


def want(path: Path, image: Array = IMAGE, name: str = "prob") -> Array:
    found: Array = minnow.load(path).run({"data": image}, fetch=[name])[name]
    return found


def host(array: Array) -> minnow.Tensor:
    return minnow.Tensor(array.shape, FLOAT, array, CAFFE)


def opened(path: Path, **config: Any) -> tuple[minnow.Interpreter, Session]:
    net = minnow.Interpreter(str(path))
    return net, net.createSession(config)


def test_a_session_runs(path: Path) -> None:
    net, session = opened(path)
    assert net.getSessionInput(session).copyFrom(host(IMAGE))
    assert not net.getSessionOutput(session).getNumpyData().any()
    assert net.runSession(session) == 0
    np.testing.assert_array_equal(net.getSessionOutput(session).getNumpyData(), want(path))
    assert net.getSessionOutput(session, "prob").getShape() == (1, 7)
    assert isinstance(net.getSessionOutput(session).getData(), tuple)


def test_bytes_are_a_model(path: Path) -> None:
    net = minnow.Interpreter(path.read_bytes())
    session = net.createSession()
    net.getSessionInput(session).copyFrom(host(IMAGE))
    net.runSession(session)
    np.testing.assert_array_equal(net.getSessionOutput(session).getNumpyData(), want(path))


def test_sessions_are_independent(path: Path) -> None:
    net, first = opened(path)
    second = net.createSession()
    net.getSessionInput(first).copyFrom(host(IMAGE))
    net.runSession(first)
    net.runSession(second)
    assert net.getSessionOutput(first).getData() != net.getSessionOutput(second).getData()


def test_an_input_is_written_in_place(path: Path) -> None:
    net, session = opened(path)
    net.getSessionInput(session).getNumpyData()[...] = IMAGE
    net.runSession(session)
    np.testing.assert_array_equal(net.getSessionOutput(session).getNumpyData(), want(path))


def test_inputs_change_their_shapes(path: Path) -> None:
    net, session = opened(path)
    given = net.getSessionInput(session)
    net.resizeTensor(given, (3, 3, 12, 10))
    assert net.resizeSession(session) is True
    assert net.getSessionOutput(session).getShape() == (3, 7)
    three = np.concatenate([IMAGE] * 3)
    given.copyFrom(host(three))
    net.runSession(session)
    np.testing.assert_array_equal(net.getSessionOutput(session).getNumpyData(), want(path, three))
    net.resizeTensor(given, [1, 3, 24, 20])  # the file says 12 x 10
    net.resizeSession(session)
    large = np.random.default_rng(1).random((1, 3, 24, 20), np.float32)
    given.copyFrom(host(large))
    net.runSession(session)
    assert net.getSessionOutput(session).getShape() == (1, 7)
    net.resizeTensor(given, (1, 4, 12, 10))
    with pytest.raises(ModelError, match="3 input channels"):
        net.resizeSession(session)


def test_a_part_runs(path: Path) -> None:
    net, session = opened(path, outputPaths=("conv",))
    net.getSessionInput(session).copyFrom(host(IMAGE))
    net.runSession(session)
    (name,) = net.getSessionOutputAll(session)
    conv = net.getSessionOutput(session, name).getNumpyData()
    np.testing.assert_allclose(conv, want(path, name="conv"), atol=1e-6)
    rest = net.createSession({"inputPaths": ["conv"], "outputPaths": "prob"})
    assert list(net.getSessionInputAll(rest)) == ["conv"]
    net.resizeTensor(net.getSessionInput(rest), conv.shape)
    net.getSessionInput(rest).copyFrom(host(conv))
    net.runSession(rest)
    np.testing.assert_allclose(net.getSessionOutput(rest).getNumpyData(), want(path), atol=1e-5)
    kept = net.createSession({"saveTensors": ("conv",)})
    net.getSessionInput(kept).copyFrom(host(IMAGE))
    net.runSession(kept)
    assert net.getSessionOutput(kept).getShape() == conv.shape
    assert list(net.getSessionOutputAll(kept)) == ["conv", "prob"]
    np.testing.assert_allclose(net.getSessionOutput(kept, "conv").getNumpyData(), conv, atol=1e-6)


def test_callbacks_see_the_tensors(path: Path) -> None:
    net, session = opened(path)
    net.getSessionInput(session).copyFrom(host(IMAGE))
    seen: list[tuple[str, list[minnow.Tensor]]] = []
    assert net.runSessionWithCallBack(session, lambda t, n: seen.append((n, t)), lambda t, n: seen.append((n, t))) == 0
    first, last = seen[0][1][0], seen[-1][1][0]
    np.testing.assert_array_equal(first.getNumpyData(), IMAGE)
    np.testing.assert_array_equal(last.getNumpyData().reshape(1, 7), want(path))
    infos: list[minnow.OpInfo] = []
    net.runSessionWithCallBackInfo(session, lambda t, i: infos.append(i), lambda t, i: True)
    conv = next(i for i in infos if i.getType() == "Convolution")
    assert conv.getFlops() == pytest.approx(5 * 27 * 6 * 5 / 1e6)
    assert net.getSessionInfo(session, 1) >= conv.getFlops()


def test_a_callback_stops_a_run(path: Path) -> None:
    net, session = opened(path)
    before = net.getSessionOutput(session).getData()
    calls: list[str] = []
    net.getSessionInput(session).copyFrom(host(IMAGE))
    assert net.runSessionWithCallBack(session, lambda t, n: True, lambda t, n: calls.append(n) or False) == 11
    assert len(calls) == 1
    assert net.getSessionOutput(session).getData() == before
    with pytest.raises(UsageError, match="cannot be left out"):
        net.runSessionWithCallBack(session, lambda t, n: False, lambda t, n: True)
    with pytest.raises(ZeroDivisionError):
        net.runSessionWithCallBack(session, lambda t, n: 1 // 0, None)
    assert net.runSession(session) == 0


def test_a_cache_file_keeps_packed_weights(path: Path, tmp_path: Path) -> None:
    copy, cache = tmp_path / "model.mnn", tmp_path / "cache"
    shutil.copy(path, copy)
    for is_there in (False, True):
        net = minnow.Interpreter(str(copy))
        net.setCacheFile(str(cache))
        session = net.createSession()
        net.getSessionInput(session).copyFrom(host(IMAGE))
        net.runSession(session)
        np.testing.assert_array_equal(net.getSessionOutput(session).getNumpyData(), want(path))
        assert (session.program.whole.stats["mapped_bytes"] > 0) is is_there
        assert net.updateCacheFile(session, 0) == 0
    with pytest.raises(UsageError, match="setCacheFile"):
        minnow.Interpreter(str(copy)).updateCacheFile(session)


def test_weights_in_a_file_of_their_own(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    graph = Graph()
    x = graph.add_param(TensorType(DType.F32, (1, 64)), "x")
    y = Builder(graph).MatMul(x, rng.standard_normal((64, 64)).astype(np.float32))
    graph.outputs = [y]
    model = tmp_path / "a" / "model.mnn"
    model.parent.mkdir()
    save(Model(graph, [("x", x.type)], [("y", y.type)]), model, side_file=True)
    array = rng.standard_normal((1, 64)).astype(np.float32)
    expected = minnow.load(model).run({"x": array})["y"]

    def run(net: minnow.Interpreter) -> Array:
        session = net.createSession()
        net.getSessionInput(session).copyFrom(host(array))
        net.runSession(session)
        return net.getSessionOutput(session).getNumpyData()

    np.testing.assert_array_equal(run(minnow.Interpreter(str(model))), expected)
    moved = tmp_path / "elsewhere"
    (model.parent / "model.mnn.weight").rename(moved)
    net = minnow.Interpreter(str(model))
    with pytest.raises(FormatError):
        net.createSession()
    net.setExternalFile(str(moved))
    np.testing.assert_allclose(run(net), expected, rtol=1e-6)


def test_integers_and_booleans(tmp_path: Path) -> None:
    graph = Graph()
    x = graph.add_param(TensorType(DType.I64, (4,)), "x")
    m = graph.add_param(TensorType(DType.BOOL, (4,)), "m")
    b = Builder(graph)
    y, n = b.Where(m, x, b.Neg(x)), b.Not(m)
    graph.outputs = [y, n]
    path = tmp_path / "m.mnn"
    inputs = [("x", x.type), ("m", m.type)]
    path.write_bytes(encode(Model(graph, inputs, [("y", y.type), ("n", n.type)])))
    net, session = opened(path)
    ints = minnow.Tensor((4,), minnow.Halide_Type_Int, (1, 2, 3, 4), CAFFE)
    net.getSessionInput(session, "x").copyFrom(ints)
    net.getSessionInput(session, "m").copyFrom(minnow.Tensor((4,), minnow.Halide_Type_Int, (1, 0, 1, 0), CAFFE))
    net.runSession(session)
    output = net.getSessionOutput(session, "y")
    assert output.getDataType() == minnow.Halide_Type_Int64
    assert output.getData() == (1, -2, 3, -4)
    assert output.copyToHostTensor(ints)
    assert ints.getData() == (1, -2, 3, -4)
    assert net.getSessionOutput(session, "n").getData() == (0, 1, 0, 1)


def test_backends(path: Path, recwarn: pytest.WarningsRecorder) -> None:
    runtime, exists = minnow.Interpreter.createRuntime(({"backend": "CPU"}, {"backend": "METAL"}))
    assert exists == (True, False)
    assert not recwarn
    net = minnow.Interpreter(str(path))
    with pytest.warns(UserWarning, match="no backend METAL: the CPU"):
        session = net.createSession({"backend": "METAL"}, runtime)
    assert "METAL" in session.fallback
    assert net.getSessionInfo(session, 2) == 0
    with pytest.raises(UsageError, match="'FOO' is unknown"):
        net.createSession({"backend": "FOO"})
    with pytest.warns(UserWarning, match="'presicion' is unknown"):
        net.createSession({"presicion": "low"})
    assert net.createSession(({"backend": 0, "numThread": "2", "precision": "lowBF"},)).configuration.precision == "low"


def test_what_a_session_tells(path: Path) -> None:
    net, session = opened(path, numThread=1)
    memory, flops, backend, status, threads = (net.getSessionInfo(session, code) for code in range(5))
    assert 0 < memory < 1
    assert flops > 5 * 27 * 6 * 5 / 1e6
    assert (backend, status, threads) == (0, 0, 1)
    assert len(minnow.get_model_uuid(str(path))) == 36
    assert net.getModelVersion()
    net.cache(), net.removeCache(), session.cache(), session.removeCache(), net.updateSessionToModel(session)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda n, s: minnow.Interpreter(3), "a path or bytes"),
        (lambda n, s: minnow.Interpreter("a\0b"), "not a path"),
        (lambda n, s: minnow.Interpreter("/missing.mnn"), "/missing.mnn"),
        (lambda n, s: minnow.Interpreter(b"x" * 100), "mnn"),
        (lambda n, s: n.createSession(3), "a dict"),
        (lambda n, s: n.createSession({"numThread": 0}), "number of threads"),
        (lambda n, s: n.createSession({"precision": "best"}), "precision 'best'"),
        (lambda n, s: n.createSession({"memory": 9}), "memory 9"),
        (lambda n, s: n.createSession({}, 3), "runtime"),
        (lambda n, s: n.createSession({"outputPaths": ("cnv",)}), "similar names are conv"),
        (lambda n, s: n.createSession({"inputPaths": ("prob",), "outputPaths": ("conv",)}), "need the input"),
        (lambda n, s: n.createSession({"inputPaths": ("conv",), "outputPaths": ("conv",)}), "both"),
        (lambda n, s: n.createSession({"outputPaths": 3}), "names of tensors"),
        (lambda n, s: n.getSessionInput(s, "nope"), "its inputs are data"),
        (lambda n, s: n.getSessionOutput(None), "not a session"),
        (lambda n, s: n.getSessionInput(s).copyFrom(host(IMAGE[:, :, :10])), "resizeTensor"),
        (lambda n, s: n.getSessionInput(s).copyFrom(IMAGE), "a Tensor is copied"),
        (lambda n, s: n.getSessionInput(s).copyFrom(None), "a Tensor is copied"),
        (lambda n, s: n.resizeTensor(host(IMAGE), (1, 3, 4, 4)), "not an input"),
        (lambda n, s: n.resizeTensor(n.getSessionOutput(s), (1, 7)), "not an input"),
        (lambda n, s: n.resizeTensor(n.getSessionInput(s), (1, 3)), "cannot have the shape"),
        (lambda n, s: n.resizeTensor(n.getSessionInput(s), (1, -3, 4, 4)), "not a shape"),
        (lambda n, s: n.resizeTensor(n.getSessionInput(s), "abc"), "not a shape"),
        (lambda n, s: n.getSessionInfo(s, 7), "unknown"),
        (lambda n, s: n.setSessionMode(18), "mode 18"),
        (lambda n, s: n.setSessionHint(19, 0), "hint 19"),
        (lambda n, s: n.setSessionHint(0, "x"), "MAX_TUNING_NUMBER"),
        (lambda n, s: n.setCacheFile(3), "not a path"),
        (lambda n, s: n.runSessionWithCallBack(s, 3, 4), "a function"),
        (lambda n, s: minnow.get_model_uuid("/missing.mnn"), "missing"),
        (lambda n, s: minnow.Interpreter.createRuntime(3), "tuple of dicts"),
    ],
)
def test_a_wrong_call_is_an_error(path: Path, call: Any, message: str) -> None:
    net, session = opened(path)
    with pytest.raises(MinnowError, match=message):
        call(net, session)
