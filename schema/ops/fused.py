"""Elementwise nodes in one: a program that Minnow's engine runs in one pass over memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, Graph, TensorType, Value
from minnow.schema.registry.op import Arg, T, Trait, get, op


@op(traits=frozenset({Trait.CONTROL_FLOW, Trait.ONE_KERNEL}), outputs=None)
def Fused(*xs: T, body: Graph):
    """The outputs of a graph of elementwise nodes, whose parameters are the operands."""
    from minnow.schema.registry.interpreter import evaluate

    return tuple(evaluate(body, list(xs)))


@Fused.shape
def _(*xs: Arg, body: Graph) -> tuple[TensorType, ...]:
    from minnow.schema.registry.builder import arg

    if len(body.params) != len(xs):
        raise ModelError(f"the body '{body.name}' has {len(body.params)} parameters, not {len(xs)}")
    known: dict[Value, Arg] = {}
    for param, x in zip(body.params, xs, strict=True):
        if x.dtype != param.type.dtype:
            raise ModelError(f"the body '{body.name}' takes {param!r}, the operand is {x.dtype}")
        known[param] = x
    for node in body:
        inner = get(node.op, node.origin)
        if Trait.ELEMENTWISE not in inner.traits:
            raise ModelError(f"{node.op} is not elementwise, and stands in the body '{body.name}'", where=node.origin)
        args = [None if v is None else known.get(v) or arg(v) for v in node.inputs]
        types = inner.infer(args, node.attrs, len(node.outputs), node.origin)
        known.update(zip(node.outputs, map(Arg, types), strict=True))
    return tuple(known[v].type if v in known else v.type for v in body.outputs)


# ---- samples -----------------------------------------------------------------------------------------------------


def _body(shapes: list[tuple[int, ...]], dtype: DType = DType.F32) -> tuple[Graph, Any]:
    from minnow.schema.registry.builder import Builder

    graph = Graph("body")
    for i, shape in enumerate(shapes):
        graph.add_param(TensorType(dtype, shape), f"x{i}")
    return graph, Builder(graph)


_SHAPES: list[list[tuple[int, ...]]] = [
    [(), (), ()],
    [(0, 3), (1, 3), (0, 3)],
    [(17,), (17,), (1,)],
    [(2, 3, 5), (5,), (3, 1)],
    [(1, 19, 3, 5), (1, 19, 1, 1), (1, 19, 3, 5)],
    [(3, 7, 11, 13), (13,), (7, 1, 1)],
    [(2, 33, 70), (33, 1), (2, 1, 70)],
]  # fmt: skip


@Fused.samples
def _(rng):
    for shapes in _SHAPES:
        gate, b = _body(shapes)
        x, scale, shift = gate.params
        inner = b.Add(b.Mul(x, scale), shift)
        gate.outputs = [b.Mul(x, b.Sigmoid(inner)), inner]
        yield tuple(shapes), {"body": gate}, 2
        choice, b = _body(shapes)
        x, low, high = choice.params
        test = b.And(b.Greater(x, low), b.Not(b.IsNaN(x)))
        choice.outputs = [b.Where(test, b.Cast(b.Cast(b.Clip(x, min=-2.0, max=2.0), to=DType.I32), to=DType.F32), high)]
        yield tuple(shapes), {"body": choice}
        for dtype in (DType.I32, DType.I64, DType.U8, DType.F16, DType.F64):
            sums, b = _body(shapes, dtype)
            x, y, z = sums.params
            total = b.Add(b.Mul(x, y), z)
            sums.outputs = [b.Max(total, x), b.Equal(total, z)]
            arrays = (np.asarray(rng.integers(0, 9, s)).astype(dtype.numpy) for s in shapes)
            yield tuple(arrays), {"body": sums}, 2
    special = np.array([0.0, -0.0, 1, -1, 0.5, np.inf, -np.inf, np.nan, 1e-38, -3e38, 88, -104], np.float32)
    alone, b = _body([special.shape])
    (x,) = alone.params
    alone.outputs = [b.Sub(b.Tanh(b.Abs(x)), x), x, b.Relu(x)]
    yield (special,), {"body": alone}, 3
