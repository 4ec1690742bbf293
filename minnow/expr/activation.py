"""Activation functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.expr.argument import axis_of, floats, number
from minnow.expr.constant import NHWC
from minnow.expr.elementwise import unary
from minnow.expr.names import named
from minnow.expr.operation import apply, apply_one
from minnow.expr.var import Var, as_var
from minnow.schema.errors import UsageError

sigmoid = unary("sigmoid", "Sigmoid", None, like="torch.sigmoid")
softplus = unary("softplus", "Softplus", None, like="torch.nn.functional.softplus")
softsign = unary("softsign", "Softsign", None, like="torch.nn.functional.softsign")


@named("expr", like="torch.nn.functional.gelu", note="It is the approximation by tanh, as in MNN.")
def gelu(x: Any) -> Var:
    """x times the probability that a standard normal number is below x, approximated by tanh."""
    return apply_one("Gelu", x, approximate="tanh")


@named("expr", like="torch.nn.functional.leaky_relu")
def relu(x: Any, slope: Any = 0.0) -> Var:
    """x where it is above 0, `slope` times x below."""
    factor = number(slope, "slope")
    if factor == 0:
        return apply_one("Relu", x)
    return apply_one("LeakyRelu", x, alpha=factor)


@named("expr", like="torch.nn.functional.hardtanh")
def relu6(x: Any, min: Any = 0.0, max: Any = 6.0) -> Var:
    """x between two limits."""
    return apply_one("Clip", x, min=number(min, "min"), max=number(max, "max"))


@named("expr", like="torch.nn.functional.elu")
def elu(x: Any, alpha: Any = 1.0) -> Var:
    """x where it is above 0, alpha * (exp(x) - 1) below."""
    return apply_one("Elu", x, alpha=number(alpha, "alpha"))


@named("expr", like="torch.nn.functional.selu")
def selu(x: Any, scale: Any, alpha: Any) -> Var:
    """scale * x where it is above 0, scale * alpha * (exp(x) - 1) below."""
    return apply_one("Selu", x, alpha=number(alpha, "alpha"), gamma=number(scale, "scale"))


@named("expr", like="torch.nn.functional.prelu")
def prelu(x: Any, slopes: Any) -> Var:
    """x where it is above 0, x times the slope of its channel below; with one slope, it holds for all channels."""
    var = as_var(x)
    factors = slopes if isinstance(slopes, Var) else Var._of(floats(slopes, "slopes"))
    channel = var.ndim - 1 if var.data_format is NHWC else 1
    if var.ndim < 2 or factors.size not in (1, var.shape[channel]):
        raise UsageError(f"{factors.size} slopes are for a Var of the shape {var.shape}", hint="one for each channel")
    shape = [1] * var.ndim
    shape[channel] = factors.size
    aligned = apply("Reshape", factors, Var._of(np.array(shape, np.int64)))
    return apply_one("PRelu", var, aligned)


@named("expr", like="torch.softmax")
def softmax(x: Any, axis: Any = -1) -> Var:
    """exp(x) divided by its sum along an axis."""
    var = as_var(x)
    return apply_one("Softmax", var, axis=axis_of(axis, var.ndim))
