"""Layers of 8-bit numbers in com.microsoft beside onnxruntime: at most one quantum apart, sums exact."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_contrib import Case, judge

RNG = np.random.default_rng(4)
I8, U8 = np.int8, np.uint8


def small(dtype: Any, *shape: int) -> np.ndarray:
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max + 1, shape).astype(dtype)


def weights(dtype: Any, *shape: int) -> np.ndarray:
    """Those of a layer, with which onnxruntime is right on every processor.

    Without instructions for dot products of bytes it adds two products of signed ones in 16 bits, which saturate from
    7 bits on. `tests/kernels` has all 8.
    """
    return RNG.integers(-64, 64, shape).astype(dtype) if dtype is I8 else small(dtype, *shape)


def f32(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def at(dtype: Any, scale: float, zero: int | None) -> list[Any]:
    """A scale, and a zero point of the type."""
    return [np.float32(scale), None if zero is None else np.array(zero, dtype)]


def few(op: str, inputs: list[Any], attrs: Any = None, **more: Any) -> Case:
    """A case whose scales and zero points are weights of the file."""
    constant = [i for i, a in enumerate(inputs) if a is not None and np.ndim(a) == 0]
    quantum = int(op in ("QLinearAdd", "QLinearAveragePool"))  # halves, of which sums in another order decide
    return Case(op, inputs, attrs or {}, constant=constant, **{"quantum": quantum, **more})


def elementwise() -> list[Case]:
    out = []
    for t, z in ((U8, 120), (I8, -7)):
        x, y = small(t, 2, 3, 5), small(t, 3, 1)
        for op in ("QLinearAdd", "QLinearMul"):
            out += [
                few(op, [x, *at(t, 0.03, z), y, *at(t, 0.05, z + 9), *at(t, 0.07, z - 5)]),
                few(op, [x[:0], *at(t, 0.03, z), y, *at(t, 0.05, z), *at(t, 0.07, z)]),
            ]
        # All pairs of bytes, in scales whose sums are hardly ever midway between two steps: the integers agree.
        rows = np.arange(np.iinfo(t).min, np.iinfo(t).max + 1).astype(t).repeat(256).reshape(1, 256, 256)
        pairs = [rows, *at(t, 0.0173, z), rows.transpose(0, 2, 1).copy(), *at(t, 0.0311, z + 2), *at(t, 0.0227, z)]
        out += [
            few("QLinearAdd", pairs, named=False, quantum=0),
            few("QLinearSigmoid", [x, *at(t, 0.05, z), *at(t, 1 / 256, 0 if t is U8 else -128)]),
            few("QLinearLeakyRelu", [x, *at(t, 0.05, z), *at(t, 0.04, z + 3)], {"alpha": 0.2}),
            few("QLinearSoftmax", [x, *at(t, 0.05, z), *at(t, 1 / 256, 0)], {"opset": 13}),
            few("QLinearSoftmax", [small(t, 99, 2), *at(t, 0.02, z), *at(t, 1 / 255, 0)], {"opset": 13}),
            few("QLinearSoftmax", [x, *at(t, 0.05, z), *at(t, 1 / 256, 0)], {"opset": 13, "axis": 1}),
            few("QLinearSoftmax", [x, *at(t, 0.05, z), *at(t, 1 / 256, 0)], {"opset": 11, "axis": 1}, named=False),
            few("QLinearConcat", [*at(t, 0.05, z), x, *at(t, 0.05, z), x, *at(t, 0.02, z + 7)], {"axis": 1}),
            few("QLinearConcat", [*at(t, 0.05, z), x, *at(t, 0.03, z)], {"axis": -1}, named=False),
            few("QLinearWhere", [RNG.random((2, 3, 5)) < 0.5, x, *at(t, 0.05, z), y, *at(t, 0.02, z), *at(t, 0.04, z)]),
        ]
    return out


def pools() -> list[Case]:
    out = []
    for t, z in ((U8, 120), (I8, -7)):
        x, scales = small(t, 2, 3, 7, 5), [*at(t, 0.05, z), *at(t, 0.03, z + 4)]
        for last in (0, 1):
            window = {"kernel_shape": [3, 2], "strides": [2, 1], "channels_last": last}
            out += [
                few("QLinearAveragePool", [x, *scales], window),
                few("QLinearAveragePool", [x, *scales], window | {"pads": [1, 0, 1, 1]}),
                few("QLinearAveragePool", [x, *scales], window | {"pads": [1, 0, 1, 1], "count_include_pad": 1}),
                few("QLinearGlobalAveragePool", [x, *scales], {"channels_last": last}),
                few("QLinearGlobalAveragePool", [x, *scales], {"channels_last": last}, named=False),
            ]
    return out


def convolutions() -> list[Case]:
    def case(
        x: Any, w: Any, bias: bool = False, per_channel: bool = False, t: Any = U8, s: Any = I8, **attrs: Any
    ) -> Case:
        outs, w_zero = w[0], (np.array(0, s) if s is I8 else np.array(127, s))
        w_scale = np.abs(f32(outs)) / 50 + np.float32(0.01) if per_channel else np.float32(0.02)
        inputs = [
            small(t, *x),
            *at(t, 0.05, 3),
            weights(s, *w),
            w_scale,
            np.full(outs, w_zero) if per_channel else w_zero,
            *at(t, 1.1, 5),
        ]
        inputs += [RNG.integers(-999, 999, outs).astype(np.int32)] if bias else []
        return Case("QLinearConv", inputs, attrs, constant=range(1, 9))

    return [
        case((2, 3, 7, 5), (4, 3, 3, 3), bias=True),
        case((2, 7, 5, 3), (4, 3, 3, 3), bias=True, channels_last=1),
        case((1, 7, 5, 4), (6, 2, 3, 3), group=2, per_channel=True, channels_last=1, pads=[1, 1, 1, 1]),
        case((1, 7, 5, 3), (3, 1, 3, 3), group=3, channels_last=1, strides=[2, 2], t=I8),
        case((1, 7, 5, 3), (4, 3, 1, 1), channels_last=1, s=U8),
    ]  # fmt: skip


def products() -> list[Case]:
    out = []
    for t, s in ((U8, I8), (U8, U8), (I8, I8)):
        x, y = small(t, 3, 11), weights(s, 11, 7)
        xs, ys = at(t, 0.02, 5), at(s, 0.03, 4)
        columns = [np.abs(f32(7)) / 30, small(s, 7)]
        c = RNG.integers(-999, 999, 7).astype(np.int32)
        out += [
            few("QGemm", [x, *xs, y, *ys], close=1e-5),
            few("QGemm", [x, *xs, y, *ys, c], {"alpha": 0.5}, close=1e-5),
            few("QGemm", [x, *xs, y, *ys, c, *at(t, 0.9, 3)]),
            few("QGemm", [x.T.copy(), *xs, y.T.copy(), *columns, c, *at(t, 0.9, 3)], {"transA": 1, "transB": 1}),
            few("QGemm", [x, *xs, y, *columns, None, *at(t, 0.9, 3)]),
            few("MatMulIntegerToFloat", [x, y, xs[0], ys[0], xs[1], ys[1], f32(7)], close=1e-5),
            few("MatMulIntegerToFloat", [small(t, 2, 3, 11), y, xs[0], *columns[:1], xs[1], columns[1]], close=1e-5),
            few("MatMulIntegerToFloat", [x, y, xs[0], ys[0]], close=1e-5),
        ]
        if t is U8:
            out += [
                few("DynamicQuantizeMatMul", [f32(3, 11), y, *ys], close=1e-4),
                few("DynamicQuantizeMatMul", [f32(2, 3, 11), y, *columns, f32(7)], close=1e-4),
                few("DynamicQuantizeMatMul", [f32(3, 11), y, ys[0], None, f32(7)], close=1e-4),
            ]
    wide = RNG.integers(-3000, 3000, (2, 3, 5)).astype(np.int16)
    return [*out, Case("MatMulInteger16", [wide, RNG.integers(-3000, 3000, (5, 7)).astype(np.int16)])]


def numbers() -> list[Case]:
    x = f32(2, 3, 5) * 3
    out = []
    for t in (U8, I8, np.uint16, np.int16):
        scale = 8 / (np.iinfo(t).max - np.iinfo(t).min)
        out += [
            few("QuantizeLinear", [x, *at(t, scale, 7)]),
            few(
                "QuantizeLinear",
                [x, np.float32([0.1, 0.2, 0.3]) * np.float32(scale), np.array([1, 2, 3], t)],
                {"axis": 1},
            ),
            few("DequantizeLinear", [small(t, 2, 3, 5), *at(t, scale, 7)]),
            few("DequantizeLinear", [small(t, 2, 3, 5), f32(5), np.arange(5).astype(t)], {"axis": 2}),
        ]
    return [*out, few("DequantizeLinear", [small(np.int32, 2, 3), np.float32(0.01)])]


def recurrent() -> list[Case]:
    def case(directions: int, columns: bool, t: Any, **attrs: Any) -> Case:
        width, hidden = 6, 5
        scales = (directions, 4 * hidden) if columns else (directions,)
        (w, *w_rest), (r, *r_rest) = (
            [weights(t, directions, n, 4 * hidden), np.abs(f32(*scales)) / 200 + np.float32(0.002),
             np.full(scales, 0 if t is I8 else 128, t)] for n in (width, hidden)
        )  # fmt: skip
        inputs = [f32(7, 2, width), w, r, f32(directions, 8 * hidden), None, None, None, None, *w_rest, *r_rest]
        attrs = {"hidden_size": hidden} | attrs
        # Threads there take rows of a step apart, and give them ranges of their own.
        return Case("DynamicQuantizeLSTM", inputs, attrs, 3, constant=range(1, 12), close=3e-2)

    return [case(1, False, U8), case(2, False, I8, direction="bidirectional"), case(1, True, I8, direction="reverse")]


def embeddings() -> list[Case]:
    ids = [RNG.integers(0, 2, (2, 5)).astype(np.int32) for _ in range(2)]
    mask = np.array([[1, 1, 0, 0, 0], [1, 1, 1, 1, 1]], np.int32)

    def case(t: Any, zero: int, segments: bool = True, mask: Any = mask) -> Case:
        kept = [True, True, segments, True, True]
        shapes = ((9, 8), (7, 8), (2, 8), (8,), (8,))
        tables = [small(t, *shape) if k else None for k, shape in zip(kept, shapes, strict=True)]
        scales = [np.float32(0.01 * (i + 1)) if k else None for i, k in enumerate(kept)]
        zeros = [np.array(zero + i, t) if k else None for i, k in enumerate(kept)]
        inputs = [ids[0], ids[1] if segments else None, *tables, mask, *scales, *zeros]
        return Case("QEmbedLayerNormalization", inputs, {"epsilon": 1e-5}, 2, constant=[*range(2, 7), *range(8, 18)])

    return [case(U8, 120), case(I8, -5), case(U8, 100, segments=False), case(I8, 2, mask=None)]


EVERY = [*elementwise(), *pools(), *convolutions(), *products(), *numbers(), *recurrent(), *embeddings()]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", EVERY, ids=str)
def test_agrees_with_onnxruntime(case: Case, tmp_path: Path) -> None:
    judge(case, tmp_path)
