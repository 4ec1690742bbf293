"""What convolutions and matrix products do with a result before they write it: they add a residual, then activate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, TensorType
from minnow.schema.ir.type import merge
from minnow.schema.ops.activation import Clip, Gelu, HardSigmoid, HardSwish, LeakyRelu, Relu, Sigmoid, Silu
from minnow.schema.ops.math_unary import Tanh
from minnow.schema.ops.special import Array
from minnow.schema.registry.op import Arg, Op, fill

Activation = Literal[
    "", "relu", "relu6", "clip", "leaky_relu", "hardswish", "hardsigmoid", "sigmoid", "silu", "tanh", "gelu"
]

RESIDUAL = 3
"""The operand that is added, for all ops that have one."""


@dataclass(frozen=True)
class Function:
    """An op that may be an activation.

    Attributes:
        op: the op.
        names: its attributes that are called alpha and beta there.
        fixed: attributes that have one value.
    """

    op: Op
    names: tuple[str, ...] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict)


# The first that fits an op is its name.
FUNCTIONS: dict[str, Function] = {
    "relu": Function(Relu),
    "relu6": Function(Clip, fixed={"min": 0.0, "max": 6.0}),
    "clip": Function(Clip, ("min", "max")),
    "leaky_relu": Function(LeakyRelu, ("alpha",)),
    "hardswish": Function(HardSwish),
    "hardsigmoid": Function(HardSigmoid, ("alpha", "beta")),
    "sigmoid": Function(Sigmoid),
    "silu": Function(Silu),
    "tanh": Function(Tanh),
    "gelu": Function(Gelu, fixed={"approximate": "none"}),
}


def attrs_of(activation: str, alpha: float | None, beta: float | None) -> dict[str, Any]:
    """The attributes of the op that an activation is."""
    function = FUNCTIONS[activation]
    given = zip(function.names, (alpha, beta), strict=False)
    return {**function.fixed, **{name: number for name, number in given if number is not None}}


def as_activation(op: str, attrs: Mapping[str, Any]) -> dict[str, Any] | None:
    """The attributes `activation`, `alpha` and `beta` that stand for a node; None where it is no activation.

    Args:
        op, attrs: of the node, attributes at their defaults being left out.
    """
    for name, function in FUNCTIONS.items():
        if function.op.name != op:
            continue
        have = {a: attrs.get(a, attr.default) for a, attr in function.op.attrs.items()}
        if any(have.pop(a) != value for a, value in function.fixed.items()) or set(have) != set(function.names):
            continue
        numbers = zip(("alpha", "beta"), function.names, strict=False)
        return {"activation": name} | {k: attrs[a] for k, a in numbers if a in attrs}
    return None


def finish(y: Array, residual: Array | None, activation: str, alpha: float | None, beta: float | None) -> Array:
    """What becomes of a result in float64."""
    if residual is not None:
        y = y + residual.astype(np.float64)
    if not activation:
        return y
    return FUNCTIONS[activation].op.evaluate([y], attrs_of(activation, alpha, beta))[0]


def finished(type: TensorType, residual: Arg | None, activation: str, alpha: float | None, beta: float | None) -> Any:
    """The type of a result with a residual, and whether the activation takes these numbers."""
    names = FUNCTIONS[activation].names if activation else ()
    for i, (name, number) in enumerate((("alpha", alpha), ("beta", beta))):
        if number is not None and len(names) <= i:
            raise ModelError(f"{name} is {number:g}", why=f"the activation '{activation}' does not take it")
    if residual is None:
        return type
    if residual.dtype is not type.dtype:
        raise ModelError(f"the residual is {residual.dtype}, the result is {type.dtype}")
    try:
        return type.with_shape(merge(type.shape, residual.shape))
    except ModelError:
        raise ModelError(f"the residual has the shape {residual.shape}, the result {type.shape}") from None


_SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-39, 88, -104, 7, -7], np.float32)
_NUMBERS: dict[str, dict[str, float]] = {
    "clip": {"alpha": -0.5, "beta": 0.75},
    "leaky_relu": {"alpha": -0.25},
    "hardsigmoid": {"alpha": 0.75, "beta": 0.25},
}


def finished_cases(rng: np.random.Generator, op: Op, cases: Sequence[tuple[Any, dict[str, Any]]]) -> Iterator[Any]:
    """Samples: of these (shapes, attributes), in turn, each with a residual or without, and with every activation."""
    for i, (name, numbers) in enumerate([("", {}), *((n, {}) for n in FUNCTIONS), *_NUMBERS.items()]):
        for k, dtype in enumerate((DType.F32, DType.F32, DType.F64)):
            shapes, attrs = cases[(3 * i + k) % len(cases)]
            operands = [fill(rng, shape, dtype) for shape in shapes]
            # Sums about as large as their terms: what is cut off at 1 is as exact as they are.
            operands[1] = operands[1] / dtype.numpy.type(max(1, np.prod(shapes[1][1:])) ** 0.5)
            args = [Arg(TensorType(dtype, shape)) for shape in shapes]
            shape = op.infer(args, attrs)[0].static_shape
            residual = fill(rng, shape, dtype)
            if i % 2:
                # Of what is not finite, no two are added: their sum would depend on the order.
                residual.reshape(-1)[: len(_SPECIAL)] = _SPECIAL[: residual.size]
            yield ([*operands, residual] if k != 1 else operands), {**attrs, "activation": name, **numbers}
