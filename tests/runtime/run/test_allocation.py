"""A run whose shapes are those of the run before allocates nothing: what it needs was planned."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from engine_oracle import graph_of, model_of
from sampling import one_in

from minnow.schema.ir import Graph
from minnow.schema.mnn import encode
from minnow.schema.ops import Op, Sample, Trait, all_ops

HERE = Path(__file__).parent
SAMPLES = 4  # of each op

# Their results have sizes that only the run finds, or their operands are sizes themselves.
SIZES_AT_RUN_TIME = {
    "ArgWhere", "ConcatFromSequence", "Fill", "MelWeightMatrix", "NonMaxSuppression", "NonZero", "RandomNormal",
    "RandomUniform", "Range", "SequenceAt", "SequenceErase", "Unique",
}  # fmt: skip
# Rare ones, which read their attributes with each run, or sort and count in containers.
CONTAINERS = {"Col2Im", "LpPool", "STFT", "TfIdf"}
MAY_ALLOCATE = SIZES_AT_RUN_TIME | CONTAINERS


def models() -> list[tuple[Op, Sample, Graph, list[np.ndarray]]]:
    """Ops with all operands but the first constant, as in models."""
    found = []
    for op in all_ops():
        if Trait.CONTROL_FLOW in op.traits or op.name in ("Raw", "Fail"):
            continue
        fit = [s for s in op.cases() if all(a is None or a.dtype.isbuiltin == 1 for a in s.inputs)]
        found += [(op, s, *graph_of(op, s, min(len(s.inputs), 1))) for s in fit[:SAMPLES]]
    return found[:: one_in(3)]


@pytest.fixture(scope="module")
def hook(tmp_path_factory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("needs a C compiler, and glibc")
    library = tmp_path_factory.mktemp("hook") / "hook.so"
    done = subprocess.run(
        [compiler, "-O1", "-fPIC", "-shared", HERE / "allocation_hook.c", "-o", library],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        pytest.skip(f"the hook cannot be built here: {done.stderr[:200]}")
    return library


def count(hook: Path, threads: int, paths: list[Path]) -> list[list[int] | None]:
    path = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(HERE / "allocation_worker.py"), str(hook), str(threads)], check=False,
        input="".join(f"{p}\n" for p in paths), env={**os.environ, "LD_PRELOAD": str(hook), "PYTHONPATH": path},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("threads", [1, 2])
def test_a_run_allocates_nothing(hook, tmp_path, threads):
    cases = models()
    paths = []
    for i, (_, _, graph, feeds) in enumerate(cases):
        path = tmp_path / f"{i}.mnn"
        path.write_bytes(encode(model_of(graph)))
        np.savez(f"{path}.npz", **{f"in{k}": a for k, a in enumerate(feeds)})
        paths.append(path)
    counts = count(hook, threads, paths)
    assert len(counts) == len(cases)
    assert sum(c is None for c in counts) == 0
    # In each of the runs: now and then another thread of the process has business of its own in one of them.
    wrong = {(op.name, str(sample)): c for (op, sample, *_), c in zip(cases, counts, strict=True) if c and all(c)}
    assert " ".join(sorted({name for name, _ in wrong} - MAY_ALLOCATE)) == ""


def test_the_hook_counts(hook, tmp_path):
    """An op that must allocate is seen to."""
    from minnow.schema.ops import get

    op = get("NonZero")
    graph, feeds = graph_of(op, next(iter(op.cases())), 1)
    path = tmp_path / "model.mnn"
    path.write_bytes(encode(model_of(graph)))
    np.savez(f"{path}.npz", in0=feeds[0])
    [counts] = count(hook, 1, [path])
    assert counts is not None
    assert min(counts) > 0
