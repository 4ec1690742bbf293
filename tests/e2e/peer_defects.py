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


# ---- reductions, indices -------------------------------------------------------------------------------------------


@row("classes along a new last axis, without saying so")
def _():
    index, values = np.array([[0, 2], [-1, 1]]), c(np.array([2, 5], np.float32))
    yield one("OneHot", index, c(np.array(3)), values)
    yield one("OneHot", index, c(np.array(3)), values, axis=1)


@row("parts that do not divide the whole")
def _():
    yield one("Split", f(2, 7), outputs=3, axis=1, num_outputs=3, opset=18)
    yield one("Split", f(5), outputs=2, num_outputs=2, opset=18)
    yield one("Split", f(2, 7), c(np.array([1, 4, 2])), outputs=3, axis=1, opset=18)


REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "SumSquare", "Sum", "Mean", "Max", "Min", "Prod")


@row("reductions whose axes are an operand")
def _():
    for name in REDUCTIONS:
        x = f(2, 3, 4, low=0.5)
        yield one(f"Reduce{name}", x, c(np.array([1])), opset=18)
        yield one(f"Reduce{name}", x, c(np.array([-1, 0])), opset=18, keepdims=0)
        yield one(f"Reduce{name}", x, opset=18)


@row("reductions of nothing leave what is there")
def _():
    x = f(2, 3, low=0.5)
    for name in REDUCTIONS:
        yield one(f"Reduce{name}", x, opset=18, noop_with_empty_axes=1, judge="reference")
    yield one("ReduceSum", x, c(np.zeros(0, np.int64)), opset=13, noop_with_empty_axes=1)
    yield one("ReduceSum", x, c(np.zeros(0, np.int64)), opset=13)


@row("the last of the largest")
def _():
    x = np.array([[3, 1, 3, 2], [-1, -1, -5, -1]], np.float32)
    for op in ("ArgMax", "ArgMin"):
        for select in (0, 1):
            yield one(op, x, axis=1, select_last_index=select, opset=13)
            yield one(op, x, axis=0, keepdims=0, select_last_index=select, opset=13)


@row("the largest of integers, by value")
def _():
    x = np.array([[-5, -2, 7, 1], [-1, -9, -3, -2]], np.int32)
    for op in ("ArgMax", "ArgMin"):
        yield one(op, x, axis=1, opset=13)
    yield one("TopK", x, c(np.array([2])), outputs=2, opset=11)


@row("scattering that adds up")
def _():
    x, at = f(3, 4), np.array([[0, 0, 1, 2], [2, 2, 0, 1]])
    for reduction in ("none", "add", "mul", "max", "min"):
        places = np.array([[2, 1, 0, 0], [1, 2, 2, 1]]) if reduction == "none" else at
        yield one("ScatterElements", x, c(places), f(2, 4), axis=0, reduction=reduction, opset=18)
        wide = np.array([[0, 3], [1, 2], [2, 0]]) if reduction == "none" else np.array([[0, 0], [1, 1], [3, 3]])
        yield one("ScatterElements", x, c(wide), f(3, 2), axis=1, reduction=reduction, opset=18)
        rows = np.array([[0], [2]]) if reduction == "none" else np.array([[0], [0]])
        yield one("ScatterND", x, c(rows), f(2, 4), reduction=reduction, opset=18)


@row("indices that count from the end")
def _():
    x = f(5, 4)
    yield one("Gather", x, c(np.array([-1, 0, -5])))
    yield one("Gather", x, np.array([-1, 0, -5]), axis=0)
    yield one("Gather", x, np.array([[-1, 2]]), axis=1)
    yield one("GatherND", x, np.array([[-1, -2], [0, 1]]))
    yield one("GatherElements", x, np.array([[-1, 2, 0, -5]]))


# ---- arithmetic ----------------------------------------------------------------------------------------------------

SIGNED = np.array([7, -7, 7, -7, 0, 5, -1], np.float32), np.array([3, 3, -3, -3, 4, -5, 2], np.float32)


@row("remainders with the sign of either side")
def _():
    a, b = SIGNED
    yield one("Mod", a + np.float32(0.25), b, fmod=1, opset=13)
    for dtype in (np.int32, np.int64):
        for fmod in (0, 1):
            yield one("Mod", a.astype(dtype), b.astype(dtype), fmod=fmod, opset=13)


@row("division of integers goes toward zero")
def _():
    a, b = SIGNED
    for dtype in (np.int32, np.int64):
        yield one("Div", a.astype(dtype), b.astype(dtype), opset=14)


@row("a number as a truth is 0 or 1")
def _():
    x = np.array([0, -0.0, 0.3, -2, 5, np.inf, np.nan], np.float32)
    nodes = [node("Cast", "x", "b", to=TensorProto.BOOL), node("Cast", "b", "y", to=TensorProto.FLOAT)]
    yield model(nodes, {"x": x}, {}, "y")
    yield model(nodes, {"x": np.array([0, 3, -1, 256, 2**24], np.int32)}, {}, "y")
    yield one("Cast", x, to=TensorProto.BOOL)


@row("integers beyond 30 and 32 bits")
def _():
    big = np.array([2**31 - 1, -(2**31), 2**30 + 1, 123])
    yield one("Add", np.array([1, 2, -5, 7]), c(big // 2))
    yield one("Add", np.array([1, 2, -5, 7]), c(np.array([2**40, -(2**35), 2**33 + 1, 3])))
    yield one("Mul", np.array([2**20, 3, -(2**25), 10**9]), c(np.array([2**20, 5, 2**10, 10**9])))
    yield one("Mul", np.array([1, 2, 3, 4]), c(np.array([10, 20, 30, 40])))


@row("double precision")
def _():
    x = np.array([1 + 2**-40, 1e300, -1e-300])
    yield one("Add", x, c(np.array([2**-45, 1e299, 1e-301])), rtol=1e-14)


@row("products of integers above 24 bits")
def _():
    yield one(
        "Mul", np.array([16777217, 33554433, -16777217, 46341], np.int32), c(np.array([3, 5, 7, 46340], np.int32))
    )
    yield one("Mul", np.array([16777217, 3], np.int32), np.array([3, 16777219], np.int32))


@row("rounding takes halves to even")
def _():
    yield one("Round", np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.4999999, 8388609, -7.5], np.float32))


COMPARISONS = ("Less", "LessOrEqual", "Greater", "GreaterOrEqual")


@row("order of negative numbers")
def _():
    for n in (1, 3, 4, 5, 8, 16, 33):
        a, b = f(n, low=-2), f(n, seed=1, low=-2)
        for op in COMPARISONS:
            yield one(op, a, b, opset=16)
            yield one(op, a, c(np.float32(-1.5)), opset=16)


@row("order of negative numbers, both sides repeated")
def _():
    for op in COMPARISONS:
        yield one(op, f(3, 1, low=-2), f(1, 5, seed=1, low=-2), opset=16)
        yield one(op, f(2, 1, 4, low=-2), f(3, 1, seed=1, low=-2), opset=16)


ODD = np.array([0.0, -0.0, 0.0, -0.0, np.nan, np.nan, np.inf, -np.inf, 1, 2], np.float32)
ODDER = np.array([-0.0, 0.0, 0.0, -0.0, np.nan, 1, np.inf, np.inf, 1, 3], np.float32)


@row("equality of zeros, and of what is not a number")
def _():
    yield one("Equal", ODD, ODDER, opset=19)
    yield one("IsNaN", ODD, opset=20)
    for op in COMPARISONS:
        yield one(op, ODD, ODDER, opset=16)


@row("a maximum keeps what is not a number")
def _():
    a, b = np.array([1, np.nan, np.nan, 3, -1], np.float32), np.array([np.nan, 1, np.nan, 2, 5], np.float32)
    for op in ("Max", "Min"):
        yield one(op, a, b, opset=13)


@row("choices between repeated operands")
def _():
    condition = np.array([[True, False, True]])
    for a, b in (((2, 3), (3,)), ((2, 1), (1, 3)), ((), (2, 1)), ((2, 3), ()), ((3,), (2, 3)), ((1,), (2, 1))):
        yield one("Where", condition, f(*a), f(*b, seed=1), opset=16)
    nodes = [node("Less", "x zero", "m"), node("Where", "m low x", "y")]
    yield model(nodes, {"x": f(3, 4)}, {"zero": np.float32(0), "low": f(4)}, "y")


@row("sums of one, means of two")
def _():
    yield one("Sum", f(3), opset=13)
    yield one("Mean", f(3), f(3, seed=1), opset=13)
    yield one("Mean", f(2, 3), f(3, seed=1), f(1, seed=2), opset=13)


# ---- resizing and sampling -----------------------------------------------------------------------------------------


def _resize(x: Array, scales: Any = None, sizes: Any = None, **attrs: Any) -> Case:
    given = [None if v is None else c(np.asarray(v, t)) for v, t in ((scales, np.float32), (sizes, np.int64))]
    while given and given[-1] is None:
        given.pop()
    return one("Resize", x, None, *given, opset=18, **attrs)


@row("nearest elements by every rounding")
def _():
    for mode in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
        for coordinates in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"):
            yield _resize(f(1, 2, 4, 5), sizes=[1, 2, 7, 9], mode="nearest", nearest_mode=mode,
                          coordinate_transformation_mode=coordinates)  # fmt: skip


@row("cubic interpolation at the border")
def _():
    x = np.array([0, 1, 4, 9, 16, 25], np.float32).reshape(1, 1, 1, 6)
    for coordinates in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"):
        yield _resize(x, [1, 1, 1, 2], mode="cubic", coordinate_transformation_mode=coordinates)
        yield _resize(f(1, 2, 5, 4), sizes=[1, 2, 8, 7], mode="cubic", coordinate_transformation_mode=coordinates)


@row("cubic interpolation by other coefficients")
def _():
    yield _resize(f(1, 2, 5, 4), [1, 1, 2, 2], mode="cubic", cubic_coeff_a=-0.5)
    yield _resize(f(1, 2, 5, 4), [1, 1, 2, 2], mode="cubic", exclude_outside=1)


@row("resizing of named axes")
def _():
    yield _resize(f(1, 2, 4, 5), [2.0, 1.5], mode="linear", axes=[2, 3])
    yield _resize(f(1, 2, 4, 5), None, [9, 3], mode="nearest", axes=[3, 2])


@row("sampling by cubic interpolation, and mirrored")
def _():
    grid = np.random.default_rng(0).uniform(-1.6, 1.6, (1, 3, 4, 2)).astype(np.float32)
    for mode in ("linear", "nearest", "cubic"):
        for padding in ("zeros", "border", "reflection"):
            for align in (0, 1):
                yield one("GridSample", f(1, 2, 5, 6), grid, mode=mode, padding_mode=padding, align_corners=align)


@row("largest samples of regions")
def _():
    rois = np.array([[0, 0, 4, 4], [1.5, 2, 6.5, 5]], np.float32)
    for mode in ("avg", "max"):
        yield one("RoiAlign", f(1, 3, 8, 8), rois, c(np.zeros(2, np.int64)), mode=mode, output_height=2,
                  output_width=3, sampling_ratio=2, opset=16)  # fmt: skip


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


# ---- the rest ------------------------------------------------------------------------------------------------------


@row("quantized and back, for four axes")
def _():
    nodes = [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "y")]
    yield model(nodes, {"x": f(2, 3, 4, 5)}, {"s": np.float32(0.02), "z": np.uint8(128)}, "y", 13)
    per = {"s": np.array([0.02, 0.01, 0.05], np.float32), "z": np.array([1, 0, -9], np.int8)}
    yield model(nodes, {"x": f(2, 3, 4, 5)}, per, "y", 13)


@row("a first axis of any extent")
def _():
    nodes = [node("MatMul", "x w", "a"), node("Relu", "a", "y")]
    for n in (1, 5):
        yield model(nodes, {"x": f(n, 3)}, {"w": f(3, 4)}, "y", symbols={"x": ["N", 3]})
    nodes = [node("Conv", "x w", "a"), node("Flatten", "a", "y")]
    yield model(nodes, {"x": f(3, 2, 5, 5)}, {"w": f(3, 2, 3, 3)}, "y", symbols={"x": ["N", 2, 5, 5]})


@row("padding of named axes, and around")
def _():
    x, two = f(2, 3, 4), np.float32(2)
    yield one("Pad", x, c(np.array([1, 2, 0, 1])), c(two), c(np.array([0, 2])), opset=18)
    yield one("Pad", x, c(np.array([1, 1])), None, c(np.array([-1])), opset=18, mode="reflect")
    for mode in ("wrap", "edge", "reflect", "constant"):
        yield one("Pad", x, c(np.array([0, 1, 2, 0, 1, 1])), opset=19, mode=mode)


@row("a sum before an activation, which is a result too")
def _():
    nodes = [node("Add", "x b", "a"), node("Relu", "a", "y")]
    yield model(nodes, {"x": f(2, 3)}, {"b": f(3)}, "a y")
    nodes = [node("Conv", "x w", "a"), node("Relu", "a", "y")]
    yield model(nodes, {"x": f(1, 2, 5, 5)}, {"w": f(3, 2, 3, 3)}, "a y")


@row("loops of no rounds")
def _():
    def body() -> onnx.GraphProto:
        info = [("i", TensorProto.INT64, []), ("go", TensorProto.BOOL, []), ("v", TensorProto.FLOAT, [2])]
        made = [node("Add", "v v", "w"), node("Identity", "go", "on")]
        outs = [("on", TensorProto.BOOL, []), ("w", TensorProto.FLOAT, [2])]
        return helper.make_graph(
            made, "body", *([helper.make_tensor_value_info(*i) for i in part] for part in (info, outs))
        )

    for trips in (0, 1, 3):
        for go in (True, False):
            loop = helper.make_node("Loop", ["n", "go0", "x"], ["y"], body=body())
            feed = {"n": np.array(trips), "go0": np.array(go), "x": f(2)}
            yield model([loop], feed, {}, "y", 16)


@row("static layers need no shapes at run time")
def _():
    nodes = [
        node("Shape", "x", "s"), node("Gather", "s zero", "n"), node("Unsqueeze", "n axis", "n1"),
        node("Concat", "n1 rest", "to", axis=0), node("Reshape", "x to", "flat"),
        node("Gemm", "flat w b", "y", transB=1),
    ]  # fmt: skip
    consts = {"zero": np.array(0), "axis": np.array([0]), "rest": np.array([-1]), "w": f(4, 12), "b": f(4)}
    yield model(nodes, {"x": f(2, 3, 4)}, consts, "y")
