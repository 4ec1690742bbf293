"""Every op of the engine against its numpy reference, on all samples of the registry, for each instruction set."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

import numpy as np
import pytest

from minnow.runtime import _engine
from minnow.schema.ir import DType
from minnow.schema.ops import Sample, Trait, all_ops, get

ISAS = ("avx512", "avx2", "sse4")

# Ops of the graph, which the engine runs by itself; not those that it takes apart when it plans.
OPS = [op.name for op in all_ops() if Trait.CONTROL_FLOW not in op.traits and op.name not in ("Raw", "DynamicLinear")]


def tolerance(dtype: np.dtype) -> float:
    """Room for rounding, as a fraction of the largest magnitude."""
    return {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-6, "float64": 1e-10}.get(dtype.name, 0.0)


def check(name: str, threads: int, packed: bool) -> list[str]:
    """Runs all samples of an op; gives a line per failure."""
    failures = []
    op = get(name)
    for sample in op.cases():
        try:
            got = _engine.run_op(name, plain(sample.attrs), arrays(sample), sample.n_outputs, threads, packed)
        except Exception as e:  # noqa: BLE001  (every error is a failure of the op, whatever its class)
            failures.append(f"{name} {sample}: {type(e).__name__}: {e}")
            continue
        want = op.evaluate(sample.inputs, sample.attrs)
        for i, (a, b) in enumerate(zip(got, want, strict=False)):
            if problem := difference(np.asarray(a), b, sample.rtol, Trait.ELEMENTWISE in op.traits):
                failures.append(f"{name} {sample} output {i}: {problem}")
    return failures


def arrays(sample: Sample) -> list[np.ndarray | None]:
    """The operands as the engine takes them: contiguous."""
    return [None if a is None else np.ascontiguousarray(a).reshape(a.shape) for a in sample.inputs]


def plain(attrs: dict) -> dict:
    """The attributes as the engine takes them: those that are None are left out."""
    return {k: v for k, v in attrs.items() if v is not None}


def difference(got: np.ndarray, want: np.ndarray, rtol: float | None, elementwise: bool) -> str:
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"is {got.dtype}{got.shape}, not {want.dtype}{want.shape}"
    if want.size == 0:
        return ""
    if DType.of(want.dtype).is_float:
        a, b = got.astype(np.float64), want.astype(np.float64)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        if same.all():
            return ""
        finite = b[np.isfinite(b)]
        scale = max(np.abs(finite).max(initial=0), 1e-30)
        room = rtol or tolerance(want.dtype)
        with np.errstate(invalid="ignore"):  # inf - inf: what is not finite must be the same
            error = np.abs(a - b)
        if elementwise:
            # Nothing cancels between elements, so each is judged by itself, down to the smallest normal number.
            wrong = ~same & ~(error <= 5 * room * np.abs(b) + np.finfo(np.float32).tiny)
        else:
            # Sums cancel: an error counts against the whole.
            wrong = ~same & ~(error <= room * scale)
        return (
            f"{wrong.sum()} of {wrong.size} wrong, worst {np.nanmax(error):.3g} of {scale:.3g}" if wrong.any() else ""
        )
    return "" if np.array_equal(got, want) else f"{(got != want).sum()} of {want.size} differ"


def test_the_engine_has_kernels():
    assert OPS
    assert not set(OPS) - set(_engine.op_traits())


@pytest.mark.parametrize("name", OPS)
def test_matches_the_reference(name):
    for threads, packed in itertools.product((1, 2), (False, True)):
        assert not check(name, threads, packed), f"{threads} threads, {'packed' if packed else 'plain'}"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("isa", ISAS)
def test_matches_the_reference_on_each_instruction_set(isa):
    # The choice is made once per process.
    done = subprocess.run(
        [sys.executable, __file__], env={**os.environ, "MINNOW_ISA": isa}, capture_output=True, text=True, check=False
    )
    if "this machine has no such instruction set" in done.stderr:
        pytest.skip(f"this processor has no {isa}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(isa)


@pytest.mark.parametrize("name", OPS)
def test_types_and_shapes_are_those_of_the_registry(name):
    for sample in get(name).cases():
        rows = _engine.infer_op(name, plain(sample.attrs), arrays(sample), sample.n_outputs)
        for row, want in zip(rows, get(name).evaluate(sample.inputs, sample.attrs), strict=False):
            assert (row[0], tuple(row[1])) == (want.dtype.name, want.shape), f"{name} {sample}"


if __name__ == "__main__":
    lines = [line for op_name in OPS for packed in (False, True) for line in check(op_name, 1, packed)]
    sys.stdout.write("\n".join([_engine.isa(), f"{len(OPS)} ops", *lines, ""]))
    sys.exit(bool(lines))
