"""Slim builds: a libminnow.so with only what given models and processors need."""

from __future__ import annotations

import ctypes as c
import fcntl
import importlib.util
import platform
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from capi import Tensor, tensor
from engine_oracle import model_of
from llm.small_llama import Llama

import minnow
from minnow.runtime import _engine
from minnow.schema.ir import Graph, Value
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder, get

ROOT = Path(__file__).parents[1]
OTHER_FORMS = {"mnn.ConvVolume", "mnn.ConvTransposeVolume", "mnn.ConvTransposeGroups", "mnn.MaxPoolVolume"}


@pytest.fixture(scope="module")
def slim() -> ModuleType:
    spec = importlib.util.spec_from_file_location("slim", ROOT / "cmake/slim.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("digits") / "digits.mnn"
    minnow.convert(ROOT / "examples/digits/digits.onnx", output=path, verify=False)
    return path


def one_op(name: str) -> bytes:
    graph = Graph()
    x = graph.add_param(Value.constant(np.zeros(3, np.float32)).type)
    graph.outputs = list(Builder(graph).node(get(name), [x], {}, 1).outputs)
    return encode(model_of(graph))


def test_the_list_has_what_the_model_needs_and_little_else(slim: ModuleType, digits: Path) -> None:
    kept = set(slim.rows([digits]))
    assert {"Conv", "MaxPool", "Softmax", "mnn.Output", "decode Convolution", "decode Pooling"} <= kept
    known = set(_engine.op_traits())
    ops = kept & known
    planned = {row["op"] for row in minnow.load(digits).profile({"image": np.zeros((5, 1, 8, 8), np.float32)}, 1)}
    assert planned & known <= ops
    assert not ops & {"Gather", "LSTM", "Tanh", "QuantizeLinear"}
    assert len(ops) < 20
    assert not kept & slim.PARTS


def test_what_reads_small_weights_is_kept_for_models_that_have_them(
    slim: ModuleType, digits: Path, tmp_path: Path
) -> None:
    packed, pruned = tmp_path / "packed.mnn", tmp_path / "pruned.mnn"
    minnow.quantize(digits, output=packed, weights="int8")
    assert set(slim.rows([packed])) & slim.PARTS == {"packed weights"}
    graph = Graph()
    b = Builder(graph)
    x = graph.add_param(Value.constant(np.zeros((1, 64, 16, 16), np.float32)).type)
    w = np.zeros((64, 64, 3, 3), np.float32)
    w[::8, ::8] = 1
    graph.outputs = [b.Conv(x, w, strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1))]
    pruned.write_bytes(encode(model_of(graph)))
    assert set(slim.rows([pruned])) & slim.PARTS == {"sparse products"}


def test_growing_states_are_kept_for_models_that_have_them(slim: ModuleType, tmp_path: Path) -> None:
    cached = tmp_path / "cached.mnn"
    cached.write_bytes(encode(Llama.random().model()))
    assert set(slim.rows([cached])) & slim.PARTS == {"growing states"}


def test_lists_of_several_models_are_joined(slim: ModuleType, digits: Path, tmp_path: Path) -> None:
    tangent = tmp_path / "tangent.mnn"
    tangent.write_bytes(one_op("Tan"))
    both = set(slim.rows([digits, tangent]))
    assert both >= set(slim.rows([digits])) | {"Tan"}


def test_everything_is_found_that_a_lowering_can_make(slim: ModuleType) -> None:
    """Each lowering of the sources, and at least one op for each."""
    made = slim.lowerings()
    ops = set(_engine.op_traits())
    texts = [path.read_text() for path in (ROOT / "runtime/src/lower").glob("*.cpp")]
    assert len(made) == sum(text.count("\nMINNOW_LOWERING(") for text in texts)
    assert made.keys() >= OTHER_FORMS
    reached = {name: found & (ops | made.keys()) for name, found in made.items()}
    assert [name for name, found in reached.items() if not found] == ["mnn.WithInts"]  # an attribute names its op
    assert made["mnn.MaxPool"] >= {"MaxPool"}
    assert made["mnn.LayerNorm"] >= {"LayerNorm", "RMSNorm", "Reshape", "Add"}
    assert made["mnn.Select"] >= {"Where", "Cast"}  # Cast by way of another function


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="tests/cross builds a slim library for Arm")
def test_a_slim_library_runs_its_model_and_refuses_another(digits: Path) -> None:
    folder = ROOT / "build/slim-test"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = [sys.executable, ROOT / "cmake/slim.py", "--isa", _engine.isa(), "--folder", folder, digits]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (folder / "libminnow.so").stat().st_size < 700_000
    library = c.CDLL(str(folder / "libminnow.so"))
    library.minnow_last_error.restype = c.c_char_p

    model, session = c.c_void_p(), c.c_void_p()
    assert library.minnow_load_file(str(digits).encode(), c.byref(model)) == 0, library.minnow_last_error()
    assert library.minnow_create_session(model, None, c.byref(session)) == 0, library.minnow_last_error()
    full = minnow.load(digits)
    shape = [d if isinstance(d, int) else 2 for d in full.inputs[0].shape or ()]
    x = np.random.default_rng(0).random(shape, np.float32)
    given, results = tensor(x), (Tensor * 1)()
    assert library.minnow_run(session, c.byref(given), 1, results, 1) == 0, library.minnow_last_error()
    (want,) = full.run({full.inputs[0].name: x}).values()
    assert c.string_at(results[0].data, want.nbytes) == want.tobytes()
    assert library.minnow_resize_states(session, b"cache_blocks", c.c_int64(1)) == 3
    assert b"has no growing states" in library.minnow_last_error()
    library.minnow_free_session(session)
    library.minnow_free_model(model)

    other = one_op("Tan")
    assert library.minnow_load_memory(other, c.c_size_t(len(other)), c.byref(model)) == 3
    assert b"this slim build, made for other models, has no kernel" in library.minnow_last_error()
