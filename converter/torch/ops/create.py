"""Tensor creation, from numbers or in the shape of another tensor."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from minnow.converter.operand import bounded
from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.symbolic.dimension import known, scalar, vector_of
from minnow.converter.torch.symbolic.dtype import as_value, dtype_of, result_type
from minnow.converter.torch.symbolic.tensor import Number
from minnow.converter.torch.symbolic.translator import fitted
from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder


def filled(b: Builder, sizes: Any, value: Any, dtype: DType) -> Value:
    """One number everywhere, in a shape whose dimensions may be computed."""
    made: Value = b.Fill(vector_of(b, sizes), as_value(b, value, dtype))
    return made


def filled_like(b: Builder, x: Value, value: Any, dtype: DType) -> Value:
    """One number everywhere, in the shape of x."""
    shape = np.array(x.type.shape, np.int64) if x.type.is_static else b.Shape(x)
    made: Value = b.Fill(shape, as_value(b, value, dtype))
    return made


def _constant(number: int, *names: str) -> None:
    """zeros, ones and their like; what is said to be empty holds zeros."""
    for name in names:

        @torch.op(f"aten::{name}")
        def _(b, size, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
            return filled(b, size, number, dtype_of(dtype, DType.F32))

        @torch.op(f"aten::{name}_like")
        def _(b, self, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
            return filled_like(b, self, number, dtype_of(dtype, self.type.dtype))

        @torch.op(f"aten::new_{name}")
        def _(b, self, size, dtype=None, layout=None, device=None, pin_memory=None):
            return filled(b, size, number, dtype_of(dtype, self.type.dtype))


_constant(0, "zeros", "empty")
_constant(1, "ones")


@torch.op("aten::empty_strided", "aten::empty_permuted")
def _(b, size, stride, dtype=None, layout=None, device=None, pin_memory=None):
    return filled(b, size, 0, dtype_of(dtype, DType.F32))


@torch.op("aten::new_empty_strided")
def _(b, self, size, stride, dtype=None, layout=None, device=None, pin_memory=None):
    return filled(b, size, 0, dtype_of(dtype, self.type.dtype))


@torch.op("aten::full")
def _(b, size, fill_value, dtype=None, layout=None, device=None, pin_memory=None):
    return filled(b, size, fill_value, dtype_of(dtype, result_type(fill_value)))


@torch.op("aten::full_like")
def _(b, self, fill_value, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    return filled_like(b, self, fill_value, dtype_of(dtype, self.type.dtype))


@torch.op("aten::new_full")
def _(b, self, size, fill_value, dtype=None, layout=None, device=None, pin_memory=None):
    return filled(b, size, fill_value, dtype_of(dtype, self.type.dtype))


@torch.op("aten::fill")
def _(b, self, value):
    return filled_like(b, self, value, self.type.dtype)


@torch.op("aten::zero")
def _(b, self):
    return filled_like(b, self, 0, self.type.dtype)


@torch.op("aten::copy")
def _(b, self, src, non_blocking=False):
    return fitted(b, src, self)


# ---- numbers


@torch.op("aten::scalar_tensor")
def _(b, s, dtype=None, layout=None, device=None, pin_memory=None):
    return as_value(b, s, dtype_of(dtype, DType.F32))


@torch.op("aten::tensor", *(f"aten::as_tensor.{k}" for k in ("list", "float", "int", "bool")))
def _(b, data, dtype=None, device=None, requires_grad=False):
    leaves = [v for v in _leaves(data) if v is not None]
    kind = dtype_of(dtype, result_type(*leaves) if leaves else DType.F32)
    return _stacked(b, data, kind)


def _leaves(data: Any) -> list[Any]:
    return [v for part in data for v in _leaves(part)] if isinstance(data, (list, tuple)) else [data]


def _stacked(b: Builder, data: Any, dtype: DType) -> Value:
    """Nested lists of numbers as a tensor."""
    if not isinstance(data, (list, tuple)):
        return as_value(b, data, dtype)
    if not any(isinstance(v, (Number, Value)) for v in _leaves(data)):
        return b.const(np.array(data).astype(dtype.numpy))
    made: Value = b.Concat(*(b.Unsqueeze(_stacked(b, v, dtype), axes=(0,)) for v in data), axis=0)
    return made


@torch.op("aten::arange")
def _(b, end, dtype=None, layout=None, device=None, pin_memory=None):
    return _range(b, 0, end, 1, dtype)


@torch.op("aten::arange.start")
def _(b, start, end, dtype=None, layout=None, device=None, pin_memory=None):
    return _range(b, start, end, 1, dtype)


@torch.op("aten::arange.start_step")
def _(b, start, end, step=1, dtype=None, layout=None, device=None, pin_memory=None):
    return _range(b, start, end, step, dtype)


@torch.op("aten::range")
def _(b, start, end, dtype=None, layout=None, device=None, pin_memory=None):
    return _range(b, start, end, 1, dtype_of(dtype, DType.F32), closed=True)


@torch.op("aten::range.step")
def _(b, start, end, step=1, dtype=None, layout=None, device=None, pin_memory=None):
    return _range(b, start, end, step, dtype_of(dtype, DType.F32), closed=True)


def _range(b: Builder, start: Any, end: Any, step: Any, dtype: Any, closed: bool = False) -> Value:
    kind = dtype if isinstance(dtype, DType) else dtype_of(dtype, result_type(start, end, step))
    numbers = (start, end, step)
    made: Value
    if any(isinstance(v, (Number, Value)) for v in numbers):
        if closed:
            raise UnsupportedError(
                "torch.range with bounds that are known only at run time is not supported", hint="use torch.arange"
            )
        wide = DType.F64 if any(_is_float(v) for v in numbers) else DType.I64
        made = b.Range(*(as_value(b, scalar(b, v), wide) for v in numbers))
        return as_value(b, made, kind)
    n = (math.floor((end - start) / step) + 1) if closed else math.ceil((end - start) / step)
    return b.const((start + step * np.arange(bounded(n, "a range"))).astype(kind.numpy))


def _is_float(x: Any) -> bool:
    return x.dtype.is_float if isinstance(x, Number) else x.type.dtype.is_float if isinstance(x, Value) else (
        isinstance(x, float)
    )  # fmt: skip


@torch.op("aten::linspace")
def _(b, start, end, steps, dtype=None, layout=None, device=None, pin_memory=None):
    kind = dtype_of(dtype, DType.F32)
    return as_value(b, _even(b, start, end, known(steps, "the number of steps"), kind), kind)


@torch.op("aten::logspace")
def _(b, start, end, steps, base=10.0, dtype=None, layout=None, device=None, pin_memory=None):
    kind = dtype_of(dtype, DType.F32)
    places = _even(b, start, end, known(steps, "the number of steps"), kind)
    if not kind.is_float:
        places = as_value(b, places, DType.F64)
    return as_value(b, b.Pow(as_value(b, known(base, "the base"), places.type.dtype), places), kind)


def _even(b: Builder, start: Any, end: Any, steps: int, dtype: DType) -> Any:
    """So many numbers in even distances; from both ends, so that both are exact."""
    if dtype.is_int:  # truncated before they are spread
        start, end = (math.trunc(v) if isinstance(v, float) else v for v in (start, end))
    low, high = (as_value(b, scalar(b, v), DType.F64) for v in (start, end))
    n = np.arange(bounded(steps, "a linspace"), dtype=np.float64)
    step = b.Div(b.Sub(high, low), float(max(steps - 1, 1)))
    first = b.Add(b.Mul(step, n[: (steps + 1) // 2]), low)
    last = b.Add(b.Mul(step, n[(steps + 1) // 2 :] - (steps - 1)), high)
    return b.Concat(first, last, axis=0)


# ---- patterns


@torch.op("aten::eye")
def _(b, n, dtype=None, layout=None, device=None, pin_memory=None):
    return _eye(b, n, n, dtype)


@torch.op("aten::eye.m")
def _(b, n, m, dtype=None, layout=None, device=None, pin_memory=None):
    return _eye(b, n, m, dtype)


def _eye(b: Builder, n: Any, m: Any, dtype: Any) -> Value:
    kind = dtype_of(dtype, DType.F32)
    made: Value = b.EyeLike(filled(b, [n, m], 0, kind), to=kind)
    return made


def _triangle(name: str, indices: Callable[..., Any]) -> None:
    @torch.op(f"aten::{name}")
    def _(b, row, col, offset=0, dtype=4, layout=None, device=None, pin_memory=None):
        rows, columns, k = (known(v, "a triangle") for v in (row, col, offset))
        return b.const(np.array(indices(rows, k, columns)).astype(dtype_of(dtype, DType.I64).numpy))


_triangle("tril_indices", np.tril_indices)
_triangle("triu_indices", np.triu_indices)
