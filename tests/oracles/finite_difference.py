"""What the slope of an op is by its numpy reference, in float64: the oracle of gradient rules.

A derivative along a random direction is compared with the product of the gradient and that direction, for every
operand. Samples of ops have kinks, ties and infinities: numbers are moved away from those.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from minnow.schema.ir import DType, Graph, TensorType, Value
from minnow.schema.ops import Builder, Op, Sample, all_ops
from minnow.schema.registry.gradient import add_gradients
from minnow.schema.registry.interpreter import evaluate

Array = np.ndarray[Any, Any]


@dataclass
class Case:
    """An op with operands, in a graph that computes the gradients of a weighted sum of its results.

    Attributes:
        graph: its parameters are those operands that are floats, in order; its outputs their gradients.
        operands: all operands, floats in the type that the graph computes in.
        floats: which of these are parameters.
        weights: what each element of each result counts, None for results that are no floats.
    """

    op: Op
    attrs: dict[str, Any]
    graph: Graph
    operands: list[Array | None]
    floats: list[int]
    weights: list[Array | None]

    @property
    def count(self) -> int:
        """Elements of all operands."""
        return sum(a.size for a in self.operands if a is not None)

    def gradients(self) -> list[Array]:
        """By the references of the ops that the rule has built."""
        return evaluate(self.graph, [self.operands[i] for i in self.floats])

    def value(self, operands: list[Array | None]) -> float:
        """The weighted sum of the results, in float64."""
        with np.errstate(all="ignore"):
            out = self.op.reference(*operands, **self.op.bind(len(operands), self.attrs))
        out = out if isinstance(out, tuple) else (out,)
        return float(sum((np.sum(w * y) for w, y in zip(self.weights, out, strict=False) if w is not None), 0.0))

    def errors(self, rng: np.random.Generator, directions: int = 2, h: float = 1e-7) -> Iterator[tuple[int, float]]:
        """For each operand and direction the difference between both derivatives, relative to their size."""
        wide = [a.astype(np.float64) if i in self.floats else a for i, a in enumerate(self.operands)]
        for i, grad in zip(self.floats, self.gradients(), strict=True):
            at = wide[i]
            assert at is not None
            assert grad.shape == at.shape, (grad.shape, at.shape)
            for _ in range(directions):
                d = rng.standard_normal(at.shape)
                both = [[at + s * h * d if k == i else a for k, a in enumerate(wide)] for s in (1, -1)]
                slope = (self.value(both[0]) - self.value(both[1])) / (2 * h)
                given = float(np.sum(grad.astype(np.float64) * d))
                size = float(np.sum(np.abs(grad.astype(np.float64) * d)))
                yield i, abs(slope - given) / max(abs(slope), size, 1e-2)


# Floats that say where or how an op works: their derivative is not asked for.
CONSTANT = {("Resize", 1), ("Resize", 2), ("RoiAlign", 1), ("MaxRoiPool", 1)}


def ops_with_gradient() -> list[Op]:
    return [op for op in all_ops() if op.gradient_rule is not None]


def case_of(op: Op, sample: Sample, rng: np.random.Generator, dtype: DType | None = None) -> Case | None:
    """None where a sample has no floats that matter, or numbers that are not finite."""
    operands: list[Array | None] = []
    floats = []
    for i, a in enumerate(sample.inputs):
        if a is None or not DType.of(a.dtype).is_float or DType.of(a.dtype).is_storage:
            operands.append(a)
            continue
        if (op.name, i) in CONSTANT:
            operands.append(a if op.name == "Resize" else a.astype(np.float64))
            continue
        if not np.all(np.isfinite(a.astype(np.float64))) or np.any(np.abs(a.astype(np.float64)) > 1e4):
            return None
        wide = a.astype(np.float64)
        # Off the kinks and ties that samples are made for.
        wide = wide + 0.03 * rng.uniform(1, 2, a.shape) * np.where(wide < 0, -1, 1)
        to = dtype or (DType.F64 if DType.F64 in op.operand(i).dtypes else DType.F32)
        operands.append(wide.astype(to.numpy))
        floats.append(i)
    attrs = {k: widened(v) if isinstance(v, Graph) else v for k, v in sample.attrs.items()}
    if not floats or not _into_domain(op, operands, floats, attrs):
        return None
    graph = Graph()
    b = Builder(graph, origin=f"test:{op.name}")
    values: list[Any] = []
    for i, a in enumerate(operands):
        if i in floats:
            assert a is not None
            values.append(graph.add_param(TensorType(DType.of(a.dtype), a.shape), f"x{i}"))
        else:
            values.append(None if a is None else Value.constant(a))
    node = b.node(op, values, attrs, sample.n_outputs)
    weights: list[Array | None] = []
    terms = []
    for y in node.outputs:
        if not y.type.dtype.is_float:
            weights.append(None)
            continue
        if not y.type.is_static:
            like = op.evaluate(operands, attrs)[y.index]
            y = b.Reshape(y, np.array(like.shape, np.int64), allowzero=True)
        w = np.asarray(rng.standard_normal(y.type.static_shape)).astype(y.type.dtype.numpy)
        weights.append(w.astype(np.float64))
        terms.append(b.ReduceSum(b.Mul(y, b.const(w)), keepdims=False))
    if not terms:
        return None
    loss = terms[0]
    for t in terms[1:]:
        loss = b.Add(loss, t)
    graph.outputs = add_gradients(graph, loss, [values[i] for i in floats])
    return Case(op, attrs, graph, operands, floats, weights)


_INSIDE = (
    lambda x: x,
    lambda x: np.abs(x) + 0.1,
    lambda x: np.tanh(x) * 0.9,
    lambda x: np.abs(x) + 1.1,
)
"""Ways to bring numbers to where a function is defined."""


def _into_domain(op: Op, operands: list[Array | None], floats: list[int], attrs: dict[str, Any]) -> bool:
    """Replaces floats by others for which all results are finite; False where there are none."""
    first = operands[floats[0]]
    assert first is not None
    for way in _INSIDE:
        operands[floats[0]] = way(first).astype(first.dtype)
        results = op.evaluate(operands, attrs)
        if all(np.all(np.isfinite(y.astype(np.float64))) for y in results if DType.of(y.dtype).is_float):
            return True
    return False


def widened(graph: Graph) -> Graph:
    """A graph of float32 as one of float64."""
    wide = Graph(graph.name)
    b = Builder(wide)
    table: dict[Value | None, Any] = {None: None}
    for p in graph.params:
        table[p] = wide.add_param(p.type.with_dtype(DType.F64) if p.type.dtype.is_float else p.type, p.name)
    for node in graph:
        for v in node.inputs:
            if v is not None and v.is_const:
                array = v.array
                table[v] = Value.constant(array.astype(np.float64) if v.type.dtype.is_float else array)
        attrs = {k: DType.F64 if v is DType.F32 else v for k, v in node.attrs.items()}
        made = b.node(node.op, [table[v] for v in node.inputs], attrs, len(node.outputs))
        table.update(zip(node.outputs, made.outputs, strict=True))
    wide.outputs = [table[v] for v in graph.outputs]
    return wide
