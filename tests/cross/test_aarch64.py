"""The engine on 64-bit Arm (NEON), cross-compiled and run under qemu, beside the numpy references of the ops.

A C program (run_cases.c) runs what this writes for it through the C API of libminnow.so: that side has no Python.
`./dev cross` installs what is needed, and runs these tests.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_oracle import Array, assert_close, check, model_of
from graph_grower import grown
from native_cases import NATIVE_OPS, Answers, case_bytes, fed, graph_of_node

import minnow
from minnow.schema.ir import Graph
from minnow.schema.mnn import encode
from minnow.schema.ops import Op, Sample, get

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "aarch64"
TOOLS = ("aarch64-linux-gnu-g++", "aarch64-linux-gnu-gcc", "aarch64-linux-gnu-strip", "qemu-aarch64-static", "cmake")
MISSING = [tool for tool in TOOLS if shutil.which(tool) is None]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"{', '.join(MISSING)} not found: `./dev cross` installs what is missing"),
]

HIGH, LOW = 0, 2  # minnow_precision
NEWEST, OLDEST = "max", "cortex-a53"  # all that qemu knows; no vectors of f16, no sums of products of bytes
MOST_BYTES = 1_570_000  # of libminnow.so, stripped, with the kernels of all ops
MOST_SLIM_BYTES = 600_000


def tool(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"


@pytest.fixture(scope="module")
def library() -> Path:
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / ".lock").open("w") as lock:  # several processes run these tests, and one build serves all
        fcntl.flock(lock, fcntl.LOCK_EX)
        settings = ["-DCMAKE_BUILD_TYPE=MinSizeRel", f"-DCMAKE_TOOLCHAIN_FILE={ROOT}/cmake/aarch64-linux-gnu.cmake"]
        tool("cmake", "-S", ROOT, "-B", BUILD, "-G", "Ninja", *settings)
        tool("cmake", "--build", BUILD, "--target", "minnow", "--parallel", str(os.cpu_count()))
    return BUILD / "libminnow.so"


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("digits") / "digits.mnn"
    minnow.convert(ROOT / "examples/digits/digits.onnx", output=path, verify=False)
    return path


@pytest.fixture(scope="module")
def arm(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Arm:
    return Arm(program_for(library, tmp_path_factory.mktemp("arm")))


def program_for(library: Path, folder: Path) -> Path:
    """run_cases.c with this library."""
    program = folder / "run_cases"
    flags = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-I", ROOT / "runtime/include"]
    link = ["-L", library.parent, f"-Wl,-rpath,{library.parent}", "-lminnow"]
    tool("aarch64-linux-gnu-gcc", *flags, Path(__file__).with_name("run_cases.c"), "-o", program, *link)
    return program


class Arm:
    """Runs models on the other processor."""

    def __init__(self, program: Path, cpu: str = "max") -> None:
        self.program = program
        self.command = ["qemu-aarch64-static", "-cpu", cpu, "-L", "/usr/aarch64-linux-gnu", program]

    def run(
        self, cases: Sequence[tuple[bytes, Sequence[Array]]], threads: int = 1, precision: int = HIGH
    ) -> list[list[Array] | str]:
        """The outputs of each file for its inputs, or the message of the error."""
        given = b"".join(case_bytes(file, a) for file, a in cases)
        options = struct.pack("<ii", threads, precision)
        done = subprocess.run(self.command, input=options + given, capture_output=True, check=False)
        assert done.returncode == 0, f"exit {done.returncode}: {done.stderr.decode(errors='replace')[-2000:]}"
        answers = Answers(done.stdout)
        return [answers.one() for _ in cases]


class ArmSession:
    """What tests use of a `minnow.Session`."""

    def __init__(self, arm: Arm, graph: Graph, threads: int) -> None:
        self.arm, self.file, self.threads = arm, encode(model_of(graph)), threads

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        (out,) = self.arm.run([(self.file, list(feeds.values()))], self.threads)
        assert not isinstance(out, str), out
        return {f"out{i}": a for i, a in enumerate(out)}


@pytest.mark.parametrize("op", NATIVE_OPS, ids=str)
def test_op(op: Op, arm: Arm) -> None:
    """All samples of the registry: operands as inputs of the model, and all but the first as constants."""
    samples: list[tuple[Sample, int]] = []
    cases = []
    for sample in op.cases():
        n = len(sample.inputs)
        for constant in sorted({n, min(n, 1)}):
            graph = graph_of_node(op, sample.inputs, sample.attrs, sample.n_outputs, constant)
            cases.append((encode(model_of(graph)), fed(sample.inputs, constant)))
            samples.append((sample, constant))
    for threads in (1, 2):
        for (sample, constant), got in zip(samples, arm.run(cases, threads), strict=True):
            what = f"{op.name} {sample}, constant from operand {constant}, {threads} threads"
            assert not isinstance(got, str), f"{what}: {got}"
            want = op.evaluate(sample.inputs, sample.attrs)[: sample.n_outputs]
            for g, w in zip(got, want, strict=True):
                assert_close(g, w, 2, what)


@pytest.mark.parametrize("seed", range(0, 120, 3))
def test_random_graph(seed: int, arm: Arm) -> None:
    grower = grown(seed, 6 + seed % 20)
    check(grower.graph, grower.inputs, ArmSession(arm, grower.graph, 1 + seed % 2), scale=20)


def cases_of(name: str) -> Any:
    """A module of the tests of the engine, for the cases it has."""
    spec = importlib.util.spec_from_file_location(name, ROOT / f"tests/kernels/test_{name}.py")
    assert spec
    assert spec.loader
    module = sys.modules.setdefault(spec.name, importlib.util.module_from_spec(spec))
    spec.loader.exec_module(module)
    return module


def cosine(a: Array, b: Array) -> float:
    a, b = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("cpu", [NEWEST, OLDEST])
@pytest.mark.parametrize("precision", [HIGH, LOW], ids=["high", "low"])
def test_dense_schemes(precision: int, cpu: str, threads: int, arm: Arm) -> None:
    arm, module = Arm(arm.program, cpu), cases_of("dense_schemes")
    names, files, wants = [], [], []
    for name, op, inputs, attrs in module.cases():
        if op.endswith("Pool"):  # without the attributes that a file has; the samples of the registry have them
            continue
        for constant in (1, len(inputs)):
            files.append((encode(model_of(graph_of_node(get(op), inputs, attrs, 1, constant))), fed(inputs, constant)))
            names.append(f"{name}, weights {'constant' if constant == 1 else 'computed'}")
            wants.append((op, inputs, {"kernel_shape" if k == "kernel" else k: v for k, v in attrs.items()}))
    most = 1e-5 if precision == HIGH else 1e-2
    for name, want, got in zip(names, wants, arm.run(files, threads, precision), strict=True):
        assert not isinstance(got, str), f"{name}: {got}"
        exact = module.onnx_answer(*want)
        assert got[0].shape == exact.shape, name
        assert float(np.abs(got[0] - exact).max() / np.abs(exact).max()) < most, name
        assert precision == HIGH or cosine(got[0], exact) > 0.99999, name


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("cpu", [NEWEST, OLDEST])
def test_integer_products(cpu: str, threads: int, arm: Arm) -> None:
    names, files, wants = [], [], []
    for name, op, inputs, attrs, want in cases_of("integer_products").cases():
        for constant in (1, len(inputs)):
            files.append((encode(model_of(graph_of_node(get(op), inputs, attrs, 1, constant))), fed(inputs, constant)))
            names.append(f"{name}, {'constants' if constant == 1 else 'computed'}")
            wants.append(want)
    for name, want, got in zip(names, wants, Arm(arm.program, cpu).run(files, threads), strict=True):
        assert not isinstance(got, str), f"{name}: {got}"
        assert np.array_equal(got[0], want), name


def test_low_precision_is_that_of_f16_where_there_is_f16(arm: Arm) -> None:
    rng = np.random.default_rng(1)
    x, w = rng.standard_normal((40, 300)).astype(np.float32), rng.standard_normal((300, 70)).astype(np.float32)
    case = (encode(model_of(graph_of_node(get("MatMul"), [x, w], {}, 1, 1))), [x])
    error = {}
    for cpu in (NEWEST, OLDEST):
        (got,) = Arm(arm.program, cpu).run([case], precision=LOW)
        assert not isinstance(got, str), got
        error[cpu] = float(np.abs(got[0] - x.astype(np.float64) @ w).max())
    assert error[OLDEST] < 1e-3 < error[NEWEST]


@pytest.mark.parametrize("size", [6e4, 1.0, 1e-3])
@pytest.mark.parametrize("weight", [1e6, 1.0, 1e-9])
def test_sums_of_f16_neither_overflow_nor_vanish(size: float, weight: float, arm: Arm) -> None:
    """The worst case for sums: as large as numbers of f16 can be, all of one sign."""
    rng = np.random.default_rng(2)
    x = np.float32(size) * rng.uniform(0.5, 1, (33, 515)).astype(np.float32)
    w = np.float32(weight) * rng.uniform(0.5, 1, (515, 29)).astype(np.float32)
    case = (encode(model_of(graph_of_node(get("MatMul"), [x, w], {}, 1, 1))), [x])
    (got,) = arm.run([case], precision=LOW)
    assert not isinstance(got, str), got
    exact = x.astype(np.float64) @ w
    assert np.abs(got[0] / exact - 1).max() < 1e-2


def images(model: Path, batch: int) -> Array:
    shape = [d if isinstance(d, int) else batch for d in minnow.load(model).inputs[0].shape or ()]
    return np.random.default_rng(0).random(shape, np.float32)


def test_a_converted_model_gives_the_same_answer_on_both_processors(arm: Arm, digits: Path) -> None:
    session, x = minnow.load(digits), images(digits, 3)
    (got,) = arm.run([(digits.read_bytes(), [x])])
    assert not isinstance(got, str), got
    for g, w in zip(got, session.run({session.inputs[0].name: x}).values(), strict=True):
        assert_close(g, w, 2)


def test_the_library_is_small(library: Path, tmp_path: Path) -> None:
    stripped = tmp_path / "libminnow.so"
    tool("aarch64-linux-gnu-strip", library, "-o", stripped)
    assert stripped.stat().st_size < MOST_BYTES


def test_a_slim_library_is_small_and_gives_the_same_answers(arm: Arm, digits: Path, tmp_path: Path) -> None:
    folder = BUILD.with_name("slim-aarch64")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        tool(sys.executable, ROOT / "cmake/slim.py", "--aarch64", "--folder", folder, digits)
    library = folder / "libminnow.so"
    assert library.stat().st_size <= MOST_SLIM_BYTES
    slim = Arm(program_for(library, tmp_path))
    for batch in (1, 3):
        case = (digits.read_bytes(), [images(digits, batch)])
        (want,), (got,) = arm.run([case]), slim.run([case])
        assert not isinstance(want, str), want
        assert not isinstance(got, str), got
        assert [a.tobytes() for a in got] == [a.tobytes() for a in want]
    tangents = encode(model_of(graph_of_node(get("Tan"), [np.zeros(3, np.float32)], {}, 1, 1)))
    (refused,) = slim.run([(tangents, [np.zeros(3, np.float32)])])
    assert isinstance(refused, str)
    assert "this slim build, made for other models, has no kernel" in refused
