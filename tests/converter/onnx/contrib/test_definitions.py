"""Contrib operators that onnxruntime computes on accelerators only: beside what their definitions say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_contrib import Case, assert_same, engine_runs
from onnx_oracle import OnnxNode
from onnx_oracle import onnxruntime_runs as plain_runs

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(5)


def f32(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def plain(op: str, *inputs: Array, **attrs: Any) -> Array:
    """What onnxruntime computes for an operator of ONNX's own."""
    return plain_runs(OnnxNode(op, inputs, attrs))[0]


def first(x: Array) -> Array:
    return np.ascontiguousarray(np.moveaxis(x, -1, 1))


def last(x: Array) -> Array:
    return np.ascontiguousarray(np.moveaxis(x, 1, -1))


def silu(x: Array) -> Array:
    return x / (1 + np.exp(-x))


def group_norm(x: Array, gamma: Array, beta: Array, groups: int, epsilon: float = 1e-5) -> Array:
    return plain("GroupNormalization", x, gamma, beta, num_groups=groups, epsilon=epsilon)


def gated(query: Array, query_bias: Array, places: Array, w: Array, bias: Array, scale: Array, heads: int) -> Array:
    b, s, size = query.shape
    layer = (query + query_bias).reshape(b, s, heads, size // heads).transpose(0, 2, 1, 3)
    gates = 1 / (1 + np.exp(-(layer @ w + bias).reshape(b, heads, s, 2, -1).sum(-1)))
    return (gates[..., :1] * (gates[..., 1:] * scale - 1) + 2) * places


def complex_of(x: Array) -> Array:
    return x[..., 0] + 1j * x[..., 1]


def pairs(x: Array) -> Array:
    return np.stack([x.real, x.imag], -1).astype(np.float32)


WINDOW = {"group": 2, "pads": [1, 0, 1, 2], "strides": [2, 1]}


def conv(x: Array, w: Array, *bias: Array) -> Array:
    return last(plain("Conv", first(x), w, *bias, **WINDOW))


def skip_group_norm(x: Array, gamma: Array, beta: Array, skip: Array, bias: Array) -> tuple[Array, Array]:
    total = x + skip.reshape(len(x), *(skip.shape[1:-1] or (1, 1)), -1) + bias
    return silu(last(group_norm(first(total), gamma, beta, 2))), total


def mean(x: Array, scale: Array, zero: Array, new_scale: Array, new_zero: Array) -> Array:
    numbers = ((x.astype(np.float64) - zero) * scale).mean(2, keepdims=True)
    return np.clip(np.rint(numbers / new_scale) + new_zero, 0, 255).astype(np.uint8)


def table() -> list[tuple[Case, Callable[..., Any]]]:
    """Cases, and functions that give the results for their operands."""
    x, skip, bias = f32(2, 3, 8), f32(2, 3, 8), f32(8)
    image, w = f32(2, 7, 5, 4), f32(6, 2, 3, 3)
    gamma, beta, other = f32(4), f32(4), f32(2, 7, 5, 4)
    norm = {"groups": 2, "activation": 1}
    a, c = f32(3, 1, 4, 2), f32(2, 4, 2)
    small, ints = RNG.integers(0, 256, (2, 3, 4)).astype(np.uint8), RNG.integers(-128, 128, (2, 3, 4)).astype(np.int8)
    odd = f32(3, 4)
    odd[1, 2] = -np.inf
    finite = [f32(2, 3), f32(0), odd[:0]]
    fixed = [np.float32(0.05), np.uint8(120), np.float32(0.02), np.uint8(100)]
    return [
        (Case("BiasAdd", [x, bias, skip]), lambda x, b, s: x + b + s),
        (Case("BiasSplitGelu", [x, bias], constant=[1]),
         lambda x, b: (x + b)[..., :4] * plain("Gelu", (x + b)[..., 4:])),
        (Case("BiasSoftmax", [f32(2, 3, 4, 5), f32(2, 1, 1, 5)], {"axis": 3, "is_inner_broadcast": 1}),
         lambda x, b: plain("Softmax", x + b)),
        (Case("BiasSoftmax", [f32(2, 3, 4, 5), f32(4, 5)], {"axis": 3, "is_inner_broadcast": 0}),
         lambda x, b: plain("Softmax", x + b)),
        (Case("BiasDropout", [x, bias, skip]), lambda x, b, s: x + b + s),
        (Case("GemmFastGelu", [f32(2, 3, 5), f32(5, 7), f32(7)]),
         lambda x, w, b: plain("Gelu", x @ w + b, approximate="tanh")),
        (Case("FusedMatMulActivation", [f32(2, 3, 5), f32(7, 5)], {"activation": "Relu", "transB": 1, "alpha": 0.5}),
         lambda x, y: np.maximum(x @ y.T / 2, 0)),
        (Case("NhwcConv", [image, w], WINDOW, constant=[1]), conv),
        (Case("NhwcConv", [image, w, f32(6)], WINDOW, constant=[1, 2]), conv),
        (Case("NhwcFusedConv", [image, w, f32(6)], WINDOW | {"activation": "Relu"}, constant=[1, 2]),
         lambda *v: np.maximum(conv(*v), 0)),
        (Case("NhwcFusedConv", [image, w, None, f32(2, 4, 5, 6)], WINDOW | {"activation": "Relu"}, constant=[1]),
         lambda x, w, _, z: np.maximum(conv(x, w) + z, 0)),
        (Case("GroupNorm", [image, gamma, beta], norm, named=False, constant=[1, 2]),
         lambda x, g, b: silu(last(group_norm(first(x), g, b, 2)))),
        (Case("GroupNorm", [first(image), gamma, beta], norm | {"activation": 0, "channels_last": 0, "epsilon": 0.1},
              named=False, constant=[1, 2]), lambda x, g, b: group_norm(x, g, b, 2, 0.1)),
        *((Case("SkipGroupNorm", [image, gamma, beta, s, b], norm, 2, named=False, constant=[1, 2, 4]),
           skip_group_norm)
          for s, b in ((other, gamma), (other[:, :1, :1], gamma), (other[:, 0, 0], beta))),
        (Case("ComplexMul", [a, c]), lambda a, c: pairs(complex_of(a) * complex_of(c))),
        (Case("ComplexMulConj", [a, c]), lambda a, c: pairs(complex_of(a) * complex_of(c).conj())),
        (Case("Rfft", [f32(3, 10)], {"onesided": 1, "signal_ndim": 1}), lambda x: pairs(np.fft.rfft(x))),
        (Case("Irfft", [f32(3, 6, 2)], {"onesided": 1, "signal_ndim": 1}),
         lambda x: np.fft.irfft(complex_of(x)).astype(np.float32)),
        (Case("TorchEmbedding", [f32(7, 3), RNG.integers(0, 7, (2, 5))]), lambda t, i: t[i]),
        *((Case("IsAllFinite", v, attrs), lambda *v, want=want: np.array(want)) for v, attrs, want in (
            (finite, {}, True), ([*finite, odd], {}, False), ([odd], {"isnan_only": 1}, True),
            ([odd], {"isinf_only": 1}, False),
            ([np.float32([np.nan])], {"isinf_only": 1}, True))),
        (Case("GatedRelativePositionBias",
              [f32(2, 5, 12), f32(12), f32(1, 3, 5, 5), f32(4, 8), f32(8), f32(1, 3, 1, 1)], {"num_heads": 3},
              constant=[3, 4]), lambda *v: gated(*v, 3)),
        (Case("MulInteger", [small, np.uint8(3), small[:1], np.uint8(200)]),
         lambda x, z, y, u: (x.astype(np.int32) - 3) * (y.astype(np.int32) - 200)),
        (Case("ReduceSumInteger", [ints], {"axes": [1, -1], "keepdims": 0}),
         lambda x: x.astype(np.int32).sum((1, 2), dtype=np.int32)),
        (Case("QLinearReduceMean", [small, *fixed], {"axes": [2], "keepdims": 1}, quantum=1, constant=[1, 2, 3, 4]),
         mean),
        (Case("LayerNormalization", [x, bias, bias], {"epsilon": 0.1}, 3),
         lambda x, g, b: tuple(plain_runs(OnnxNode("LayerNormalization", (x, g, b), {"epsilon": 0.1}, 3)))),
    ]  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("case", "definition"), [pytest.param(*row, id=str(row[0])) for row in table()])
def test_agrees_with_the_definition(case: Case, definition: Callable[..., Any], tmp_path: Path) -> None:
    model, feed = case.model()
    want = definition(*case.inputs)
    got = engine_runs(model, feed, tmp_path)
    assert_same(got, [np.asarray(w) for w in (want if isinstance(want, tuple) else (want,))], case)
