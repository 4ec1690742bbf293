"""Contrib operators beside onnxruntime: fused math, convolutions, norms, tensors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx_contrib import Case, judge

from minnow.converter.onnx.contrib.domain import parameters_of

RNG = np.random.default_rng(0)


def f32(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def i32(low: int, high: int, *shape: int) -> np.ndarray:
    return RNG.integers(low, high, shape).astype(np.int32)


def elementwise() -> list[Case]:
    x = np.concatenate([f32(2, 3, 5).reshape(-1), np.float32([0, -0.0, 20, -20, np.inf, np.nan, 1])]).reshape(37, 1)
    return [
        Case("Gelu", [x]),
        Case("QuickGelu", [x]),
        Case("QuickGelu", [x], {"alpha": 1.0}),
        Case("QuickGelu", [f32(0, 3)], {"alpha": -0.5}),
        Case("BiasGelu", [f32(2, 3, 7), f32(7)], constant=[1]),
        Case("GatedAdd", [f32(2, 3, 7), f32(2, 3, 7), f32(2, 3, 1)]),
        Case("LinearAttentionGate", [f32(2, 3, 4), f32(4), -np.exp(f32(4)), f32(2, 3, 4)], outputs=2, constant=[1, 2]),
        Case("LinearAttentionGate", [f32(2, 3, 4), f32(4), -np.exp(f32(4))], constant=[1, 2]),
        Case("BiasGelu", [f32(5), f32(5)]),
        Case("FastGelu", [f32(2, 3, 7)]),
        Case("FastGelu", [f32(2, 3, 7), f32(7)], constant=[1]),
        Case("FastGelu", [f32(3, 7), None]),
    ]


def products() -> list[Case]:
    a = {"alpha": 0.125}
    return [
        Case("FusedMatMul", [f32(3, 5), f32(5, 7)]),
        Case("FusedMatMul", [f32(2, 3, 5), f32(2, 7, 5)], a | {"transB": 1}),
        Case("FusedMatMul", [f32(2, 5, 3), f32(5, 7)], a | {"transA": 1}),
        Case("FusedMatMul", [f32(2, 4, 5, 3), f32(2, 4, 7, 5)], a | {"transA": 1, "transB": 1}),
        Case("FusedMatMul", [f32(5), f32(5, 7)], a),
        Case("FusedMatMul", [f32(3, 2, 5), f32(2, 5, 7)], {"transBatchA": 1}),
        Case("FusedMatMul", [f32(3, 2, 4, 5), f32(5, 2, 4, 7)], {"transBatchA": 1, "transBatchB": 1}),
        Case("FusedMatMul", [f32(5, 2, 3), f32(7, 2, 5)],
             {"transBatchA": 1, "transBatchB": 1, "transA": 1, "transB": 1}),
        Case("FusedMatMul", [f32(0, 5), f32(5, 7)], a),
        Case("TransposeMatMul", [f32(2, 3, 5), f32(2, 7, 5)], a | {"transB": 1}),
        Case("FusedGemm", [f32(3, 5), f32(5, 7), f32(7)], {"activation": "Relu"}, constant=[1, 2]),
        Case("FusedGemm", [f32(5, 3), f32(7, 5)], {"transA": 1, "transB": 1, "alpha": 0.5, "activation": "Tanh"}),
        Case("FusedGemm", [f32(3, 5), f32(5, 7), f32(3, 1)], {"beta": 2.0, "activation": "Sigmoid"}),
        Case("FusedGemm", [f32(3, 5), f32(5, 7), f32(1)], {"activation": "LeakyRelu", "activation_alpha": 0.25}),
    ]  # fmt: skip


def convolutions() -> list[Case]:
    x, w, bias = f32(2, 3, 9, 7), f32(4, 3, 3, 3), f32(4)
    padded = {"pads": [1, 1, 1, 1]}
    deconv = [f32(1, 3, 4, 5), f32(3, 2, 3, 3), np.array([1, 0, 1, 2]), f32(2)]
    out = [
        Case(
            "FusedConv",
            [x, w, bias],
            {"activation": name} | ({"activation_params": given} if given else {}),
            constant=[1, 2],
        )
        for name, given in (
            ("Relu", []),
            ("Tanh", []),
            ("Sigmoid", []),
            ("LeakyRelu", [0.25]),
            ("Clip", [-0.5, 0.75]),
            ("HardSigmoid", [0.25, 0.4]),
        )
    ]
    return [
        *out,
        Case("FusedConv", [x, w, None, f32(2, 4, 9, 7)], padded | {"activation": "Relu"}, constant=[1]),
        Case("FusedConv", [x, w, bias, f32(2, 4, 9, 7)], padded, constant=[1, 2]),
        Case("FusedConv", [f32(1, 4, 5, 5), f32(6, 2, 3, 3)], {"group": 2, "strides": [2, 1]}, constant=[1]),
        Case("NhwcMaxPool", [RNG.integers(-128, 128, (2, 7, 5, 3)).astype(np.int8)], {"kernel_shape": [3, 2]}),
        Case("NhwcMaxPool", [RNG.integers(0, 256, (1, 7, 5, 3)).astype(np.uint8)],
             {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2], "ceil_mode": 1}),
        Case("ConvTransposeWithDynamicPads", deconv, {"strides": [2, 2]}, constant=[1, 3]),
        Case("ConvTransposeWithDynamicPads", deconv, {"strides": [2, 2]}, constant=[1, 2, 3]),
    ]  # fmt: skip


def norms() -> list[Case]:
    x, skip, g, c, bias = f32(2, 3, 8), f32(2, 3, 8), f32(8), f32(8), f32(8)
    every = ["y", "", "", "sum"]
    ids, segments = i32(0, 11, 2, 5), i32(0, 2, 2, 5)
    tables = [f32(11, 8), f32(7, 8), f32(2, 8), g, c]
    mask = np.array([[1, 0, 1, 2, -1], [1, 1, 1, 1, 1]], np.int32)
    small = {"epsilon": 1e-5}
    out = [Case("SimplifiedLayerNormalization", [x, g], {"axis": axis} | small, domain="") for axis in (-1, 2)]
    return [
        *out,
        Case("SimplifiedLayerNormalization", [x, f32(3, 8)], {"axis": 1}, outputs=2, domain=""),
        Case("GatedRMSNorm", [x, g, skip], constant=[1]),
        Case("GatedRMSNorm", [x, f32(4), skip], {"activation": "sigmoid", "epsilon": 0.1}, constant=[1]),
        Case("SkipLayerNormalization", [x, skip, g, c, bias], outputs=every, constant=[2, 3, 4]),
        Case("SkipLayerNormalization", [x, skip, g, c]),
        Case("SkipLayerNormalization", [x, skip, g, None, bias], small),
        Case("SkipLayerNormalization", [x, skip[:1], g, c], small, outputs=every),
        Case("SkipLayerNormalization", [x, skip[0], g], small, outputs=every),
        Case("SkipLayerNormalization", [f32(5, 8), f32(5, 8), g, c], small),
        Case("SkipSimplifiedLayerNormalization", [x, skip, g], small, outputs=every, constant=[2]),
        Case("SkipSimplifiedLayerNormalization", [x, skip, g, bias], outputs=every),
        Case("SkipSimplifiedLayerNormalization", [f32(5, 8), f32(5, 8), g], small),
        *(Case("EmbedLayerNormalization", inputs, {"epsilon": 1e-3}, outputs, constant=[2, 3, 4, 5, 6])
          for inputs, outputs in (
              ([ids, segments, *tables, mask], 2),
              ([ids, segments, *tables], ["y", "", "sum"]),
              ([ids, segments, *tables], 2),
              ([ids, None, *tables[:2], None, g, c, mask], 3),
              ([ids, segments, *tables, None, i32(0, 7, 2, 5)], 2),
              ([ids, segments, *tables, mask, i32(0, 7, 1, 5)], 2),
          )),
    ]  # fmt: skip


def tensors() -> list[Case]:
    x, y = f32(3, 4, 5), RNG.integers(0, 3, (2, 2)).astype(np.int64)
    grid = (RNG.random((2, 4, 5, 2)) * 2.4 - 1.2).astype(np.float32)
    image = f32(2, 3, 7, 5)
    boxes = np.float32([[0.1, 0.2, 0.9, 0.7], [-0.2, 0, 1.1, 1], [0.8, 0.9, 0.3, 0.1], [0, 0, 1, 1]])
    batch = np.array([0, 1, 1, 0], np.int32)
    words = RNG.integers(0, 3, (3, 9))
    return [
        *(Case("Trilu", [x, np.array(k)], {"upper": upper}) for k in (-1, 0, 2) for upper in (0, 1)),
        Case("Trilu", [x]),
        Case("GatherND", [x, y]),
        *(Case("GridSample", [f32(2, 3, 6, 7), grid], {"mode": mode, "padding_mode": pad, "align_corners": align})
          for mode, pad, align in (("bilinear", "zeros", 0), ("nearest", "border", 1), ("bicubic", "reflection", 0))),
        Case("ExpandDims", [x, np.array(-1, np.int32)], constant=[1]),
        Case("ExpandDims", [x, np.array(1, np.int32)], constant=[1]),
        *(Case("Range", [np.array(v, t) for v in ends]) for t in (np.int64, np.float32, np.int32)
          for ends in ((2, 11, 3), (5, -4, -2), (1, 1, 1), (0, 4))),
        Case("Range", [np.array([1]), np.array([6]), np.array([2])]),
        Case("Pad", [x, np.array([1, 0, 2, 0, 3, 1]), np.float32([0.5])], constant=[1]),
        Case("Pad", [x, np.array([[1, 0, 2, 0, 3, 1]])], {"mode": "edge"}, constant=[1]),
        Case("Pad", [x, np.array([0, 1, 2, 0, 3, 1])], {"mode": "reflect"}),
        Case("Unique", [np.float32([2, 1, 1, 3, 4, 3, 2])], outputs=3),
        Case("Unique", [np.float32([-1])], outputs=3),
        *(Case("CDist", [f32(5, 7), f32(3, 7)], {"metric": metric}, close=1e-4)
          for metric in ("euclidean", "sqeuclidean")),
        *(Case("Inverse", [f32(*shape, n, n) + 3 * np.eye(n, dtype=np.float32)], close=1e-4)
          for *shape, n in ((3,), (2, 5), (2, 1, 4), (1,), (0, 2))),
        *(Case("CropAndResize", [image, boxes, batch, np.array(size, np.int32)],
               {"mode": mode, "extrapolation_value": 0.75}, close=1e-4)
          for size in ((4, 3), (1, 6), (9, 1)) for mode in ("bilinear", "nearest")),
        *(Case("NGramRepeatBlock", [words, f32(3, 3)], {"ngram_size": n}) for n in (1, 2, 3, 9, 10)),
    ]  # fmt: skip


EVERY = [*elementwise(), *products(), *convolutions(), *norms(), *tensors()]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", EVERY, ids=str)
def test_agrees_with_onnxruntime(case: Case, tmp_path: Path) -> None:
    judge(case, tmp_path)


@pytest.mark.parametrize(
    ("activation", "names"),
    [
        ("Relu", ()),
        ("Gelu", ()),
        ("LeakyRelu", ("alpha",)),
        ("HardSigmoid", ("alpha", "beta")),
        ("Clip", ("min", "max")),
    ],
)
def test_parameters_are_in_the_order_of_onnxruntime(activation: str, names: tuple[str, ...]) -> None:
    """FusedConv gives them by position; their names come from the registry."""
    assert parameters_of(activation) == names
