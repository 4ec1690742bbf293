"""Ops that select or copy bytes, on each instruction set, against numpy: sizes on both sides of those of vectors."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from minnow.runtime import _engine

ISAS = ("avx512", "avx2", "sse4")
TYPES = [np.int8, np.uint8]
Array = np.ndarray[Any, Any]
SIZES = [0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 131, 255, 257, 600, 1021]


def any_bytes(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any, narrow: bool) -> Array:
    """All bytes, or only the upper ones, beside which a maximum that begins with a 0 or ends too far would be seen."""
    low = 0 if narrow and dtype is np.uint8 else np.iinfo(dtype).min
    high = -100 if narrow and dtype is np.int8 else 40 if narrow else np.iinfo(dtype).max + 1
    return rng.integers(low, high, shape).astype(dtype)


def run(op: str, attrs: dict[str, Any], *operands: Array, threads: int = 1) -> Array:
    result: Array = _engine.run_op(op, attrs, list(operands), 1, threads, False)[0]
    return result


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("op", ["ReduceMax", "ReduceMin"])
def test_greatest_and_least(op, dtype):
    rng = np.random.default_rng(0)
    of = np.max if op == "ReduceMax" else np.min
    shapes = [((3, n), axes) for n in SIZES for axes in ((0,), (1,), (0, 1))]
    shapes += [((2, n, 3, 5), axes) for n in SIZES for axes in ((1,), (1, 2), (0, 2), (1, 3), (0, 3), (3,))]
    shapes += [((5, 7, n), axes) for n in (1, 21, 64, 1280) for axes in ((0,), (1,), (0, 1), (2,), (0, 2))]
    shapes += [((0, 4), (0,)), ((4, 0), (0,)), ((), ()), ((70000,), (0,)), ((2, 1, 40000), (0, 2)), ((3000, 9), (1,))]
    for k, (shape, axes) in enumerate(shapes):
        x = any_bytes(rng, shape, dtype, k % 2 == 1)
        ends = np.iinfo(dtype)
        want = of(x, axis=axes, keepdims=True, initial=ends.min if op == "ReduceMax" else ends.max)
        for threads in 1, 3:
            got = run(op, {"axes": list(axes), "keepdims": True}, x, threads=threads)
            np.testing.assert_array_equal(got, want, err_msg=f"{shape} {axes}", strict=True)


@pytest.mark.parametrize("dtype", TYPES)
def test_maxima_of_windows(dtype):
    rng = np.random.default_rng(1)
    least = np.iinfo(dtype).min
    for k, n in enumerate(s for s in SIZES if s > 2):
        for kernel, stride, pad, dilation in (2, 2, 0, 1), (3, 1, 1, 1), (3, 2, 1, 1), (2, 1, 0, 3), (3, 3, 1, 1):
            span = (kernel - 1) * dilation + 1
            x = any_bytes(rng, (2, 3, 6, n), dtype, k % 2 == 1)
            padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=least)
            if padded.shape[-1] < span or padded.shape[-2] < span:
                continue
            windows = np.lib.stride_tricks.sliding_window_view(padded, (span, span), (2, 3))
            want = windows[:, :, ::stride, ::stride, ::dilation, ::dilation].max((-2, -1))
            attrs = {"kernel": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4, "dilations": [dilation] * 2}
            for threads in 1, 3:
                got = run("MaxPool", attrs, x, threads=threads)
                np.testing.assert_array_equal(got, want, err_msg=f"{n} {attrs}", strict=True)


@pytest.mark.parametrize("dtype", TYPES)
def test_images_of_twice_the_size(dtype):
    rng = np.random.default_rng(2)
    attrs = {"mode": "nearest", "coordinate_mode": "asymmetric", "nearest_mode": "floor"}
    for n in SIZES[1:]:
        for times in (1, 1, 1, 2), (1, 1, 2, 2), (1, 1, 3, 2), (1, 2, 1, 2), (1, 2, 2, 2), (1, 1, 2, 1), (2, 1, 2, 2):
            x = any_bytes(rng, (1, 2, 3, n), dtype, False)
            want = x
            for axis, k in enumerate(times):
                want = np.repeat(want, k, axis)
            sizes = np.array(want.shape, np.int64)
            for threads in 1, 3:
                got = run("Resize", attrs, x, np.zeros(0, np.float32), np.zeros(0, np.float32), sizes, threads=threads)
                np.testing.assert_array_equal(got, want, err_msg=f"{n} {times}", strict=True)


@pytest.mark.parametrize("isa", ISAS)
def test_each_instruction_set(isa):
    env = {**os.environ, "MINNOW_ISA": isa}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n0", "-k", "not instruction", __file__]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if "this machine has no such instruction set" in done.stdout + done.stderr:
        pytest.skip(f"this processor has no {isa}")
    assert done.returncode == 0, done.stdout + done.stderr
