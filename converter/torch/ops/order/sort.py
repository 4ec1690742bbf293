"""Sorting. NaN is larger than every number."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.converter.operand import rank
from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.symbolic.dimension import axis_in, dimension, size_of
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder


def top(
    b: Builder, x: Value, k: Any, dim: int = -1, largest: bool = True, in_order: bool = True
) -> tuple[Value, Value]:
    """The k largest or smallest elements along an axis (None: all), and where they are."""
    n = rank(x, "what is sorted")
    if n == 0:
        return x, b.const(np.zeros((), np.int64))
    at = axis_in(dim, n)
    number = x if x.type.dtype is not DType.BOOL else b.Cast(x, to=DType.U8)
    count = dimension(b, size_of(b, x, at) if k is None else k)
    values, places = b.TopK(number, np.array([count]) if isinstance(count, int) else count, axis=at, largest=largest,
                            sorted=in_order)  # fmt: skip
    return values if number is x else b.Cast(values, to=DType.BOOL), places


@torch.op("aten::sort")
def _(b, self, dim=-1, descending=False):
    return top(b, self, None, dim, descending)


@torch.op("aten::sort.stable")
def _(b, self, stable=False, dim=-1, descending=False):
    return top(b, self, None, dim, descending)


@torch.op("aten::argsort")
def _(b, self, dim=-1, descending=False):
    return top(b, self, None, dim, descending)[1]


@torch.op("aten::argsort.stable")
def _(b, self, stable=False, dim=-1, descending=False):
    return top(b, self, None, dim, descending)[1]


@torch.op("aten::msort")
def _(b, self):
    return top(b, self, None, 0, False)[0]


@torch.op("aten::topk")
def _(b, self, k, dim=-1, largest=True, sorted=True):
    return top(b, self, k, dim, largest, sorted)
