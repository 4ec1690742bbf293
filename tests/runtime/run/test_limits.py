"""Time, memory and rounds that a run may take, and how it is ended."""

from __future__ import annotations

import ctypes as c
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from capi import Options, Tensor, tensor
from engine_oracle import f32, model_of
from hostile_files import concat, doubled_state, endless_condition, looped

import minnow
import minnow.runtime._engine as _engine
from minnow.cli._app import run as command
from minnow.schema.errors import CancelledError, DeadlineError, StoppedError, UnsupportedError, UsageError
from minnow.schema.ir import Graph, Value
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder

ONE = {"x": np.ones(1, np.float32)}
LONG = 10**12


def long_session(**options):
    return minnow.load(endless_condition(), threads=1, max_rounds=LONG, **options)


def test_a_run_ends_at_its_deadline():
    start = time.monotonic()
    with pytest.raises(DeadlineError, match=r"0\.2 seconds") as error:
        long_session(timeout=0.2).run(ONE)
    assert 0.1 < time.monotonic() - start < 2
    assert error.value.exit_code == 9


def test_one_run_has_a_deadline_of_its_own():
    session = long_session()
    with pytest.raises(DeadlineError):
        session.run(ONE, timeout=0.1)
    graph = Graph()
    graph.outputs = [Builder(graph).Relu(graph.add_param(f32(1)))]
    short = minnow.load(encode(model_of(graph)), timeout=100)
    for timeout in (None, 50, 1e10):
        assert short.run({"in0": ONE["x"]}, timeout=timeout)["out0"] == 1


def test_planning_ends_at_the_deadline():
    graph = Graph()
    value = graph.add_param(f32(1))
    b = Builder(graph)
    for _ in range(3000):
        value = b.Relu(b.Neg(value))
    graph.outputs = [value]
    with pytest.raises(DeadlineError):
        minnow.load(encode(model_of(graph)), timeout=1e-6)


def many_layers(n):
    """Each is fused with what follows it: a plan of many passes over many nodes."""
    graph = Graph()
    b = Builder(graph)
    weight, bias = Value.constant(np.ones((1, 1, 1, 1), np.float32)), Value.constant(np.zeros(1, np.float32))
    value = graph.add_param(f32(1, 1, "h", "w"))
    for _ in range(n):
        value = b.Relu(b.Conv(value, weight, bias, strides=(1, 1), pads=(0,) * 4, dilations=(1, 1)))
    graph.outputs = [value]
    return encode(model_of(graph))


@pytest.mark.parametrize("how", ["timeout", "cancel"])
def test_each_part_of_planning_ends_when_told_to(how):
    model = minnow.Model(many_layers(4000))
    feeds = {"in0": np.full((1, 1, 2, 2), 3, np.float32)}
    start = time.process_time()
    model.session(threads=1).run(feeds)
    whole = time.process_time() - start
    ended = 0
    for k in range(12):
        session = model.session(threads=1)
        timer = threading.Timer(whole * k / 12, session.cancel)
        try:
            if how == "cancel":
                timer.start()
            session.run(feeds, timeout=whole * (k + 0.01) / 12 if how == "timeout" else 100)
        except StoppedError:
            ended += 1
        if how == "cancel":
            timer.join()
        np.testing.assert_array_equal(session.run(feeds)["out0"], feeds["in0"])
    assert ended > 1


def test_another_thread_cancels_a_run():
    session = long_session()
    session.cancel()  # nothing is under way
    timer = threading.Timer(0.2, session.cancel)
    timer.start()
    with pytest.raises(CancelledError) as error:
        session.run(ONE)
    assert isinstance(error.value, StoppedError)
    with pytest.raises(DeadlineError):  # and not: cancelled
        session.run(ONE, timeout=0.1)


def test_who_waits_for_a_run_does_not_stop_it():
    """The run asks for the interpreter lock now and then, which whoever waits for the session must not keep."""
    session = long_session()
    waiting = threading.Thread(target=lambda: (time.sleep(0.05), session.stats))
    waiting.start()
    with pytest.raises(DeadlineError):
        session.run(ONE, timeout=0.5)
    waiting.join(5)
    assert not waiting.is_alive()


def test_an_interrupt_ends_a_run(tmp_path):
    (tmp_path / "m.mnn").write_bytes(endless_condition())
    code = (
        "import signal, sys, numpy as np; from minnow.runtime.session import load\n"
        # A parent that ignores the signal, as a shell does for what runs in the background, hands that down.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "s = load(sys.argv[1], max_rounds=10**12)\nprint('runs', flush=True)\n"
        "try: s.run({'x': np.ones(1, np.float32)})\nexcept KeyboardInterrupt: sys.exit(77)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "m.mnn")], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(30) == 77
        finally:
            process.kill()


def test_rounds():
    with pytest.raises(UnsupportedError, match="more than 100 iterations"):
        minnow.load(endless_condition(), max_rounds=100).run(ONE)
    counted = looped(concat([2], 3), tensors=["same"], outs=[1, 3], trips=200)
    with pytest.raises(UnsupportedError, match="max_rounds allows 100"):
        minnow.load(counted, max_rounds=100).run(ONE)
    assert minnow.load(counted, max_rounds=200).run(ONE)["y"] == 1


def test_memory():
    with pytest.raises(UnsupportedError, match=r"not enough memory.* 1\.0 that max_memory"):
        minnow.load(doubled_state(), max_memory=1 << 20).run(ONE)


def test_memory_is_given_back():
    """Sizes come and go: what counts is what is held."""
    graph = Graph()
    x = graph.add_param(f32("n"))
    b = Builder(graph)
    graph.outputs = [b.CumSum(b.Exp(x), np.int64(0))]
    session = minnow.load(encode(model_of(graph)), max_memory=2 << 20)
    for k in range(60):
        session.run({"in0": np.zeros(100_000 + k, np.float32)})
    with pytest.raises(UnsupportedError, match="max_memory"):
        session.run({"in0": np.zeros(1_000_000, np.float32)})
    session.run({"in0": np.zeros(100_000, np.float32)})


@pytest.mark.parametrize("limits", [{"timeout": 0}, {"timeout": "1"}, {"max_memory": -1}, {"max_rounds": True}])
def test_wrong_limits(limits):
    with pytest.raises(UsageError, match=next(iter(limits))):
        minnow.load(endless_condition(), **limits)


def test_command_line(tmp_path, capsys):
    path = tmp_path / "m.mnn"
    path.write_bytes(looped(concat([2], 3), tensors=["same"], outs=[1, 3], trips=10**9))
    np.savez(tmp_path / "x.npz", **ONE)
    run = ["run", str(path), "--data", str(tmp_path / "x.npz")]
    assert command([*run, "--timeout", "0.2", "--max-rounds", str(LONG)]) == 9
    assert "0.2 seconds" in capsys.readouterr().err
    assert command(run) == 3
    assert "max_rounds" in capsys.readouterr().err


# --- C


@pytest.fixture(scope="module")
def api():
    library = c.CDLL(_engine.__file__)
    library.minnow_last_error.restype = c.c_char_p
    return library


def create(api, data: bytes, options: c.Structure) -> tuple[int, c.c_void_p]:
    model, session = c.c_void_p(), c.c_void_p()
    assert api.minnow_load_memory(data, c.c_size_t(len(data)), c.byref(model)) == 0
    code = api.minnow_create_session(model, c.byref(options), c.byref(session))
    api.minnow_free_model(model)
    return code, session


def run(api, session) -> int:
    given, out = tensor(ONE["x"]), Tensor()
    return api.minnow_run(session, c.byref(given), c.c_size_t(1), c.byref(out), c.c_size_t(1))


def test_c_timeout_and_cancel(api):
    code, session = create(api, endless_condition(), Options(threads=1, timeout_ms=100, max_rounds=LONG))
    assert code == 0
    assert run(api, session) == 9
    assert b"0.1 seconds" in api.minnow_last_error()
    assert api.minnow_set_timeout(session, c.c_int64(-1)) == 2
    assert api.minnow_set_timeout(session, c.c_int64(0)) == 0
    timer = threading.Timer(0.2, lambda: api.minnow_cancel(session))
    timer.start()
    assert run(api, session) == 9
    assert b"cancelled" in api.minnow_last_error()
    api.minnow_free_session(session)
    api.minnow_cancel(None)


def test_c_limits(api):
    code, session = create(api, endless_condition(), Options(max_rounds=10))
    assert (code, run(api, session)) == (0, 3)
    api.minnow_free_session(session)
    code, session = create(api, doubled_state(), Options(max_memory=1 << 20))
    assert (code, run(api, session)) == (0, 3)
    api.minnow_free_session(session)
    assert create(api, doubled_state(), Options(max_memory=-1))[0] == 2


class Older(c.Structure):
    """The options as they are before all fields that may be added."""

    _fields_ = [("struct_size", c.c_size_t), ("threads", c.c_int32), ("precision", c.c_int)]


class Newer(c.Structure):
    _fields_ = [*Options._fields_, ("unknown", c.c_int64)]


def test_options_of_other_versions(api):
    counted = looped(concat([2], 3), tensors=["same"], outs=[1, 3], trips=5)
    # What lies behind an older caller's options is not looked at.
    memory = (c.c_char * 256)(*b"\xff" * 256)
    older = Older.from_buffer(memory)
    older.struct_size, older.threads, older.precision = c.sizeof(Older), 1, 0
    code, session = create(api, counted, older)
    assert (code, run(api, session)) == (0, 0)
    api.minnow_free_session(session)
    newer = Newer(struct_size=c.sizeof(Newer), threads=1)
    code, session = create(api, counted, newer)
    assert code == 0
    api.minnow_free_session(session)
    newer.unknown = 1  # a caller that wants what this library does not know
    assert create(api, counted, newer)[0] == 2
    for size in (0, 4, 1 << 20):
        newer.struct_size = size
        assert create(api, counted, newer)[0] == 2
    assert b"struct_size" in api.minnow_last_error()
