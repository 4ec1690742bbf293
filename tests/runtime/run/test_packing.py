"""What kernels make of constants before the first run: it counts for the limit of memory, and ends when told to."""

from __future__ import annotations

import contextlib
import ctypes as c
import threading
import time
from typing import Any

import numpy as np
import pytest
from capi import Options, Tensor, tensor
from engine_oracle import f32, model_of
from quantized_streams import packed
from wire_net import Net

import minnow
from minnow.runtime import _engine
from minnow.schema.errors import CancelledError, DeadlineError, UnsupportedError
from minnow.schema.ir import DType, Graph, TensorType, Value
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder

MIB = 1 << 20
RNG = np.random.default_rng(0)


def file_of(make: Any, *types: TensorType) -> bytes:
    graph = Graph()
    params = [graph.add_param(t) for t in types]
    graph.outputs = [make(Builder(graph), *params)]
    return encode(model_of(graph))


def numbers(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    if dtype is np.float32:
        return RNG.standard_normal(shape, np.float32)
    return RNG.integers(0, 100, shape).astype(dtype)


def product() -> bytes:
    """Weights of 2 MiB, which are packed."""
    return file_of(lambda b, x: b.MatMul(x, numbers(512, 1024)), f32("n", 512))


ROW = {"in0": np.ones((3, 512), np.float32)}


# --- memory


def test_packed_weights_count_for_all_sessions_of_a_model():
    model = minnow.Model(product())
    with pytest.raises(UnsupportedError, match=r"2\.0 MiB are needed.*max_memory"):
        model.session(threads=1, max_memory=MIB).run(ROW)
    large = model.session(threads=1, max_memory=3 * MIB)
    want = large.run(ROW)["out0"]
    assert 2 * MIB <= large.stats["packed_bytes"] < 3 * MIB  # once, although it was refused before
    np.testing.assert_array_equal(model.session(threads=1, max_memory=3 * MIB).run(ROW)["out0"], want)
    with pytest.raises(UnsupportedError, match="max_memory"):  # they are there still
        model.session(threads=1, max_memory=MIB).run(ROW)
    np.testing.assert_array_equal(large.run(ROW)["out0"], want)


def test_what_a_model_has_packed_ends_with_it():
    for _ in range(4):
        minnow.Model(product()).session(threads=1, max_memory=3 * MIB).run(ROW)


def test_packed_weights_of_no_constant_of_the_file_count():
    """They are folded first: the kernel alone keeps them."""
    data = file_of(lambda b, x: b.MatMul(x, b.Exp(b.Neg(numbers(512, 1024)))), f32("n", 512))
    with pytest.raises(UnsupportedError, match="max_memory"):
        minnow.load(data, threads=1, max_memory=3 * MIB).run(ROW)  # the folded ones, and those that are packed
    minnow.load(data, threads=1, max_memory=8 * MIB).run(ROW)


def test_what_folding_takes_counts():
    """The table of a transform, and its workspace, are larger than its result."""
    data = file_of(lambda b, x: b.Add(x, b.CumSum(b.CumSum(numbers(256, 1024), np.int64(0)), np.int64(1))), f32(1))
    with pytest.raises(UnsupportedError, match="max_memory"):
        minnow.load(data, threads=1, max_memory=MIB).run({"in0": np.ones(1, np.float32)})


def test_numbers_of_a_compressed_constant_count():
    """Of 512 listed weights of 2 million, in 8 kB."""
    net = Net()
    net.input("x", (1, 2048, 1, 1))
    listed = np.sort(RNG.choice(1 << 21, 512, replace=False)).astype(np.uint32)
    table = {"type": 0, "index": listed, "alpha": np.ones(512, np.float32), "weightSize": 1 << 21}
    common = {"kernelX": 1, "kernelY": 1, "outputCount": 1024, "inputCount": 2048}
    main = {"common": common, "quanParameter": table, "bias": np.zeros(1024, np.float32)}
    net.op("Convolution", ["x"], ["y"], "Convolution2D", main)
    data = net.bytes("y")
    assert len(data) < 16 << 10
    x = {"x": np.ones((1, 2048, 1, 1), np.float32)}
    got = minnow.load(data, threads=1).run(x)["y"].reshape(-1)
    np.testing.assert_array_equal(got, np.bincount(listed // 2048, minlength=1024))
    with pytest.raises(UnsupportedError, match=r"8\.0 MiB are needed.*max_memory"):
        minnow.load(data, threads=1, max_memory=4 * MIB).run(x)


def chain(n: int, layer: Any, *types: TensorType) -> bytes:
    def make(b: Builder, x: Value) -> Value:
        for _ in range(n):
            x = layer(b, x)
        return x

    return file_of(make, *types)


BYTES = TensorType(DType.U8, (1, 1, 1 << 14))
POOL: dict[str, Any] = {"kernel": (3,), "strides": (1,), "pads": (1, 1), "dilations": (1,)}
LINES = TensorType(DType.U8, (1, 1, 1 << 15, 1))
TABLES = {
    "places of windows": chain(60, lambda b, x: b.MaxPool(x, **POOL), BYTES),
    "places of lines": chain(
        60,
        lambda b, x: b.Cast(
            b.ConvInteger(x, np.ones((1, 1, 1, 1), np.uint8), strides=(1, 1), pads=(0,) * 4, dilations=(1, 1)),
            to=DType.U8,
        ),
        LINES,
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_kernels_count(name):
    """Each node has one of its own: thousands of them in a small file took gigabytes."""
    kind = BYTES if name == "places of windows" else LINES
    feeds = {"in0": np.ones(kind.shape, np.uint8)}
    with pytest.raises(UnsupportedError, match="max_memory"):
        minnow.load(TABLES[name], threads=1, max_memory=8 * MIB).run(feeds)
    got = minnow.load(TABLES[name], threads=1, max_memory=64 * MIB).run(feeds)["out0"]
    np.testing.assert_array_equal(got, feeds["in0"])


def test_c_packed_weights_count():
    api = c.CDLL(_engine.__file__)
    api.minnow_last_error.restype = c.c_char_p
    data, model = product(), c.c_void_p()
    assert api.minnow_load_memory(data, c.c_size_t(len(data)), c.byref(model)) == 0
    codes = []
    for most in (MIB, 4 * MIB):
        session, given, out = c.c_void_p(), tensor(ROW["in0"]), Tensor()
        assert api.minnow_create_session(model, c.byref(Options(threads=1, max_memory=most)), c.byref(session)) == 0
        codes.append(api.minnow_run(session, c.byref(given), c.c_size_t(1), c.byref(out), c.c_size_t(1)))
        if codes[-1] != 0:
            assert b"max_memory" in api.minnow_last_error()
        api.minnow_free_session(session)
    api.minnow_free_model(model)
    assert codes == [3, 0]


# --- time


def sparse_weights(*shape: int) -> np.ndarray:
    return np.where(RNG.random(shape) < 0.95, np.float32(0), numbers(*shape))


def quantized() -> bytes:
    """A layer whose weights have 4 bits."""
    net = Net()
    net.input("x", (1, 1024, 1, 1))
    table, _ = packed(RNG.integers(-8, 8, (2048, 1024)), 4, 2048, "symmetric", False, wide=False)
    common = {"kernelX": 1, "kernelY": 1, "outputCount": 2048, "inputCount": 1024}
    main = {"common": common, "quanParameter": table, "bias": np.zeros(2048, np.float32)}
    net.op("Convolution", ["x"], ["y"], "Convolution2D", main)
    return net.bytes("y")


def recurrent(b: Builder, x: Value) -> Value:
    return b.LSTM(x, numbers(1, 2048, 512), numbers(1, 2048, 512), hidden=512, n_outputs=3)[0]


def bytes_recurrent(b: Builder, x: Value) -> Value:
    one = np.full(1, 0.01, np.float32)
    w, r = (numbers(1, 512, 2048, dtype=np.int8) for _ in range(2))
    none = [None] * 5
    return b.node("DynamicLSTM", [x, w, r, *none, one, one], {"hidden": 512}, 3).outputs[0]


CONV: dict[str, Any] = {"strides": (1, 1), "dilations": (1, 1)}
FLAT = f32(1, 512, 4, 4)
# A name, the layer, and its input; each packs some MB in another way.
PACKED = {
    "MatMul": (lambda b, x: b.MatMul(x, numbers(1024, 2048)), f32(2, 1024)),
    "Conv": (lambda b, x: b.Conv(x, numbers(512, 512, 5, 5), pads=(2,) * 4, **CONV), FLAT),
    "Conv in tiles": (lambda b, x: b.Conv(x, numbers(512, 512, 3, 3), pads=(1,) * 4, **CONV), f32(1, 512, 16, 16)),
    "Conv of each channel": (
        lambda b, x: b.Conv(x, numbers(512, 1, 48, 48), pads=(24,) * 4, group=512, **CONV), FLAT,
    ),
    "Conv of few numbers": (lambda b, x: b.Conv(x, sparse_weights(512, 512, 3, 3), pads=(1,) * 4, **CONV), FLAT),
    "ConvTranspose": (
        lambda b, x: b.ConvTranspose(x, numbers(512, 256, 3, 3), pads=(1,) * 4, output_padding=(0, 0), **CONV), FLAT,
    ),
    "ConvInteger": (
        lambda b, x: b.ConvInteger(
            b.Cast(x, to=DType.U8), numbers(512, 512, 5, 5, dtype=np.int8), pads=(2,) * 4, **CONV
        ), FLAT,
    ),
    "MatMulInteger": (
        lambda b, x: b.MatMulInteger(b.Cast(x, to=DType.U8), numbers(2048, 2048, dtype=np.int8)), f32(2, 2048),
    ),
    "LSTM": (recurrent, f32(1, 1, 512)),
    "DynamicLSTM": (bytes_recurrent, f32(1, 1, 512)),
    "quantized": (None, f32(1, 1024, 1, 1)),
}  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("precision", ["high", "low"])
@pytest.mark.parametrize("name", PACKED)
def test_half_packed_weights_are_not_kept(name, precision):
    """Wherever the time passes, what comes after that is right: in the same session, and in others of the model."""
    layer, kind = PACKED[name]
    data = quantized() if layer is None else file_of(layer, kind)
    x = np.abs(numbers(*kind.shape)) * np.float32(10)
    times = []
    for _ in range(3):  # a busy machine may hold one up
        start = time.perf_counter()
        fresh = minnow.Model(data).session(threads=2, precision=precision)
        key, out = fresh.inputs[0].name, fresh.outputs[0].name
        want = fresh.run({key: x})[out]
        times.append(time.perf_counter() - start)
    ended = 0
    for k in range(300):  # short runs are often over before anybody looks at the clock
        if k >= 10 and ended:
            break
        model = minnow.Model(data)
        try:
            model.session(threads=2, precision=precision, timeout=min(times) / 1.8 ** (k % 10)).run({key: x})
        except DeadlineError:
            ended += 1
        other = model.session(threads=1, precision=precision)
        np.testing.assert_array_equal(other.run({key: x})[out], want)
    assert ended


def test_who_waits_for_the_packing_of_another_session_has_a_deadline_of_its_own():
    """Both want the same weights; one is cancelled, perhaps while it packs them, and the other one goes on."""
    weights = numbers(4096, 2048)
    data = file_of(lambda b, x: b.MatMul(x, weights), f32("n", 4096))
    x = {"in0": np.ones((2, 4096), np.float32)}
    for k in range(6):
        model = minnow.Model(data)
        first, second = model.session(threads=1), model.session(threads=1)
        results: list[Any] = []
        thread = threading.Thread(target=lambda s=second, r=results: r.append(s.run(x)["out0"]))
        timer = threading.Timer(0.002 * k, first.cancel)
        thread.start()
        timer.start()
        with contextlib.suppress(CancelledError):
            first.run(x)
        thread.join()
        timer.join()
        np.testing.assert_array_equal(results[0], model.session(threads=1).run(x)["out0"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["MatMul", "ConvTranspose", "ConvInteger"])
def test_packing_ends_in_time(name):
    """Of weights that take a second; without a look at the clock it is late by most of that.

    Counted is the time of the processor, of which others who use it take nothing: one thread has no more of it than
    passes until the deadline.
    """
    layers = {
        "MatMul": (lambda b, x: b.MatMul(x, np.ones((8192, 32768), np.float32)), f32(1, 8192)),
        "ConvTranspose": (
            lambda b, x: b.ConvTranspose(
                x, np.ones((2048, 1024, 3, 3), np.float32), pads=(1,) * 4, output_padding=(0, 0), **CONV
            ), f32(1, 2048, 1, 1),
        ),
        "ConvInteger": (
            lambda b, x: b.ConvInteger(
                b.Cast(x, to=DType.U8), np.ones((4096, 4096, 5, 5), np.int8), pads=(2,) * 4, **CONV
            ), f32(1, 4096, 1, 1),
        ),
    }  # fmt: skip
    layer, kind = layers[name]
    data = file_of(layer, kind)
    x = {"in0": np.ones(kind.shape, np.float32)}
    start = time.process_time()
    minnow.Model(data).session(threads=1).run(x)
    whole = time.process_time() - start
    late = []
    for _ in range(3):
        model = minnow.Model(data)
        start = time.process_time()
        with pytest.raises(DeadlineError):
            model.session(threads=1, timeout=whole / 5).run(x)
        late.append(time.process_time() - start - whole / 5)
    print(f"{name}: {whole:.2f} s, late by {late}")  # noqa: T201
    assert min(late) < max(whole / 5, 0.1)


def test_steps_that_are_as_long_as_a_kernel():
    """Each tap is at a place of its own within a step: the kernel for sparse weights knows where without a list."""
    n = 100_000
    graph = Graph()
    x = graph.add_param(f32(1, 16, 1, "w"))
    w = np.zeros((4, 16, 1, n), np.float32)
    w.flat[RNG.choice(w.size, 50, replace=False)] = RNG.integers(1, 9, 50)
    graph.outputs = [Builder(graph).Conv(x, w, strides=(1, n), pads=(0,) * 4, dilations=(1, 1))]
    session = minnow.load(encode(model_of(graph)), threads=1)
    given = {"in0": RNG.integers(-9, 9, (1, 16, 1, n)).astype(np.float32)}
    want = np.einsum("ocw,cw->o", w[:, :, 0], given["in0"][0, :, 0])
    np.testing.assert_array_equal(session.run(given)["out0"].ravel(), want)
    assert any(step["scheme"] == "sparse" for step in session.profile(given, 1))
