"""Losses: how far predictions are from targets, as one number. MNN's `nn.loss`.

A prediction and its target are [batch, classes, ...] of one shape; the loss is the mean over all but axis 1 of the sum
over axis 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.expr.names import named
from minnow.expr.operation import apply
from minnow.expr.var import Var, as_var
from minnow.schema.errors import UsageError

_LEAST = 1e-37
"""Probabilities below it count as it, so that their logarithm is a number."""


def _pair(predict: Any, target: Any) -> tuple[Var, Var]:
    p, t = as_var(predict), as_var(target)
    if (
        p.ndim < 2
        or p.ndim != t.ndim
        or any(-1 not in (a, b) and a != b for a, b in zip(p.shape, t.shape, strict=True))
    ):
        raise UsageError(
            f"a prediction of the shape {p.shape} and a target of the shape {t.shape}",
            hint="both are [batch, classes]; expr.one_hot makes that of labels",
        )
    return p, t if t._dtype() == p._dtype() else t._cast(p._dtype())


def _mean(each: Var) -> Var:
    """The mean over all but axis 1 of the sum over axis 1."""
    sums = apply("ReduceSum", each, axes=(1,), keepdims=False)
    loss: Var = apply("ReduceMean", sums, axes=None, keepdims=False)
    return loss


def _log(p: Var) -> Var:
    least = Var.from_array(np.asarray(_LEAST, p._dtype()))
    logarithm: Var = apply("Log", apply("Max", p, least))
    return logarithm


@named("nn.loss", like="torch.nn.functional.cross_entropy", note="`predict` are probabilities, not logits.")
def cross_entropy(predict: Any, onehot_target: Any) -> Var:
    """-sum t log(p).

    Args:
        predict: probabilities, such as softmax gives.
        onehot_target: 1 for the class of each example, 0 for the others; or probabilities.

    Raises:
        UsageError: the shapes differ.
    """
    p, t = _pair(predict, onehot_target)
    return _mean(-(t * _log(p)))


@named("nn.loss", like="torch.nn.functional.kl_div", note="Of the prediction with respect to the target, as in MNN.")
def kl(predict: Any, onehot_target: Any) -> Var:
    """sum p (log(p) - log(t)); both are probabilities."""
    p, t = _pair(predict, onehot_target)
    return _mean(p * (_log(p) - _log(t)))


@named("nn.loss", like="torch.nn.functional.mse_loss", note="The sum over axis 1, not the mean.")
def mse(predict: Any, onehot_target: Any) -> Var:
    """sum (p - t)^2."""
    p, t = _pair(predict, onehot_target)
    return _mean(apply("Square", p - t))


@named("nn.loss", like="torch.nn.functional.l1_loss", note="The sum over axis 1, not the mean.")
def mae(predict: Any, onehot_target: Any) -> Var:
    """sum |p - t|."""
    p, t = _pair(predict, onehot_target)
    return _mean(apply("Abs", p - t))


@named("nn.loss")
def hinge(predict: Any, onehot_target: Any) -> Var:
    """sum max(0, 1 - p t); targets are 1 and -1."""
    p, t = _pair(predict, onehot_target)
    return _mean(apply("Relu", 1.0 - p * t))


@named("nn.loss", mnn=False)
def distillation(student: Any, teacher: Any, onehot_target: Any, temperature: float, alpha: float) -> Var:
    """alpha T^2 KL(soft student, soft teacher) + (1 - alpha) cross entropy, of logits.

    Args:
        student, teacher: logits of the network that is trained, and of the one that it learns from.
        onehot_target: 1 for the class of each example, 0 for the others.
        temperature: what logits are divided by for the soft probabilities.
        alpha: the share of the teacher.

    Raises:
        UsageError: the shapes differ, or a number is out of range.
    """
    if not isinstance(temperature, (int, float)) or temperature <= 0:
        raise UsageError(f"temperature is {temperature!r}, not a positive number")
    if not isinstance(alpha, (int, float)) or not 0 <= alpha <= 1:
        raise UsageError(f"alpha is {alpha!r}, not a number from 0 to 1")
    s, t = _pair(student, teacher)
    soft = [apply("Softmax", v * (1 / float(temperature)), axis=1) for v in (s, t)]
    hard = cross_entropy(apply("Softmax", s, axis=1), onehot_target)
    loss: Var = kl(*soft) * float(alpha * temperature**2) + hard * float(1 - alpha)
    return loss
