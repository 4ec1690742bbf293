"""The ops that a GPU computes, against their numpy reference on all samples of the registry, with guard zones.

The devices are those of `MINNOW_TEST_DEVICES`, or else what this machine has of OpenCL and Vulkan in software. A sample
that the device does not compute says why: it is counted, and an op of which no sample is computed fails.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from minnow.runtime import _engine
from minnow.schema.errors import DeviceError, UnsupportedError
from minnow.schema.ir import DType
from minnow.schema.ops import Op, Trait, get
from tests.kernels.test_ops import OPS, arrays, difference, plain

DEVICES = os.environ.get("MINNOW_TEST_DEVICES", "opencl,vulkan").split(",")
LOW = 2  # precision "low": f32 lies in the device's memory as f16
LOW_ROOM = 4e-3
LOW_MOST = 65504  # of f16
LOW_STEP = 6e-8  # between the least f16 numbers


def as_stored(a: np.ndarray | None) -> np.ndarray | None:
    """What precision "low" keeps of an f32 array: finite numbers stay finite."""
    if a is None or a.dtype != np.float32:
        return a
    with np.errstate(over="ignore"):
        return np.where(np.isinf(a), a, np.clip(a, -LOW_MOST, LOW_MOST)).astype(np.float16).astype(np.float32)


def is_there(device: str) -> bool:
    try:
        _engine.run_op("Identity", {}, [np.zeros(1, np.float32)], 1, device=device)
    except DeviceError as e:
        library = Path(_engine.__file__).with_name(f"libminnow_{device.partition(':')[0]}.so")
        # What was built has to load: no driver is a reason to skip tests, a missing symbol is not.
        if library.exists() and "library cannot be opened" in str(e):
            raise
        return False
    except UnsupportedError:
        pass
    return True


def check(
    name: str, device: str, precision: int = 0, packed: bool = False, constants: bool = False
) -> tuple[int, list[str], list[str]]:
    """Runs all samples, their operands as constants if that is so; gives how many were computed, what was refused and
    what is wrong."""
    computed, refused, failures = 0, [], []
    op = get(name)
    for sample in op.cases():
        call = (name, plain(sample.attrs), arrays(sample), sample.n_outputs, 1, packed)
        try:
            try:
                got = _engine.run_op(*call, constants=constants, precision=precision, device=device)
            except UnsupportedError:  # some take operands that are constants only
                got = _engine.run_op(*call, constants=True, precision=precision, device=device)
        except UnsupportedError as e:
            refused.append(f"{name} {sample}: {e}")
            continue
        except Exception as e:  # noqa: BLE001  (every error is a failure of the op, whatever its class)
            failures.append(f"{name} {sample}: {type(e).__name__}: {e}")
            continue
        computed += 1
        as_kept = [sample.inputs]
        if precision == LOW:  # what the host reads, such as the scales of a Resize, keeps its precision
            low = [as_stored(a) for a in sample.inputs]
            as_kept = [low, low[:1] + list(sample.inputs[1:]), sample.inputs]
        for inputs in as_kept:
            problems = problems_of(got, op.evaluate(inputs, sample.attrs), op, sample.rtol, precision)
            if not problems:
                break
        failures += [f"{name} {sample} {problem}" for problem in problems]
    return computed, refused, failures


def problems_of(got: list[object], wanted: list[np.ndarray], op: Op, rtol: float | None, precision: int) -> list[str]:
    """What is wrong with the results, by output."""
    problems = []
    for i, (a, b) in enumerate(zip(got, wanted, strict=False)):
        a, room = np.asarray(a), rtol
        if np.shape(a) == b.shape and precision == LOW and DType.of(b.dtype) is DType.F32:
            a, b, room = as_stored(a), as_stored(b), max(room or 0, LOW_ROOM)
            with np.errstate(invalid="ignore"):
                beyond = np.isinf(a) & (np.abs(b) == LOW_MOST) & (np.sign(a) == np.sign(b))
                a = np.where((np.abs(a - b) <= LOW_STEP) | beyond, b, a)
        if problem := difference(a, b, room, Trait.ELEMENTWISE in op.traits):
            problems.append(f"output {i}: {problem}")
    return problems


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    if not is_there(request.param):
        pytest.skip(f"this machine has no {request.param}")
    return request.param


@pytest.mark.parametrize("name", OPS)
def test_matches_the_reference(name: str, device: str) -> None:
    computed, refused, failures = check(name, device)
    assert not failures, "\n".join(failures)
    if computed == 0:
        assert refused or not list(get(name).cases())


@pytest.mark.slow
@pytest.mark.parametrize("name", OPS)
def test_matches_the_reference_with_low_precision(name: str, device: str) -> None:
    _, _, failures = check(name, device, LOW)
    assert not failures, "\n".join(failures)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in OPS if Trait.ELEMENTWISE in get(n).traits or n in ("Concat", "Resize")])
def test_matches_the_reference_in_packed_layout(name: str, device: str) -> None:
    """On devices that have one."""
    _, _, failures = check(name, device, packed=True)
    assert not failures, "\n".join(failures)


if __name__ == "__main__":
    import sys

    for given in sys.argv[1:] or DEVICES:
        for op_name in OPS:
            n, no, wrong = check(op_name, given)
            print(f"{given} {op_name}: {n} computed, {len(no)} refused, {len(wrong)} wrong")  # noqa: T201
            print("".join(f"    {line}\n" for line in (wrong + no)[:3]), end="")  # noqa: T201
