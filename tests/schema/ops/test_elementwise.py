"""The numpy references of elementwise ops against ONNX, on all their samples."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from onnx_oracle import Array, OnnxNode, Row, cases, compare, onnx_type
from sampling import one_in

from minnow.schema.ir import DType
from minnow.schema.ops import all_ops


def node(name: str) -> Row:
    """The ONNX op of that name, with attributes of the same names."""

    def row(*inputs: Array, **attrs: Any) -> OnnxNode:
        return OnnxNode(name, inputs, {k: int(v) if isinstance(v, bool) else v for k, v in attrs.items()})

    return row


def scalar(function: Callable[..., float]) -> Row:
    """A function of Python's `math`, number by number; it raises where the result is not finite."""

    def one(*numbers: float) -> float:
        try:
            return function(*map(float, numbers))
        except (ValueError, OverflowError):
            return math.nan

    def row(*inputs: Array) -> list[Array]:
        broadcast = np.broadcast_arrays(*inputs)
        numbers = [one(*group) for group in zip(*(a.reshape(-1).tolist() for a in broadcast), strict=True)]
        with np.errstate(all="ignore"):
            return [np.array(numbers, np.float64).reshape(broadcast[0].shape).astype(inputs[0].dtype)]

    return row


def clip(x: Array, *, min: float, max: float) -> OnnxNode:
    if x.dtype.kind in "iu":
        info = np.iinfo(x.dtype)
        low = info.min if min < info.min else math.ceil(min)
        high = info.max if max > info.max else math.floor(max)
        return OnnxNode("Clip", (x, np.array(low, x.dtype), np.array(high, x.dtype)))
    return OnnxNode("Clip", (x, np.array(min, x.dtype), np.array(max, x.dtype)))


def mod(a: Array, b: Array, *, fmod: bool) -> OnnxNode | list[Array]:
    if a.dtype.kind == "f" and not fmod:  # ONNX leaves it to fmod; TensorFlow's FloorMod is what we have
        with np.errstate(all="ignore"):
            exact = np.fmod(a.astype(np.float64), b)
            return [np.where((exact != 0) & ((exact < 0) != (b < 0)), exact + b, exact).astype(a.dtype)]
    return OnnxNode("Mod", (a, b), {"fmod": int(fmod)})


def floor_div(a: Array, b: Array) -> list[Array]:
    if a.dtype.kind == "f":
        return [np.floor(a / b)]
    return [np.asarray(a.astype(object) // b.astype(object)).astype(a.dtype)]


def round_(x: Array, *, halves: str) -> OnnxNode | list[Array]:
    if halves == "even":
        return OnnxNode("Round", (x,))
    return [np.where(np.abs(x) < 2**20, np.trunc(x + np.copysign(0.5, x)), x).astype(x.dtype)]


def cast(x: Array, *, to: DType, saturate: bool, round_mode: str) -> OnnxNode:
    attrs: dict[str, Any] = {"to": onnx_type(np.zeros(0, to.numpy))}
    if not to.is_storage and not DType.of(x.dtype).is_storage:
        return OnnxNode("Cast", (x,), attrs)
    attrs |= {"saturate": int(saturate), "round_mode": round_mode}
    if to is DType.I4 and DType.of(x.dtype).is_storage:
        x = x.astype(np.float32)  # ml_dtypes does not convert all of its types into each other
    after = partial(powers_of_two, x, saturate) if to is DType.F8E8M0 else lambda results: results
    return OnnxNode("Cast", (x,), attrs, after=after, opset=28, by_reference=True)


def powers_of_two(x: Array, saturate: bool, results: list[Array]) -> list[Array]:
    """What the reference has beyond the range of f8e8m0 is not what the table of the operator says."""
    numbers = x.astype(np.float32)
    codes = results[0].view(np.uint8).copy()
    codes[numbers < 2.0**-126] = 0 if saturate else 255
    between = (numbers >= 2.0**-127) & (numbers < 2.0**-126)  # subnormal in float32, of which it sees the exponent only
    codes[between] = results[0].view(np.uint8)[between]
    codes[np.isposinf(numbers)] = 254 if saturate else 255
    codes[(numbers < 0) | np.isnan(numbers)] = 255
    return [codes.view(results[0].dtype)]


def bit_cast(x: Array, *, to: DType) -> OnnxNode:
    return OnnxNode("BitCast", (x,), {"to": onnx_type(np.zeros(0, to.numpy))}, opset=26, by_reference=True)


def round_to(x: Array, *, to: DType) -> OnnxNode:
    cast_to = cast(x, to=to, saturate=True, round_mode="up")
    return OnnxNode("Cast", cast_to.inputs, cast_to.attrs, after=lambda r: [r[0].astype(x.dtype)])


def shift(a: Array, b: Array, *, direction: str) -> OnnxNode | list[Array]:
    if a.dtype.kind == "i":  # ONNX shifts unsigned numbers only
        number, power = a.astype(object), 2 ** b.astype(object)
        return [np.asarray(number * power if direction == "LEFT" else number // power).astype(a.dtype)]
    return OnnxNode("BitShift", (a, b), {"direction": direction})


def binary_relu(a: Array, b: Array, *, op: str) -> OnnxNode:
    return OnnxNode(op, (a, b), after=lambda r: [np.maximum(r[0], r[0].dtype.type(0))])


SAME = """
Abs Neg Floor Ceil Sign Sqrt Reciprocal Exp Log Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Asinh Acosh
Atanh Erf Relu LeakyRelu Elu Selu Celu ThresholdedRelu Shrink HardSigmoid Sigmoid Gelu Softplus Mish HardSwish PRelu
Add Sub Mul Div Pow Max Min BitwiseAnd BitwiseOr BitwiseXor BitwiseNot Equal Greater Less GreaterOrEqual LessOrEqual
And Or Xor Not IsNaN IsInf Where Identity
"""

TABLE: dict[str, Row] = {
    **{name: node(name) for name in SAME.split()},
    "Square": lambda x: OnnxNode("Mul", (x, x)),
    "Round": round_,
    "Rsqrt": scalar(lambda x: math.copysign(math.inf, x) if x == 0 else 1 / math.sqrt(x)),
    "Expm1": scalar(lambda x: math.inf if x > 1e3 else math.expm1(x)),
    "Log1p": scalar(lambda x: -math.inf if x == -1 else math.log1p(x)),
    "Erfc": scalar(math.erfc),
    "Clip": clip,
    "Silu": scalar(lambda x: x / (1 + math.exp(-x)) if x > -700 else 0 * x),
    # The reference fails for float64 of rank 0.
    "Softsign": lambda x: OnnxNode("Softsign", (x.reshape(-1),), after=lambda r: [r[0].reshape(x.shape)]),
    "FloorDiv": floor_div,
    "Atan2": scalar(math.atan2),
    "SquaredDifference": lambda a, b: [np.square(np.subtract(a, b))],
    "Mod": mod,
    "BinaryRelu": binary_relu,
    "BitShift": shift,
    "NotEqual": lambda a, b: OnnxNode("Equal", (a, b), after=lambda r: [~r[0]]),
    "Cast": cast,
    "RoundTo": round_to,
    "BitCast": bit_cast,
}


@pytest.mark.parametrize(("op", "row", "samples"), cases(TABLE))
def test_reference(op, row, samples):
    with np.errstate(all="ignore"):
        for sample in samples[:: one_in(4)]:
            compare(op, row, sample)


def test_every_op_is_judged():
    families = {"math_unary", "activation", "math_binary", "compare", "cast"}
    assert {op.name for op in all_ops() if op.module.rpartition(".")[2] in families} == set(TABLE)
