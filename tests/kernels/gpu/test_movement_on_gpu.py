"""What moves elements on a GPU: sizes at which copies are tiled and widened, and errors in contents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minnow.runtime import _engine
from minnow.schema.errors import MinnowError, UnsupportedError
from minnow.schema.ops import get
from tests.kernels.gpu.test_ops_on_gpu import DEVICES, is_there
from tests.kernels.test_ops import arrays, plain

TYPES = [np.uint8, np.float16, np.float32, np.int64]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    if not is_there(request.param):
        pytest.skip(f"this machine has no {request.param}")
    return request.param


def assert_moved(device: str, name: str, attrs: dict[str, Any], inputs: list[np.ndarray]) -> None:
    """Exactly what the reference gives, whether the operands are constants or not."""
    want = get(name).evaluate(inputs, attrs)
    for constants in (False, True):
        got = _engine.run_op(name, attrs, inputs, len(want), 1, constants=constants, device=device)
        for a, b in zip(got, want, strict=True):
            np.testing.assert_array_equal(np.asarray(a), b, err_msg=f"{name} {attrs} {[i.shape for i in inputs]}")


def numbers(shape: tuple[int, ...], dtype: type = np.float32) -> np.ndarray:
    return np.random.default_rng(len(shape)).integers(0, 100, shape).astype(dtype)


@pytest.mark.parametrize("dtype", TYPES)
def test_tiled_transposes(device: str, dtype: type) -> None:
    for shape, perm in (
        ((33, 65), [1, 0]),
        ((3, 17, 40), [0, 2, 1]),
        ((2, 3, 19, 37), [0, 2, 3, 1]),
        ((2, 33, 5, 34), [3, 0, 2, 1]),
        ((2, 70, 16, 6), [0, 2, 1, 3]),
    ):
        assert_moved(device, "Transpose", {"perm": perm}, [numbers(shape, dtype)])


@pytest.mark.parametrize("dtype", TYPES)
def test_runs_of_all_lengths(device: str, dtype: type) -> None:
    """Those that are moved as larger elements, and those that begin where these could not."""
    x = numbers((5, 24), dtype)
    for begin, end, step in ((0, 24, 1), (8, 16, 1), (1, 9, 1), (4, 23, 1), (2, 24, 2), (-1, -25, -3)):
        operands = [np.array([v], np.int64) for v in (begin, end, 1, step)]
        assert_moved(device, "Slice", {}, [x, *operands])
    for width in (1, 2, 3, 4, 8, 16):
        assert_moved(device, "Gather", {"axis": 0}, [x[:, :width].copy(), np.array([[4, -1], [0, 2]], np.int32)])
        assert_moved(device, "Concat", {"axis": 1}, [x[:, :width].copy(), x, x[:, :3].copy()])
        assert_moved(device, "Tile", {}, [x[:, :width].copy(), np.array([2, 3], np.int64)])


@pytest.mark.slow
def test_random_regions(device: str) -> None:
    rng = np.random.default_rng(7)
    for _ in range(100):
        rank = int(rng.integers(1, 6))
        shape = tuple(int(d) for d in rng.choice([1, 2, 3, 8, 17, 33], rank, p=[0.1, 0.2, 0.2, 0.2, 0.2, 0.1]))
        x = numbers(shape, TYPES[int(rng.integers(4))])
        assert_moved(device, "Transpose", {"perm": [int(i) for i in rng.permutation(rank)]}, [x])
        axis = int(rng.integers(rank))
        index = rng.integers(-shape[axis], shape[axis], tuple(rng.integers(1, 4, int(rng.integers(0, 3)))))
        assert_moved(device, "Gather", {"axis": axis}, [x, np.asarray(index, np.int64)])
        pads = rng.integers(-1, 3, 2 * rank)
        pads = np.where(np.repeat(shape, 2) < 3, np.abs(pads), pads).astype(np.int64)
        for mode in ("constant", "edge", "reflect", "wrap"):
            assert_moved(device, "Pad", {"mode": mode}, [x, pads])


FAULTS: list[tuple[str, dict[str, Any], list[np.ndarray]]] = [
    ("Gather", {"axis": 1}, [numbers((3, 4)), np.array([0, -5, 1])]),
    ("Gather", {"axis": 0}, [numbers((3, 4)), np.array([2**40])]),
    ("Gather", {"axis": 0}, [numbers((3, 4)), np.array([[0], [3]], np.int32)]),
    ("GatherElements", {"axis": 1}, [numbers((2, 4)), np.array([[0, 3], [4, 1]])]),
    ("GatherND", {}, [numbers((2, 4, 3)), np.array([[0, 1], [1, -5]])]),
    ("ScatterElements", {"axis": 0}, [numbers((2, 4)), np.array([[0, 2]]), numbers((1, 2))]),
    ("ScatterND", {"reduction": "add"}, [numbers((2, 4)), np.array([[0], [-3]]), numbers((2, 4))]),
    ("ReverseSequence", {"time_axis": 0, "batch_axis": 1}, [numbers((4, 2)), np.array([2, 5])]),
]


@pytest.mark.parametrize(("name", "attrs", "inputs"), FAULTS, ids=[f[0] for f in FAULTS])
def test_wrong_contents_are_told_as_the_cpu_tells_them(
    device: str, name: str, attrs: dict[str, Any], inputs: list[np.ndarray]
) -> None:
    with pytest.raises(MinnowError) as on_cpu:
        _engine.run_op(name, attrs, inputs, 1)
    with pytest.raises(MinnowError) as on_device:
        _engine.run_op(name, attrs, inputs, 1, device=device)
    assert "outside" in str(on_device.value)
    assert str(on_device.value) == str(on_cpu.value)
    assert on_device.value.exit_code == on_cpu.value.exit_code


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_updates_of_one_place_come_in_their_order(device: str, reduction: str) -> None:
    rng = np.random.default_rng(5)
    for dtype in (np.float32, np.int8, np.uint32, np.int64, np.uint64):
        x, updates = numbers((7, 3), dtype), numbers((50, 3), dtype)
        attrs = {"reduction": reduction}
        assert_moved(device, "ScatterND", attrs, [x, rng.integers(-7, 7, (50, 1)), updates])
        rows = rng.integers(0, 7, (50, 3))
        assert_moved(device, "ScatterElements", {**attrs, "axis": 0}, [x, rows, updates])


@pytest.mark.parametrize(("name", "why"), [("NonZero", "depends on contents"), ("SequenceAt", "lists of tensors")])
def test_what_stays_on_the_cpu_says_why(device: str, name: str, why: str) -> None:
    sample = next(get(name).cases())
    with pytest.raises(UnsupportedError, match=why):
        _engine.run_op(name, plain(sample.attrs), arrays(sample), sample.n_outputs, device=device)
