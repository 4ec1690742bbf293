"""Ops that select, copy or multiply bytes, on each instruction set, with sizes on both sides of those of vectors.

What is selected or copied is compared with numpy, what is computed with the reference.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import minnow
from minnow.runtime import _engine
from minnow.schema.ir import DType, Graph, Model, TensorType
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder
from minnow.schema.registry.interpreter import evaluate

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


@pytest.mark.parametrize("dtype", TYPES)
def test_sums_of_rows(dtype):
    """Products with a column of ones, which are computed as sums."""
    rng = np.random.default_rng(4)
    for n in SIZES[1:]:
        for zeros in np.array(100, dtype), rng.integers(0, 100, 5).astype(dtype), None:
            x = any_bytes(rng, (2, 5, n), dtype, False)
            ones = np.ones((n, 1), dtype)
            less = 0 if zeros is None else zeros.astype(np.int64).reshape(-1, 1)
            want = (x.astype(np.int64) - less).sum(-1, keepdims=True).astype(np.int32)
            operands = [x, ones] if zeros is None else [x, ones, zeros]
            for threads in 1, 3:
                (got,) = _engine.run_op("MatMulInteger", {}, operands, threads=threads, constants=True)
                np.testing.assert_array_equal(np.asarray(got), want, err_msg=f"{n} {zeros}", strict=True)


def product(x: DType, y: DType, shape: tuple[int, ...], zeros: list[int], fixed: tuple[int, int], to: DType) -> Graph:
    """As converted from TFLite: bytes less their zero points, multiplied and requantized."""
    graph = Graph()
    b = Builder(graph)
    terms = []
    for name, dtype, dims, zero in ("x", x, shape, zeros[0]), ("y", y, shape[1:], zeros[1]):
        term = graph.add_param(TensorType(dtype, dims), name)
        terms.append(b.LookUp(term, (np.arange(256) + np.iinfo(dtype.numpy).min - zero).astype(np.int32)))
    factor = [np.int32(n) for n in fixed]
    ends = np.iinfo(to.numpy)
    graph.outputs = [b.Requantize(b.Mul(*terms), *factor, zero=zeros[2], to=to, min=int(ends.min), max=int(ends.max))]
    return graph


@pytest.mark.parametrize("types", [(DType.I8, DType.I8, DType.I8), (DType.U8, DType.U8, DType.U8),
                                   (DType.I8, DType.U8, DType.U8)], ids=str)  # fmt: skip
def test_all_products(types):
    """All pairs of bytes, with multipliers and shifts at the ends of what 32 bits hold, and beyond."""
    x, y, to = types
    every = [np.arange(256).astype(np.uint8).view(t.numpy) for t in (x, y)]
    low = [np.iinfo(t.numpy).min for t in types]
    factors = [(1 << 30, 0), (1518500250, -7), (0x7FFF7FFF, -8), (0x7FFF8000, -8), (0x7FFFFFFF, -8), (0x40008000, -1),
               (0x60007FFF, -15), (0x7FFF7FFF, -31), (0, -3), (1, 0), (1 << 30, 1), (-(1 << 30), -6)]  # fmt: skip
    for fixed in factors:
        for zeros in [0, 0, 0], [255, 255, 255], [0, 255, 100], [131, 7, 255]:
            graph = product(x, y, (256, 256), [z + at for z, at in zip(zeros, low, strict=True)], fixed, to)
            feed = {"x": np.repeat(every[0][:, None], 256, 1), "y": every[1]}
            with np.errstate(over="ignore"):
                (want,) = evaluate(graph, list(feed.values()))
            model = Model(graph, [(v.name, v.type) for v in graph.params], [("out", graph.outputs[0].type)])
            session = minnow.load(encode(model), threads=1)
            np.testing.assert_array_equal(session.run(feed)["out"], want, err_msg=f"{fixed} {zeros}", strict=True)
    assert [row["op"] for row in session.profile(feed, 1)] == ["ByteArithmetic"]


def test_rows_of_products():
    rng = np.random.default_rng(3)
    for n in SIZES:
        graph = product(DType.I8, DType.I8, (3, n), [-5, 9, 2], (1518500250, -6), DType.I8)
        feed = {v.name: any_bytes(rng, v.type.shape, np.int8, False) for v in graph.params}
        (want,) = evaluate(graph, list(feed.values()))
        model = Model(graph, [(v.name, v.type) for v in graph.params], [("out", graph.outputs[0].type)])
        got = minnow.load(encode(model), threads=1).run(feed)["out"]
        np.testing.assert_array_equal(got, want, err_msg=str(n), strict=True)


@pytest.mark.parametrize("isa", ISAS)
def test_each_instruction_set(isa):
    env = {**os.environ, "MINNOW_ISA": isa}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n0", "-k", "not instruction", __file__]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if "this machine has no such instruction set" in done.stdout + done.stderr:
        pytest.skip(f"this processor has no {isa}")
    assert done.returncode == 0, done.stdout + done.stderr
