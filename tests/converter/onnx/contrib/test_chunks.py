"""Grouped attention on padded chunks, and on queries and keys that are normed; gates that are projected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from contrib.test_rotary import COS, SIN, D, G, N, f32, i32
from onnx_contrib import Case, assert_same, engine_runs, onnxruntime_runs

from minnow.converter import read
from minnow.schema.errors import ModelError

PLAIN = {"num_heads": N, "kv_num_heads": G}
EVERY = ["y", "k", "v"]


def chunk(held: Any, valid: Any, length: int, buffer: int, attrs: Any = PLAIN, bound: int | None = None) -> Case:
    """A chunk of `length` rows, of which `valid` are tokens, after `held` tokens in a cache of `buffer` places.

    `held` and `valid` have a number for each of the batch; `bound` is total_sequence_length.
    """
    batch, all_of_it = len(held), [h + v for h, v in zip(held, valid, strict=True)]
    q, k, v = f32(batch, length, N * D), f32(batch, length, G * D), f32(batch, length, G * D)
    old = [f32(batch, G, buffer, D) for _ in range(2)]
    tables = [COS, SIN] if attrs.get("do_rotary") else [None, None]
    last, total = i32(*[t - 1 for t in all_of_it]), np.int32(buffer if bound is None else bound)
    inputs = [q, k, v, *old, last, total, *tables, *[None] * 7, i32(*valid)]
    return Case("GroupQueryAttention", inputs, attrs, EVERY, constant=[7, 8], named=False)


CHUNKS = [
    chunk([4, 2], [3, 1], 3, 9),
    chunk([4, 2], [3, 1], 3, 9, PLAIN | {"do_rotary": 1}),
    chunk([0, 3], [4, 2], 4, 12, PLAIN | {"do_rotary": 1, "rotary_interleaved": 1}),
    chunk([5, 3], [0, 2], 2, 8, PLAIN | {"do_rotary": 1}),  # the first of the batch is idle
    chunk([5, 3], [0, 1], 1, 8),
    chunk([6, 2], [2, 3], 3, 11, PLAIN | {"local_window_size": 3}),
    chunk([4, 4], [3, 3], 3, 7, PLAIN | {"softcap": 2.0}),
    chunk([4, 2], [2, 1], 3, 9, bound=6),
]


@pytest.mark.parametrize("case", CHUNKS, ids=str)
def test_a_padded_chunk_agrees_with_onnxruntime_where_it_is_specified(case: Case, tmp_path: Path) -> None:
    model, feed = case.model()
    got, want = engine_runs(model, feed, tmp_path), onnxruntime_runs(model, feed)
    assert [a.shape for a in got] == [a.shape for a in want]
    for i, valid in enumerate(case.inputs[16]):
        held = case.inputs[5][i] + 1
        parts = [(a[i, :valid], b[i, :valid]) for a, b in zip(got[:1], want[:1], strict=True)]
        parts += [(a[i, :, :held], b[i, :, :held]) for a, b in zip(got[1:], want[1:], strict=True)]
        assert_same([a for a, _ in parts], [b for _, b in parts], case)


@pytest.mark.parametrize(("without", "attrs"), [(3, PLAIN), (None, PLAIN | {"causal": 0})], ids=["past", "causal"])
def test_a_padded_chunk_needs_a_cache_and_the_causal_mask(without: int | None, attrs: Any, tmp_path: Path) -> None:
    case = chunk([4, 2], [3, 1], 3, 9, attrs)
    if without is not None:
        case.inputs = [None if i in (without, without + 1) else a for i, a in enumerate(case.inputs)]
    model, _ = case.model()
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match="query_seqlens needs past keys and values, and causal = 1"):
        read(tmp_path / "m.onnx")


def normed(x: np.ndarray, weight: np.ndarray, epsilon: float) -> np.ndarray:
    heads = x.reshape(*x.shape[:2], -1, D).astype(np.float64)
    heads = heads / np.sqrt((heads**2).mean(-1, keepdims=True) + epsilon) * weight
    return heads.reshape(x.shape).astype(np.float32)


@pytest.mark.parametrize(
    ("attrs", "of_q", "of_k"),
    [
        ({}, 1e-6, 1e-6),
        ({"qk_norm_epsilon": 0.5}, 0.5, 0.5),
        ({"q_norm_epsilon": 0.25}, 0.25, 1e-6),
        ({"qk_norm_epsilon": 0.5, "k_norm_epsilon": 2.0}, 0.5, 2.0),
    ],
    ids=str,
)
def test_queries_and_keys_are_normed_each_by_its_epsilon(attrs: Any, of_q: float, of_k: float, tmp_path: Path) -> None:
    """onnxruntime on a CPU refuses the weights of the norms: it is given queries and keys that are normed already."""
    q, k, v, weights = f32(2, 5, N * D), f32(2, 5, G * D), f32(2, 5, G * D), [f32(D), f32(D)]
    rest = [v, None, None, i32(4, 4), np.int32(5), COS, SIN]
    turned = PLAIN | {"do_rotary": 1}
    inside = Case("GroupQueryAttention", [q, k, *rest, *[None] * 5, *weights], turned | attrs, EVERY, named=False,
                  constant=[7, 8, 14, 15])  # fmt: skip
    before = Case("GroupQueryAttention", [normed(q, weights[0], of_q), normed(k, weights[1], of_k), *rest], turned,
                  EVERY, named=False, constant=[7, 8])  # fmt: skip
    assert_same(engine_runs(*inside.model(), tmp_path), onnxruntime_runs(*before.model()), inside)


def test_one_norm_alone_is_invalid(tmp_path: Path) -> None:
    inputs = [f32(2, 5, N * D), f32(2, 5, G * D), f32(2, 5, G * D), None, None, i32(4, 4), np.int32(5)]
    model, _ = Case("GroupQueryAttention", [*inputs, *[None] * 7, f32(D)], PLAIN, EVERY, named=False).model()
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match="only one of the norm weights"):
        read(tmp_path / "m.onnx")


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16], ids=["f32", "bf16"])
def test_a_projected_gate(dtype: Any, tmp_path: Path) -> None:
    """By the formula of the operator's definition: onnxruntime computes it on CUDA only, rounding after each step."""
    x, y, gate, weight = (a.astype(dtype) for a in (f32(2, 3, 7), f32(2, 3, 7), f32(2, 3, 11), f32(11, 1)))
    case = Case("GatedAdd", [x, y, gate, weight], constant=[3])

    def rounded(a: np.ndarray) -> np.ndarray:
        return a.astype(dtype).astype(np.float32)

    wide = [a.astype(np.float32) for a in (x, y, gate, weight)]
    s = rounded(1 / (1 + np.exp(-rounded(wide[2] @ wide[3]))))
    want = rounded(wide[0] + rounded(wide[1] * s))
    (got,) = engine_runs(*case.model(), tmp_path)
    assert got.dtype == dtype
    np.testing.assert_allclose(got.astype(np.float32), want, rtol=0, atol=2e-5 if dtype == np.float32 else 2**-6)
