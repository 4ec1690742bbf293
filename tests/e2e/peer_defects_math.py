"""The rows of `peer_defects` about reductions, indices, arithmetic, sampling, and what surrounds the layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from e2e.peer_defects import Array, Case, c, f, model, node, one, row
from onnx import TensorProto, helper

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
