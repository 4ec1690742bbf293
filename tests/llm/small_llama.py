"""Llamas that are small: as step graphs, and beside them the same in plain numpy."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import minnow
from minnow.llm.description import Description
from minnow.llm.model import LanguageModel
from minnow.schema.ir import DType, Graph, Model, State, TensorType
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder
from minnow.schema.ops.paged_attention import cache_types

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Llama:
    """Weights by name, those of layers stacked: "wq" is [layers, heads * size, dim]."""

    weights: dict[str, Array]
    layers: int
    heads: int
    kv_heads: int
    context: int
    window: int = 0
    block: int = 16

    @property
    def vocabulary(self) -> int:
        return len(self.weights["embedding"])

    @property
    def size(self) -> int:
        return self.weights["wq"].shape[1] // self.heads

    @classmethod
    def random(cls, seed: int = 0, *, layers: int = 2, context: int = 1100, **sizes: int) -> Llama:
        rng = np.random.default_rng(seed)
        heads, kv, size, dim, hidden, vocabulary = 4, 2, 16, 48, 80, 60
        shapes = {"embedding": (vocabulary, dim), "wq": (layers, heads * size, dim), "wk": (layers, kv * size, dim),
                  "wv": (layers, kv * size, dim), "wo": (layers, dim, heads * size), "w1": (layers, hidden, dim),
                  "w2": (layers, dim, hidden), "w3": (layers, hidden, dim)}  # fmt: skip
        weights = {n: (rng.standard_normal(s) / np.sqrt(s[-1])).astype(np.float32) for n, s in shapes.items()}
        weights["embedding"] *= np.float32(np.sqrt(dim))
        for name, shape in {"norm_1": (layers, dim), "norm_2": (layers, dim), "norm": (dim,)}.items():
            weights[name] = rng.uniform(0.5, 1.5, shape).astype(np.float32)
        return cls(weights, layers, heads, kv, context, **sizes)

    @classmethod
    def read(cls, path: Path) -> Llama:
        """A file of llama2.c."""
        data = path.read_bytes()
        dim, hidden, layers, heads, kv, vocabulary, context = struct.unpack_from("<7i", data)
        size = dim // heads
        shapes = {"embedding": (vocabulary, dim), "norm_1": (layers, dim), "wq": (layers, dim, dim),
                  "wk": (layers, kv * size, dim), "wv": (layers, kv * size, dim), "wo": (layers, dim, dim),
                  "norm_2": (layers, dim), "w1": (layers, hidden, dim), "w2": (layers, dim, hidden),
                  "w3": (layers, hidden, dim), "norm": (dim,)}  # fmt: skip
        weights, at = {}, 28
        for name, shape in shapes.items():
            count = int(np.prod(shape))
            weights[name] = np.frombuffer(data, np.float32, count, at).reshape(shape)
            at += 4 * count
        return cls(weights, layers, heads, kv, context)

    def angles(self) -> Array:
        return np.outer(np.arange(self.context), 1e4 ** (-np.arange(0, self.size, 2) / self.size))

    def description(self) -> Description:
        return Description("llama", "small", self.vocabulary, self.weights["wq"].shape[2], self.layers, self.heads,
                           self.kv_heads, self.size, self.context, self.block)  # fmt: skip

    def model(self, dtype: DType = DType.F16) -> Model:
        """The step graph."""
        graph = Graph()
        shapes = {"input_ids": ("tokens",), "positions": ("tokens",), "starts": ("ends",), "lengths": ("sequences",),
                  "blocks": ("sequences", "most"), "rows": ("wanted",)}  # fmt: skip
        p = {name: graph.add_param(TensorType(DType.I32, shape), name) for name, shape in shapes.items()}
        b, w = Builder(graph), self.weights
        cos, sin = (
            b.Reshape(b.Gather(f(self.angles()).astype(np.float32), p["positions"]), np.array([-1, 1, self.size // 2]))
            for f in (np.cos, np.sin)
        )

        def product(x: Any, name: str, layer: int) -> Any:
            return b.MatMul(x, np.ascontiguousarray(w[name][layer].T))

        def turned(x: Any, heads: int) -> Any:
            y = b.RotaryEmbedding(b.Reshape(x, np.array([-1, heads, self.size])), cos, sin, interleaved=True)
            return b.Reshape(y, np.array([-1, heads * self.size]))

        x = b.Gather(w["embedding"], p["input_ids"])
        states, nexts = [], []
        for i in range(self.layers):
            caches = cache_types("cache_blocks", self.kv_heads, self.block, self.size, self.size, dtype)
            params = [graph.add_param(t, f"{n}_cache.{i}") for n, t in zip(("key", "value"), caches, strict=True)]
            h = b.RMSNorm(x, w["norm_1"][i])
            y, *new = b.PagedAttention(
                turned(product(h, "wq", i), self.heads), turned(product(h, "wk", i), self.kv_heads),
                product(h, "wv", i), *params, p["starts"], p["lengths"], p["blocks"], num_heads=self.heads,
                num_kv_heads=self.kv_heads, scale=self.size**-0.5, window=self.window,
            )  # fmt: skip
            x = b.Add(x, product(y, "wo", i))
            h = b.RMSNorm(x, w["norm_2"][i])
            x = b.Add(x, product(b.Mul(b.Silu(product(h, "w1", i)), product(h, "w3", i)), "w2", i))
            for param, type, value in zip(params, caches, new, strict=True):
                empty = np.zeros((0, *(type.shape or ())[1:]), type.dtype.numpy)
                states.append(State(param.name, f"{param.name}.next", empty))
                nexts.append((f"{param.name}.next", value))
        logits = b.MatMul(b.RMSNorm(b.Gather(x, p["rows"]), w["norm"]), np.ascontiguousarray(w["embedding"].T))
        outputs = [("logits", logits), *nexts]
        graph.outputs = [value for _, value in outputs]
        inputs = [(param.name, param.type) for param in graph.params]
        return Model(graph, inputs, [(n, v.type) for n, v in outputs], states=states)

    def load(self, dtype: DType = DType.F16, threads: int = 1, **options: Any) -> LanguageModel:
        return LanguageModel(minnow.load(encode(self.model(dtype)), threads=threads), self.description(), **options)

    def logits(self, tokens: list[int]) -> Array:
        """Of every token, computed anew, in float64."""
        w = {n: a.astype(np.float64) for n, a in self.weights.items()}
        turn = np.exp(1j * self.angles()[: len(tokens)])[:, None]
        near = np.tri(len(tokens), dtype=bool)
        if self.window:
            near &= ~np.tri(len(tokens), k=-self.window, dtype=bool)

        def norm(x: Array, scale: Array) -> Array:
            return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * scale

        def heads(x: Array, count: int, turned: bool) -> Array:
            y = x.reshape(len(x), count, -1)
            if turned:
                pairs = (y[..., ::2] + 1j * y[..., 1::2]) * turn
                y = np.stack([pairs.real, pairs.imag], -1).reshape(y.shape)
            return np.repeat(y, self.heads // count, 1).transpose(1, 0, 2)

        x = w["embedding"][tokens]
        for i in range(self.layers):
            h = norm(x, w["norm_1"][i])
            q, k, v = (heads(h @ w[n][i].T, c, n != "wv") for n, c in
                       (("wq", self.heads), ("wk", self.kv_heads), ("wv", self.kv_heads)))  # fmt: skip
            scores = np.where(near, q @ k.swapaxes(1, 2) * self.size**-0.5, -np.inf)
            e = np.exp(scores - scores.max(-1, keepdims=True))
            y = (e / e.sum(-1, keepdims=True)) @ v
            x = x + y.transpose(1, 0, 2).reshape(len(x), -1) @ w["wo"][i].T
            h = norm(x, w["norm_2"][i])
            gate = h @ w["w1"][i].T
            x = x + (gate / (1 + np.exp(-gate)) * (h @ w["w3"][i].T)) @ w["w2"][i].T
        return norm(x, w["norm"]) @ w["embedding"].T

    def windowed(self, window: int) -> Llama:
        return replace(self, window=window)
