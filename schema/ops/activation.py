"""Activations, elementwise with parameters."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, Node
from minnow.schema.ops.special import erfc, keep
from minnow.schema.registry.encoding import bound, computes, fields, unary, when
from minnow.schema.registry.op import ELEMENTWISE, SPATIAL, Decoded, Encoding, Float, Numeric, Trait, WireOp, fill, op
from minnow.schema.registry.symbolic import broadcast_first, elementwise


def _slope(leaky: bool) -> Encoding:
    """ReLU with a slope, which is two ops of ours: slope 0 gives 0 for -inf where a multiplication gives NaN."""

    def encode(node: Node) -> WireOp | None:
        slope = bound(node).get("alpha", 0.0)
        if node.input(0).type.dtype is not DType.F32 or (leaky and slope == 0):
            return None
        return WireOp("ReLU", "Relu", {"slope": slope}, node.inputs)

    def decode(wire: WireOp) -> Decoded:
        slope = wire.field("slope", 0.0)
        if (slope != 0) is not leaky:
            return None
        return wire.inputs, {"alpha": slope} if leaky else {}

    return Encoding(encode, decode, ("ReLU",))


@op(
    mnn=_slope(leaky=False),
    traits=ELEMENTWISE | {Trait.SIZE_MATH, Trait.NOT_BELOW_ZERO, Trait.NO_ROUNDING, Trait.IDEMPOTENT},
)
def Relu(x: Numeric):
    """y = max(x, 0)"""
    return np.maximum(x, np.zeros((), x.dtype))


Relu.contents(elementwise(lambda a: a if a.at_least(0) else None))


@op(mnn=_slope(leaky=True), traits=ELEMENTWISE)
def LeakyRelu(x: Float, *, alpha: float = 0.01):
    """y = x for x >= 0, alpha * x below."""
    return keep(lambda v: np.where(v < 0, alpha * v, v), x)


LeakyRelu.vary(alpha=1.5)
LeakyRelu.vary(alpha=-0.25)


@op(traits=ELEMENTWISE | SPATIAL | {Trait.CHANNEL_OPERANDS})
def PRelu(x: Float, slope: Float):
    """y = x for x >= 0, slope * x below; `slope` is broadcast to the shape of `x`."""
    return keep(lambda v, s: np.where(v < 0, s * v, v), x, slope)


PRelu.dimension(broadcast_first)


@PRelu.shape
def _(x, slope):
    if x.dtype is not slope.dtype:
        raise ModelError(f"PRelu needs operands of one type, not {x.dtype} and {slope.dtype}")
    if x.shape is not None and slope.shape is not None:
        tail = x.shape[len(x.shape) - len(slope.shape) :]
        pairs = zip(slope.shape, tail, strict=False)
        clash = any(isinstance(s, int) and s != 1 and isinstance(d, int) and s != d for s, d in pairs)
        if len(slope.shape) > len(x.shape) or clash:
            raise ModelError(f"a slope of shape {slope.shape} cannot be broadcast to {x.shape}")
    return x.type


@PRelu.samples
def _(rng):
    yield ((2, 3, 5, 7), (3, 1, 1)), {}
    yield ((2, 3, 5, 7), (1,)), {}
    yield ((1, 17, 3), (17, 1)), {}
    yield ((2, 3, 5), (3, 5)), {}
    yield ((2, 3, 5), (2, 3, 5)), {}
    yield ((2, 3, 5), (1, 3, 1)), {}
    yield ((4,), ()), {}
    yield ((), ()), {}
    yield ((0, 3, 2), (3, 1)), {}
    yield (fill(rng, (3, 4), DType.F16), fill(rng, (4,), DType.F16)), {}


@PRelu.encode("PReLU")
def _(node: Node) -> WireOp | None:
    x, numbers = node.input(0), node.input(1).array
    # The format's runtime takes channel blocks for granted, and other ranks than 4 are never stored as such.
    if numbers is None or x.type.rank != 4 or x.type.dtype is not DType.F32:
        return None
    # The file keeps the numbers, not their shape: only these two shapes can be told when it is read.
    if numbers.shape != (1,) and (numbers.size == 1 or numbers.shape != (numbers.size, 1, 1)):
        return None
    return WireOp("PReLU", "PRelu", {"slopeCount": numbers.size, "slope": numbers.reshape(-1)}, (x,))


@PRelu.decode
def _(wire: WireOp) -> Decoded:
    slope = np.asarray(wire.field("slope", ()), np.float32)
    rank = wire.inputs[0].type.rank
    if rank is None or rank < 2 or slope.size == 0:
        return None
    return (*wire.inputs, slope if slope.size == 1 else slope.reshape(-1, *(1,) * (rank - 2))), {}


# Where the limits are crossed, the format's runtime lets the lower one win.
_CLIP = when(
    lambda n: bound(n)["min"] <= bound(n)["max"],
    computes(fields("ReLU6", "Relu6", min=("minValue", 0.0), max=("maxValue", 6.0))),
)


@op(mnn=_CLIP, traits=ELEMENTWISE | {Trait.SIZE_MATH})
def Clip(x: Numeric, *, min: float = -np.inf, max: float = np.inf):
    """y = minimum(maximum(x, min), max), so that `max` wins where it is the smaller one. NaN stays NaN.

    For integers a bound beyond the type does not bind.
    """
    if x.dtype.kind not in "iu":
        return keep(lambda v: np.minimum(np.maximum(v, min), max), x)
    low, high = (_saturated(bound, np.iinfo(x.dtype)) for bound in (np.ceil(min), np.floor(max)))
    return np.minimum(np.maximum(x, x.dtype.type(low)), x.dtype.type(high))


def _saturated(bound: float, info: Any) -> int:
    # int64 has limits that float64 has not, hence comparisons instead of a clip.
    return info.min if bound <= info.min else info.max if bound >= info.max else int(bound)


@Clip.samples
def _(rng):
    yield ((2, 3, 5, 7),), {"min": -0.5, "max": 0.7}
    yield ((1, 19, 3, 3),), {"min": 0.0, "max": 6.0}
    yield ((0, 3),), {"min": 0.0}
    yield ((),), {"max": 0.25}
    yield ((7,),), {}
    yield ((7,),), {"min": 1.0, "max": -1.0}
    yield (np.array([np.nan, np.inf, -np.inf, 0, 5], np.float32),), {"min": -1.0, "max": 2.0}
    yield (fill(rng, (3, 5), DType.I32),), {"min": -3.0, "max": 4.0}
    yield (fill(rng, (3, 5), DType.I64),), {"max": 2.5}
    yield (fill(rng, (3, 5), DType.U8),), {"min": 3.0, "max": 300.0}
    yield (fill(rng, (3, 5), DType.F16),), {"min": -0.5}


@op(mnn=computes(fields("ELU", alpha=("alpha", 0.0))), traits=ELEMENTWISE)
def Elu(x: Float, *, alpha: float = 1.0):
    """y = x for x >= 0, alpha * (exp(x) - 1) below."""
    return keep(lambda v: np.where(v < 0, alpha * np.expm1(v), v), x)


@op(mnn=computes(fields("Selu", alpha=("alpha", 0.0), gamma=("scale", 0.0))), traits=ELEMENTWISE)
def Selu(x: Float, *, alpha: float = 1.6732632423543772, gamma: float = 1.0507009873554805):
    """y = gamma * x for x > 0, gamma * alpha * (exp(x) - 1) below."""
    return keep(lambda v: gamma * np.where(v > 0, v, alpha * np.expm1(v)), x)


@op(traits=ELEMENTWISE)
def Celu(x: Float, *, alpha: float = 1.0):
    """y = max(0, x) + min(0, alpha * (exp(x / alpha) - 1))"""
    return keep(lambda v: np.maximum(v, 0) + np.minimum(0, alpha * np.expm1(v / alpha)), x)


@op(traits=ELEMENTWISE)
def ThresholdedRelu(x: Float, *, alpha: float = 1.0):
    """y = x for x > alpha, 0 otherwise."""
    return keep(lambda v: np.where(v > alpha, v, 0), x)


@op(traits=ELEMENTWISE)
def Shrink(x: Numeric, *, bias: float = 0.0, lambd: float = 0.5):
    """y = x + bias for x < -lambd, x - bias for x > lambd, 0 otherwise."""
    return keep(lambda v: np.where(v < -lambd, v + bias, np.where(v > lambd, v - bias, 0)), x)


@op(traits=ELEMENTWISE)
def HardSigmoid(x: Float, *, alpha: float = 0.2, beta: float = 0.5):
    """y = clip(alpha * x + beta, 0, 1)"""
    return keep(lambda v: np.clip(alpha * v + beta, 0, 1), x)


for _op, _attrs in (
    (Elu, {"alpha": 0.7}),
    (Selu, {"alpha": 1.5, "gamma": 1.25}),
    (Celu, {"alpha": 2.5}),
    (ThresholdedRelu, {"alpha": 0.25}),
    (Shrink, {"bias": 0.75, "lambd": 0.25}),
    (HardSigmoid, {"alpha": 0.5, "beta": 0.25}),
):
    _op.vary(**_attrs)


@op(
    mnn=unary("SIGMOID", legacy="Sigmoid"),
    traits=ELEMENTWISE | {Trait.NO_SIGN_BIT, Trait.SAME_FOR_ZEROS},
)
def Sigmoid(x: Float):
    """y = 1 / (1 + exp(-x))"""
    return keep(lambda v: 1 / (1 + np.exp(-v)), x)


@op(mnn=unary("HARDSWISH"), traits=ELEMENTWISE)
def HardSwish(x: Float):
    """y = x * clip(x + 3, 0, 6) / 6"""
    return keep(lambda v: v * np.clip(v + 3, 0, 6) / 6, x)


@op(mnn=unary("SILU"), traits=ELEMENTWISE)
def Silu(x: Float):
    """y = x * sigmoid(x)"""
    return keep(lambda v: v / (1 + np.exp(-v)), x)


@op(traits=ELEMENTWISE)
def Gelu(x: Float, *, approximate: Literal["none", "tanh"] = "none"):
    """y = x * P(X <= x) of a standard normal X.

    "tanh" approximates it by 0.5 * x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x^3))).
    """
    if approximate == "none":
        return keep(lambda v: 0.5 * v * erfc(-v / np.sqrt(2)), x)
    return keep(lambda v: 0.5 * v * (1 + np.tanh(np.sqrt(2 / np.pi) * (v + 0.044715 * v**3))), x)


_GELU = {"none": unary("GELU_STANDARD"), "tanh": unary("GELU")}


@Gelu.encode("UnaryOp")
def _(node: Node) -> WireOp | None:
    return _GELU[bound(node)["approximate"]].encode(node)


@Gelu.decode
def _(wire: WireOp) -> Decoded:
    kind = next((k for k, encoding in _GELU.items() if encoding.decode(wire)), None)
    return None if kind is None else (wire.inputs, {"approximate": kind})


Gelu.vary(approximate="tanh")


@op(traits=ELEMENTWISE | {Trait.NO_SIGN_BIT, Trait.SAME_FOR_ZEROS})
def Softplus(x: Float):
    """y = log(1 + exp(x))"""
    return keep(lambda v: np.logaddexp(0, v), x)


@op(traits=ELEMENTWISE)
def Softsign(x: Float):
    """y = x / (1 + |x|)"""
    return keep(lambda v: v / (1 + np.abs(v)), x)


@op(traits=ELEMENTWISE)
def Mish(x: Float):
    """y = x * tanh(log(1 + exp(x)))"""
    return keep(lambda v: v * np.tanh(np.logaddexp(0, v)), x)
