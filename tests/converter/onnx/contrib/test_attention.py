"""Attention of com.microsoft beside onnxruntime, over forms of masks, packing and caches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx_contrib import Case, judge

RNG = np.random.default_rng(1)


def f32(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def i32(*rows: Any) -> np.ndarray:
    return np.array(rows, np.int32)


B, S, P, N, D, HIDDEN = 2, 5, 3, 3, 4, 7
T = P + S
LEFT = i32([0, 1, 1, 1, 1], [1, 1, 1, 1, 1])
RIGHT = i32([1, 2, 1, -1, 0], [1, 1, 1, 1, 1])
BLOCKS = (RNG.random((B, S, S)) < 0.7).astype(np.int32)
HEADS = {"num_heads": N}
CAUSAL = HEADS | {"unidirectional": 1}


def packed() -> list[Case]:
    x, w, bias = f32(B, S, HIDDEN), f32(HIDDEN, 3 * N * D), f32(3 * N * D)
    past, added = f32(2, B, N, P, D), f32(B, N, S, S)
    both = ["y", "present"]

    def case(*rest: Any, attrs: Any = HEADS, outputs: Any = 1, operands: Any = (x, w, bias)) -> Case:
        return Case("Attention", [*operands, *rest], attrs, outputs, constant=[1, 2])

    masks = [i32(3, 5), i32(0, 99), i32(4, 5, 1, 0), LEFT, RIGHT, BLOCKS]
    return [
        case(),
        case(attrs=CAUSAL),
        case(outputs=both),
        *(case(m) for m in masks),
        *(case(m, attrs=CAUSAL) for m in masks),
        case(RIGHT, attrs=HEADS | {"mask_filter_value": -50.0, "scale": 0.3}),
        case(None, past, outputs=both),
        case(None, past, attrs=CAUSAL, outputs=both),
        case(np.ones((B, T), np.int32), past, attrs=CAUSAL, outputs=both),
        case(i32([0] * 2 + [1] * 6, [1] * 8), past, attrs=CAUSAL, outputs=both),
        case(None, None, added),
        case(RIGHT, None, added[:1], attrs=CAUSAL),
        case(None, None, added[:, :1]),
        case(None, past[:, :, :, :0], attrs=CAUSAL, outputs=both),
        case(operands=(x, f32(HIDDEN, 2 * N * D + N * 2), f32(2 * N * D + N * 2)),
             attrs=HEADS | {"qkv_hidden_sizes": [N * D, N * D, N * 2]}),
        case(operands=(f32(1, 1, HIDDEN), w, bias)),
    ]  # fmt: skip


def quantized() -> list[Case]:
    # Weights of 7 bits: with more, onnxruntime saturates sums of two products on some processors.
    x, w = RNG.integers(0, 256, (B, S, HIDDEN)).astype(np.uint8), RNG.integers(-64, 64, (HIDDEN, 3 * N * D))
    bias, past = f32(3 * N * D), f32(2, B, N, P, D)
    scales = [np.float32(0.02), np.float32(0.01)]
    per_column = [np.float32(0.02), np.abs(f32(3 * N * D)) / 50]
    zeros = [np.uint8(120), np.int8(3)]

    def case(*rest: Any, weights: Any = w.astype(np.int8), attrs: Any = HEADS, outputs: Any = 1) -> Case:
        return Case("QAttention", [x, weights, bias, *rest], attrs, outputs, constant=[1, 2, 3, 4, 6, 7], close=1e-4)

    return [
        case(*scales, None, *zeros),
        case(*scales),
        case(*per_column, i32(3, 5), *zeros),
        case(*scales, RIGHT, *zeros, attrs=CAUSAL),
        case(*per_column, None, *zeros, past, attrs=CAUSAL, outputs=["y", "present"]),
        case(*scales, None, zeros[0], np.uint8(130), weights=(w + 128).astype(np.uint8)),
    ]


def many_heads() -> list[Case]:
    q, k, v = f32(B, S, N * D), f32(B, T, N * D), f32(B, T, N * 2)
    bias = f32(2 * N * D + N * 2)
    past = f32(B, N, P, D)
    kv = k[:, :S]

    def case(*inputs: Any, attrs: Any = HEADS, outputs: Any = 1, named: bool = True) -> Case:
        return Case("MultiHeadAttention", inputs, attrs, outputs, constant=[3], named=named, declared={"weights": 1})

    return [
        case(q, k, v),
        case(q, k, k, attrs=HEADS | {"scale": 0.2}),
        case(q, k, v, bias, named=False),
        case(q, f32(B, N, T, D), f32(B, N, T, D)),
        case(q, f32(B, N, T, D), f32(B, N, T, D), f32(3 * N * D), named=False),
        case(q, k, v, None, i32(3, 8)),
        case(q, k, v, None, i32(0, 99)),
        case(q, kv, kv, None, RIGHT),
        case(q, k, v, None, (RNG.random((B, T)) < 0.7).astype(np.int32)),
        case(q, k, v, None, (RNG.random((B, S, T)) < 0.7).astype(np.int32)),
        case(q, k, v, None, None, f32(B, N, S, T)),
        case(q, k, v, None, None, f32(1, 1, S, T)),
        case(q, kv, kv, None, None, None, past, past, outputs=["y", "k", "v"]),
        case(q, kv, kv, None, None, f32(1, N, S, T), past, past, attrs=CAUSAL, outputs=["y", "k", "v"]),
        case(q, kv, kv, None, None, f32(1, N, S, T), past, past, attrs=CAUSAL, outputs=["y", "k", "v"]),
        case(q, kv, kv, None, None, f32(1, N, S, T), past, past, outputs=["y", "k", "v"]),
        case(q, kv, kv, None, None, f32(1, N, S, S), attrs=CAUSAL),
        case(q, kv, kv, f32(3 * N * D), None, None, past, past, attrs=CAUSAL, outputs=["y", "k", "v"], named=False),
        case(q, kv, kv, None, np.ones((B, T), np.int32), None, past, past, outputs=["y", "k", "v"]),
        case(q, kv, kv, None, None, None, past[:, :, :0], past[:, :, :0], attrs=CAUSAL, outputs=["y", "k", "v"]),
        case(q, kv, kv, attrs=CAUSAL),
        case(q, kv, kv, outputs=["y", "k", "v", "weights"]),
        case(q, k, k, None, i32(3, 8), f32(1, 1, S, T), outputs=["y", "k", "v", "weights"]),
        case(q, kv, kv, attrs=CAUSAL, outputs=["y", "k", "v", "weights"]),
    ]


def decoding() -> list[Case]:
    q = f32(B, 1, N * D)
    buffers = f32(B, N, T, D), f32(B, N, T, D)
    shared = HEADS | {"past_present_share_buffer": 1}
    present = ["y", "k", "v"]

    def case(*inputs: Any, attrs: Any = shared, outputs: Any = 1, named: bool = True) -> Case:
        return Case("DecoderMaskedMultiHeadAttention", inputs, attrs, outputs, constant=[10], named=named,
                    declared={"weights": 1})  # fmt: skip

    return [
        case(q, q, q, None, None, *buffers, i32(P), outputs=present),
        case(q, q, q, None, None, *buffers, i32(0), outputs=present),
        case(q, q, q, None, None, *buffers, i32(T - 1), outputs=present),
        case(q, q, q, i32([0, 1, 1, 1], [1, 1, 1, 1]), None, *buffers, i32(P), outputs=present),
        case(q, q, q, None, f32(1, N, 1, P + 1), *buffers, i32(P), outputs=present),
        case(q, f32(B, N, T, D), f32(B, N, T, D), attrs=HEADS),
        case(q, q, q, None, None, *buffers, i32(P), None, None, f32(3 * N * D), outputs=present, named=False),
        case(q, q, q, None, None, *buffers, i32(P), attrs=shared | {"output_qk": 1}, outputs=[*present, "weights"]),
    ]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", [*packed(), *quantized(), *many_heads(), *decoding()], ids=str)
def test_agrees_with_onnxruntime(case: Case, tmp_path: Any) -> None:
    judge(case, tmp_path)
