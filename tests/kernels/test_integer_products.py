"""Convolutions and matrix products of bytes, on each instruction set, against sums in numpy's widest integers.

The samples of the registry are small; these shapes reach panels that are not full, strides that cut the image in
phases, padding beyond the image, and zero points of all kinds: they must be exact, so nothing is compared loosely.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minnow
from minnow.optimizer import optimize
from minnow.runtime import _engine
from minnow.schema.ir import DType, Graph, Model, TensorType
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder, get
from minnow.schema.registry.interpreter import evaluate

ISAS = ("avx512", "avx2", "sse4")
Array = np.ndarray[Any, Any]

# n, channels, spatial, outputs, kernel, strides, pads, dilations, group
CONVOLUTIONS = {
    "3x3": (1, 64, (15, 17), 40, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
    "3x3 of odd channels": (2, 33, (17, 19), 7, (3, 3), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    "pointwise": (2, 30, (9, 11), 19, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    "pointwise with stride": (1, 16, (9, 11), 8, (1, 1), (2, 3), (0, 0, 0, 0), (1, 1), 1),
    "first layer": (1, 3, (31, 33), 10, (7, 7), (2, 2), (3, 3, 3, 3), (1, 1), 1),
    "uneven padding": (1, 5, (8, 9), 9, (3, 5), (2, 1), (0, 4, 1, 3), (1, 1), 1),
    "dilation and stride": (1, 6, (19, 23), 5, (3, 2), (2, 3), (2, 1, 2, 1), (3, 2), 1),
    "stride above the kernel": (1, 4, (20, 21), 3, (2, 2), (5, 4), (0, 0, 0, 0), (1, 1), 1),
    "groups": (2, 12, (10, 9), 18, (3, 3), (1, 2), (1, 1, 1, 1), (1, 1), 3),
    "depthwise": (1, 35, (13, 50), 35, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 35),
    "depthwise with stride": (2, 9, (14, 15), 18, (5, 5), (2, 2), (2, 2, 2, 2), (1, 1), 9),
    "depthwise, wide and uneven": (1, 7, (11, 37), 14, (2, 7), (1, 3), (0, 5, 1, 2), (2, 2), 7),
    "depthwise, far neighbors": (1, 5, (30, 40), 5, (3, 8), (2, 4), (1, 0, 2, 3), (3, 3), 5),
    "depthwise, small": (2, 40, (7, 7), 40, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 40),
    "one channel": (1, 1, (12, 300), 4, (2, 9), (1, 1), (1, 4, 0, 4), (1, 1), 1),
    "long rows with stride": (1, 2, (3, 701), 4, (1, 4), (1, 3), (0, 2, 0, 2), (1, 1), 1),
    "1-D": (1, 7, (65,), 6, (3,), (2,), (1, 1), (1,), 1),
    "3-D": (1, 6, (5, 6, 7), 4, (3, 2, 3), (2, 1, 2), (1, 0, 1, 1, 1, 1), (1, 2, 1), 2),
    "tiles": (2, 70, (15, 18), 50, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
    "tiles with stride": (1, 130, (13, 12), 34, (3, 2), (2, 2), (1, 0, 1, 1), (1, 1), 1),
    "pointwise, more than tiles": (1, 150, (9, 20), 100, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    "depthwise, many": (2, 150, (9, 8), 150, (3, 3), (2, 1), (1, 1, 1, 1), (1, 2), 150),
    "mostly padding": (1, 3, (2, 2), 4, (3, 3), (1, 1), (3, 3, 3, 3), (2, 2), 1),
}
PRODUCTS = {
    "square": ((67, 131), (131, 203)),
    "one row": ((1, 70), (70, 103)),
    "long sums": ((9, 5001), (5001, 49)),
    "narrow": ((33, 65), (65, 17)),
    "batches": ((2, 3, 33, 20), (2, 3, 20, 41)),
    "broadcasting": ((2, 1, 9, 16), (1, 4, 16, 31)),
    "one matrix for all": ((5, 7, 64), (64, 50)),
    "no sum": ((3, 0), (0, 4)),
    "no rows": ((0, 5), (5, 4)),
}


def convolved(x: Array, w: Array, strides: Any, pads: Any, dilations: Any, group: int) -> Array:
    """The convolution of integers, tap by tap; x is padded with zeros."""
    rank = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0), *((pads[i], pads[i + rank]) for i in range(rank))])
    size = [(x.shape[i + 2] - (w.shape[i + 2] - 1) * dilations[i] - 1) // strides[i] + 1 for i in range(rank)]
    y = np.zeros((x.shape[0], w.shape[0], *size), np.int64)
    ins, outs = w.shape[1], w.shape[0] // group
    for tap in np.ndindex(*w.shape[2:]):
        at = tuple(
            slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, n, s in zip(tap, dilations, size, strides, strict=True)
        )
        for g in range(group):
            part = x[(slice(None), slice(g * ins, (g + 1) * ins), *at)]
            y[:, g * outs : (g + 1) * outs] += np.einsum(
                "nc...,oc->no...", part, w[(slice(g * outs, (g + 1) * outs), slice(None), *tap)]
            )
    return y


def zero_points(rng: np.random.Generator, dtype: Any, one_each: tuple[int, ...]) -> Iterator[Array | None]:
    info = np.iinfo(dtype)
    yield None
    yield np.asarray((info.min + info.max + 1) // 2, dtype)
    yield np.asarray(info.max - 5, dtype)
    if one_each:
        yield rng.integers(info.min, info.max + 1, one_each).astype(dtype)


def number(zero: Array | None, extra: int = 0) -> Array:
    """The zero point as it broadcasts, with so many dims of size 1 behind."""
    return (
        np.zeros((), np.int64)
        if zero is None
        else zero.astype(np.int64).reshape(zero.shape + (1,) * extra * (zero.ndim > 0))
    )


def cases() -> Iterator[Case]:
    rng = np.random.default_rng(3)

    def drawn(dtype: Any, *shape: int) -> Array:
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max + 1, shape).astype(dtype)

    for x_type, w_type in ((np.uint8, np.int8), (np.uint8, np.uint8), (np.int8, np.int8)):
        types = f"{np.dtype(x_type)} {np.dtype(w_type)}"
        for name, (n, c, spatial, o, kernel, strides, pads, dilations, group) in CONVOLUTIONS.items():
            x, w = drawn(x_type, n, c, *spatial), drawn(w_type, o, c // group, *kernel)
            attrs = {"strides": strides, "pads": pads, "dilations": dilations, "group": group}
            x_zeros = [*zero_points(rng, x_type, ()), drawn(x_type)]
            for x_zero, w_zero in zip(x_zeros, zero_points(rng, w_type, (o,)), strict=True):
                whole = w.astype(np.int64) - number(w_zero, len(kernel) + 1)
                want = convolved(x.astype(np.int64) - number(x_zero), whole, strides, pads, dilations, group)
                want = want.astype(np.int32)
                yield (
                    f"ConvInteger, {name}, {types}, {x_zero}, {w_zero}",
                    "ConvInteger",
                    [x, w, x_zero, w_zero],
                    attrs,
                    want,
                )
            if len(kernel) == 2 and w_type is np.int8:
                yield from brought_to_bytes(rng, f"{name}, {types}", [x, w, x_zeros[1]], attrs)
        for name, (a, b) in PRODUCTS.items():
            x, y = drawn(x_type, *a), drawn(w_type, *b)
            pairs = zip(zero_points(rng, x_type, (a[-2],)), zero_points(rng, w_type, (b[-1],)), strict=True)
            for x_zero, y_zero in pairs:
                if len(a) > 2 and x_zero is not None and x_zero.ndim:
                    continue  # one for each row would have to be given for each matrix
                want = (x.astype(np.int64) - number(x_zero, 1)) @ (y.astype(np.int64) - number(y_zero))
                want = want.astype(np.int32)
                yield (
                    f"MatMulInteger, {name}, {types}, {x_zero}, {y_zero}",
                    "MatMulInteger",
                    [x, y, x_zero, y_zero],
                    {},
                    want,
                )


def greatest_sums() -> Iterator[Case]:
    """What instructions for pairs of bytes limit to 16 bits: the greatest weights of either sign, and all bytes 255."""
    rng = np.random.default_rng(11)
    attrs = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1), "group": 1}
    for channels in (4, 7, 64, 300):
        x = np.full((1, channels, 3, 7), 255, np.uint8)
        for kind, choice in {"highest": [127], "lowest": [-128], "both": [127, -128], "some": [127, 1, 0, -1]}.items():
            w = rng.choice(np.array(choice, np.int8), (9, channels, 1, 1))
            want = np.einsum("nchw,oc->nohw", x.astype(np.int32), w[:, :, 0, 0].astype(np.int32))
            yield f"ConvInteger, {kind}, {channels}", "ConvInteger", [x, w, None, None], attrs, want
            for size in (2, 3, 6):
                w = rng.choice(np.array(choice, np.int8), (channels, 1, size, size))
                own = {**attrs, "pads": (size // 2,) * 4, "group": channels}
                want = convolved(x.astype(np.int64), w, (1, 1), own["pads"], (1, 1), channels).astype(np.int32)
                yield f"ConvInteger, {kind}, depthwise, {channels}", "ConvInteger", [x, w, None, None], own, want


Case = tuple[str, str, list[Array | None], dict[str, Any], Array]


def brought_to_bytes(
    rng: np.random.Generator, name: str, inputs: list[Array | None], attrs: dict[str, Any]
) -> Iterator[Case]:
    """QuantizedConv, with a factor for each channel or one for all, by the registry's definition."""
    w = inputs[1]
    assert w is not None
    outs, spread = len(w), 1 / np.sqrt(w[0].size)
    for to, shape in ((DType.U8, (outs, 1, 1)), (DType.I8, ())):
        factor = rng.uniform(0.003 * spread, 0.02 * spread, shape).astype(np.float32)
        bias = rng.integers(-9000, 9000, (outs, 1, 1)).astype(np.int32)
        zero = np.asarray(rng.integers(0, 100), to.numpy)
        all_ = [*inputs, None, bias if shape else None, factor, zero]
        full = {**attrs, "to": to}
        yield f"QuantizedConv, {name}, {to}", "QuantizedConv", all_, full, get("QuantizedConv").evaluate(all_, full)[0]


def schemes() -> list[str]:
    """How this process computes a convolution and a product of matrices."""
    found = []
    for op, x, w in (("ConvInteger", (1, 8, 9, 9), (16, 8, 3, 3)), ("MatMulInteger", (9, 64), (64, 50))):
        graph = Graph()
        attrs = {} if op == "MatMulInteger" else {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1)}
        node = getattr(Builder(graph), op)
        graph.outputs = [node(graph.add_param(TensorType(DType.U8, x)), np.ones(w, np.int8), **attrs)]
        model = Model(graph, [("x", graph.params[0].type)], [("y", graph.outputs[0].type)])
        profile = minnow.load(encode(model)).profile({"x": np.ones(x, np.uint8)}, 1)
        found += [row["scheme"] for row in profile if row["op"] == op]
    return found


def failures(threads: int) -> list[str]:
    lines = []
    for name, op, inputs, attrs, want in chain(cases(), greatest_sums()):
        for constant in (True, False):
            got = np.asarray(_engine.run_op(op, attrs, inputs, threads=threads, constants=constant)[0])
            if got.dtype != want.dtype or not np.array_equal(got, want):
                lines.append(f"{name}, weights {'constant' if constant else 'computed'}")
    return lines


@pytest.mark.sampled(3)
@pytest.mark.parametrize("threads", [1, 3, 16])
@pytest.mark.parametrize("isa", ISAS)
def test_is_exact(isa: str, threads: int) -> None:
    # The instruction set is chosen once per process.
    command = [sys.executable, __file__, str(threads)]
    done = subprocess.run(command, env={**os.environ, "MINNOW_ISA": isa}, capture_output=True, text=True, check=False)
    if "this machine has no such instruction set" in done.stderr:
        pytest.skip(f"this processor has no {isa}")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert done.stdout.startswith(isa)


# What each name of MINNOW_INT8 needs of the processor, as Linux names it, and the scheme that has to run then.
UNITS = {
    "avx2": ("avx2", "bytes_avx2"),
    "avx_vnni": ("avx_vnni", "bytes_avx_vnni"),
    "amx": ("amx_int8", "bytes_amx"),
    "avx512": ("avx512_vnni", "bytes"),
    "emulated": ("avx512_vnni", "bytes_emulated"),
    "none": (None, "pairs"),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("unit", UNITS)
def test_units_are_exact(unit: str) -> None:
    needed, scheme = UNITS[unit]
    if needed is not None and needed not in Path("/proc/cpuinfo").read_text().split():
        pytest.skip(f"this processor has no {needed}")
    command = [sys.executable, __file__, "2"]
    variables = {"MINNOW_INT8": unit, **({"MINNOW_ISA": "avx2"} if unit.startswith("avx") and unit != "avx512" else {})}
    done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert done.stdout.splitlines()[1] == f"{scheme} {scheme}"


@pytest.mark.parametrize(
    ("variables", "error"),
    [({"MINNOW_INT8": "vnni"}, "one of amx"), ({"MINNOW_INT8": "emulated", "MINNOW_ISA": "sse4"}, "no such unit")],
)
def test_wrong_unit_is_refused(variables: dict[str, str], error: str) -> None:
    code = f"import {Path(__file__).stem} as products; products.schemes()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert error in done.stderr


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("kind", [np.uint8, np.int8])
def test_adds_the_bytes_of_rows(kind: Any, isa: str) -> None:
    """A product with a column of ones, as a mean is written, in rows that end at any place of a vector."""
    code = f"import test_integer_products as t; t.add_rows({kind.__name__!r})"
    folder = str(Path(__file__).parent)
    env = {**os.environ, "MINNOW_ISA": isa, "PYTHONPATH": folder}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    if "this machine has no such instruction set" in done.stderr:
        pytest.skip(f"this processor has no {isa}")
    assert done.returncode == 0, done.stderr


def add_rows(kind: str) -> None:
    rng = np.random.default_rng(7)
    info = np.iinfo(kind)
    for k in (*range(1, 70), 127, 128, 129, 196, 1025):
        a = rng.integers(info.min, info.max + 1, (3, 67, k)).astype(kind)
        ones, zeros = np.ones((k, 1), np.int8), rng.integers(info.min, info.max + 1, 67).astype(kind)
        wide = a.astype(np.int64)
        for zero in (None, zeros[0], zeros):
            middle = 0 if zero is None else zero.astype(np.int64).reshape(-1, *(1,) * zero.ndim)
            sums = (wide - middle).sum(-1, keepdims=True)
            (got,) = _engine.run_op("MatMulInteger", {}, [a, ones, zero], threads=2, constants=True)
            np.testing.assert_array_equal(got, sums, f"{k} {zero}")
            inputs = [a, ones, zero, None, np.array([5], np.int32), np.float32(0.37 / k), np.asarray(3, kind)]
            (got,) = _engine.run_op("QuantizedMatMul", {"to": DType.of(a.dtype)}, inputs, threads=2, constants=True)
            real = np.rint((sums + 5).astype(np.float32) * inputs[5])
            np.testing.assert_array_equal(got, np.clip(real + 3, info.min, info.max), f"{k} {zero}")


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    ("m", "k", "n"), [(1, 64, 50), (8, 5, 3), (9, 70, 33), (37, 33, 130), (197, 257, 6), (70, 1030, 65)]
)
def test_brings_products_to_8_bits(m: int, k: int, n: int, threads: int, kind: Any) -> None:
    """Constant weights, with a factor for each column or one for all; and bytes and weights that are all great."""
    rng = np.random.default_rng(m)
    info = np.iinfo(kind)
    for low, factors, bias in ((-128, (n,), True), (-128, (), False), (126, (n,), False)):
        a = rng.integers(info.max if low > 0 else info.min, info.max + 1, (2, m, k)).astype(kind)
        w = rng.integers(low, 128, (k, n)).astype(np.int8)
        zero = np.asarray(info.min + 7, kind)
        factor = (rng.uniform(0.5, 2, factors) / (64 * 100 * np.sqrt(k))).astype(np.float32)
        more = rng.integers(-90000, 90000, (n,)).astype(np.int32) if bias else None
        inputs = [a, w, zero, None, more, factor, np.asarray(11, kind)]
        attrs = {"to": DType.of(np.dtype(kind))}
        want = get("QuantizedMatMul").evaluate(inputs, attrs)[0]
        (got,) = _engine.run_op("QuantizedMatMul", attrs, inputs, threads=threads, constants=True)
        np.testing.assert_array_equal(got, want, f"{low} {factors}")


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
@pytest.mark.parametrize("of", [np.uint8, np.int32])
def test_finds_what_tables_have_for_bytes(kind: Any, of: Any) -> None:
    """Each byte, in tensors that end at any place of a vector."""
    rng = np.random.default_rng(7)
    table = rng.permutation(256).astype(of)
    for n in (*range(1, 140), 255, 256, 257, 8191, 20011):
        x = rng.permutation(n).astype(np.uint8).view(kind)
        (got,) = _engine.run_op("LookUp", {}, [x, table], threads=2, constants=False)
        np.testing.assert_array_equal(got, table[x.astype(int) - np.iinfo(kind).min], f"{n}")


@pytest.mark.parametrize("to", [DType.I8, DType.U8])
def test_requantizes_numbers_of_all_sizes(to: DType) -> None:
    """Sums that wrap, saturate and lie midway, in rows that fill several vectors, and some numbers more."""
    rng = np.random.default_rng(7)
    extremes = np.array([-(2**31), 2**31 - 1, -1, 0, 1, -(2**30), 2**30, 3, -3, 5, -5, 2**31 - 200], np.int64)
    sizes = [rng.integers(-(2**bits), 2**bits, 97) for bits in (5, 8, 12, 20, 31)]
    x = rng.permutation(np.concatenate([extremes, *sizes])).astype(np.int32)
    low = int(np.iinfo(str(to.numpy)).min)
    for multiplier in (2**30, 2**31 - 1, 1518500250, 3):
        for shift in (0, -1, -2, -7, -12, -31):
            for zero, ends in ((low + 5, (0, 255)), (2**31 - 9, (0, 255)), (-(2**31), (17, 200)), (low, (128, 128))):
                attrs = {"to": to, "zero": zero, "min": low + ends[0], "max": low + ends[1]}
                inputs = [x, np.int32(multiplier), np.int32(shift)]
                want = get("Requantize").evaluate(inputs, attrs)[0]
                (got,) = _engine.run_op("Requantize", attrs, inputs, threads=2, constants=False)
                np.testing.assert_array_equal(got, want, f"{multiplier} {shift} {zero}")


@pytest.mark.parametrize("signed", [False, True])
def test_sums_of_all_bytes(signed: bool) -> None:
    """Each number with each other one, and some more that fill no vector, with ties in both roundings."""
    rng = np.random.default_rng(7)
    kind = np.int8 if signed else np.uint8
    low = np.iinfo(kind).min
    a, b = (v.reshape(-1).astype(kind) for v in np.meshgrid(np.arange(256) + low, np.arange(256) + low))
    pairs = [(-2, 2**31 - 1), (-13, 1518500250), (-20, 2**31 - 1), (-31, 5), (-1, 7)]
    for shift, multiplier in pairs + [(shift, 1 << 30) for shift in (-2, -9, -19, -30, -31)]:
        for zero in (low, low + 131):
            steps = 1 << -shift if -shift < 20 else 1 << 18
            tables = [
                (rng.integers(-300, 300, 256) * steps // 2 + rng.integers(-2, 3, 256)).astype(np.int32) for _ in "ab"
            ]
            inputs = [a[:-27], np.int32(multiplier), np.int32(shift), tables[0], b[:-27], tables[1]]
            attrs = {"zero": zero, "to": DType.I8 if signed else DType.U8, "min": low + 3, "max": low + 250}
            want = get("QuantizedSum").evaluate(inputs, attrs)[0]
            got = np.asarray(_engine.run_op("QuantizedSum", attrs, inputs, threads=2, constants=False)[0])
            np.testing.assert_array_equal(got, want, f"{shift} {multiplier} {zero}")


@pytest.mark.parametrize("kinds", [(np.uint8, np.uint8), (np.int8, np.uint8), (np.int8, np.int8)])
def test_adds_multiples_of_bytes(kinds: tuple[Any, Any]) -> None:
    """Tables that are lines, rounded, in units of 2^-20 of the result: the steep ones, those with many halves, ..."""
    rng = np.random.default_rng(7)
    lows = [int(np.iinfo(kind).min) for kind in kinds]
    a, b = (v.reshape(-1) for v in np.meshgrid(np.arange(256), np.arange(256)))
    places = np.stack([a, b]).reshape(2, -1)
    slopes = [
        (0.43, 0.61),
        (0.5, 0.25),
        (1, 1),
        (3.3, 2.9),
        (-0.7, 0.02),
        (3.99, -3.99),
        (-4.2, 1),
        (6.5, 0.1),
        (0, 0.3),
    ]
    for pair in slopes:
        zero = lows[1] + int(rng.integers(0, 200))
        zeros = rng.integers(0, 256, 2)
        tables = [np.rint((np.arange(256) - z) * s * 2**20).astype(np.int32) for z, s in zip(zeros, pair, strict=True)]
        x, y = ((v + low).astype(kind)[:-27] for v, low, kind in zip(places, lows, kinds, strict=True))
        inputs = [x, np.int32(1 << 30), np.int32(-19), tables[0], y, tables[1]]
        attrs = {"zero": zero, "to": DType.of(np.dtype(kinds[1])), "min": lows[1], "max": lows[1] + 255}
        want = get("QuantizedSum").evaluate(inputs, attrs)[0]
        got = np.asarray(_engine.run_op("QuantizedSum", attrs, inputs, threads=2, constants=False)[0])
        np.testing.assert_array_equal(got, want, f"{pair}")


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("to", [np.uint8, np.int8])
@pytest.mark.parametrize("name", ["3x3 of odd channels", "pointwise", "first layer", "groups", "depthwise", "1-D"])
@pytest.mark.parametrize("bias", [True, False])
def test_brings_sums_to_8_bits(name: str, to: Any, bias: bool, threads: int) -> None:
    """QLinearConv is one node: what its convolution, addition, factor and rounding would give one after the other."""
    n, c, spatial, o, kernel, strides, pads, dilations, group = CONVOLUTIONS[name]
    rng = np.random.default_rng(5)
    x = rng.integers(0, 256, (n, c, *spatial)).astype(np.uint8)
    w = rng.integers(-128, 128, (o, c // group, *kernel)).astype(np.int8)
    scale, zero = rng.uniform(1e-4, 1e-3, o).astype(np.float32), to(rng.integers(3, 90))
    added = rng.integers(-9000, 9000, o).astype(np.int32)
    per_channel = (-1, *[1] * len(kernel))

    graph = Graph()
    b = Builder(graph)
    attrs = {"strides": strides, "pads": pads, "dilations": dilations, "group": group}
    total = b.ConvInteger(graph.add_param(TensorType(DType.U8, x.shape)), w, np.uint8(117), np.int8(0), **attrs)
    total = b.Add(total, added.reshape(per_channel)) if bias else total
    product = b.Mul(b.Cast(total, to=DType.F32), scale.reshape(per_channel))
    graph.outputs = [b.QuantizeLinear(product, np.float32(1), zero, to=DType.of(np.dtype(to)))]
    model = Model(graph, [("x", graph.params[0].type)], [("y", graph.outputs[0].type)])
    session = minnow.load(encode(model), threads=threads)

    sums = convolved(x.astype(np.int64) - 117, w.astype(np.int64), strides, pads, dilations, group)
    sums = (sums + added.reshape(per_channel) * bias).astype(np.float32)
    info = np.iinfo(to)
    want = np.clip(np.rint(sums * scale.reshape(per_channel)) + zero, info.min, info.max).astype(to)
    assert np.array_equal(session.run({"x": x})["y"], want)
    assert [row["op"] for row in session.profile({"x": x}, 1)] == ["ConvInteger"]


def _sums(b: Any, name: str, x: Any, rng: np.random.Generator) -> Any:
    """A product or sum in i32, and the shape of what goes with its channels."""
    weights = rng.integers(-128, 128, (130, 50)).astype(np.int8)
    if name == "matrix":
        return b.MatMulInteger(x, weights.T, np.int8(3)), (130,)
    if name == "sum":
        tables = rng.integers(-(2**16), 2**16, (2, 256)).astype(np.int32)
        return b.Add(b.LookUp(x, tables[0]), b.LookUp(x, tables[1])), ()
    group = 50 if name == "depthwise" else 1
    w = weights[: 2 * 50, :9].reshape(100, 1, 3, 3) if group > 1 else weights.reshape(130, 50, 1, 1)
    window = {"strides": (1, 1), "dilations": (1, 1), "pads": (w.shape[2] // 2,) * 4}
    return b.ConvInteger(x, w, np.int8(3), **window, group=group), (w.shape[0], 1, 1)


@pytest.mark.parametrize("to", [DType.I8, DType.U8, DType.I16])
@pytest.mark.parametrize("each", [True, False])
@pytest.mark.parametrize("name", ["matrix", "pointwise", "depthwise", "sum"])
def test_requantizes_sums(name: str, each: bool, to: DType) -> None:
    """A product with its bias and Requantize is one node, and so is the sum of two functions."""
    x = np.random.default_rng(3).integers(-128, 128, (3, 70, 50) if name == "matrix" else (2, 50, 9, 7)).astype(np.int8)

    def build(b: Any, x: Any) -> Any:
        rng = np.random.default_rng(4)
        total, channels = _sums(b, name, x, rng)
        shape = channels if each else (1,) * len(channels)
        factor, shift = rng.integers(2**30, 2**31, shape), rng.integers(-9, -6, shape)
        if name != "sum":
            total = b.Add(total, rng.integers(-9000, 9000, channels).astype(np.int32))
        limits = {"zero": 5, "to": to, "min": 0, "max": 120}
        return b.Requantize(total, factor.astype(np.int32), shift.astype(np.int32), **limits)

    class Reference:
        def __getattr__(self, op: str) -> Any:
            return lambda *operands, **attrs: get(op).evaluate([np.asarray(v) for v in operands], attrs)[0]

    graph = Graph()
    graph.outputs = [build(Builder(graph), graph.add_param(TensorType(DType.I8, x.shape)))]
    model = Model(graph, [("x", graph.params[0].type)], [("y", graph.outputs[0].type)])
    session = minnow.load(encode(model), threads=2)
    assert np.array_equal(session.run({"x": x})["y"], build(Reference(), x))
    assert len(session.profile({"x": x}, 1)) == 1


if __name__ == "__main__":
    found = failures(int(sys.argv[1]))
    sys.stdout.write("\n".join([_engine.isa(), " ".join(schemes()), *found, ""]))
    sys.exit(bool(found))


def test_a_vector_on_the_right_has_no_columns() -> None:
    """A bias along the last axis of its product goes with rows: it took the first number of it for all."""
    rng = np.random.default_rng(5)
    graph = Graph()
    x = graph.add_param(TensorType(DType.U8, (2, 3, 4, 9)), "x")
    b = Builder(graph, origin="test")
    sums = b.MatMulInteger(x, rng.integers(-9, 9, 9).astype(np.int8))
    bias = np.array([0, 1000, -2000, 3000], np.int32)
    y = b.Requantize(
        b.Add(sums, bias),
        np.full(4, 2**30, np.int32),
        np.array([-1, -2, -3, -4], np.int32),
        to=DType.I8,
        min=-128,
        max=127,
    )
    y.name = "y"
    graph.outputs = [y]
    numbers = rng.integers(0, 255, (2, 3, 4, 9)).astype(np.uint8)
    (want,) = evaluate(graph, [numbers])
    assert len(np.unique(want)) > 4
    model = Model(graph, [("x", x.type)], [("y", y.type)])
    np.testing.assert_array_equal(minnow.load(encode(model), threads=1).run({"x": numbers})["y"], want)
    optimize(model)
    np.testing.assert_array_equal(minnow.load(encode(model), threads=1).run({"x": numbers})["y"], want)


@pytest.mark.parametrize("zero", [2**31 - 1, -(2**31), 5000])
def test_sums_whose_zero_point_is_far_from_bytes(zero: int) -> None:
    """They wrap, or are cut off; tables of lines were made for them with numbers that do not fit."""
    rng = np.random.default_rng(6)
    graph = Graph()
    b = Builder(graph, origin="test")
    kind = TensorType(DType.U8, (40, 30))
    p, q = graph.add_param(kind, "p"), graph.add_param(kind, "q")
    tables = [(np.arange(256) * step * 10**5).astype(np.int32) for step in (3, -5)]
    y = b.QuantizedSum(
        p, np.int32(2**30), np.int32(-14), tables[0], q, tables[1], zero=zero, to=DType.I8, min=-128, max=127
    )
    y.name = "y"
    graph.outputs = [y]
    numbers = [rng.integers(0, 256, kind.shape).astype(np.uint8) for _ in range(2)]
    (want,) = evaluate(graph, numbers)
    model = Model(graph, [("p", kind), ("q", kind)], [("y", y.type)])
    got = minnow.load(encode(model), threads=1).run(dict(zip("pq", numbers, strict=True)))["y"]
    np.testing.assert_array_equal(got, want)
