"""The C API, called through ctypes: the Python module has it, too."""

from __future__ import annotations

import ctypes as c
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from capi import Options, Stats, Tensor, array_of, tensor
from engine_oracle import f32, model_of, normal

import minnow
from minnow.runtime import _engine
from minnow.schema.ir import DType, Graph, Model, State, TensorType
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder

HEADER = Path(__file__).parents[3] / "runtime" / "include" / "minnow" / "minnow.h"
OK, USAGE, FORMAT, DEVICE = 0, 2, 6, 7
F32, I64 = 0, 10


class Info(c.Structure):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("name", c.c_char_p),
        ("dtype", c.c_int),
        ("rank", c.c_int32),
        ("shape", c.c_int64 * 12),
        ("symbols", c.c_char_p * 12),
    ]


class Row(c.Structure):
    _fields_ = [
        *((name, c.c_char_p) for name in ("name", "op", "scheme", "shape")),
        ("ms", c.c_double),
        ("macs", c.c_int64),
        ("bytes", c.c_int64),
        ("device", c.c_char_p),
        ("why", c.c_char_p),
    ]


@pytest.fixture(scope="module")
def api():
    library = c.CDLL(_engine.__file__)
    for name in ("minnow_version", "minnow_isa", "minnow_last_error"):
        getattr(library, name).restype = c.c_char_p
    library.minnow_num_inputs.restype = library.minnow_num_outputs.restype = c.c_size_t
    return library


def graph() -> Graph:
    """y = relu(x + 1), s = the shape of x."""
    graph = Graph()
    x = graph.add_param(f32("n", 3))
    b = Builder(graph)
    graph.outputs = [b.Relu(b.Add(x, 1.0)), b.Shape(x)]
    return graph


@pytest.fixture
def session(api):
    data = encode(model_of(graph()))
    model, session = c.c_void_p(), c.c_void_p()
    assert api.minnow_load_memory(data, c.c_size_t(len(data)), c.byref(model)) == OK
    assert api.minnow_create_session(model, c.byref(Options(threads=2)), c.byref(session)) == OK
    api.minnow_free_model(model)  # before the session
    yield session
    api.minnow_free_session(session)


def test_the_numbers_of_the_types_are_those_of_our_types():
    text = HEADER.read_text()
    names = text[text.index("int32_t minnow_dtype") :].split("{")[1].split("}")[0].replace(",", " ").split()
    assert [n.removeprefix("MINNOW_").lower() for n in names] == [t.value for t in DType]


def test_version_and_instruction_set(api):
    assert api.minnow_version().decode() == minnow.__version__
    assert api.minnow_isa().decode() == _engine.isa()


def test_codes_are_the_exit_codes_of_the_command_line():
    from minnow.schema import errors

    text = re.search(r"typedef int32_t minnow_code;\nenum \{(.*?)\};", HEADER.read_text(), re.DOTALL)
    assert text is not None
    codes = {name: int(n) for name, n in re.findall(r"MINNOW_(\w+) = (\d+)", text[1])}
    for name in ("INTERNAL", "USAGE", "UNSUPPORTED", "FORMAT", "DEVICE", "WRITE"):
        assert codes[name] == getattr(errors, f"{name.capitalize()}Error").exit_code


def test_packed_weights_that_cannot_be_written(api, tmp_path):
    path = os.fspath(tmp_path / "m.mnn").encode()
    (tmp_path / "m.mnn").write_bytes(encode(model_of(graph())))
    os.mkfifo(tmp_path / "m.mnn.packed")
    model, session = c.c_void_p(), c.c_void_p()
    assert api.minnow_load_file(path, c.byref(model)) == OK
    assert api.minnow_create_session(model, None, c.byref(session)) == OK
    api.minnow_free_model(model)
    assert api.minnow_write_packed(session) == 8
    assert b"not a regular file" in api.minnow_last_error()
    assert (tmp_path / "m.mnn.packed").is_fifo()
    api.minnow_free_session(session)


def test_inputs_and_outputs(api, session):
    assert (api.minnow_num_inputs(session), api.minnow_num_outputs(session)) == (1, 2)
    info = Info(c.sizeof(Info))
    assert api.minnow_input_info(session, c.c_size_t(0), c.byref(info)) == OK
    assert (info.name, info.dtype, info.rank, info.shape[:2], info.symbols[:2]) == (
        b"in0",
        F32,
        2,
        [-1, 3],
        [b"n", None],
    )
    assert api.minnow_output_info(session, c.c_size_t(1), c.byref(info)) == OK
    assert (info.name, info.dtype, info.rank, info.shape[0]) == (b"out1", I64, 1, 2)
    assert api.minnow_output_info(session, c.c_size_t(2), c.byref(info)) == USAGE


def test_run(api, session):
    rng = np.random.default_rng(0)
    for n in (2, 5, 0):
        x = normal(rng, n, 3)
        outputs = (Tensor * 2)(Tensor(b"out1"), Tensor(b"out0"))
        given = tensor(x, b"in0")
        assert api.minnow_run(session, c.byref(given), c.c_size_t(1), outputs, c.c_size_t(2)) == OK
        assert array_of(outputs[0]).tolist() == [n, 3]
        np.testing.assert_allclose(array_of(outputs[1]), np.maximum(x + 1, 0))
    unnamed = tensor(normal(rng, 2, 3))
    only = Tensor()
    assert api.minnow_run(session, c.byref(unnamed), c.c_size_t(1), c.byref(only), c.c_size_t(1)) == OK
    assert only.name == b"out0"


@pytest.mark.parametrize("dtype", DType, ids=str)
def test_every_type_goes_in_and_out(api, dtype):
    graph = Graph()
    x = graph.add_param(TensorType(dtype, ("n", 2)))
    graph.outputs = [Builder(graph).Transpose(x, perm=(1, 0))]
    data = encode(model_of(graph))
    model, session = c.c_void_p(), c.c_void_p()
    assert api.minnow_load_memory(data, c.c_size_t(len(data)), c.byref(model)) == OK
    assert api.minnow_create_session(model, c.byref(Options(threads=1)), c.byref(session)) == OK
    info = Info(c.sizeof(Info))
    assert api.minnow_input_info(session, c.c_size_t(0), c.byref(info)) == OK
    assert list(DType)[info.dtype] is dtype
    x = np.array([0, 1, 1, 0, 1, 1]).astype(dtype.numpy).reshape(3, 2)
    given, out = tensor(x), Tensor()
    assert api.minnow_run(session, c.byref(given), c.c_size_t(1), c.byref(out), c.c_size_t(1)) == OK
    assert array_of(out).dtype == x.dtype
    assert array_of(out).tobytes() == np.ascontiguousarray(x.T).tobytes()
    api.minnow_free_session(session)
    api.minnow_free_model(model)


def test_errors_say_what_and_where(api, session, tmp_path):
    model, other, out = c.c_void_p(), c.c_void_p(), Tensor()
    x = np.zeros((2, 4), np.float32)
    one = c.c_size_t(1)
    path = str(tmp_path / "none.mnn").encode()
    for code, call, says in (
        (FORMAT, lambda: api.minnow_load_file(path, c.byref(model)), "none.mnn: cannot be read"),
        (FORMAT, lambda: api.minnow_load_memory(b"abc", c.c_size_t(3), c.byref(model)), "not a .mnn file"),
        (USAGE, lambda: api.minnow_load_file(None, c.byref(model)), "path is NULL"),
        (USAGE, lambda: api.minnow_create_session(None, None, c.byref(other)), "model is NULL"),
        (USAGE, lambda: api.minnow_run(None, None, one, None, one), "session is NULL"),
        (USAGE, lambda: api.minnow_run(session, None, c.c_size_t(0), None, c.c_size_t(0)), "input 'in0' is missing"),
        (USAGE, lambda: api.minnow_run(session, c.byref(tensor(x)), one, c.byref(out), one), "axis 1 is fixed"),
        (
            USAGE,
            lambda: api.minnow_run(session, c.byref(tensor(x, b"in1")), one, c.byref(out), one),
            "no input 'in1'; it has 'in0'",
        ),
        (USAGE, lambda: api.minnow_run(session, c.byref(tensor(x)), one, c.byref(Tensor(b"y")), one), "no output 'y'"),
        (USAGE, lambda: api.minnow_run(session, c.byref(Tensor(b"in0", 99, 1)), one, None, c.c_size_t(0)), "type 99"),
        (USAGE, lambda: api.minnow_run(session, c.byref(Tensor(b"in0", 0, 13)), one, None, c.c_size_t(0)), "rank 13"),
    ):
        assert call() == code
        assert says in api.minnow_last_error().decode()
    assert api.minnow_create_session(session, None, None) == USAGE
    api.minnow_free_model(None)
    api.minnow_free_session(None)


def test_profile_and_stats(api, session):
    x = np.ones((2, 3), np.float32)
    rows, count, stats = c.POINTER(Row)(), c.c_size_t(), Stats(c.sizeof(Stats))
    one, size = c.c_size_t(1), c.c_size_t(c.sizeof(Row))
    assert api.minnow_profile(session, c.byref(tensor(x)), one, 3, size, c.byref(rows), c.byref(count)) == OK
    assert [rows[i].op for i in range(count.value)] == [b"BinaryRelu"]
    assert (rows[0].shape, rows[0].device, rows[0].why) == (b"[2,3]", b"cpu", b"")
    assert api.minnow_get_stats(session, c.byref(stats)) == OK
    assert (stats.threads, stats.weights) == (min(2, len(os.sched_getaffinity(0))), 4)


def test_a_device_that_is_not_there(api):
    data = encode(model_of(graph()))
    model, session = c.c_void_p(), c.c_void_p()
    assert api.minnow_load_memory(data, c.c_size_t(len(data)), c.byref(model)) == OK
    assert api.minnow_create_session(model, c.byref(Options(device=b"nowhere")), c.byref(session)) == DEVICE
    assert b"the device 'nowhere' is not available" in api.minnow_last_error()
    assert b"Available here: cpu" in api.minnow_last_error()
    assert api.minnow_create_session(model, c.byref(Options(device=b"no/where")), c.byref(session)) == USAGE
    for name in (None, b"cpu", b"auto"):
        assert api.minnow_create_session(model, c.byref(Options(device=name)), c.byref(session)) == OK
        api.minnow_free_session(session)
    api.minnow_free_model(model)


def test_sizes_of_structs_are_checked(api, session):
    x, one = np.ones((2, 3), np.float32), c.c_size_t(1)
    rows, count = c.POINTER(Row)(), c.c_size_t()
    for size in (0, 8, c.sizeof(Stats) - 8, 1 << 20):
        assert api.minnow_get_stats(session, c.byref(Stats(size))) == USAGE
        assert f"struct_size is {size}: it must be sizeof(minnow_stats)" in api.minnow_last_error().decode()
        assert api.minnow_input_info(session, c.c_size_t(0), c.byref(Info(size))) == USAGE
        given = (c.byref(tensor(x)), one, 1, c.c_size_t(size), c.byref(rows), c.byref(count))
        assert api.minnow_profile(session, *given) == USAGE

    class Newer(c.Structure):
        _fields_ = [("known", Stats), ("later", c.c_int64)]

    newer = Newer(Stats(c.sizeof(Newer)), 7)
    assert api.minnow_get_stats(session, c.byref(newer)) == OK
    assert (newer.known.struct_size, newer.known.weights, newer.later) == (c.sizeof(Newer), 4, 0)


def test_sessions_share_a_model(api, tmp_path):
    path = tmp_path / "m.mnn"
    path.write_bytes(encode(model_of(graph())))
    model = c.c_void_p()
    assert api.minnow_load_file(str(path).encode(), c.byref(model)) == OK
    x = np.ones((2, 3), np.float32)
    sessions = [c.c_void_p() for _ in range(3)]
    for s in sessions:
        assert api.minnow_create_session(model, None, c.byref(s)) == OK
    api.minnow_free_model(model)
    for s in sessions:
        out = Tensor()
        assert api.minnow_run(s, c.byref(tensor(x)), c.c_size_t(1), c.byref(out), c.c_size_t(1)) == OK
        assert array_of(out).tolist() == [[2, 2, 2], [2, 2, 2]]
        api.minnow_free_session(s)


@pytest.mark.parametrize(("compiler", "standard"), [("cc", "c99"), ("c++", "c++11")])
def test_the_header_is_plain_c_and_cpp(compiler, standard, tmp_path):
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler}")
    source = tmp_path / ("x.c" if compiler == "cc" else "x.cpp")
    source.write_text('#include "minnow/minnow.h"\nint main(void) { return (int)minnow_num_inputs(0); }\n')
    flags = [f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]
    subprocess.run([compiler, *flags, "-I", HEADER.parents[1], source], check=True)


def test_reset_forgets_what_runs_have_changed(api, tmp_path):
    graph = Graph()
    x, total = (graph.add_param(TensorType(DType.F32, (2,)), name) for name in ("x", "total"))
    graph.outputs = [Builder(graph).Add(x, total)] * 2
    model = Model(graph, [("x", x.type), ("total", x.type)], [("y", x.type), ("next", x.type)])
    model.states = [State("total", "next", np.ones(2, np.float32))]
    path = tmp_path / "m.mnn"
    path.write_bytes(encode(model))
    handle, s = c.c_void_p(), c.c_void_p()
    assert api.minnow_load_file(str(path).encode(), c.byref(handle)) == OK
    assert api.minnow_create_session(handle, None, c.byref(s)) == OK
    api.minnow_free_model(handle)
    assert api.minnow_num_inputs(s) == 1
    one = c.c_size_t(1)

    def run():
        out = Tensor()
        assert api.minnow_run(s, c.byref(tensor(np.ones(2, np.float32))), one, c.byref(out), one) == OK
        return array_of(out).tolist()

    assert [run(), run()] == [[2, 2], [3, 3]]
    assert api.minnow_reset(s) == OK
    assert run() == [2, 2]
    assert api.minnow_reset(None) == USAGE
    api.minnow_free_session(s)
