"""A session that runs a million times with changing shapes takes no more memory than after the first few thousand.

`python tests/runtime/run/test_many_runs.py RUNS` prints the resident memory after each tenth of the runs.
"""

from __future__ import annotations

import ctypes as c
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[3]
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / "tests" / name) for name in ("runtime", "hostile", "models")]

from capi import Options, tensor  # noqa: E402
from engine_oracle import f32, model_of  # noqa: E402
from hostile_files import concat, looped  # noqa: E402

from minnow.runtime import _engine  # noqa: E402
from minnow.schema.ir import Graph  # noqa: E402
from minnow.schema.mnn import encode  # noqa: E402
from minnow.schema.ops import Builder  # noqa: E402

SHAPES = 50
MOST_GROWTH = 1024  # KiB, from the first tenth of the runs to the last


def layers() -> bytes:
    rng = np.random.default_rng(0)
    graph = Graph()
    b = Builder(graph)
    x = graph.add_param(f32("n", 8))
    w = rng.standard_normal((8, 8)).astype(np.float32)
    graph.outputs = [b.Softmax(b.MatMul(b.Relu(b.MatMul(x, w)), w), axis=1)]
    return encode(model_of(graph))


def found() -> bytes:
    """Shapes that the run finds: a stage is planned for each."""
    graph = Graph()
    b = Builder(graph)
    x = graph.add_param(f32("n", 8))
    graph.outputs = [b.Cast(b.NonZero(b.Relu(x)), to=x.type.dtype)]
    return encode(model_of(graph))


MODELS = {
    "layers": layers,
    "found": found,
    "loop": lambda: looped(concat([2], 3), tensors=["same"], outs=[1, 3], trips=3),
}


def curve(name: str, runs: int, folder: Path) -> list[int]:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("needs a C compiler, and /proc")
    library = folder / "many_runs.so"
    source = Path(__file__).with_name("many_runs.c")
    include = f"-I{ROOT / 'runtime/include'}"
    subprocess.run([compiler, "-O1", "-fPIC", "-shared", include, source, "-o", library], check=True)
    api, own = c.CDLL(_engine.__file__), c.CDLL(str(library))
    own.many_runs.restype = c.c_long
    data = MODELS[name]()
    model, session = c.c_void_p(), c.c_void_p()
    assert api.minnow_load_memory(data, c.c_size_t(len(data)), c.byref(model)) == 0
    assert api.minnow_create_session(model, c.byref(Options(threads=1)), c.byref(session)) == 0
    numbers = np.random.default_rng(1).standard_normal((SHAPES, 8)).astype(np.float32)
    given = tensor(np.ones(1, np.float32) if name == "loop" else numbers)
    shapes = 1 if name == "loop" else SHAPES
    kib = (c.c_long * 11)()
    assert own.many_runs(api.minnow_run, session, c.byref(given), c.c_long(runs), c.c_long(shapes), kib) == runs
    api.minnow_free_session(session)
    api.minnow_free_model(model)
    return list(kib)


@pytest.mark.parametrize("runs", [20_000, pytest.param(200_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", MODELS)
def test_memory_stays_flat(name: str, runs: int, tmp_path: Path) -> None:
    kib = curve(name, runs, tmp_path)
    assert kib[10] - kib[1] < MOST_GROWTH, kib


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for name in MODELS:
            sys.stdout.write(f"{name}: {curve(name, int(sys.argv[1]), Path(folder))}\n")
