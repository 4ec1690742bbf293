"""Operators of the domain com.microsoft, which exporters and onnxruntime's offline optimizers write: shared parts.

The families are in the modules beside this one. Where an operator is one of ONNX's own under another domain, `standard`
hands it to that mapping.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from minnow.converter.base import Call
from minnow.converter.onnx.frontend import frontend as onnx
from minnow.schema.errors import InternalError, UnsupportedError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder, get

DOMAIN = "com.microsoft"
NEWEST = 22
"""The opset whose semantics a contrib operator has where it is the counterpart of one of ONNX's own."""


def contrib(*names: str, plain: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers the translation of contrib operators; `plain`: files have them in ONNX's own domain, too."""
    return onnx.op(*(f"{DOMAIN}::{n}" for n in names), *(names if plain else ()))


def standard(
    b: Builder, node: Call, op: str, *inputs: Value | None, version: int = NEWEST, **attrs: Any
) -> tuple[Any, ...]:
    """What the mapping of an operator of ONNX's own makes of operands and attributes."""
    mapping = onnx.find(op, version)
    if mapping is None:
        raise InternalError(f"the operator {op}, which {node.op} is made of, has no mapping")
    operands = list(inputs)
    while operands and operands[-1] is None:
        operands.pop()
    return onnx.translate(mapping, b, replace(node, op=op, version=version), operands, attrs)


def alias(*names: str) -> None:
    """Contrib operators that have the name, the operands and the attributes of ONNX's own."""
    for name in names:
        mapping = onnx.find(name, NEWEST)
        if mapping is None:
            raise InternalError(f"the operator {name} has no mapping")
        onnx.mappings[f"{DOMAIN}::{name}"] = [replace(mapping, since=1, until=None)]


def dimension(b: Builder, x: Value, axis: int) -> Any:
    """A dimension as an int64 scalar: a number where it is fixed, else a value computed from the shape."""
    shape = x.type.shape
    if shape is not None and isinstance(d := shape[axis], int):
        return np.int64(d)
    axis = axis if shape is None or axis >= 0 else axis + len(shape)
    return b.Reshape(b.Shape(x, start=axis, end=axis + 1 or None), np.zeros(0, np.int64))


def positions(b: Builder, count: Any) -> Value:
    """0, 1, ... as int64[count]; `count` as `dimension` gives it."""
    return b.Range(np.int64(0), count, np.int64(1))


def listed(b: Builder, *dimensions: Any) -> Any:
    """Dimensions side by side as a shape: numbers, and scalars as `dimension` gives them."""
    if not any(isinstance(e, Value) for e in dimensions):
        return np.array(dimensions, np.int64)
    parts = [b.Reshape(e, np.array([1])) if isinstance(e, Value) else np.array([e], np.int64) for e in dimensions]
    return b.Concat(*parts, axis=0)


def reshaped(b: Builder, x: Value, like: Value, *tail: int, end: int | None = None) -> Value:
    """x under the shape of `like`, of which the dimensions from `end` on are replaced by those of `tail`."""
    if like.type.is_static:
        shape = (*like.type.static_shape[:end], *tail)
        return b.Reshape(x, np.array(shape, np.int64), allowzero=0 in shape)
    return b.Reshape(x, b.Concat(b.Shape(like, end=end), np.array(tail, np.int64), axis=0), allowzero=True)


def cast(b: Builder, x: Value, to: DType) -> Value:
    """x in another element type, itself where it has it."""
    return x if x.type.dtype is to else b.Cast(x, to=to)


def activated(b: Builder, x: Value, activation: str, parameters: Mapping[str, float]) -> Value:
    """x after the activation that a fusion has put into an operator's attributes.

    Args:
        activation: an ONNX operator's name, "" for none.
        parameters: its attributes; for Clip `min` and `max`.

    Raises:
        UnsupportedError: an activation that is not among those.
    """
    if not activation:
        return x
    if activation not in _ACTIVATIONS:
        raise UnsupportedError(
            f"the activation '{activation}' is not supported", why=f"supported are {', '.join(_ACTIVATIONS)}"
        )
    names = parameters_of(activation)
    return getattr(b, activation)(x, **{k: parameters[k] for k in names if k in parameters})


def parameters_of(activation: str) -> tuple[str, ...]:
    """The numbers that an activation takes, by the names of the op's attributes; none for an unknown one."""
    attrs = get(activation).attrs if activation in _ACTIVATIONS else {}
    return tuple(name for name, attr in attrs.items() if isinstance(attr.default, float))


# op list: the operators that onnxruntime fuses as activations
_ACTIVATIONS = ("Relu", "Tanh", "Sigmoid", "Gelu", "HardSwish", "Softplus", "Softsign", "LeakyRelu", "Elu",
                "ThresholdedRelu", "Clip", "HardSigmoid")  # fmt: skip
