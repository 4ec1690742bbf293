"""Small ONNX models on which a converter or runtime of the format is known to fail: one row per defect.

Each row yields cases. What is right, onnxruntime says, or onnx's own reference, or the case itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]


@dataclass
class Case:
    """A model, what it is given, and who says what is right: a judge's name, or the results."""

    model: onnx.ModelProto
    feed: Mapping[str, Array]
    judge: str | Sequence[Array] = "onnxruntime"
    rtol: float = 1e-4


ROWS: dict[str, Callable[[], Iterator[Case]]] = {}


def row(name: str) -> Callable[[Callable[[], Iterator[Case]]], Callable[[], Iterator[Case]]]:
    def add(function: Callable[[], Iterator[Case]]) -> Callable[[], Iterator[Case]]:
        assert name not in ROWS
        ROWS[name] = function
        return function

    return add


@dataclass
class Const:
    """An operand that the model holds."""

    array: Any


def f(*shape: int, seed: int = 0, low: float | None = None) -> Array:
    """Normals, or uniform numbers from `low` to `low` + 1."""
    rng = np.random.default_rng([seed, *shape])
    numbers = rng.standard_normal(shape) if low is None else rng.uniform(low, low + 1, shape)
    return numbers.astype(np.float32)


def c(array: Any, dtype: Any = None) -> Const:
    return Const(np.asarray(array, dtype))


def node(op: str, inputs: str, outputs: str, **attrs: Any) -> onnx.NodeProto:
    """Names are separated by blanks; "_" is left out."""
    names = (["" if n == "_" else n for n in part.split()] for part in (inputs, outputs))
    return helper.make_node(op, *names, **attrs)


def model(
    nodes: Sequence[onnx.NodeProto],
    feed: Mapping[str, Array],
    consts: Mapping[str, Any],
    outputs: str,
    opset: int = 22,
    symbols: Mapping[str, Sequence[int | str]] | None = None,
    **more: Any,
) -> Case:
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), (symbols or {}).get(n, a.shape))
        for n, a in feed.items()
    ]
    results = [helper.make_tensor_value_info(n, TensorProto.UNDEFINED, None) for n in outputs.split()]
    held = [numpy_helper.from_array(np.asarray(a), n) for n, a in consts.items()]
    graph = helper.make_graph(list(nodes), "case", inputs, results, held)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return Case(made, feed, **more)


def one(op: str, *operands: Any, opset: int = 22, outputs: int = 1, **attrs: Any) -> Case:
    """One node. Operands are arrays (inputs of the model), `Const`, or None; `judge` and `rtol` are the case's."""
    more = {k: attrs.pop(k) for k in ("judge", "rtol") if k in attrs}
    names = ["" if v is None else f"x{i}" for i, v in enumerate(operands)]
    results = [f"y{i}" for i in range(outputs)]
    feed = {n: v for n, v in zip(names, operands, strict=True) if v is not None and not isinstance(v, Const)}
    consts = {n: v.array for n, v in zip(names, operands, strict=True) if isinstance(v, Const)}
    made = helper.make_node(op, names, results, **attrs)
    return model([made], feed, consts, " ".join(results), opset, **more)


# ---- windows -----------------------------------------------------------------------------------------------------


@row("pooling without strides slides by one")
def _():
    for op in ("MaxPool", "AveragePool", "LpPool"):
        yield one(op, f(1, 3, 7, 5), kernel_shape=[3, 2])
        yield one(op, f(1, 2, 5, 4, 6), kernel_shape=[2, 3, 2])


@row("3-D pooling with padding at the end, rounding up, dilation")
def _():
    x = f(2, 3, 7, 6, 5)
    for op in ("MaxPool", "AveragePool"):
        yield one(op, x, kernel_shape=[2, 3, 2], strides=[2, 1, 2], pads=[0, 1, 0, 1, 1, 1])
        yield one(op, x, kernel_shape=[3, 2, 2], strides=[2, 2, 2], ceil_mode=1)
    yield one("MaxPool", x, kernel_shape=[2, 2, 2], dilations=[2, 1, 3])
    yield one("AveragePool", x, kernel_shape=[2, 2, 2], pads=[1, 1, 1, 1, 1, 1], count_include_pad=1)


@row("2-D pooling with dilation")
def _():
    yield one("MaxPool", f(1, 3, 9, 8), kernel_shape=[3, 2], dilations=[2, 3])
    yield one("MaxPool", f(1, 3, 9, 8), kernel_shape=[2, 2], dilations=[2, 2], strides=[2, 1], pads=[1, 0, 1, 1])
    yield one("MaxPool", f(1, 3, 9, 8), kernel_shape=[2, 3], dilations=[3, 2], strides=[2, 2], ceil_mode=1)
    yield one("MaxPool", f(1, 3, 11), kernel_shape=[3], dilations=[2], strides=[2])
    yield one("AveragePool", f(1, 3, 9, 8), kernel_shape=[3, 2], dilations=[2, 3], strides=[1, 2])
    yield one("AveragePool", f(1, 3, 9, 8), kernel_shape=[3, 2], dilations=[2, 1], pads=[1] * 4, count_include_pad=1)


@row("mean that counts uneven padding")
def _():
    yield one("AveragePool", f(1, 3, 6, 6), kernel_shape=[3, 3], pads=[0, 1, 2, 0], count_include_pad=1)
    yield one("AveragePool", f(1, 3, 7, 6), kernel_shape=[3, 3], pads=[1, 0, 1, 2], strides=[2, 2],
              count_include_pad=1)  # fmt: skip


@row("padding to the same size, odd one first")
def _():
    w = c(f(4, 3, 3, 2))
    yield one("Conv", f(1, 3, 8, 7), w, strides=[2, 1], auto_pad="SAME_LOWER")
    yield one("MaxPool", f(1, 3, 8, 7), kernel_shape=[3, 2], strides=[2, 1], auto_pad="SAME_LOWER")
    yield one("ConvTranspose", f(1, 4, 5, 5), w, strides=[2, 2], auto_pad="SAME_LOWER")


@row("one-dimensional convolution at the end of a model")
def _():
    yield one("Conv", f(2, 3, 9), c(f(5, 3, 3)), c(f(5)), pads=[1, 0])
    yield one("ConvTranspose", f(2, 3, 9), c(f(3, 5, 3)), c(f(5)), strides=[2])


@row("transposed convolution with a given extent")
def _():
    w = c(f(3, 4, 3, 3))
    for shape in ([9, 11], [10, 12], [11, 12]):
        yield one("ConvTranspose", f(1, 3, 5, 6), w, strides=[2, 2], output_shape=shape)
    yield one("ConvTranspose", f(1, 3, 5, 6), w, strides=[2, 2], output_shape=[10, 11], auto_pad="SAME_UPPER")


@row("transposed convolution in groups")
def _():
    yield one("ConvTranspose", f(1, 6, 4, 5), c(f(6, 2, 3, 3)), c(f(4)), group=2, strides=[2, 1])
    yield one("ConvTranspose", f(1, 4, 4, 5), c(f(4, 3, 2, 3)), group=4, strides=[2, 2], pads=[1, 0, 0, 1])
    yield one("ConvTranspose", f(1, 4, 4, 5), c(f(4, 1, 2, 3)), group=4)


@row("3-D convolution, plain, in groups, transposed")
def _():
    x = f(2, 4, 5, 6, 4)
    yield one("Conv", x, c(f(6, 4, 3, 2, 3)), c(f(6)), strides=[2, 1, 1], pads=[1, 0, 1, 0, 1, 1])
    yield one("Conv", x, c(f(4, 2, 2, 2, 2)), group=2, pads=[1, 0, 0, 0, 1, 1])
    yield one("ConvTranspose", x, c(f(4, 3, 3, 2, 2)), c(f(3)), strides=[2, 2, 1], pads=[1, 0, 0, 0, 1, 0])


@row("a model's half-precision weights are kept")
def _():
    w = f(8, 8, 3, 3).astype(np.float16)
    nodes = [node("Cast", "w", "wide", to=TensorProto.FLOAT), node("Conv", "x wide", "y")]
    yield model(nodes, {"x": f(1, 8, 6, 6)}, {"w": w}, "y", rtol=1e-5)
    nodes = [node("Cast", "w", "wide", to=TensorProto.FLOAT), node("MatMul", "x wide", "y")]
    yield model(nodes, {"x": f(5, 16)}, {"w": f(16, 9).astype(np.float16)}, "y", rtol=1e-5)


@row("a mean of powers without strides")
def _():
    yield one("LpPool", f(1, 3, 7, 5), kernel_shape=[2, 2], p=2)
    yield one("LpPool", f(1, 3, 7, 5), kernel_shape=[2, 2], p=1, pads=[1, 1, 0, 0])


# ---- normalization, activations ------------------------------------------------------------------------------------


@row("normalization with the standard's own epsilon")
def _():
    s, b, m = (c(f(3, seed=i)) for i in range(3))
    tiny = c(np.array([1e-7, 0, 1e-5], np.float32))
    for shape in ((2, 3, 4, 5), (2, 3), (2, 3, 4), (2, 3, 2, 3, 2)):
        yield one("BatchNormalization", f(*shape), s, b, m, tiny, opset=15)
        if len(shape) > 2:
            yield one("InstanceNormalization", f(*shape) * np.float32(1e-3), s, b, opset=6)
    yield one("LayerNormalization", f(2, 3, 4) * np.float32(1e-3), c(f(4)), c(f(4)), opset=17)


@row("logarithm of a softmax without an axis")
def _():
    yield one("LogSoftmax", f(2, 3, 4), opset=13)
    yield one("LogSoftmax", f(2, 3, 4), opset=11)
    yield one("Softmax", f(2, 3, 4), opset=11)


@row("root mean square with one factor for all")
def _():
    nodes = [
        node("Pow", "x two", "square"), node("ReduceMean", "square axes", "mean"), node("Add", "mean eps", "sum"),
        node("Sqrt", "sum", "root"), node("Div", "x root", "normal"), node("Mul", "normal gamma", "y"),
    ]  # fmt: skip
    for gamma in (np.float32(1.5), np.array([1.5], np.float32), f(8)):
        consts = {"two": np.float32(2), "axes": np.array([-1]), "eps": np.float32(1e-6), "gamma": gamma}
        yield model(nodes, {"x": f(3, 8)}, consts, "y")


@row("a summand along the width is no bias of channels")
def _():
    nodes = [node("Conv", "x w", "a", pads=[1, 1, 1, 1]), node("Add", "a b", "y")]
    for b in (f(5), f(5, 1, 1), f(1, 5, 1, 1), f(5, 1), f(1, 1, 5, 1)):
        yield model(nodes, {"x": f(1, 3, 5, 5)}, {"w": f(5, 3, 3, 3), "b": b}, "y")


@row("a summand per row is no bias of columns")
def _():
    nodes = [node("MatMul", "x w", "a"), node("Add", "a b", "y")]
    for b in (f(4, 1), f(4), f(1, 4), f(1)):
        yield model(nodes, {"x": f(4, 6)}, {"w": f(6, 4), "b": b}, "y")


@row("what is shaped like a gelu, with other numbers")
def _():
    nodes = [
        node("Pow", "x three", "cube"), node("Mul", "cube a", "scaled"), node("Add", "x scaled", "sum"),
        node("Mul", "sum b", "inner"), node("Tanh", "inner", "tanh"), node("Add", "tanh one", "plus"),
        node("Mul", "x plus", "product"), node("Mul", "product half", "y"),
    ]  # fmt: skip
    for a, b, half in ((0.044715, 0.7978845608, 0.5), (0.05, 0.7978845608, 0.5), (0.044715, 0.9, 0.5), (0.044715, 0.7978845608, 0.4)):  # fmt: skip  # noqa: E501
        consts = {"three": 3.0, "a": a, "b": b, "one": 1.0, "half": half}
        consts = {k: np.float32(v) for k, v in consts.items()}
        yield model(
            nodes, {"x": np.linspace(-5, 5, 41, dtype=np.float32)}, consts, "y", rtol=2e-4
        )  # MNN's own approximation


@row("gelu by the error function is not the one by a hyperbolic tangent")
def _():
    x = np.linspace(-6, 6, 97, dtype=np.float32)
    yield one("Gelu", x, opset=20, rtol=1e-5)
    yield one("Gelu", x, opset=20, approximate="tanh", rtol=2e-4)  # MNN's own approximation
    nodes = [
        node("Div", "x root", "a"), node("Erf", "a", "e"), node("Add", "e one", "p"), node("Mul", "x p", "m"),
        node("Mul", "m half", "y"),
    ]  # fmt: skip
    consts = {"root": np.float32(2**0.5), "one": np.float32(1), "half": np.float32(0.5)}
    yield model(nodes, {"x": x}, consts, "y", rtol=1e-5)


@row("clipping where the upper bound is below the lower one")
def _():
    x = np.linspace(-3, 9, 25, dtype=np.float32)
    yield one("Clip", x, c(np.float32(4)), c(np.float32(2)), opset=13)
    yield one("Clip", x, c(np.float32(0)), c(np.float32(6)), opset=13)
    yield one("Clip", x, np.array(-1, np.float32), np.array(2, np.float32), opset=13)


@row("slopes for other than four axes")
def _():
    for shape, slope in (((2, 3, 4, 5), (3, 1, 1)), ((2, 3, 4), (3, 1)), ((2, 5), (5,)), ((2, 3, 4, 5), (5,)), ((7,), (1,)), ((2, 3, 2, 2, 2), (3, 1, 1, 1))):  # fmt: skip  # noqa: E501
        yield one("PRelu", f(*shape), c(f(*slope)))


# ---- recurrent layers ----------------------------------------------------------------------------------------------

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def _recurrent(op: str, outputs: str = "", direction: str = "forward", lens: Any = None, **attrs: Any) -> Case:
    n = 2 if direction == "bidirectional" else 1
    hidden, gates = 3, GATES[op]
    consts = {
        "w": f(n, gates * hidden, 4), "r": f(n, gates * hidden, hidden, seed=1), "b": f(n, 2 * gates * hidden, seed=2)
    }  # fmt: skip
    if lens is not None:
        consts["lens"] = np.array(lens, np.int32)
    outputs = outputs or ("y h c" if op == "LSTM" else "y h")
    made = node(
        op, f"x w r b {'_' if lens is None else 'lens'}", outputs, hidden_size=hidden, direction=direction, **attrs
    )
    named = " ".join(n for n in outputs.split() if n != "_")
    return model([made], {"x": f(5, 2, 4)}, consts, named, 14)


@row("recurrence backwards, and both ways")
def _():
    for op in GATES:
        for direction in ("forward", "reverse", "bidirectional"):
            more = {"linear_before_reset": 1} if op == "GRU" else {}
            yield _recurrent(op, direction=direction, **more)


@row("reset before the product")
def _():
    for direction in ("forward", "reverse", "bidirectional"):
        yield _recurrent("GRU", direction=direction, linear_before_reset=0)
        yield _recurrent("GRU", direction=direction)


@row("other activations, bounds, coupled gates")
def _():
    yield _recurrent("GRU", activations=["HardSigmoid", "Softsign"])
    yield _recurrent("LSTM", activations=["HardSigmoid", "Tanh", "Softsign"])
    yield _recurrent("RNN", activations=["Relu"])
    yield _recurrent("LSTM", clip=0.2)
    yield _recurrent("LSTM", input_forget=1)


@row("sequences of their own lengths")
def _():
    for op in GATES:
        for direction in ("forward", "reverse", "bidirectional"):
            yield _recurrent(op, direction=direction, lens=[5, 2])
        yield _recurrent(op, lens=[5, 5])


@row("recurrence with fewer results")
def _():
    for op in GATES:
        yield _recurrent(op, "y")
        yield _recurrent(op, "_ h")
    yield _recurrent("LSTM", "y h")
    yield _recurrent("LSTM", "_ _ c")
