"""Grows random graphs: layouts, fusion, views, work in place and the memory plan meet each other in many ways."""

from __future__ import annotations

import numpy as np
from engine_oracle import f32, normal

from minnow.schema.ir import Graph, Value
from minnow.schema.ops import Builder


class Grower:
    """Adds random nodes to a graph of images, matrices and vectors; every value stays within a few units."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.graph = Graph()
        self.b = Builder(self.graph)
        self.values: list[Value] = []
        self.inputs = []
        for shape in self.shapes():
            self.values.append(self.graph.add_param(f32(*shape)))
            self.inputs.append(normal(self.rng, *shape))

    def shapes(self) -> list[tuple[int, ...]]:
        n, c = self.pick([1, 1, 2]), self.pick([1, 3, 5, 16, 17, 33])
        h, w = (int(s) for s in self.rng.integers(2, 9, 2))
        return [(n, c, h, w), (n, c, h, w), (n, c, 1, 1), (int(self.rng.integers(1, 9)), c)]

    def pick(self, items):
        return items[int(self.rng.integers(len(items)))]

    def recent(self, condition=lambda v: True) -> Value | None:
        """A value that meets the condition, mostly a late one."""
        found = [v for v in self.values if condition(v)]
        if not found:
            return None
        return found[-1 - min(int(self.rng.exponential(1.5)), len(found) - 1)]

    def grow(self) -> None:
        x = self.recent()
        assert x is not None
        makers = [self.unary, self.unary, self.binary, self.binary, self.reshape, self.reduce, self.several]
        if len(x.type.static_shape) == 4:
            makers += [self.conv, self.conv, self.conv, self.pool, self.channels, self.resize]
        made = self.pick(makers)(x)
        for v in made if isinstance(made, (list, tuple)) else [made]:
            if v is not None and 0 < np.prod(v.type.static_shape) < 20000:
                self.values.append(v)

    def unary(self, x):
        b = self.b
        made = [b.Relu, b.Tanh, b.Sigmoid, b.HardSwish, b.Silu, b.Neg, b.Identity, b.Abs, b.Gelu, b.Erf]
        made.append(lambda v: b.Clip(v, min=-0.5, max=0.5))
        made.append(lambda v: b.LeakyRelu(v, alpha=0.3))
        made.append(lambda v: b.Mul(v, b.Sigmoid(v)))
        return self.pick(made)(x)

    def binary(self, x):
        shape = x.type.static_shape
        rank = len(shape)

        def fits(v):
            s = v.type.static_shape
            return v is not x and (
                s == shape or (len(s) <= rank and all(p in (1, q) for p, q in zip(s[::-1], shape[::-1], strict=False)))
            )

        y = self.recent(fits)
        if y is None or self.rng.random() < 0.3:
            kept = [d if self.rng.random() < 0.5 else 1 for d in shape]
            channels = [d if i == 1 else 1 for i, d in enumerate(shape)][1:]
            sizes = [(), shape[-1:], kept, channels]
            y = self.pick([x, *(normal(self.rng, *s) for s in sizes)])
        op = self.pick(
            [self.b.Add, self.b.Add, self.b.Sub, self.b.Max, self.b.Min, lambda u, v: self.b.Tanh(self.b.Mul(u, v))]
        )
        return op(x, y) if self.rng.random() < 0.5 else op(y, x) if isinstance(y, Value) else op(x, y)

    def conv(self, x):
        _, c, h, w = x.type.static_shape
        group = self.pick([1, 1, 1, c])
        outs = group * self.pick([1, 1, 2]) if group > 1 else self.pick([1, 3, 8, 16, 17, c])
        k = self.pick([1, 1, 3, 3, 2])
        weights = normal(self.rng, outs, c // group, k, k) / np.float32(np.sqrt(c // group) * k)
        bias = normal(self.rng, outs) if self.rng.random() < 0.7 else None
        stride = self.pick([1, 1, 2])
        pads = (self.pick([0, k // 2]),) * 4
        if min(h, w) + 2 * pads[0] < k:
            return None
        return self.b.Conv(x, weights, bias, strides=(stride, stride), pads=pads, dilations=(1, 1), group=group)

    def pool(self, x):
        op = self.pick([self.b.MaxPool, self.b.AveragePool, None])
        if op is None:
            return self.b.GlobalAveragePool(x)
        k = self.pick([1, min(2, *x.type.static_shape[2:])])
        return op(x, kernel=(k, k), strides=(self.pick([1, 2]),) * 2, pads=(0, 0, 0, 0), dilations=(1, 1))

    def channels(self, x):
        c = x.type.static_shape[1]
        scale, bias = normal(self.rng, c), normal(self.rng, c)
        kind = self.pick(["scale", "split", "slope", "shuffle"])
        if kind == "scale":
            return self.b.Scale(x, scale, bias)
        if kind == "slope":
            return self.b.PRelu(x, scale.reshape(-1, 1, 1))
        if kind == "split":
            cut = int(self.rng.integers(0, c + 1))
            parts = self.b.Split(x, axis=1, sizes=(cut, c - cut), n_outputs=2)
            return [p for p in parts if p.type.static_shape[1]]
        n, c, h, w = x.type.static_shape
        return self.b.Reshape(self.b.Transpose(self.b.Reshape(x, [n, 1, c, h, w]), perm=(0, 2, 1, 3, 4)), [n, c, h, w])

    def resize(self, x):
        sizes = np.array([*x.type.static_shape[:2], 5, 4])
        return self.b.Resize(
            x,
            None,
            None,
            sizes,
            mode=self.pick(["nearest", "linear"]),
            coordinate_mode="asymmetric",
            nearest_mode="floor",
        )

    def reshape(self, x):
        shape = list(x.type.static_shape)
        kind = self.pick(["flatten", "split", "transpose", "unsqueeze", "back"])
        if kind == "flatten":
            return self.b.Flatten(x, axis=int(self.rng.integers(0, len(shape) + 1)))
        if kind == "transpose":
            return self.b.Transpose(x, perm=tuple(int(i) for i in self.rng.permutation(len(shape))))
        if kind == "unsqueeze" and len(shape) < 5:
            return self.b.Unsqueeze(x, axes=(int(self.rng.integers(0, len(shape) + 1)),))
        if kind == "split" and shape and shape[-1] % 2 == 0:
            return self.b.Reshape(x, [*shape[:-1], shape[-1] // 2, 2])
        like = self.recent(lambda v: np.prod(v.type.static_shape) == np.prod(shape) and v is not x)
        return None if like is None else self.b.Reshape(x, np.array(like.type.static_shape, np.int64))

    def reduce(self, x):
        rank = len(x.type.static_shape)
        if rank == 0:
            return None
        axis = int(self.rng.integers(-rank, rank))
        kind = self.pick(["softmax", "mean", "max", "norm"])
        if kind == "softmax":
            return self.b.Softmax(x, axis=axis)
        if kind == "norm":
            return self.b.LayerNorm(x, axis=-1, epsilon=0.1)
        op = self.b.ReduceMean if kind == "mean" else self.b.ReduceMax
        return op(x, axes=(axis,), keepdims=self.rng.random() < 0.7)

    def several(self, x):
        shape = x.type.static_shape
        if not shape:
            return None
        axis = int(self.rng.integers(len(shape))) if self.rng.random() < 0.4 else min(1, len(shape) - 1)

        def fits(v):
            s = v.type.static_shape
            return len(s) == len(shape) and all(
                p == q or i == axis for i, (p, q) in enumerate(zip(s, shape, strict=True))
            )

        parts = [x, *(self.recent(fits) for _ in range(int(self.rng.integers(1, 3))))]
        return self.b.Concat(*parts, axis=axis - len(shape) if self.rng.random() < 0.2 else axis)

    def finish(self) -> None:
        """All that nobody reads is an output, and some that is read."""
        unread = [v for v in self.values if not v.uses]
        read = [v for v in self.values if v.uses and self.rng.random() < 0.08]
        self.graph.outputs = unread + read


def grown(seed: int, nodes: int) -> Grower:
    """A graph of so many nodes, with random inputs for it."""
    grower = Grower(seed)
    for _ in range(nodes):
        grower.grow()
    grower.finish()
    return grower
