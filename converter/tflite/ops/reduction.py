"""Sums, extrema and their indices along axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.converter.operand import constant, ints, is_known, rank
from minnow.converter.tflite.frontend import frontend as tflite
from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder


def reduce(b: Builder, op: str, x: Value, axes: Value, keep: bool) -> Value:
    """A reduction over axes that may be computed, or none at all."""
    made: Any = getattr(b, op)
    if not is_known(axes):
        return made(x, axes, keepdims=keep)
    at = tuple(sorted({a % max(rank(x, "the input of a reduction"), 1) for a in ints(axes)})) if x.type.rank else ()
    return made(x, axes=at, keepdims=keep) if at else x


def _reduction(name: str, op: str, **options: Any) -> None:
    @tflite.op(name, **options)
    def _(b, x, axes, *, keep_dims=False):
        return reduce(b, op, x, axes, keep_dims)


_reduction("MEAN", "ReduceMean")
_reduction("SUM", "ReduceSum")
_reduction("REDUCE_PROD", "ReduceProd")
_reduction("REDUCE_MAX", "ReduceMax", moves=True)
_reduction("REDUCE_MIN", "ReduceMin", moves=True)
_reduction("REDUCE_ANY", "ReduceMax")
_reduction("REDUCE_ALL", "ReduceMin")


def _place(name: str, op: str) -> None:
    @tflite.op(name, raw=True)
    def _(b, x, axis, *, output_type=None, node):
        at = int(constant(axis, "the axis").reshape(()) if axis.type.count == 1 else _bad_axis(axis))
        if x.type.dtype is DType.BOOL:
            x = b.Cast(x, to=DType.I32)
        return b.Cast(getattr(b, op)(x, axis=at, keepdims=False), to=node.type_out().dtype)


def _bad_axis(axis: Value) -> int:
    raise ModelError(f"the axis must be one number, but is {axis.type}")


_place("ARG_MAX", "ArgMax")
_place("ARG_MIN", "ArgMin")


@tflite.op("CUMSUM")
def _(b, x, axis, *, exclusive=False, reverse=False):
    return b.CumSum(x, b.Reshape(axis, np.zeros(0, np.int64)), exclusive=exclusive, reverse=reverse)


@tflite.op("TOPK_V2", moves=True)
def _(b, x, k, *, node):
    values, places = b.TopK(x, b.Reshape(k, np.array([1])), axis=-1)
    return values, b.Cast(places, to=node.type_out(1).dtype)
