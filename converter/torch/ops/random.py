"""Random numbers of the right distribution; they differ in every run."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.symbolic.dimension import known, vector_of
from minnow.converter.torch.symbolic.dtype import as_value, dtype_of
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder


def _shape(b: Builder, x: Value) -> Value:
    return b.const(np.array(x.type.shape, np.int64)) if x.type.is_static else b.Shape(x)


def _plain(op: str, name: str) -> None:
    @torch.op(f"aten::{name}")
    def _(b, size, dtype=None, layout=None, device=None, pin_memory=None):
        return getattr(b, op)(vector_of(b, size), to=dtype_of(dtype, DType.F32))

    @torch.op(f"aten::{name}.generator")
    def _(b, size, generator=None, dtype=None, layout=None, device=None, pin_memory=None):
        return getattr(b, op)(vector_of(b, size), to=dtype_of(dtype, DType.F32))

    @torch.op(f"aten::{name}_like")
    def _(b, self, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
        return getattr(b, op)(_shape(b, self), to=dtype_of(dtype, self.type.dtype))


_plain("RandomUniform", "rand")
_plain("RandomNormal", "randn")


@torch.op("aten::uniform")
def _(b, self, low=0.0, high=1.0, generator=None):
    return b.RandomUniform(_shape(b, self), low=low, high=high, to=self.type.dtype)


@torch.op("aten::normal_", "aten::normal_functional")
def _(b, self, mean=0.0, std=1.0, generator=None):
    return b.RandomNormal(_shape(b, self), mean=mean, scale=std, to=self.type.dtype)


@torch.op("aten::normal", "aten::normal.Tensor_float", "aten::normal.float_Tensor")
def _(b, mean, std=1.0, generator=None):
    like = next(v for v in (mean, std) if isinstance(v, Value))
    m, s = (as_value(b, v, like.type.dtype) for v in (mean, std))
    both = b.Add(m, s)
    return b.Add(b.Mul(b.RandomNormal(_shape(b, both), to=like.type.dtype), s), m)


@torch.op("aten::normal.float_float")
def _(b, mean, std, size, generator=None, dtype=None, layout=None, device=None, pin_memory=None):
    return b.RandomNormal(vector_of(b, size), mean=mean, scale=std, to=dtype_of(dtype, DType.F32))


@torch.op("aten::bernoulli", "aten::bernoulli.Tensor")
def _(b, self, p=None, generator=None):
    return _drawn(b, self, self if p is None else p)


@torch.op("aten::bernoulli.p", "aten::bernoulli_.float")
def _(b, self, p=0.5, generator=None):
    return _drawn(b, self, p)


def _drawn(b: Builder, x: Value, p: Any) -> Value:
    """1 with the probability p, else 0."""
    kind = p.type.dtype if isinstance(p, Value) and p.type.dtype.is_float else DType.F32
    part = b.RandomUniform(_shape(b, x), to=kind)
    made: Value = b.Cast(b.Less(part, as_value(b, p, kind)), to=x.type.dtype)
    return made


@torch.op("aten::exponential")
def _(b, self, lambd=1.0, generator=None):
    part = b.RandomUniform(_shape(b, self), to=self.type.dtype)
    return b.Mul(b.Log1p(b.Neg(part)), -1 / lambd)


@torch.op("aten::randint")
def _(b, high, size, dtype=4, layout=None, device=None, pin_memory=None):
    return _integers(b, 0, high, vector_of(b, size), dtype_of(dtype, DType.I64))


@torch.op("aten::randint.low")
def _(b, low, high, size, dtype=4, layout=None, device=None, pin_memory=None):
    return _integers(b, low, high, vector_of(b, size), dtype_of(dtype, DType.I64))


@torch.op("aten::randint_like")
def _(b, self, high, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    return _integers(b, 0, high, _shape(b, self), dtype_of(dtype, self.type.dtype))


@torch.op("aten::randint_like.low_dtype")
def _(b, self, low, high, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    return _integers(b, low, high, _shape(b, self), dtype_of(dtype, self.type.dtype))


def _integers(b: Builder, low: Any, high: Any, shape: Value, dtype: DType) -> Value:
    """Integers from [low, high)."""
    first, last = (as_value(b, v, DType.F64) for v in (low, high))
    part = b.Mul(b.RandomUniform(shape, to=DType.F64), b.Sub(last, first))
    made: Value = b.Cast(b.Floor(b.Add(part, first)), to=dtype)
    return made


@torch.op("aten::randperm")
def _(b, n, dtype=4, layout=None, device=None, pin_memory=None):
    part = b.RandomUniform(vector_of(b, [n]), to=DType.F64)
    return as_value(b, b.TopK(part, vector_of(b, [n]))[1], dtype_of(dtype, DType.I64))


@torch.op("aten::log_normal")
def _(b, self, mean=1.0, std=2.0, generator=None):
    return b.Exp(b.RandomNormal(_shape(b, self), mean=mean, scale=std, to=self.type.dtype))


@torch.op("aten::cauchy")
def _(b, self, median=0.0, sigma=1.0, generator=None):
    angle = b.Mul(b.RandomUniform(_shape(b, self), low=-0.5, high=0.5, to=self.type.dtype), np.pi)
    return b.Add(b.Mul(b.Tan(angle), sigma), median)


@torch.op("aten::geometric")
def _(b, self, p, generator=None):
    kind = self.type.dtype if self.type.dtype.is_float else DType.F32
    part = b.Log1p(b.Neg(b.RandomUniform(_shape(b, self), to=kind)))
    return as_value(b, b.Max(b.Ceil(b.Mul(part, 1 / np.log1p(-p).item())), 1.0), self.type.dtype)


@torch.op("aten::multinomial")
def _(b, self, num_samples, replacement=False, generator=None):
    n = known(num_samples, "the number of samples")
    weight = b.Log(self)
    if replacement or n == 1:
        rows = b.Unsqueeze(weight, axes=(0,)) if weight.type.rank == 1 else weight
        made = b.Multinomial(rows, samples=n, to=DType.I64)
        return b.Squeeze(made, axes=(0,)) if weight.type.rank == 1 else made
    # The largest of the logarithms plus noise of Gumbel's distribution are drawn without one twice.
    noise = b.Neg(b.Log(b.Neg(b.Log1p(b.Neg(b.RandomUniform(_shape(b, self), to=self.type.dtype))))))
    return b.TopK(b.Add(weight, noise), np.array([n]), axis=-1)[1]
