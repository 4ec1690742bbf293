"""Small sound files to start fuzzing from: samples of all ops for both targets, random graphs, what the engine's own
tests load, files that mean harm.

`python tests/fuzz/seeds.py TARGET FOLDER` writes those of a target; FOLDER/done says that it has finished.
"""

from __future__ import annotations

import contextlib
import hashlib
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests" / name) for name in ("", "hostile", "models", "runtime")]

import numpy as np  # noqa: E402
import pytest  # noqa: E402
from engine_oracle import graph_of, model_of  # noqa: E402
from fuzz import rare  # noqa: E402
from graph_grower import grown  # noqa: E402
from hostile_files import all_files  # noqa: E402

import minnow  # noqa: E402
from minnow.errors import MinnowError  # noqa: E402
from minnow.optimizer.pipeline import optimize  # noqa: E402
from minnow.schema.ir import DType, Graph, Model, State, TensorType  # noqa: E402
from minnow.schema.mnn import encode  # noqa: E402
from minnow.schema.ops import Builder, all_ops  # noqa: E402

MOST_BYTES = 8192
MOST_SAMPLES = 4
LOADING_TESTS = ["decode", "model/test_compressed_weights.py", "run", "plan"]


def samples() -> Iterator[bytes]:
    """Each op with its first operand as an input and with all of them; for Minnow's engine, and for every runtime."""
    for op in all_ops():
        with contextlib.suppress(Exception):  # control flow has samples that need more than one node
            for sample in islice(op.cases(), MOST_SAMPLES):
                n = len(sample.inputs)
                for first_constant in sorted({n, min(n, 1)}):
                    graph, _ = graph_of(op, sample, first_constant)
                    yield encode(model_of(graph))
                    with contextlib.suppress(MinnowError):
                        model = model_of(graph_of(op, sample, first_constant)[0])
                        optimize(model, target="mnn")
                        yield encode(model)


def random_graphs() -> Iterator[bytes]:
    for seed in range(20):
        yield encode(model_of(grown(seed, 8).graph))


class Recorder:
    """A plugin of pytest that keeps what tests load."""

    def __init__(self) -> None:
        self.files: list[bytes] = []
        self.real = minnow.load

    def load(self, file: Any, *args: Any, **options: Any) -> Any:
        with contextlib.suppress(OSError):
            self.files.append(bytes(file) if isinstance(file, (bytes, bytearray)) else Path(file).read_bytes())
        return self.real(file, *args, **options)

    def pytest_collection_finish(self) -> None:
        minnow.load = self.load  # type: ignore[assignment]


def loaded_by_tests() -> list[bytes]:
    recorder = Recorder()
    folder = ROOT / "tests" / "runtime"
    pytest.main(
        ["-q", "--no-header", "-p", "no:xdist", "-p", "no:cacheprovider", "-m", "not slow", "--rootdir", str(ROOT)]
        + [str(folder / name) for name in LOADING_TESTS],
        plugins=[recorder],
    )
    return recorder.files


def of_releases() -> Iterator[bytes]:
    """What MNN's own converter wrote: ops that we read and do not write."""
    yield from (path.read_bytes() for path in sorted((ROOT / "tests" / "interop" / "files").glob("*/*.mnn")))


def of_model() -> Iterator[bytes]:
    yield from of_releases()
    yield from rare.files()
    yield from samples()
    yield from random_graphs()
    yield from (make() for make in all_files().values())
    yield from loaded_by_tests()


def stateful() -> Model:
    """total += x; count += 1."""
    graph = Graph()
    x, total = (graph.add_param(TensorType(DType.F32, (2, 3)), name) for name in ("x", "total"))
    count = graph.add_param(TensorType(DType.I64, ()), "count")
    b = Builder(graph)
    graph.outputs = [b.Add(total, x), b.Add(count, np.int64(1)), b.Mul(total, x)]
    names = ["total_out", "count_out", "y"]
    states = [
        State("total", "total_out", np.ones((2, 3), np.float32)),
        State("count", "count_out", np.zeros((), np.int64)),
    ]
    types = [(name, v.type) for name, v in zip(names, graph.outputs, strict=True)]
    return Model(graph, [(p.name, p.type) for p in graph.params], types, states=states)


SEEDS: dict[str, Callable[[], Iterator[bytes]]] = {
    "model": of_model,
    # The target makes the file of the model beside it, which depends on the engine.
    "packed": lambda: iter([b""]),
    "saved": lambda: iter([b"MNNSTATE"]),  # the target makes the others
    "state": lambda: iter([bytes(64), bytes(range(1, 255))]),
}
MODELS: dict[str, Callable[[], Model]] = {
    "packed": lambda: model_of(grown(39, 25).graph),
    "saved": stateful,
    "state": stateful,
}
"""What targets load that change other files than the model's."""


def main(target: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if target in MODELS:
        folder.with_name(f"{target}.mnn").write_bytes(encode(MODELS[target]()))
    for data in SEEDS[target]():
        if len(data) <= MOST_BYTES:
            (folder / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
    (folder / "done").touch()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
