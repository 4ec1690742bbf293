"""The thread pool by itself: a program that loops, nests, forks and ends pools from many threads checks each block."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import minnow
from minnow.schema.ir import DType, Graph, Model, TensorType
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder

ROOT = Path(__file__).parents[2]


BUILDS = [(["-O2"], ["300", "fork"]), (["-O1", "-g", "-fsanitize=thread"], ["30"])]


@pytest.mark.parametrize(("flags", "rounds"), BUILDS)
def test_every_block_is_done_once(tmp_path, flags, rounds):
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("needs a C++ compiler")
    sources = [
        Path(__file__).with_name("thread_pool_stress.cpp"),
        ROOT / "kernels/core/thread_pool.cpp",
        ROOT / "kernels/core/worker_placement.cpp",
        ROOT / "kernels/core/status.cpp",
        ROOT / "kernels/core/interrupt.cpp",
    ]
    program = tmp_path / "stress"
    built = subprocess.run(
        [compiler, "-std=c++17", *flags, f"-I{ROOT}", *sources, "-o", program, "-pthread"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if built.returncode != 0 and "tsan" in built.stderr:
        pytest.skip("the compiler comes without this sanitizer")
    assert built.returncode == 0, built.stderr
    done = subprocess.run([program, *rounds], capture_output=True, text=True, timeout=300, check=False)
    if "unexpected memory mapping" in done.stderr:
        pytest.skip("this sanitizer cannot run under this kernel")
    assert (done.returncode, done.stderr) == (0, "")


def wide_model(seed: int) -> bytes:
    rng = np.random.default_rng(seed)
    graph = Graph()
    x = graph.add_param(TensorType(DType.F32, (1, 24, 37, 29)))
    b = Builder(graph)
    y = x
    for _ in range(4):
        w = (rng.standard_normal((24, 24, 3, 3)) / 15).astype(np.float32)
        y = b.Relu(b.Conv(y, w, strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1)))
    graph.outputs = [y]
    return encode(Model(graph, [("x", x.type)], [("y", y.type)]))


def test_sessions_of_all_sizes_run_side_by_side():
    data = [wide_model(seed) for seed in range(3)]
    inputs = {"x": np.random.default_rng(9).standard_normal((1, 24, 37, 29)).astype(np.float32)}
    alone = [minnow.load(d, threads=1).run(inputs)["y"] for d in data]
    wrong: list[str] = []

    def work(k: int) -> None:
        for round_ in range(4):  # sessions come and go while others run
            session = minnow.load(data[k % 3], threads=1 + (k + round_) % 5)
            results = [session.run(inputs)["y"] for _ in range(10)]
            if not all(np.allclose(y, alone[k % 3], rtol=0, atol=1e-5) for y in results):
                wrong.append(f"caller {k}, round {round_}")

    callers = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert wrong == []
