"""Random graphs for property tests: some ten nodes, with spellings that fusions look for among them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from minnow.optimizer.rewrite.pattern import same_shape
from minnow.schema.ir import DType, Graph, Model, TensorType, Value
from minnow.schema.ops import Builder

Draw = Callable[[st.SearchStrategy[Any]], Any]
# Only continuous functions: a step such as Floor turns the last bit of its operand, which a rewrite may change, into 1.
_UNARY = (
    "Abs",
    "Neg",
    "Relu",
    "Sigmoid",
    "Tanh",
    "HardSwish",
    "Silu",
    "Erf",
    "Mish",
    "Softplus",
    "HardSigmoid",
)
_BINARY = ("Add", "Sub", "Mul", "Max", "Min")
_NUMBERS = (0.0, 1.0, 0.5, -1.0, 3.0, 6.0, 2.0, 0.25)


def _constant(draw: Draw, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    if draw(st.booleans()):
        return np.full(shape, draw(st.sampled_from(_NUMBERS)), np.float32)
    return np.random.default_rng(draw(st.integers(0, 9))).standard_normal(shape).astype(np.float32)


def _unary(draw: Draw, b: Builder, x: Value, pool: list[Value]) -> Value:
    return getattr(b, draw(st.sampled_from(_UNARY)))(x)


def _binary(draw: Draw, b: Builder, x: Value, pool: list[Value]) -> Value:
    same = [v for v in pool if v is x or same_shape(v, x)]
    return getattr(b, draw(st.sampled_from(_BINARY)))(x, draw(st.sampled_from(same)))


def _with_number(draw: Draw, b: Builder, x: Value, pool: list[Value]) -> Value:
    shape = x.type.shape or ()
    extents = [draw(st.sampled_from((1, d))) if isinstance(d, int) else 1 for d in shape]
    constant = _constant(draw, tuple(extents[draw(st.integers(0, len(shape))) :]))
    operands = [x, constant] if draw(st.booleans()) else [constant, x]
    return (
        getattr(b, draw(st.sampled_from((*_BINARY, "Div"))))(*operands)
        if operands[0] is x
        else (getattr(b, draw(st.sampled_from(_BINARY)))(*operands))
    )


def _clip(draw: Draw, b: Builder, x: Value, pool: list[Value]) -> Value:
    low, high = sorted(draw(st.tuples(st.sampled_from(_NUMBERS), st.sampled_from(_NUMBERS))))
    return b.Clip(x, min=low, max=high)


def _spelled(draw: Draw, b: Builder, x: Value, pool: list[Value]) -> Value:
    """Something that a fusion looks for, or nearly."""
    number = draw(st.sampled_from((3.0, 2.5)))
    match draw(st.integers(0, 4)):
        case 0:
            return b.Mul(x, b.Sigmoid(x))
        case 1:
            return b.Div(b.Mul(b.Clip(b.Add(x, number), min=0.0, max=6.0), x), 6.0)
        case 2:
            return b.Mul(b.Mul(x, b.Add(b.Erf(b.Div(x, np.float32(np.sqrt(2)))), 1.0)), 0.5)
        case 3:
            centered = b.Sub(x, b.ReduceMean(x, axes=(-1,)))
            variance = b.ReduceMean(b.Square(centered), axes=(-1,))
            return b.Div(centered, b.Sqrt(b.Add(variance, 0.5)))
        case _:
            return b.Max(x, b.Mul(x, number / 10))


def _transpose(draw: Draw, b: Builder, x: Value, pool: list[Value]) -> Value:
    return b.Transpose(x, perm=tuple(draw(st.permutations(range(x.type.rank or 0)))))


def _views(draw: Draw, b: Builder, x: Value, pool: list[Value]) -> Value:
    rank = x.type.rank or 0
    match draw(st.integers(0, 3)):
        case 0:
            return b.Unsqueeze(x, axes=(draw(st.integers(0, rank)),)) if rank < 5 else x
        case 1:
            ones = [i for i, d in enumerate(x.type.shape or ()) if d == 1]
            return b.Squeeze(x, axes=(draw(st.sampled_from(ones)),)) if ones else x
        case 2:
            return b.Flatten(x, axis=draw(st.integers(0, rank)))
        case _:
            # A shape that is computed from the input's own, as exporters write it.
            if rank < 2:
                return x
            shape = b.Shape(x)
            first = b.Slice(shape, np.array([0]), np.array([1]))
            return b.Reshape(x, b.Concat(first, np.array([-1]), axis=0))


def _concat(draw: Draw, b: Builder, x: Value, pool: list[Value]) -> Value:
    axis = draw(st.integers(0, (x.type.rank or 1) - 1))
    known = [v for v in pool if v.type.rank == x.type.rank and "?" not in _others(v, axis)]
    rest = [x, *(v for v in known if _others(v, axis) == _others(x, axis))]
    return b.Concat(x, draw(st.sampled_from(rest)), axis=axis)


def _others(v: Value, axis: int) -> tuple[Any, ...]:
    return tuple(d for i, d in enumerate(v.type.shape or ()) if i != axis)


def _reduce(draw: Draw, b: Builder, x: Value, pool: list[Value]) -> Value:
    axes = tuple(sorted(draw(st.sets(st.integers(0, (x.type.rank or 1) - 1), min_size=1))))
    kind = draw(st.sampled_from(("ReduceMean", "ReduceMax", "ReduceSum", "ReduceLogSumExp")))
    return getattr(b, kind)(x, axes=axes, keepdims=draw(st.booleans()))


def _linear(draw: Draw, b: Builder, x: Value, pool: list[Value]) -> Value:
    inner = (x.type.shape or ("?",))[-1]
    if (x.type.rank or 0) < 2 or not isinstance(inner, int):
        return x
    turned = draw(st.booleans())
    w = _constant(draw, (2, inner) if turned else (inner, 2))
    return b.MatMul(x, w, transpose_b=turned)


def _convolution(draw: Draw, b: Builder, x: Value, pool: list[Value]) -> Value:
    shape = x.type.shape or ()
    if len(shape) not in (3, 4) or not all(isinstance(d, int) for d in shape[1:]):
        return x
    n = len(shape) - 2
    w = _constant(draw, (draw(st.sampled_from((2, 3))), int(shape[1]), *(1,) * n))
    return b.Conv(x, w, strides=(1,) * n, pads=(draw(st.integers(0, 1)),) * 2 * n, dilations=(1,) * n)


def _per_channel(draw: Draw, b: Builder, x: Value, pool: list[Value]) -> Value:
    shape = x.type.shape or ()
    if len(shape) < 3 or not isinstance(shape[1], int):
        return x
    numbers = [_constant(draw, (shape[1],)) for _ in range(3)]
    return b.BatchNorm(x, *numbers, np.abs(_constant(draw, (shape[1],))) + 0.5)


def _pad(draw: Draw, b: Builder, x: Value, pool: list[Value]) -> Value:
    rank = x.type.rank or 0
    pads = [draw(st.integers(0, 1)) if i >= 4 or rank < 3 else 0 for i in range(2 * rank)]
    return b.Pad(x, np.array(pads))


def _choice(draw: Draw, b: Builder, x: Value, pool: list[Value]) -> Value:
    border = draw(st.sampled_from(_NUMBERS))
    truth, mirrored = b.Greater(x, border), b.Sub(2 * border, x)  # equal at the border
    return b.Where(b.Not(truth) if draw(st.booleans()) else truth, x, mirrored)


def _attention(draw: Draw, b: Builder, x: Value, pool: list[Value]) -> Value:
    """Products, softmax and products again, of three layers of one input, with or without a mask and a scale."""
    shape = x.type.shape or ()
    if len(shape) != 3 or not isinstance(shape[2], int):
        return x
    q, k, v = (b.MatMul(x, _constant(draw, (shape[2], 2))) for _ in range(3))
    scores = b.MatMul(q, b.Transpose(k, perm=(0, 2, 1))) if draw(st.booleans()) else b.MatMul(q, k, transpose_b=True)
    scores = b.Mul(scores, 0.5) if draw(st.booleans()) else scores
    return b.MatMul(b.Softmax(scores, axis=draw(st.sampled_from((-1, 2, 1)))), v)


def _block(draw: Draw, b: Builder, x: Value, pool: list[Value]) -> Value:
    """A convolution, its norm, an activation, and perhaps the input again; its values may be read elsewhere."""
    y = _per_channel(draw, b, _convolution(draw, b, x, pool), pool)
    if y is x:
        return x
    pool.append(y) if draw(st.integers(0, 4)) == 0 else None
    y = _unary(draw, b, y, pool)
    return b.Add(y, x) if same_shape(y, x) else y


def _branch(draw: Draw, b: Builder, x: Value, pool: list[Value]) -> Value:
    """A branch whose condition is known, or becomes known when shapes are."""
    bodies = {}
    for name in ("then_branch", "else_branch"):
        bodies[name] = Graph(name)
        inner = Builder(bodies[name])
        bodies[name].outputs = [_unary(draw, inner, bodies[name].add_param(x.type, "x"), [])]
    truth = np.array(draw(st.booleans()))
    condition = b.Equal(b.Size(b.Shape(x)), np.array(x.type.rank or 0)) if draw(st.booleans()) else b.const(truth)
    return b.node("If", [condition, x], bodies, 1).output


def _quantized(draw: Draw, b: Builder, x: Value, pool: list[Value]) -> Value:
    """Weights of few bits, which are made floats before they are used."""
    inner = (x.type.shape or ("?",))[-1]
    if (x.type.rank or 0) < 2 or not isinstance(inner, int):
        return x
    w = np.random.default_rng(draw(st.integers(0, 9))).integers(-127, 128, (inner, 3)).astype(np.int8)
    return b.MatMul(x, b.DequantizeLinear(b.const(w), np.float32(0.01)))


_STEPS = (
    *(_unary, _binary, _with_number, _clip, _spelled, _transpose, _transpose, _views, _views, _concat, _reduce),
    *(_linear, _convolution, _per_channel, _pad, _choice, _attention, _block, _branch, _quantized),
)


@st.composite
def graphs(draw: Draw) -> Graph:
    """A graph of some ten nodes, with one or two inputs and outputs; its batch may be a symbol."""
    graph = Graph("main")
    batch: Any = draw(st.sampled_from((1, 2, "N")))
    shape = (batch, *draw(st.sampled_from(((3,), (4, 3), (2, 3, 4), (3, 1, 2), (2, 2, 2)))))
    pool = [graph.add_param(TensorType(DType.F32, shape), f"x{i}") for i in range(draw(st.integers(1, 2)))]
    b = Builder(graph)
    for step in draw(st.lists(st.sampled_from(_STEPS), min_size=1, max_size=12)):
        x = draw(st.sampled_from(pool[-3:]))
        y = step(draw, b, x, pool)
        if y is not x and (y.type.count or 0) < 4096 and y.type.rank:
            pool.append(y)
    made = [v for v in pool if v.producer is not None]
    leaves = [v for v in made if not v.uses][-4:] or [b.Neg(pool[0])]
    # Now and then a value that others read too.
    graph.outputs = [*leaves, *([draw(st.sampled_from(made))] if made and draw(st.integers(0, 3)) == 0 else [])]
    return graph


def model_of(graph: Graph) -> Model:
    """A model around a graph, as a frontend gives it."""
    model = Model(graph)
    model.inputs = [(p.name, p.type) for p in graph.params]
    model.outputs = [(f"y{i}", v.type) for i, v in enumerate(graph.outputs)]
    return model
