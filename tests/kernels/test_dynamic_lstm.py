"""LSTM with weights of 8 bits, whose rows are quantized by their own ranges: the engine, the reference, onnxruntime."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper
from onnx_oracle import exact_session

from minnow.runtime import _engine
from minnow.schema.ops import get

Array = np.ndarray[Any, Any]


def layer(batch: int, hidden: int, steps: int, features: int, kind: Any = np.int8, directions: int = 1,
          each: bool = False, zeros: bool = False, full: bool = True) -> list[Array | None]:  # fmt: skip
    rng = np.random.default_rng(hidden + 100 * batch + steps)
    d, columns = directions, 4 * hidden
    shape = (d, columns) if each else (d,)

    def floats(*shape: int) -> Array:
        return rng.standard_normal(shape).astype(np.float32)

    def weights(k: int) -> Array:
        return (rng.standard_normal((d, k, columns)) * 40).clip(-128, 127).astype(np.int8).view(kind) ^ kind(
            0 if kind is np.int8 else 128
        )

    def scale(k: int) -> Array:
        return ((rng.random(shape) + 0.5) / 40 / np.sqrt(k)).astype(np.float32)

    def middle() -> Array | None:
        number = 0 if kind is np.int8 else 128
        return (number + rng.integers(-5, 6, shape)).astype(kind) if zeros else np.full(shape, number, kind)

    lens = rng.integers(0, steps + 1, batch).astype(np.int32) if full else None
    rest = [floats(d, batch, hidden), floats(d, batch, hidden), floats(d, 3 * hidden)] if full else [None] * 3
    return [floats(steps, batch, features), weights(features), weights(hidden), floats(d, 8 * hidden), lens, *rest,
            scale(features), scale(hidden), middle(), middle()]  # fmt: skip


def run(operands: list[Array | None], attrs: dict[str, Any], threads: int = 1, packed: bool = False) -> list[Array]:
    return [np.asarray(a) for a in _engine.run_op("DynamicLSTM", attrs, operands, 3, threads, packed)]


def attrs_of(hidden: int, directions: int = 1) -> dict[str, Any]:
    return {"hidden": hidden, "direction": "forward" if directions == 1 else "bidirectional"}


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("batch", "hidden", "features"), [(1, 517, 31), (2, 96, 300), (5, 65, 7), (70, 33, 1030)])
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("kind", [np.int8, np.uint8])
@pytest.mark.parametrize("directions", [1, 2])
def test_first_steps(batch: int, hidden: int, features: int, threads: int, kind: Any, directions: int) -> None:
    """With given states: no difference in the last bit of an activation can make another integer of it."""
    operands = layer(batch, hidden, 1, features, kind, directions, each=batch % 2 == 0, zeros=True)
    want = get("DynamicLSTM").evaluate(operands, attrs_of(hidden, directions))
    for packed in (False, True):
        for a, b in zip(run(operands, attrs_of(hidden, directions), threads, packed), want, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-5)


def test_threads_do_not_change_the_numbers() -> None:
    operands = layer(2, 530, 20, 64)
    one, *more = (run(operands, attrs_of(530), threads, True) for threads in (1, 2, 3, 2))
    for other in more:
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)


# What each instruction set multiplies bytes with.
UNITS = [{"MINNOW_INT8": "emulated"}, {"MINNOW_INT8": "avx512"}, {"MINNOW_INT8": "none"}, {"MINNOW_ISA": "avx2"},
         {"MINNOW_ISA": "sse4"}]  # fmt: skip


@pytest.mark.parametrize("unit", UNITS, ids=lambda u: "-".join(u.values()))
def test_units_give_the_same(unit: dict[str, str]) -> None:
    code = "from kernels import test_dynamic_lstm as t; t.test_first_steps(3, 101, 67, 2, t.np.uint8, 2)"
    environment = {**os.environ, **unit, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    if "no such unit" in done.stderr:
        pytest.skip("this machine has no such unit")
    assert done.returncode == 0, done.stderr


def onnxruntimes(operands: list[Array | None], hidden: int) -> Array:
    names = ["x", "w", "r", "b", "", "", "", "", "ws", "wz", "rs", "rz"]
    order = [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 9, 11]
    constants = [
        numpy_helper.from_array(operands[i], n) for n, i in zip(names, order, strict=True) if n not in ("", "x")
    ]
    node = helper.make_node("DynamicQuantizeLSTM", names, ["y"], domain="com.microsoft", hidden_size=hidden)
    ends = [[helper.make_tensor_value_info(n, 1, None)] for n in "xy"]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(helper.make_graph([node], "g", *ends, constants), opset_imports=opsets, ir_version=8)
    (y,) = exact_session(model).run(None, {"x": operands[0]})
    return np.asarray(y)


@pytest.mark.parametrize("each", [False, True], ids=["one scale", "one for each column"])
@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_one_row_is_onnxruntimes(kind: Any, each: bool) -> None:
    operands = layer(1, 37, 1, 29, kind, each=each, full=False)
    want = onnxruntimes(operands, 37)
    (reference, _, _) = get("DynamicLSTM").evaluate(operands, attrs_of(37))
    np.testing.assert_allclose(reference, want, atol=2e-6)
    np.testing.assert_allclose(run(operands, attrs_of(37))[0], want, atol=2e-6)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("directions", [1, 2])
def test_rows_of_one_range(threads: int, directions: int) -> None:
    """First steps only: see test_first_steps. The batch is not divided among threads, which would see other ranges."""
    operands = layer(9, 65, 1, 70, np.uint8, directions, zeros=True)
    attrs = {**attrs_of(65, directions), "one_range": True}
    want = get("DynamicLSTM").evaluate(operands, attrs)
    for a, b in zip(run(operands, attrs, threads, True), want, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_with_one_range_many_steps_are_onnxruntimes() -> None:
    """But for what the last bit of an activation makes another integer of: much less than what all rounding does."""
    operands = layer(1, 64, 30, 48, full=False)
    operands[0] *= np.linspace(0.05, 3, 30, dtype=np.float32)[:, None, None]
    want = onnxruntimes(operands, 64)
    got = run(operands, {**attrs_of(64), "one_range": True})[0]
    (reference, _, _) = get("DynamicLSTM").evaluate(operands, {**attrs_of(64), "one_range": True})
    other = run(operands, attrs_of(64))[0]
    far = np.sqrt(np.mean((other - want) ** 2))
    for near in (got, reference):
        assert np.sqrt(np.mean((near - want) ** 2)) < 0.3 * far


@pytest.mark.parametrize("batch", [1, 3])
def test_many_rows_are_nearer_to_floats_than_onnxruntimes(batch: int) -> None:
    operands = layer(batch, 64, 30, 48, full=False)
    operands[0] *= np.linspace(0.05, 3, 30, dtype=np.float32)[:, None, None]
    x, w, r, b, *_ = operands
    scales = [s[:, None, None] for s in operands[8:10]]
    plain = [(v.astype(np.float32) * s).transpose(0, 2, 1) for v, s in zip((w, r), scales, strict=True)]
    want = np.asarray(
        _engine.run_op("LSTM", attrs_of(64), [x, *(np.ascontiguousarray(v) for v in plain), b], 3, 1, False)[0]
    )
    errors = [np.sqrt(np.mean((y - want) ** 2)) for y in (run(operands, attrs_of(64))[0], onnxruntimes(operands, 64))]
    assert errors[0] < errors[1]
    (reference, _, _) = get("DynamicLSTM").evaluate(operands, attrs_of(64))
    assert np.sqrt(np.mean((reference - want) ** 2)) < errors[1]
