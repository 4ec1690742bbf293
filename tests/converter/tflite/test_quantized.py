"""Operators on quanta against LiteRT's reference kernels, of which each result is whole numbers: not a bit differs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tflite_one import Tensor, by_litert, by_us, constant, file_of, random_quanta

from minnow.converter import read
from minnow.schema.errors import ModelError
from minnow.schema.registry.interpreter import evaluate

BYTES, U8, WORDS = np.int8, np.uint8, np.int16
SAME, VALID = 0, 1
NONE, RELU, RELU1, RELU6 = 0, 1, 2, 3

Case = tuple[str, str, list[Tensor | None], list[Tensor], str, dict[str, Any], int]


def _zero(dtype: Any, at: int) -> int:
    return 0 if dtype is WORDS else at + 128 if dtype is U8 else at


def _of(shape: Any, dtype: Any, scale: float, zero: int = 0) -> Tensor:
    return Tensor(shape, dtype, scale * (1 / 256 if dtype is WORDS else 1), _zero(dtype, zero))


def _weights(rng: Any, shape: Any, dtype: Any, axis: int | None, int4: bool = False) -> Tensor:
    """Weights beside activations of a type: u8 with a zero point beside u8."""
    if dtype is U8:
        return constant(rng.integers(0, 256, shape).astype(np.uint8), 0.021, 119)
    scale = 0.02 if axis is None else list(rng.uniform(0.01, 0.03, shape[axis]))
    most = 8 if int4 else 128
    return constant(rng.integers(1 - most, most, shape).astype(np.int8), scale, 0, axis or 0, int4)


def _bias(rng: Any, n: int, x: Tensor, w: Tensor, dtype: Any = None) -> Tensor:
    wide = dtype or (np.int64 if x.dtype is WORDS else np.int32)
    scale = np.float32(x.scale) * np.asarray(w.scale, np.float32)
    return constant(rng.integers(-20000, 20000, n).astype(wide), list(np.atleast_1d(scale)))


def _convolutions(rng: Any) -> Iterator[Any]:
    kind = "Conv2DOptions"
    plain = {"stride_h": 1, "stride_w": 1, "padding": SAME}
    shapes: list[tuple[str, Any, Any, dict[str, Any]]] = [
        ("3x3", (1, 9, 7, 5), (11, 3, 3, 5), plain),
        ("stride", (2, 9, 8, 3), (8, 3, 2, 3), {"stride_h": 2, "stride_w": 3, "padding": VALID}),
        ("pointwise relu6", (1, 5, 5, 17), (33, 1, 1, 17), {**plain, "fused_activation_function": RELU6}),
        ("dilated", (1, 11, 13, 4), (6, 3, 3, 4), {**plain, "dilation_h_factor": 2, "dilation_w_factor": 3}),
        ("grouped", (1, 6, 6, 8), (12, 3, 3, 4), plain),
    ]
    for name, x, w, options in shapes:
        for dtype in BYTES, U8, WORDS:
            for axis in (0, None) if dtype is not U8 else (None,):
                if name == "grouped" and dtype is not BYTES:
                    continue
                image, weights = _of(x, dtype, 0.05, 3), _weights(rng, w, dtype, axis)
                out = _of(_out_shape(x, w[1:3], options, w[0]), dtype, 0.9, -7)
                operands = [image, weights, _bias(rng, w[0], image, weights)]
                yield f"{name} {dtype.__name__} {axis}", "CONV_2D", operands, [out], kind, options
    image, weights = _of((1, 4, 4, 3), BYTES, 0.05, 3), _weights(rng, (5, 2, 2, 3), BYTES, 0, int4=True)
    yield (
        "4 bits",
        "CONV_2D",
        [image, weights, _bias(rng, 5, image, weights)],
        [_of((1, 4, 4, 5), BYTES, 0.1)],
        kind,
        plain,
    )
    word, byte = _of((1, 5, 5, 6), WORDS, 0.05), _weights(rng, (4, 3, 3, 6), WORDS, 0)
    yield (
        "32-bit bias",
        "CONV_2D",
        [word, byte, _bias(rng, 4, word, byte, np.int32)],
        [_of((1, 5, 5, 4), WORDS, 0.9)],
        kind,
        {**plain, "quantized_bias_type": 2},
    )
    for name, c, multiplier in ("one each", 19, 1), ("two each", 7, 2):
        for dtype in BYTES, U8, WORDS:
            options = {"stride_h": 2, "stride_w": 2, "padding": SAME, "depth_multiplier": multiplier}
            options["fused_activation_function"] = RELU
            image = _of((1, 9, 8, c), dtype, 0.05, 3)
            weights = _weights(rng, (1, 3, 3, c * multiplier), dtype, 3)
            operands = [image, weights, _bias(rng, c * multiplier, image, weights)]
            out = _of((1, 5, 4, c * multiplier), dtype, 0.4, -100)
            yield f"{name} {dtype.__name__}", "DEPTHWISE_CONV_2D", operands, [out], "DepthwiseConv2DOptions", options
    for name, stride, k, out_size, padding in (
        ("same", 2, 3, (10, 8), SAME), ("valid", 2, 3, (11, 9), VALID), ("wide stride", 3, 2, (15, 12), SAME),
        ("stride 1", 1, 3, (5, 4), SAME), ("odd", 2, 3, (9, 7), SAME), ("even", 2, 4, (10, 8), SAME),
        ("as wide as the stride", 2, 2, (10, 8), VALID), ("one tap", 2, 1, (9, 7), VALID),
        ("far", 3, 5, (17, 14), VALID), ("near", 4, 2, (20, 16), SAME), ("large", 2, 5, (9, 8), SAME),
    ):  # fmt: skip
        for dtype in BYTES, U8, WORDS:
            image, weights = _of((1, 5, 4, 6), dtype, 0.05, 3), _weights(rng, (7, k, k, 6), dtype, 0)
            shape = constant(np.array([1, *out_size, 7], np.int32))
            options = {"stride_h": stride, "stride_w": stride, "padding": padding}
            operands = [shape, weights, image, _bias(rng, 7, image, weights)]
            out = _of((1, *out_size, 7), dtype, 0.9, -7)
            yield f"{name} {dtype.__name__}", "TRANSPOSE_CONV", operands, [out], "TransposeConvOptions", options


def _out_shape(x: Any, kernel: Any, options: dict[str, Any], channels: int) -> tuple[int, ...]:
    out = []
    for n, k, axis in zip(x[1:3], kernel, "hw", strict=True):
        span = (k - 1) * options.get(f"dilation_{axis}_factor", 1) + 1
        step = options[f"stride_{axis}"]
        out.append(-(-n // step) if options["padding"] == SAME else (n - span) // step + 1)
    return (x[0], *out, channels)


def _products(rng: Any) -> Iterator[Any]:
    kind = "FullyConnectedOptions"
    for dtype in BYTES, U8, WORDS:
        for axis in (0, None) if dtype is not U8 else (None,):
            x, w = _of((3, 37), dtype, 0.05, 3), _weights(rng, (11, 37), dtype, axis)
            operands = [x, w, _bias(rng, 11, x, w)]
            options = {"fused_activation_function": RELU}
            yield (
                f"rows {dtype.__name__} {axis}",
                "FULLY_CONNECTED",
                operands,
                [_of((3, 11), dtype, 0.5, -7)],
                kind,
                options,
            )
        x, w = _of((2, 3, 17), dtype, 0.05, 3), _weights(rng, (5, 17), dtype, None)
        yield (
            f"kept {dtype.__name__}",
            "FULLY_CONNECTED",
            [x, w, None],
            [_of((2, 3, 5), dtype, 0.5)],
            kind,
            {"keep_num_dims": True},
        )
    x, w = _of((2, 9), BYTES, 0.05, 3), _weights(rng, (5, 9), BYTES, 0, int4=True)
    yield "4 bits", "FULLY_CONNECTED", [x, w, _bias(rng, 5, x, w)], [_of((2, 5), BYTES, 0.1)], kind, {}
    for dtype in BYTES, WORDS:
        for turned in (False, False), (True, True):
            shapes = ((2, 3, 5, 4), (1, 3, 4, 7)) if not any(turned) else ((2, 3, 4, 5), (1, 3, 7, 4))
            options = dict(zip(("adj_x", "adj_y"), turned, strict=True))
            operands = [_of(s, dtype, 0.03, 5) for s in shapes]
            yield (
                f"{dtype.__name__} {turned}",
                "BATCH_MATMUL",
                operands,
                [_of((2, 3, 5, 7), dtype, 0.2, 4)],
                "BatchMatMulOptions",
                options,
            )


def _sums(rng: Any) -> Iterator[Any]:
    shapes = ((2, 3, 5, 7), (2, 3, 5, 7)), ((2, 3, 5, 7), (7,)), ((1, 5, 1), (4, 1, 3))
    for op, kind in ("ADD", "AddOptions"), ("SUB", "SubOptions"), ("MUL", "MulOptions"):
        for dtype in BYTES, U8, WORDS:
            for i, (x, y) in enumerate(shapes):
                options: dict[str, Any] = {"fused_activation_function": (NONE, RELU, RELU6)[i]}
                if op != "MUL":
                    options["pot_scale_int16"] = False
                operands = [_of(x, dtype, 0.05, 3), _of(y, dtype, 0.11, -21)]
                out = _of(np.broadcast_shapes(x, y), dtype, 0.08, 11)
                yield f"{dtype.__name__} {i}", op, operands, [out], kind, options
    for op, kind in ("ADD", "AddOptions"), ("SUB", "SubOptions"), ("MUL", "MulOptions"):
        for dtype in BYTES, U8:
            x, number = _of((256,), dtype, 0.05, 3), constant(np.full((1,), 77, dtype), 0.11, _zero(dtype, -21))
            for operands in ([x, number], [number, x]):
                name = f"{dtype.__name__} and a number {operands[0] is x}"
                yield name, op, operands, [_of((256,), dtype, 0.08, 11)], kind, {"fused_activation_function": RELU}
    for op in "ADD", "SUB":
        operands = [Tensor((3, 50), WORDS, 2.0**-e) for e in (12, 10)]
        yield (
            "powers",
            op,
            operands,
            [Tensor((3, 50), WORDS, 2.0**-10)],
            f"{op.title()}Options",
            {"pot_scale_int16": True},
        )
    operands = [_of((3, 50), BYTES, 0.05, 3), _of((3, 50), BYTES, 0.11, -21)]
    yield "", "SQUARED_DIFFERENCE", operands, [_of((3, 50), BYTES, 0.8, -128)], "", {}
    for op in "EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL":
        for dtype in BYTES, U8:
            for other in (0.05, 3), (0.0501, 4):
                operands = [_of((3, 50), dtype, 0.05, 3), _of((50,), dtype, *other)]
                yield f"{dtype.__name__} {other}", op, operands, [Tensor((3, 50), np.bool_)], "", {}
    for op in "MAXIMUM", "MINIMUM":
        for dtype in BYTES, U8, WORDS:
            operands = [_of((3, 50), dtype, 0.05, 3), _of((50,), dtype, 0.05, 3)]
            yield dtype.__name__, op, operands, [_of((3, 50), dtype, 0.05, 3)], "MaximumMinimumOptions", {}


def _functions(rng: Any) -> Iterator[Any]:
    def all_of(dtype: Any, scale: float, zero: int) -> Tensor:
        return Tensor((1 << 8 * np.dtype(dtype).itemsize,), dtype, scale, _zero(dtype, zero))

    for dtype in BYTES, U8:
        for scale in 0.03, 0.11:
            x = all_of(dtype, scale, 9)
            sized = [
                Tensor(x.shape, dtype, s, z) for s, z in ((1 / 256, _zero(dtype, -128)), (1 / 128, _zero(dtype, 0)))
            ]
            other = Tensor(x.shape, dtype, 0.07, _zero(dtype, -31))
            yield f"{dtype.__name__} {scale}", "LOGISTIC", [x], [sized[0]], "", {}
            yield f"{dtype.__name__} {scale}", "TANH", [x], [sized[1]], "", {}
            yield f"{dtype.__name__} {scale}", "HARD_SWISH", [x], [other], "HardSwishOptions", {}
            for op in "RELU", "RELU6", "RELU_N1_TO_1":
                yield f"{dtype.__name__} {scale}", op, [x], [other], "", {}
            yield f"{dtype.__name__} {scale}", "LEAKY_RELU", [x], [other], "LeakyReluOptions", {"alpha": 0.23}
            for exact in False, True:
                yield (
                    f"{dtype.__name__} {scale} {exact}",
                    "GELU",
                    [x],
                    [other],
                    "GeluOptions",
                    {"approximate": not exact},
                )
            slopes = _of((256,), dtype, 0.01, 5)
            yield f"{dtype.__name__} {scale}", "PRELU", [x, slopes], [other], "", {}
    x = all_of(BYTES, 0.03, 9)
    yield "int8", "ELU", [x], [Tensor(x.shape, BYTES, 0.05, -31)], "", {}
    yield "int8", "EXP", [x], [Tensor(x.shape, BYTES, 0.12, -128)], "ExpOptions", {}
    yield "int8", "ABS", [x], [Tensor(x.shape, BYTES, 0.05, -31)], "AbsOptions", {}
    for scale in 2.0**-12, 0.0003, 2.0**-11, 0.0001:
        words = Tensor((1 << 16,), WORDS, scale)
        for op in "LOGISTIC", "TANH":
            yield f"int16 {scale:.5f}", op, [words], [Tensor(words.shape, WORDS, 2.0**-15)], "", {}
    words = Tensor((1 << 16,), WORDS, 0.0003)
    for op in "RELU", "RELU6":
        yield "int16", op, [words], [Tensor(words.shape, WORDS, 0.0004)], "", {}
    yield "int16", "LEAKY_RELU", [words], [Tensor(words.shape, WORDS, 0.0004)], "LeakyReluOptions", {"alpha": 0.23}
    yield "int16", "ABS", [words], [Tensor(words.shape, WORDS, 0.0004)], "AbsOptions", {}
    yield "int16", "EXP", [words], [Tensor(words.shape, WORDS, 0.004)], "ExpOptions", {}
    for old in BYTES, U8, WORDS:
        for new in BYTES, U8, WORDS:
            if WORDS in (old, new) and U8 in (old, new):
                continue
            x = all_of(old, 0.05 if old is not WORDS else 0.0007, 9)
            y = Tensor(x.shape, new, 0.031 if new is not WORDS else 0.0009, _zero(new, -3))
            yield f"{old.__name__} to {new.__name__}", "QUANTIZE", [x], [y], "QuantizeOptions", {}
    for dtype in BYTES, U8, WORDS:
        y = _of((7, 40), dtype, 0.03, 5)
        yield f"floats to {dtype.__name__}", "QUANTIZE", [Tensor((7, 40))], [y], "QuantizeOptions", {}
        yield dtype.__name__, "DEQUANTIZE", [y], [Tensor((7, 40))], "DequantizeOptions", {}


def _reductions(rng: Any) -> Iterator[Any]:
    pool = "Pool2DOptions"
    for dtype in BYTES, U8, WORDS:
        for i, (padding, activation) in enumerate(((SAME, NONE), (VALID, RELU6))):
            options = {"padding": padding, "stride_h": 2, "stride_w": 1, "filter_height": 3, "filter_width": 2,
                       "fused_activation_function": activation}  # fmt: skip
            x = _of((2, 7, 6, 5), dtype, 0.05, 3)
            out = _of((2, 4, 6, 5) if padding == SAME else (2, 3, 5, 5), dtype, 0.05, 3)
            for op in "AVERAGE_POOL_2D", "MAX_POOL_2D":
                yield f"{dtype.__name__} {i}", op, [x], [out], pool, options
        whole = {**options, "filter_height": 7, "filter_width": 6, "fused_activation_function": NONE}
        yield f"{dtype.__name__} whole", "AVERAGE_POOL_2D", [x], [_of((2, 1, 1, 5), dtype, 0.05, 3)], pool, whole
        for axes, keep in ((1, 2), True), ((-1,), False), ((0, 1, 2, 3), False):
            x = _of((2, 7, 6, 5), dtype, 0.05, 3)
            shape = np.zeros(x.shape).sum(tuple(axes), keepdims=keep).shape
            operands = [x, constant(np.array(axes, np.int32))]
            for op, scale in ("MEAN", 0.03), ("MEAN", 0.05), ("SUM", 0.9):
                out = _of(shape, dtype, scale, 3 if scale == 0.05 else -5)
                yield f"{dtype.__name__} {axes} {scale}", op, operands, [out], "ReducerOptions", {"keep_dims": keep}
            for op in "REDUCE_MAX", "REDUCE_MIN":
                yield (
                    f"{dtype.__name__} {axes}",
                    op,
                    operands,
                    [_of(shape, dtype, 0.05, 3)],
                    "ReducerOptions",
                    {"keep_dims": keep},
                )
        for n in 1, 2, 10, 131, 1001:
            x = _of((5, n), dtype, 0.09, 3)
            y = Tensor((5, n), dtype, 2.0**-15 if dtype is WORDS else 1 / 256, _zero(dtype, -128))
            yield f"{dtype.__name__} {n}", "SOFTMAX", [x], [y], "SoftmaxOptions", {"beta": 1.0}
        y = Tensor((2, 3, 7), dtype, 2.0**-15 if dtype is WORDS else 1 / 256, _zero(dtype, -128))
        yield (
            f"{dtype.__name__} beta",
            "SOFTMAX",
            [_of((2, 3, 7), dtype, 0.01, 3)],
            [y],
            "SoftmaxOptions",
            {"beta": 0.4},
        )
        if dtype is not WORDS:
            operands = [_of((5, 40), dtype, 0.05, 3), constant(np.array([1], np.int32))]
            for op, kind in ("ARG_MAX", "ArgMaxOptions"), ("ARG_MIN", "ArgMinOptions"):
                yield dtype.__name__, op, operands, [Tensor((5,), np.int32)], kind, {"output_type": 2}


def _images(rng: Any) -> Iterator[Any]:
    for dtype in BYTES, U8, WORDS:
        for way in {}, {"align_corners": True}, {"half_pixel_centers": True}:
            for out in (7, 11), (13, 3), (1, 1), (10, 8):
                operands = [_of((2, 5, 4, 3), dtype, 0.05, 3), constant(np.array(out, np.int32))]
                name = f"{dtype.__name__} {' '.join(way)} {out}"
                y = _of((2, *out, 3), dtype, 0.05, 3)
                yield name, "RESIZE_BILINEAR", operands, [y], "ResizeBilinearOptions", way
                yield name, "RESIZE_NEAREST_NEIGHBOR", operands, [y], "ResizeNearestNeighborOptions", way
        q = _of((), dtype, 0.05, 3)
        parts = [Tensor((2, n, 3), dtype, q.scale, q.zero) for n in (1, 4, 2)]
        joined = Tensor((2, 7, 3), dtype, q.scale, q.zero)
        yield dtype.__name__, "CONCATENATION", parts, [joined], "ConcatenationOptions", {"axis": 1}
        pads = constant(np.array([[0, 1], [2, 0], [1, 1]], np.int32))
        yield dtype.__name__, "PAD", [parts[1], pads], [Tensor((3, 6, 5), dtype, q.scale, q.zero)], "PadOptions", {}
        yield dtype.__name__, "TRANSPOSE", [parts[1], constant(np.array([2, 0, 1], np.int32))], [
            Tensor((3, 2, 4), dtype, q.scale, q.zero)], "TransposeOptions", {}  # fmt: skip
    several = [_of((2, 5), U8, 0.05, 3), _of((2, 4), U8, 0.031, -9), _of((2, 1), U8, 0.07, 30)]
    yield "several scales", "CONCATENATION", several, [_of((2, 10), U8, 0.05, 3)], "ConcatenationOptions", {"axis": 1}


def _cases() -> dict[str, Any]:
    rng = np.random.default_rng(20)
    families = _convolutions, _products, _sums, _functions, _reductions, _images
    return {f"{op} {name}".strip(): rest for f in families for name, op, *rest in ((c[0], *c[1:]) for c in f(rng))
            for rest in [[op, *rest]]}  # fmt: skip


CASES = _cases()

NOT_BY_REFERENCE = frozenset({("SUM", BYTES), ("SUM", WORDS), ("ELU", BYTES)})
"""LiteRT's reference kernel of SUM is wrong for signed quanta, and there is none of ELU; its other kernels count."""

IN_DOUBLE = frozenset({"FULLY_CONNECTED"})
"""Of these LiteRT's reference kernel scales in double, its others in fixed point: they differ by one."""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", CASES)
def test_same_quanta(name: str, tmp_path: Path) -> None:
    op, operands, results, kind, options = CASES[name]
    content = file_of(op, operands, results, options, kind)
    rng = np.random.default_rng(8)
    given = [t for t in operands if t is not None and t.data is None]
    inputs = [random_quanta(rng, t) for t in given]
    if len(given[0].shape) == 1 and given[0].shape[0] in (256, 65536):  # each number there is
        info = np.iinfo(given[0].dtype)
        inputs[0] = np.arange(info.min, info.max + 1).astype(given[0].dtype)
    want = by_litert(content, inputs, reference=(op, given[0].dtype) not in NOT_BY_REFERENCE)
    got = by_us(content, inputs, tmp_path)
    for w, g in zip(want, got, strict=True):
        assert g.dtype == w.dtype
        assert g.shape == w.shape
        apart = np.abs(g.astype(np.float64) - w.astype(np.float64)).reshape(-1)
        wrong = np.flatnonzero(apart > (op in IN_DOUBLE))
        assert not wrong.size, f"{wrong.size} of {w.size}: {g.reshape(-1)[wrong[:5]]} for {w.reshape(-1)[wrong[:5]]}"


# Scale and zero point of dividend, divisor and quotient: the last ones beyond all that shifts can do.
DIVISIONS = [
    ((0.05, 3), (0.02, -7), (0.9, 5), NONE), ((0.02, 0), (0.02, 0), (0.01, 0), NONE),
    ((0.05, 3), (0.02, -128), (0.5, -128), RELU6), ((1.0, 0), (1.0, 0), (1.0, 0), RELU1),
    ((0.031, -90), (0.007, 127), (0.11, 100), RELU), ((1e-6, 0), (100.0, 1), (1.0, 0), NONE),
    ((1e6, 0), (1e-3, 1), (1e-3, 0), NONE),
]  # fmt: skip


def _divide(
    dtype: Any, x: Any, y: Any, numbers: Any, folder: Path, activation: int = NONE, held: bool = False
) -> tuple[bytes, list[Any], Any]:
    """A file that divides x by y, what it is given, and what the engine makes of it, as the reference does."""
    (sx, zx), (sy, zy), (sz, zz) = numbers
    operands = [_of(x.shape, dtype, sx, zx), _of(y.shape, dtype, sy, zy)]
    if held:
        operands[1] = constant(y, sy, _zero(dtype, zy))
    result = _of(np.broadcast_shapes(x.shape, y.shape), dtype, sz, zz)
    kind = {"fused_activation_function": activation}
    content = file_of("DIV", operands, [result], kind, "DivOptions", version=2)
    given = [a for a, t in zip((x, y), operands, strict=True) if t.data is None]
    (got,) = by_us(content, given, folder)
    (reference,) = evaluate(read(folder / "one.tflite").graph, given)
    np.testing.assert_array_equal(got, reference)
    return content, given, got


@pytest.mark.parametrize("dtype", [BYTES, U8])
@pytest.mark.parametrize("numbers", DIVISIONS, ids=str)
def test_division_of_all_pairs(dtype: Any, numbers: Any, tmp_path: Path) -> None:
    *numbers, activation = numbers
    every = np.arange(256).astype(np.uint8).view(dtype)
    divisors = every[every != _zero(dtype, numbers[1][1])]
    x, y = every.reshape(-1, 1), divisors.reshape(1, -1)
    content, given, got = _divide(dtype, x, y, numbers, tmp_path, activation)
    np.testing.assert_array_equal(got, by_litert(content, given)[0])


@pytest.mark.parametrize("dtype", [BYTES, U8])
def test_division_by_a_number(dtype: Any, tmp_path: Path) -> None:
    x, y = np.arange(256).astype(np.uint8).view(dtype), np.array(_zero(dtype, 20)).astype(dtype)
    content, given, got = _divide(dtype, x, y, DIVISIONS[0][:3], tmp_path, held=True)
    np.testing.assert_array_equal(got, by_litert(content, given)[0])


@pytest.mark.parametrize("dtype", [BYTES, U8])
def test_division_by_zero(dtype: Any, tmp_path: Path) -> None:
    """LiteRT ends the run with an error; here it is the end of the range on the dividend's side."""
    x = np.array([_zero(dtype, z) for z in (-128, 2, 3, 4, 127)]).astype(dtype)
    y = np.full(5, _zero(dtype, -7)).astype(dtype)
    content, given, got = _divide(dtype, x, y, DIVISIONS[0][:3], tmp_path)
    assert got.tolist() == [_zero(dtype, z) for z in (-128, -128, 5, 127, 127)]
    with pytest.raises(RuntimeError, match="zero_point was not true"):
        by_litert(content, given)


@pytest.mark.parametrize("op", ["MEAN int8 (1, 2) 0.03", "SUM uint8 (1, 2) 0.9", "AVERAGE_POOL_2D int8 whole"])
def test_sums_of_images_are_products(op: str, tmp_path: Path) -> None:
    """Rows of bytes are added up as they are: no number becomes one of 32 bits before."""
    name, operands, results, kind, options = CASES[op]
    (path := tmp_path / "one.tflite").write_bytes(file_of(name, operands, results, options, kind))
    made = [n for n in read(path).graph if n.op not in ("Transpose", "Reshape")]
    assert made[0].op == "MatMulInteger"
    assert sum(n.output.type.count or 0 for n in made) <= 10 * len(made)


@pytest.mark.parametrize("dtype", [BYTES, U8])
def test_softmax_is_one_node(dtype: Any, tmp_path: Path) -> None:
    path, x = tmp_path / "one.tflite", _of((3, 5, 600), dtype, 0.05)
    y = Tensor(x.shape, dtype, 1 / 256, _zero(dtype, -128))
    path.write_bytes(content := file_of("SOFTMAX", [x], [y], {"beta": 1.0}, "SoftmaxOptions"))
    assert [n.op for n in read(path).graph] == ["QuantizedSoftmax"]
    # Of so many numbers alike each is less than half a step. LiteRT shifts by 32 bits then, which is undefined.
    (got,) = by_us(content, [np.full(x.shape, _zero(dtype, 3)).astype(dtype)], tmp_path)
    assert (got == _zero(dtype, -128)).all()


@pytest.mark.parametrize("op", ["CONV_2D 3x3 int8 0", "ADD int8 0", "SOFTMAX int8 10", "MEAN uint8 (1, 2) 0.03"])
def test_refuses_a_scale_of_zero(op: str, tmp_path: Path) -> None:
    name, operands, results, kind, options = CASES[op]
    given = [t for t in operands if t is not None and t.data is None]
    zero = [replace(t, scale=0.0) if t is given[0] else t for t in operands]
    with pytest.raises(ModelError, match="scale"):
        by_us(file_of(name, zero, results, options, kind), [], tmp_path)


@pytest.mark.parametrize("op", ["CONV_2D 3x3 int8 0", "ADD int8 0", "LOGISTIC int8 0.03", "AVERAGE_POOL_2D uint8 0"])
def test_in_floats_when_asked(op: str, tmp_path: Path) -> None:
    """Computed with real numbers between its inputs and outputs, the results are quanta beside the exact ones."""
    name, operands, results, kind, options = CASES[op]
    content = file_of(name, operands, results, options, kind)
    rng = np.random.default_rng(8)
    inputs = [random_quanta(rng, t) for t in operands if t is not None and t.data is None]
    (want,), (got, *_) = by_litert(content, inputs), by_us(content, inputs, tmp_path, dequantize=True)
    assert got.dtype == want.dtype
    assert np.abs(got.astype(int) - want).max() <= 1
