"""Rotary positions and grouped attention of com.microsoft beside onnxruntime: prompts, decoding, caches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx_contrib import Case, judge

RNG = np.random.default_rng(2)


def f32(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def i32(*rows: Any) -> np.ndarray:
    return np.array(rows, np.int32)


B, S, N, G, D, LONGEST = 2, 5, 4, 2, 16, 16
COS, SIN = np.cos(f32(LONGEST, D // 2)), np.sin(f32(LONGEST, D // 2))


def rotary() -> list[Case]:
    x, heads = f32(B, S, 3 * D), f32(B, 3, S, D)
    ids = RNG.integers(0, LONGEST, (B, S))

    def case(x: Any, places: Any, tables: Any = (COS, SIN), **attrs: Any) -> Case:
        named = "num_heads" in attrs and tables[0] is COS
        return Case("RotaryEmbedding", [x, places, *tables], attrs, constant=[2, 3], named=named)

    half = COS[:, : D // 4], SIN[:, : D // 4]
    return [
        case(x, ids),
        case(x, np.array([3])),
        case(x, ids, interleaved=1),
        case(x, ids, num_heads=3),
        case(heads, ids),
        case(heads, np.array([2]), interleaved=1),
        case(heads, ids, scale=0.5),
        case(x, ids, half, num_heads=3, rotary_embedding_dim=D // 2),
        case(x, ids, half, num_heads=3, rotary_embedding_dim=D // 2, interleaved=1),
        case(heads, ids, half, num_heads=3, rotary_embedding_dim=D // 2),
        case(x[:, :1], np.array([[3], [9]])),
    ]


def of_images() -> list[Case]:
    """Rotation by three streams of places."""
    x, heads = f32(B, S, 3 * D), f32(B, 3, S, D)
    places = RNG.integers(0, LONGEST, (3, B, S))

    def case(x: Any, section: list[int], tables: Any = (COS, SIN), **attrs: Any) -> Case:
        named = "num_heads" in attrs and tables[0] is COS
        attrs |= {"mrope_section": section}
        return Case("MRotaryEmbedding", [x, places, *tables], attrs, constant=[2, 3], named=named)

    half = COS[:, : D // 4], SIN[:, : D // 4]
    return [
        case(x, [4, 2, 2], num_heads=3),
        case(x, [2, 3, 3], mrope_layout=1, num_heads=3),
        case(heads, [8, 0, 0]),
        case(heads, [2, 3, 3], interleaved=1),
        case(heads, [4, 2, 2], mrope_layout=1),
        case(x, [2, 1, 1], half, num_heads=3, rotary_embedding_dim=D // 2),
    ]


def grouped() -> list[Case]:
    plain = {"num_heads": N, "kv_num_heads": G}
    turned = plain | {"do_rotary": 1}
    every = ["y", "k", "v"]

    def case(
        past: int,
        new: int,
        buffer: int = 0,
        batch: int = B,
        last: Any = None,
        total: Any = None,
        packed: bool = False,
        more: Any = (),
        attrs: Any = plain,
        outputs: Any = every,
        g: int = G,
    ) -> Case:
        """`past` tokens in a cache of `buffer` places (0: as many as there are), and `new` ones."""
        q, k, v = f32(batch, new, N * D), f32(batch, new, g * D), f32(batch, new, g * D)
        old = [f32(batch, g, buffer or past, D) for _ in range(2)]
        whole = past + new
        last = np.full(batch, whole - 1, np.int32) if last is None else i32(*last)
        inputs = [np.concatenate([q, k, v], 2), None, None] if packed else [q, k, v]
        tables = [COS, SIN] if attrs.get("do_rotary") else [None, None]
        inputs += [*old, last, np.int32(total or whole), *tables, *more]
        while inputs[-1] is None:
            inputs.pop()
        return Case("GroupQueryAttention", inputs, attrs, outputs, constant=[7, 8], named=False)

    bias = f32(1, N, S, S)
    fresh = case(0, S)
    fresh.inputs = [*fresh.inputs[:3], None, None, *fresh.inputs[5:]]
    wide = 2 * D  # of which the tables rotate half
    partial = Case(
        "GroupQueryAttention",
        [f32(B, 1, N * wide), f32(B, 1, G * wide), f32(B, 1, G * wide), f32(B, G, 3, wide), f32(B, G, 3, wide),
         i32(3, 3), np.array([4], np.int32), COS, SIN],
        turned, every, constant=[7, 8], named=False,
    )  # fmt: skip
    return [
        fresh,
        partial,
        case(0, S),
        case(0, S, buffer=9),
        case(3, 1),
        case(3, 1, buffer=9),
        case(0, S, attrs=turned),
        case(3, 1, buffer=9, attrs=turned),
        case(3, 1, attrs=turned | {"rotary_interleaved": 1}),
        case(3, 1, packed=True, attrs=turned),
        case(0, S, packed=True),
        case(4, 1, buffer=9, last=(4, 2), attrs=turned),
        case(4, 1, last=(4, 2), attrs=turned),
        case(3, 4, batch=1, attrs=turned),
        case(3, 4, buffer=12, batch=1, attrs=turned),
        case(0, S, attrs=plain | {"local_window_size": 3}),
        case(6, 1, attrs=plain | {"local_window_size": 3}),
        case(6, 2, batch=1, buffer=11, attrs=turned | {"local_window_size": 1}),
        case(0, S, attrs=plain | {"softcap": 2.0, "scale": 0.7}),
        case(0, S, attrs=plain | {"smooth_softmax": 1}),
        case(3, 1, more=[None, None, f32(N)]),
        case(0, S, more=[None, bias]),
        case(4, 1, more=[None, f32(B, 1, 1, 5)], attrs=turned),
        case(0, S, more=[np.arange(S)[None].repeat(B, 0)], attrs=turned),
        case(3, 1, more=[np.array([[3], [3]])], attrs=turned),
        case(0, S, attrs={"num_heads": N, "kv_num_heads": N}, g=N),
        case(0, S, attrs={"num_heads": N, "kv_num_heads": 1}, g=1),
        case(0, S, outputs=1),
        case(0, S, attrs=plain | {"causal": 0}),
        case(0, S, last=(4, 2)),
        case(0, S, last=(4, 2), attrs=turned),
        case(0, S, attrs=plain | {"qk_output": 1}, outputs=[*every, "qk"]),
        case(3, 1, attrs=plain | {"qk_output": 2}, outputs=[*every, "qk"]),
    ]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", [*rotary(), *of_images(), *grouped()], ids=str)
def test_agrees_with_onnxruntime(case: Case, tmp_path: Any) -> None:
    judge(case, tmp_path)
