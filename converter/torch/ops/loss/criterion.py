"""Losses. `reduction` is 0 for none, 1 for the mean and 2 for the sum."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.converter.operand import rank, static_dim
from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.ops.convolution import linear
from minnow.converter.torch.ops.loss.distance import pairwise_distance
from minnow.converter.torch.program.script import Unusable
from minnow.converter.torch.symbolic.dimension import known
from minnow.converter.torch.symbolic.dtype import as_value, float_type, operands
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder

torch.refuse(
    "aten::ctc_loss", "aten::_ctc_loss",
    why="it is a loss for training", hint="end the model at the log probabilities",
)  # fmt: skip


def _reduced(b: Builder, x: Value, reduction: int) -> Any:
    return x if reduction == 0 else (b.ReduceMean if reduction == 1 else b.ReduceSum)(x, keepdims=False)


def _number(x: Value, number: float) -> Value:
    return Value.constant(np.array(number, x.type.dtype.numpy))


@torch.op("aten::mse_loss")
def _(b, self, target, reduction=1):
    return _reduced(b, b.SquaredDifference(*operands(b, self, target)), reduction)


@torch.op("aten::l1_loss")
def _(b, self, target, reduction=1):
    return _reduced(b, b.Abs(b.Sub(*operands(b, self, target))), reduction)


@torch.op("aten::smooth_l1_loss")
def _(b, self, target, reduction=1, beta=1.0):
    off = b.Abs(b.Sub(*operands(b, self, target)))
    if beta:
        off = b.Where(b.Less(off, float(beta)), b.Mul(b.Square(off), 0.5 / beta), b.Sub(off, 0.5 * beta))
    return _reduced(b, off, reduction)


@torch.op("aten::huber_loss")
def _(b, self, target, reduction=1, delta=1.0):
    off = b.Abs(b.Sub(*operands(b, self, target)))
    far = b.Mul(b.Sub(off, 0.5 * delta), float(delta))
    return _reduced(b, b.Where(b.LessOrEqual(off, float(delta)), b.Mul(b.Square(off), 0.5), far), reduction)


# ---- classes


def _classes(x: Value) -> int:
    return static_dim(x.type, -1, "the classes") if rank(x, "the scores") else 1


def _class_axis(x: Value) -> int:
    return 0 if rank(x, "the scores") == 1 else 1


def _picked(b: Builder, x: Value, target: Value, axis: int) -> Any:
    """The element of x that each target names along an axis."""
    return b.Squeeze(b.GatherElements(x, b.Unsqueeze(target, axes=(axis,)), axis=axis), axes=(axis,))


def _nll(b: Builder, x: Value, target: Value, weight: Value | None, reduction: int, ignore: int) -> tuple[Any, Any]:
    """What the scores lack of 0 at the targets, and the sum of the weights of these."""
    axis = _class_axis(x)
    target = target if target.type.dtype is DType.I64 else b.Cast(target, to=DType.I64)
    counts = b.NotEqual(target, known(ignore, "the class that is left out"))
    safe = b.Where(counts, target, b.const(np.array(0, np.int64)))
    factor = b.Cast(counts, to=x.type.dtype) if weight is None else b.Where(counts, b.Gather(weight, safe),
                                                                           _number(x, 0))  # fmt: skip
    lacking = b.Neg(_picked(b, x, safe, axis))
    lacking = b.Where(counts, lacking if weight is None else b.Mul(lacking, factor), _number(x, 0))
    total = b.ReduceSum(factor, keepdims=False)
    if reduction != 1:
        return _reduced(b, lacking, reduction), total
    return b.Div(b.ReduceSum(lacking, keepdims=False), total), total


@torch.op("aten::nll_loss", "aten::nll_loss2d", "aten::nll_loss_nd")
def _(b, self, target, weight=None, reduction=1, ignore_index=-100):
    return _nll(b, self, target, weight, reduction, ignore_index)[0]


@torch.op("aten::nll_loss_forward", "aten::nll_loss2d_forward")
def _(b, self, target, weight, reduction, ignore_index):
    loss, total = _nll(b, self, target, weight, reduction, ignore_index)
    return loss, total if reduction else b.const(np.zeros((), self.type.dtype.numpy))


@torch.op("aten::cross_entropy_loss")
def _(b, self, target, weight=None, reduction=1, ignore_index=-100, label_smoothing=0.0):
    axis = _class_axis(self)
    logs = b.LogSoftmax(self, axis=axis)
    n = rank(self, "the scores")
    if weight is not None:
        scale = b.Reshape(weight, np.array([-1 if i == axis else 1 for i in range(n)]))
    classes = static_dim(self.type, axis, "the classes")
    if target.type.dtype.is_float:
        wanted = as_value(b, target, self.type.dtype)
        if label_smoothing:
            wanted = b.Add(b.Mul(wanted, 1 - label_smoothing), label_smoothing / classes)
        terms = b.Mul(logs if weight is None else b.Mul(logs, scale), wanted)
        lacking = b.Neg(b.ReduceSum(terms, axes=(axis,), keepdims=False))
        return _reduced(b, lacking, reduction)
    loss, total = _nll(b, logs, target, weight, reduction, ignore_index)
    if not label_smoothing:
        return loss
    every = b.Neg(b.ReduceSum(logs if weight is None else b.Mul(logs, scale), axes=(axis,), keepdims=False))
    every = b.Where(b.NotEqual(target, ignore_index), every, _number(self, 0))
    smooth = b.Div(b.ReduceSum(every, keepdims=False), total) if reduction == 1 else _reduced(b, every, reduction)
    return b.Add(b.Mul(loss, 1 - label_smoothing), b.Mul(smooth, label_smoothing / classes))


def _of_product(b: Builder, x: Value, w: Value, target: Value, bias: Value | None, weight: Value | None, reduction: int,
                ignore: int) -> Any:  # fmt: skip
    logs = b.LogSoftmax(linear(b, x, w, bias), axis=1)
    return _nll(b, logs, target, weight, reduction, ignore)[0]


@torch.op("torch_nn::_linear_cross_entropy_batch_chunked")
def _(b, input, linear_weight, target, linear_bias, weight, reduction, ignore_index, label_smoothing, *settings):
    loss = _of_product(b, input, linear_weight, target, linear_bias, weight, 1 if reduction == "mean" else 2,
                       ignore_index)  # fmt: skip
    return loss, *(
        Unusable(f"the gradient of {what} is not supported") for what in ("the input", "the weight", "the bias")
    )


@torch.op("torch_nn::_linear_cross_entropy_batch_chunked_no_reduction")
def _(b, input, linear_weight, target, linear_bias, weight, ignore_index, *settings):
    return _of_product(b, input, linear_weight, target, linear_bias, weight, 0, ignore_index)


@torch.op("aten::multi_margin_loss")
def _(b, self, target, p=1, margin=1, weight=None, reduction=1):
    classes = _classes(self)
    x, at = b.Reshape(self, np.array([-1, classes])), b.Reshape(target, np.array([-1]))
    own = b.GatherElements(x, b.Unsqueeze(at, axes=(1,)), axis=1)
    over = b.Relu(b.Add(b.Sub(x, own), float(margin)))
    over = over if p == 1 else b.Square(over)
    over = over if weight is None else b.Mul(over, b.Unsqueeze(b.Gather(weight, at), axes=(1,)))
    others = b.NotEqual(b.const(np.arange(classes)[None]), b.Unsqueeze(at, axes=(1,)))
    loss = b.Div(b.ReduceSum(b.Where(others, over, _number(x, 0)), axes=(1,), keepdims=False), float(classes))
    loss = _reduced(b, loss, reduction)
    return b.Reshape(loss, np.zeros(0, np.int64)) if self.type.rank != 2 else loss


def _multilabel_margin(b: Builder, x: Value, target: Value, reduction: int) -> tuple[Any, Any]:
    """Classes are named up to the first -1 of a row; also gives which these are."""
    classes, shape = _classes(x), x.type.shape or ()
    if not shape:
        x, target = (b.Reshape(v, np.array([1])) for v in (x, target))
    named = b.Equal(b.CumSum(b.Cast(b.Less(target, 0), to=DType.I64), np.array(-1)), 0)  # in front of any -1
    safe = b.Where(named, target, b.const(np.array(-1, np.int64)))
    is_target = b.Cast(b.ReduceSum(b.Cast(b.Equal(b.Unsqueeze(safe, axes=(-1,)), b.const(np.arange(classes))),
                                          to=DType.I64), axes=(-2,), keepdims=False), to=DType.BOOL)  # fmt: skip
    own = b.GatherElements(x, b.Max(safe, 0), axis=-1)
    over = b.Relu(b.Add(b.Sub(b.Unsqueeze(x, axes=(-2,)), b.Unsqueeze(own, axes=(-1,))), 1.0))
    pairs = b.And(b.Unsqueeze(named, axes=(-1,)), b.Not(b.Unsqueeze(is_target, axes=(-2,))))
    loss = b.ReduceSum(b.Where(pairs, over, _number(x, 0)), axes=(-2, -1), keepdims=False)
    is_target = b.Cast(is_target if shape else b.Reshape(is_target, np.zeros(0, np.int64)), to=x.type.dtype)
    return _reduced(b, b.Div(loss, float(classes)), reduction), is_target


@torch.op("aten::multilabel_margin_loss")
def _(b, self, target, reduction=1):
    return _multilabel_margin(b, self, target, reduction)[0]


@torch.op("aten::multilabel_margin_loss_forward")
def _(b, self, target, reduction):
    return _multilabel_margin(b, self, target, reduction)


# ---- probabilities


def _bounded_log(b: Builder, x: Value) -> Any:
    return b.Max(b.Log(x), -100.0)


@torch.op("aten::binary_cross_entropy")
def _(b, self, target, weight=None, reduction=1):
    x, wanted = operands(b, self, target)
    no = b.Mul(b.Sub(wanted, 1.0), _bounded_log(b, b.Sub(_number(x, 1), x)))
    loss = b.Sub(no, b.Mul(wanted, _bounded_log(b, x)))
    return _reduced(b, loss if weight is None else b.Mul(loss, weight), reduction)


@torch.op("aten::binary_cross_entropy_with_logits")
def _(b, self, target, weight=None, pos_weight=None, reduction=1):
    x, wanted = operands(b, self, target)
    logs = b.Softplus(b.Neg(x))
    if pos_weight is not None:
        logs = b.Mul(b.Add(b.Mul(b.Sub(pos_weight, 1.0), wanted), 1.0), logs)
    loss = b.Add(b.Mul(b.Sub(_number(x, 1), wanted), x), logs)
    return _reduced(b, loss if weight is None else b.Mul(loss, weight), reduction)


def _times_log(b: Builder, x: Value) -> Any:
    """x log(x), 0 where x is."""
    return b.Where(b.Equal(x, 0.0), _number(x, 0), b.Mul(x, b.Log(x)))


@torch.op("aten::kl_div")
def _(b, self, target, reduction=1, log_target=False):
    x, wanted = operands(b, self, target)
    if log_target:
        return _reduced(b, b.Mul(b.Exp(wanted), b.Sub(wanted, x)), reduction)
    return _reduced(b, b.Sub(_times_log(b, wanted), b.Mul(wanted, x)), reduction)


@torch.op("aten::poisson_nll_loss")
def _(b, input, target, log_input, full, eps, reduction):
    x, wanted = operands(b, input, target, dtype=float_type(input, target))
    rate, logs = (b.Exp(x), x) if log_input else (x, b.Log(b.Add(x, float(eps))))
    loss = b.Sub(rate, b.Mul(wanted, logs))
    if full:
        stirling = b.Add(b.Sub(b.Mul(wanted, b.Log(wanted)), wanted), b.Mul(b.Log(b.Mul(wanted, 2 * np.pi)), 0.5))
        loss = b.Add(loss, b.Where(b.LessOrEqual(wanted, 1.0), _number(x, 0), stirling))
    return _reduced(b, loss, reduction)


# ---- margins


@torch.op("aten::soft_margin_loss")
def _(b, self, target, reduction=1):
    # Not a Softplus: it is infinite where PyTorch's is.
    return _reduced(b, b.Log1p(b.Exp(b.Neg(b.Mul(*operands(b, self, target))))), reduction)


@torch.op("aten::hinge_embedding_loss")
def _(b, self, target, margin=1.0, reduction=1):
    x, side = operands(b, self, target)
    zero = _number(x, 0)
    apart = b.Where(b.NotEqual(side, 1.0), b.Relu(b.Sub(_number(x, margin), x)), zero)
    return _reduced(b, b.Add(apart, b.Where(b.NotEqual(side, -1.0), x, zero)), reduction)


@torch.op("aten::margin_ranking_loss")
def _(b, input1, input2, target, margin=0.0, reduction=1):
    x, y, side = operands(b, input1, input2, target, dtype=float_type(input1, input2, target))
    return _reduced(b, b.Relu(b.Add(b.Mul(b.Neg(side), b.Sub(x, y)), float(margin))), reduction)


@torch.op("aten::cosine_embedding_loss")
def _(b, input1, input2, target, margin=0.0, reduction=1):
    x, y = operands(b, input1, input2, dtype=float_type(input1, input2))
    dot, one, two = (b.ReduceSum(b.Mul(*v), axes=(-1,), keepdims=False) for v in ((x, y), (x, x), (y, y)))
    cosine = b.Div(dot, b.Sqrt(b.Mul(b.Add(one, 1e-12), b.Add(two, 1e-12))))
    zero = _number(x, 0)
    alike = b.Where(b.Equal(target, 1), b.Sub(_number(x, 1), cosine), zero)
    apart = b.Where(b.Equal(target, -1), b.Relu(b.Sub(cosine, float(margin))), zero)
    return _reduced(b, b.Add(alike, apart), reduction)


@torch.op("aten::triplet_margin_loss")
def _(b, anchor, positive, negative, margin=1.0, p=2.0, eps=1e-6, swap=False, reduction=1):
    near, far = (pairwise_distance(b, anchor, v, p, eps) for v in (positive, negative))
    if swap:
        far = b.Min(far, pairwise_distance(b, positive, negative, p, eps))
    return _reduced(b, b.Relu(b.Add(b.Sub(near, far), float(margin))), reduction)
