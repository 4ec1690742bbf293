"""Derivatives of choices, casts and copies; of what turns floats into small integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import Value
from minnow.schema.ops import cast, compare, quantize
from minnow.schema.ops.fused import Fused
from minnow.schema.registry.dimension import axis_of
from minnow.schema.registry.op import Trait


@compare.Where.gradient
def _(g, cond, a, b):
    return None, g.Where(cond, g.dy, 0.0), g.Where(cond, 0.0, g.dy)


@cast.Identity.gradient
def _(g, x):
    return g.dy


@cast.Cast.gradient
def _(g, x, *, to, saturate, round_mode):
    return g.Cast(g.dy, to=x.dtype) if x.dtype.is_float and to.is_float else None


@cast.RoundTo.gradient
def _(g, x, *, to):
    """As of a Cast there and back: rounding is taken for no change."""
    return g.dy


@Fused.gradient
def _(g, *xs, body):
    table: dict[Value, Any] = {}

    def inlined(*given):
        table.update(zip(body.params, given, strict=True))
        for node in body:
            operands = [None if v is None else table.get(v, v) for v in node.inputs]
            made = getattr(g, node.op)(*operands, n_outputs=len(node.outputs), **node.attrs)
            table.update(zip(node.outputs, made, strict=True))
        return [table[v] for v in body.outputs]

    return g.through(inlined, *xs)


# ---- quantization: the gradient of training with fake quantization is that of the function without rounding

quantize.QuantizeLinear.traits |= {Trait.STRAIGHT_THROUGH}


def _refuse(block_size, to):
    if block_size or to.is_float:
        raise UnsupportedError(f"quantization to {to}{' by blocks' if block_size else ''} has no gradient")


def _along(g, v, x, axis):
    """A number for each place along an axis, in the rank of x."""
    if v.value.type.count == 1:
        return g.reshaped(v, *(1,) * x.rank)
    return g.reshaped(v, *(-1 if i == axis_of(axis, x.rank) else 1 for i in range(x.rank)))


@quantize.QuantizeLinear.gradient
def _(g, x, scale, zero, *, axis, to, block_size, saturate, precision):
    """By `scale` only what rounding leaves: the quotient's own slope is in the rule of DequantizeLinear."""
    _refuse(block_size, to)
    if not x.dtype.is_float:
        return None, None, None
    step = _as(g, _along(g, scale, x, axis), x.dtype)
    shift = 0.0 if zero is None else g.Cast(_along(g, zero, x, axis), to=x.dtype)
    at = g.Round(x / step) + shift
    info = np.iinfo(to.numpy)
    by_x = g.Where((at >= float(info.min)) & (at <= float(info.max)), _as(g, g.dy, x.dtype), 0.0) / step
    return by_x, _like(g, -(by_x * x / step), step, scale), None


@quantize.DequantizeLinear.gradient
def _(g, x, scale, zero, *, axis, block_size, to):
    _refuse(block_size, x.dtype)
    step = _as(g, _along(g, scale, x, axis), g.dy.dtype)
    number = g.Cast(x, to=g.dy.dtype)
    if zero is not None:
        number = number - g.Cast(_along(g, zero, x, axis), to=g.dy.dtype)
    return g.dy * step, _like(g, g.dy * number, step, scale), None


def _as(g, x, to):
    return x if x.dtype is to else g.Cast(x, to=to)


def _like(g, x, step, scale):
    """x summed over the axes along which there is one scale, in its shape and type."""
    summed = g.total(x, [i for i, d in enumerate(step.dims) if d == 1 and x.dims[i] != 1])
    return _as(g, g.like(summed, scale), scale.dtype)
