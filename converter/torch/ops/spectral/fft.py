"""Fourier transforms, and the few operators on complex numbers that go with them.

A complex tensor is a pair of real ones: its Value is [..., 2], real and imaginary parts along a last axis of its own.
Mappings here get `Tensor`s of either kind. Whatever has no mapping here refuses complex numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minnow.converter.operand import rank, static_dim
from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.ops.movement import rolled
from minnow.converter.torch.symbolic.dimension import axis_in, known
from minnow.converter.torch.symbolic.dtype import as_value, dtype_of, float_type, operands
from minnow.converter.torch.symbolic.tensor import Number, Tensor
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder

_NORMS = {None: 0.0, "backward": 0.0, "ortho": -0.5, "forward": -1.0}
"""The power of the length by which a transform is scaled."""


def both(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a mapping of operators that take real and complex tensors."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        torch.of_complex(*names)(function)
        torch.op(*names, plain=True)(function)
        return function

    return add


def complex_of(value: Value) -> Tensor:
    """[..., 2] as a complex tensor."""
    made = Tensor(value)
    made.is_complex = True
    return made


def parts_of(t: Any, x: Any) -> Value:
    """[..., 2] of a complex tensor, [..., 1] of a real one, in floats."""
    if isinstance(x, Tensor) and x.is_complex:
        return x.pair(t.builder)
    value = t.value(x)
    value = as_value(t.builder, value, float_type(value))
    made: Value = t.builder.Unsqueeze(value, axes=(rank(value, "a signal"),))
    return made


def pair_of(t: Any, x: Any) -> Value:
    """[..., 2] of a complex tensor or of a real one."""
    value = parts_of(t, x)
    if static_dim(value.type, -1, "") == 2:
        return value
    made: Value = t.builder.Concat(value, t.builder.Mul(value, 0.0), axis=rank(value, "") - 1)
    return made


def _part(b: Builder, x: Value, i: int) -> Value:
    made: Value = b.Gather(x, np.array(i), axis=rank(x, "") - 1)
    return made


def _joined(b: Builder, real: Value, imaginary: Value) -> Value:
    n = rank(real, "a real part")
    made: Value = b.Concat(b.Unsqueeze(real, axes=(n,)), b.Unsqueeze(imaginary, axes=(n,)), axis=n)
    return made


def _sharing(x: Tensor, made: Tensor) -> Tensor:
    """A result that shares the memory of x: neither is known once the other has changed."""
    for other in (x, *x.root._maybe):
        other.apart(made)
    return made


def _conjugate(b: Builder, x: Value) -> Value:
    made: Value = b.Mul(x, b.const(np.array([1, -1], x.type.dtype.numpy)))
    return made


# ---- transforms along one axis


def _length(x: Value, axis: int, n: Any) -> int:
    n = static_dim(x.type, axis, "the length of a transform") if n is None else known(n, "the length of a transform")
    if n < 1:
        raise ModelError(f"the length {n} of a Fourier transform is invalid")
    return int(n)


def _times(b: Builder, x: Value, factor: float) -> Value:
    made: Value = x if factor == 1 else b.Mul(x, factor)
    return made


def _forward(b: Builder, x: Value, axis: int, n: Any, power: float, onesided: bool = False) -> Value:
    """The transform of parts [..., 1 or 2]."""
    n = _length(x, axis, n)
    return _times(b, b.DFT(x, np.array(n), np.array(axis), onesided=onesided), n**power)


def _backward(b: Builder, x: Value, axis: int, n: Any, power: float) -> Value:
    """The inverse transform of parts."""
    n = _length(x, axis, n)
    return _times(b, b.DFT(x, np.array(n), np.array(axis), inverse=True), n**-power)


def _to_real(b: Builder, x: Value, axis: int, n: Any, power: float) -> Value:
    """The inverse transform of the first half of a spectrum, as real numbers."""
    n = 2 * (static_dim(x.type, axis, "the length of a transform") - 1) if n is None else n
    n = _length(x, axis, n)
    made = b.DFT(x, np.array(n), np.array(axis), inverse=True, onesided=True)
    return _times(b, b.Squeeze(made, axes=(rank(made, "") - 1,)), n**-power)


def _power(norm: Any) -> float:
    if norm not in _NORMS:
        raise ModelError(f"the norm '{norm}' of a Fourier transform is unknown")
    return _NORMS[norm]


def _axis(x: Value, dim: Any) -> int:
    """An axis of a tensor with these parts."""
    return axis_in(known(dim, "an axis"), rank(x, "a signal") - 1)


def _real_only(x: Any) -> None:
    if isinstance(x, Tensor) and x.is_complex:
        raise ModelError("a Fourier transform for real input gets complex input")


@both("aten::fft_fft")
def _(t, self, n=None, dim=-1, norm=None):
    x = parts_of(t, self)
    return complex_of(_forward(t.builder, x, _axis(x, dim), n, _power(norm)))


@both("aten::fft_ifft")
def _(t, self, n=None, dim=-1, norm=None):
    x = parts_of(t, self)
    return complex_of(_backward(t.builder, x, _axis(x, dim), n, _power(norm)))


@both("aten::fft_rfft")
def _(t, self, n=None, dim=-1, norm=None):
    _real_only(self)
    x = parts_of(t, self)
    return complex_of(_forward(t.builder, x, _axis(x, dim), n, _power(norm), onesided=True))


@both("aten::fft_irfft")
def _(t, self, n=None, dim=-1, norm=None):
    x = pair_of(t, self)
    return Tensor(_to_real(t.builder, x, _axis(x, dim), n, _power(norm)))


@both("aten::fft_hfft")
def _(t, self, n=None, dim=-1, norm=None):
    x = _conjugate(t.builder, pair_of(t, self))
    return Tensor(_to_real(t.builder, x, _axis(x, dim), n, -1 - _power(norm)))


@both("aten::fft_ihfft")
def _(t, self, n=None, dim=-1, norm=None):
    _real_only(self)
    x = parts_of(t, self)
    made = _forward(t.builder, x, _axis(x, dim), n, -1 - _power(norm), onesided=True)
    return complex_of(_conjugate(t.builder, made))


# ---- along several axes


def _plan(x: Value, s: Any, dim: Any) -> list[tuple[int, Any]]:
    """The axes and lengths of transforms, in order."""
    n = rank(x, "a signal") - 1
    s = None if s is None else [None if v == -1 else v for v in ([s] if isinstance(s, (int, Number)) else s)]
    if dim is None:
        dim = range(n) if s is None else range(n - len(s), n)
    axes = [axis_in(known(d, "an axis"), n) for d in ([dim] if isinstance(dim, int) else dim)]
    return list(zip(axes, s or [None] * len(axes), strict=True))


def _several(name: str, default: Any) -> None:
    suffix = "2" if default else "n"

    @both(f"aten::fft_fft{suffix}")
    def _(t, self, s=None, dim=default, norm=None):
        x = parts_of(t, self)
        for axis, n in (plan := _plan(x, s, dim)):
            x = _forward(t.builder, x, axis, n, _power(norm))
        return complex_of(x if plan else pair_of(t, self))

    @both(f"aten::fft_ifft{suffix}")
    def _(t, self, s=None, dim=default, norm=None):
        x = parts_of(t, self)
        for axis, n in (plan := _plan(x, s, dim)):
            x = _backward(t.builder, x, axis, n, _power(norm))
        return complex_of(x if plan else pair_of(t, self))

    @both(f"aten::fft_rfft{suffix}")
    def _(t, self, s=None, dim=default, norm=None):
        _real_only(self)
        x = parts_of(t, self)
        *rest, last = _plan(x, s, dim)
        x = _forward(t.builder, x, *last, _power(norm), onesided=True)
        for axis, n in rest:
            x = _forward(t.builder, x, axis, n, _power(norm))
        return complex_of(x)

    @both(f"aten::fft_irfft{suffix}")
    def _(t, self, s=None, dim=default, norm=None):
        x = pair_of(t, self)
        *rest, last = _plan(x, s, dim)
        for axis, n in rest:
            x = _backward(t.builder, x, axis, n, _power(norm))
        return Tensor(_to_real(t.builder, x, *last, _power(norm)))

    @both(f"aten::fft_hfft{suffix}")
    def _(t, self, s=None, dim=default, norm=None):
        x = pair_of(t, self)
        *rest, last = _plan(x, s, dim)
        for axis, n in rest:
            x = _forward(t.builder, x, axis, n, _power(norm))
        return Tensor(_to_real(t.builder, _conjugate(t.builder, x), *last, -1 - _power(norm)))

    @both(f"aten::fft_ihfft{suffix}")
    def _(t, self, s=None, dim=default, norm=None):
        _real_only(self)
        x = parts_of(t, self)
        *rest, last = _plan(x, s, dim)
        x = _conjugate(t.builder, _forward(t.builder, x, *last, -1 - _power(norm), onesided=True))
        for axis, n in rest:
            x = _backward(t.builder, x, axis, n, _power(norm))
        return complex_of(x)


_several("2", (-2, -1))
_several("n", None)


# ---- the same as exported programs have them once they are decomposed


def _scaled(b: Builder, x: Value, count: int, normalization: int) -> Value:
    return _times(b, x, count ** {0: 0.0, 1: -0.5, 2: -1.0}[normalization])


def _count(x: Value, axes: Sequence[int]) -> int:
    return math.prod(static_dim(x.type, a, "the length of a transform") for a in axes)


@both("aten::_fft_r2c")
def _(t, self, dim, normalization, onesided):
    x = parts_of(t, self)
    *rest, last = [_axis(x, d) for d in dim]
    count = _count(x, [*rest, last])
    x = _forward(t.builder, x, last, None, 0.0, onesided)
    for axis in rest:
        x = _forward(t.builder, x, axis, None, 0.0)
    return complex_of(_scaled(t.builder, x, count, normalization))


@both("aten::_fft_c2c")
def _(t, self, dim, normalization, forward):
    x = pair_of(t, self)
    axes = [_axis(x, d) for d in dim]
    for axis in axes:
        x = _forward(t.builder, x, axis, None, 0.0) if forward else _backward(t.builder, x, axis, None, -1.0)
    return complex_of(_scaled(t.builder, x, _count(x, axes), normalization))


@both("aten::_fft_c2r")
def _(t, self, dim, normalization, last_dim_size):
    x = pair_of(t, self)
    *rest, last = [_axis(x, d) for d in dim]
    count = _count(x, rest) * known(last_dim_size, "the length of a transform")
    for axis in rest:
        x = _backward(t.builder, x, axis, None, -1.0)
    x = _to_real(t.builder, x, last, last_dim_size, -1.0)
    return Tensor(_scaled(t.builder, x, count, normalization))


# ---- places of frequencies


def _shifted(back: bool) -> Callable[..., Any]:
    def shift(t: Any, self: Tensor, dim: Any = None) -> Tensor:
        b = t.builder
        x = self.pair(b) if self.is_complex else t.value(self)
        n = rank(x, "a spectrum") - self.is_complex
        for axis in range(n) if dim is None else [dim] if isinstance(dim, int) else dim:
            at = axis_in(axis, n)
            half = static_dim(x.type, at, "a spectrum") // 2
            x = rolled(b, x, -half if back else half, at)
        return complex_of(x) if self.is_complex else Tensor(x)

    return shift


both("aten::fft_fftshift")(_shifted(False))
both("aten::fft_ifftshift")(_shifted(True))


@torch.op("aten::fft_fftfreq")
def _(b, n, d=1.0, dtype=None, layout=None, device=None, pin_memory=None):
    n = known(n, "the number of frequencies")
    return b.const(np.fft.fftfreq(n, known(d, "the distance of samples")).astype(dtype_of(dtype, DType.F32).numpy))


@torch.op("aten::fft_rfftfreq")
def _(b, n, d=1.0, dtype=None, layout=None, device=None, pin_memory=None):
    n = known(n, "the number of frequencies")
    return b.const(np.fft.rfftfreq(n, known(d, "the distance of samples")).astype(dtype_of(dtype, DType.F32).numpy))


# ---- complex numbers


@torch.of_complex("aten::view_as_real")
def _(t, self):
    return _sharing(self, Tensor(self.pair(t.builder)))


@torch.op("aten::view_as_real", plain=True)
def _(t, self):
    raise ModelError("view_as_real needs a complex tensor")


@torch.op("aten::view_as_complex", plain=True)
def _(t, self):
    return _sharing(self, complex_of(t.value(self)))


@torch.op("aten::complex", plain=True)
def _(t, real, imag):
    return complex_of(_joined(t.builder, *operands(t.builder, t.value(real), t.value(imag))))


@torch.op("aten::polar", plain=True)
def _(t, abs, angle):
    b = t.builder
    size, angle = operands(b, t.value(abs), t.value(angle))
    return complex_of(_joined(b, b.Mul(size, b.Cos(angle)), b.Mul(size, b.Sin(angle))))


@torch.of_complex("aten::real")
def _(t, self):
    return _sharing(self, Tensor(_part(t.builder, self.pair(t.builder), 0)))


@torch.op("aten::imag", plain=True)
def _(t, self):
    raise ModelError("imag needs a complex tensor")


@torch.of_complex("aten::imag")
def _(t, self):
    return _sharing(self, Tensor(_part(t.builder, self.pair(t.builder), 1)))


@torch.of_complex("aten::abs", "aten::absolute")
def _(t, self):
    return Tensor(t.builder.ReduceL2(self.pair(t.builder), axes=(-1,), keepdims=False))


@torch.of_complex("aten::angle")
def _(t, self):
    b, x = t.builder, self.pair(t.builder)
    return Tensor(b.Atan2(_part(b, x, 1), _part(b, x, 0)))


@torch.of_complex("aten::conj", "aten::_conj", "aten::conj_physical")
def _(t, self):
    return _sharing(self, complex_of(_conjugate(t.builder, self.pair(t.builder))))


@torch.of_complex("aten::resolve_conj", "aten::resolve_neg", "aten::alias", "aten::detach")
def _(t, self):
    return self


@torch.of_complex("aten::mul", "aten::multiply")
def _(t, self, other):
    b = t.builder
    if isinstance(self, Tensor) and isinstance(other, Tensor) and self.is_complex and other.is_complex:
        x, y = self.pair(b), other.pair(b)
        (a, c), (d, e) = ([_part(b, v, i) for i in (0, 1)] for v in (x, y))
        return complex_of(_joined(b, b.Sub(b.Mul(a, d), b.Mul(c, e)), b.Add(b.Mul(a, e), b.Mul(c, d))))
    number, factor = (self, other) if isinstance(self, Tensor) and self.is_complex else (other, self)
    x = number.pair(b)
    if isinstance(factor, complex):
        raise UnsupportedError("the product with a complex number is not supported")
    scale = as_value(b, t.value(factor), x.type.dtype)
    if scale.type.rank:
        scale = b.Unsqueeze(scale, axes=(rank(scale, "a factor"),))
    return complex_of(b.Mul(x, scale))
