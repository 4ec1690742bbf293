"""A file that another program cuts off while a model uses it: mapped, the system ends the process; a copy goes on."""

from __future__ import annotations

import ctypes as c
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from engine_oracle import f32, model_of

import minnow
from minnow.runtime import _engine
from minnow.schema.errors import FormatError
from minnow.schema.ir import Graph
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder

SIZE = 300_000
WORKER = f"""
import os, sys
import numpy as np
import minnow
model = minnow.Model(sys.argv[1], mmap=sys.argv[2] == "mmap")
for path in sys.argv[3:]:
    os.truncate(path, 0)
x = np.ones({SIZE}, np.float32)
for threads in (1, 2):
    out = model.session(threads=threads).run({{"in0": x}})
    assert np.array_equal(out["out0"], x + np.arange(len(x), dtype=np.float32)), out
"""


def saved(folder: Path) -> Path:
    """A model that reads its weights where they lie in the file."""
    graph = Graph()
    x = graph.add_param(f32(SIZE))
    graph.outputs = [Builder(graph).Add(x, np.arange(SIZE, dtype=np.float32))]
    path = folder / "m.mnn"
    path.write_bytes(encode(model_of(graph)))
    return path


def run(path: Path, how: str, *cut: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WORKER, str(path), how, *map(str, cut)], capture_output=True, text=True, check=False
    )


def test_a_copy_outlives_its_file(tmp_path: Path) -> None:
    path = saved(tmp_path)
    done = run(path, "copy", path)
    assert done.returncode == 0, done.stderr


def test_a_mapped_file_does_not(tmp_path: Path) -> None:
    """What the documentation warns of: if this no longer holds, it is to be changed."""
    path = saved(tmp_path)
    assert run(path, "mmap").returncode == 0
    assert run(path, "mmap", path).returncode == -signal.SIGBUS


def test_companion_files_are_copied_too(tmp_path: Path) -> None:
    from onnx import TensorProto, helper, numpy_helper, save

    w = np.random.default_rng(0).standard_normal((300, 200)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [9, 300])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [9, 200])], [numpy_helper.from_array(w, "w")],
    )  # fmt: skip
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "m.onnx")
    minnow.convert(tmp_path / "m.onnx", output=tmp_path / "m.mnn", side_file=True, prepack=True, verify=False)
    files = sorted(tmp_path.glob("m.mnn*"))
    assert [p.name for p in files] == ["m.mnn", "m.mnn.packed", "m.mnn.weight"]
    x = np.ones((9, 300), np.float32)
    want = minnow.load(tmp_path / "m.mnn").run({"x": x})["y"]
    model = minnow.Model(tmp_path / "m.mnn", mmap=False)
    for path in files:
        os.truncate(path, 0)
    for _ in range(2):
        np.testing.assert_array_equal(model.session().run({"x": x})["y"], want)


@pytest.mark.parametrize("mmap", [True, False])
def test_both_refuse_what_is_no_file(tmp_path: Path, mmap: bool) -> None:
    empty = tmp_path / "empty.mnn"
    empty.touch()
    os.mkfifo(tmp_path / "pipe.mnn")
    for path in (tmp_path, empty, tmp_path / "missing.mnn", tmp_path / "pipe.mnn", Path("/dev/zero")):
        with pytest.raises(FormatError):
            minnow.load(path, mmap=mmap)


class LoadOptions(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("copies", c.c_int32)]


def test_in_c(tmp_path: Path) -> None:
    api = c.CDLL(_engine.__file__)
    path = str(saved(tmp_path)).encode()
    for options, code in [
        (None, 0),
        (LoadOptions(c.sizeof(LoadOptions), 0), 0),
        (LoadOptions(c.sizeof(LoadOptions), 1), 0),
        (LoadOptions(0, 1), 2),
        (LoadOptions(8, 1), 2),
    ]:
        model = c.c_void_p()
        given = None if options is None else c.byref(options)
        assert api.minnow_load_file_with(path, given, c.byref(model)) == code
        api.minnow_free_model(model)
