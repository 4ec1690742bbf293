"""MNN's own runtime as a judge: runs our files in an environment that has it, which MINNOW_MNN_PYTHON names.

Its Python package stays out of this process: importing parts of it contacts a server, and some files end its process.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minnow.schema.ir import Model
from minnow.schema.mnn import save

Array = np.ndarray[Any, Any]
PYTHON = os.environ.get("MINNOW_MNN_PYTHON", "")
needs_mnn = pytest.mark.skipif(not PYTHON, reason="MINNOW_MNN_PYTHON does not name a Python that has MNN")
WORKER = Path(__file__).parents[1] / "e2e" / "mnn_worker.py"


@dataclass
class Job:
    """A legalized model and what it is given, one array per input in the types of its graph's parameters."""

    model: Model
    inputs: Mapping[str, Array]
    side_file: bool = False


@dataclass
class File:
    """A file as it is, the one beside it, what it is given, and the outputs to ask for."""

    data: bytes
    inputs: Mapping[str, Array]
    outputs: Sequence[str]
    beside: bytes = b""


@dataclass
class Answer:
    """What MNN gave, or said instead."""

    outputs: list[Array] | None
    log: str = ""


def run(jobs: Sequence[Job | File], folder: Path, timeout: float = 600) -> list[Answer]:
    """Runs jobs in as few processes as possible; a job that ends the process has no outputs, the others do."""
    places = [folder / str(i) for i in range(len(jobs))]
    for job, place in zip(jobs, places, strict=True):
        place.mkdir(parents=True)
        _write(job, place) if isinstance(job, Job) else _copy(job, place)
    logs: dict[str, str] = {}
    todo = [str(p) for p in places]
    while todo:
        done = subprocess.run(
            [PYTHON, str(WORKER), *todo], capture_output=True, text=True, errors="replace", timeout=timeout, check=False
        )
        parts = done.stdout.split("job ")[1:]
        for part in parts:
            name, _, text = part.partition("\n")
            logs[name] = text.strip()
        if not parts:
            raise RuntimeError(f"{PYTHON} cannot run {WORKER.name}: {done.stderr[-2000:]}")
        if done.returncode:
            logs[todo[len(parts) - 1]] += f" (exit status {done.returncode}) {done.stderr.strip()[-300:]}"
        todo = todo[len(parts) :]
    return [_answer(place, logs[str(place)]) for place in places]


def _write(job: Job, place: Path) -> None:
    save(job.model, place / "model.mnn", side_file=job.side_file)
    arrays = {
        name: _as(np.asarray(job.inputs[name]), p.type.dtype.numpy)
        for (name, _), p in zip(job.model.inputs, job.model.graph.params, strict=True)
    }
    np.savez(place / "inputs.npz", **arrays)
    (place / "outputs.txt").write_text("\n".join(name for name, _ in job.model.outputs))


def _copy(job: File, place: Path) -> None:
    (place / "model.mnn").write_bytes(job.data)
    if job.beside:
        (place / "model.mnn.weight").write_bytes(job.beside)
    np.savez(place / "inputs.npz", **job.inputs)
    (place / "outputs.txt").write_text("\n".join(job.outputs))


def _as(array: Array, dtype: np.dtype[Any]) -> Array:
    """In the types of the file, whose integers end at 32 bits: bounds beyond mean the end anyway."""
    if array.dtype == np.int64 and dtype == np.int32:
        array = np.clip(array, -(2**31), 2**31 - 1)
    return array.astype(dtype)


def _answer(place: Path, log: str) -> Answer:
    if not (place / "results.npz").exists():
        return Answer(None, log)
    results = np.load(place / "results.npz")
    return Answer([results[f"arr_{i}"] for i in range(len(results.files))], log)
