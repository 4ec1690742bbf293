"""Arithmetic on Python numbers: computed at conversion time where they are known, else by scalar nodes of the graph."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.symbolic.dimension import known, scalar
from minnow.converter.torch.symbolic.structure import Tuple
from minnow.converter.torch.symbolic.tensor import Number, Tensor
from minnow.converter.torch.symbolic.translator import Translator
from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder

Function = Callable[..., Any]
_KINDS = ("int", "float", "complex", "int_float", "float_int", "bool", "str", "device", "enum", "int_list",
          "float_list", "str_list", "bool_list", "Tensor_list")  # fmt: skip


def number(t: Translator, make: Callable[[Builder], Value]) -> Any:
    """A number computed by a graph: an ordinary one where that is known."""
    return t.folded(lambda: Number(make(t.builder)))


def _cast(b: Builder, x: Value, to: DType) -> Value:
    made: Value = x if x.type.dtype is to else b.Cast(x, to=to)
    return made


def _alike(b: Builder, xs: Sequence[Value], floats: bool, numbers: bool) -> list[Value]:
    """Scalars of one type; `numbers` makes integers of bools."""
    dtypes = {x.type.dtype for x in xs}
    if floats or DType.F64 in dtypes:
        return [_cast(b, x, DType.F64) for x in xs]
    return [_cast(b, x, DType.I64) for x in xs] if numbers or len(dtypes) > 1 else list(xs)


def is_number(x: Any) -> bool:
    """It is an int, float or bool of the program, known or not."""
    return isinstance(x, (bool, int, float, Number))


def arithmetic(known: Function, op: str, *names: str, floats: bool = False, numbers: bool = True) -> None:
    """Operators on numbers: by Python where all are known, else by an op of ours.

    Args:
        known: what Python computes.
        op: what the graph computes; "" where a computed number is refused.
        names: with all overloads for numbers where they have none; "python::" ones stand in exported programs.
        floats: computed in floats.
        numbers: bools count as integers.
    """

    def translate(t: Translator, *xs: Any) -> Any:
        if not any(isinstance(x, Number) for x in xs):
            return known(*xs)
        if not op or not all(map(is_number, xs)):
            raise UnsupportedError(f"{names[0]} of a value that is known only at run time is not supported")
        return number(t, lambda b: getattr(b, op)(*_alike(b, [scalar(b, x) for x in xs], floats, numbers)))

    torch.op(*(full for name in names for full in _overloads(name)), plain=True)(translate)


def _overloads(name: str) -> list[str]:
    """The name with the overloads that take numbers; one that has its overload, or is Python's, as it is."""
    return [name] if "." in name or name.startswith("python") or "__" in name else [f"{name}.{k}" for k in _KINDS]


arithmetic(operator.add, "Add", "aten::add", "python::add")
arithmetic(operator.sub, "Sub", "aten::sub", "python::sub")
arithmetic(operator.mul, "Mul", "aten::mul", "python::mul")
arithmetic(operator.truediv, "Div", "aten::div", "python::truediv", floats=True)
arithmetic(operator.floordiv, "FloorDiv", "aten::floordiv", "python::floordiv")
arithmetic(operator.mod, "Mod", "aten::remainder", "python::mod")
arithmetic(operator.neg, "Neg", "aten::neg", "python::neg")
arithmetic(abs, "Abs", "prim::abs", "aten::abs.int", "aten::abs.float", "python::abs")
arithmetic(operator.pow, "Pow", "aten::pow", "aten::pow.int_to_int", "python::pow", floats=True)
arithmetic(operator.eq, "Equal", "aten::eq", "python::eq", numbers=False)
arithmetic(operator.ne, "NotEqual", "aten::ne", "python::ne", numbers=False)
arithmetic(operator.lt, "Less", "aten::lt", "python::lt")
arithmetic(operator.le, "LessOrEqual", "aten::le", "python::le")
arithmetic(operator.gt, "Greater", "aten::gt", "python::gt")
arithmetic(operator.ge, "GreaterOrEqual", "aten::ge", "python::ge")
arithmetic(max, "Max", "prim::max.int", "prim::max.float", "prim::max.int_float", "prim::max.float_int",
           "python::sym_max")  # fmt: skip
arithmetic(min, "Min", "prim::min.int", "prim::min.float", "prim::min.int_float", "prim::min.float_int",
           "python::sym_min")  # fmt: skip
arithmetic(math.sqrt, "Sqrt", "aten::sqrt.int", "aten::sqrt.float", "python::_sym_sqrt", floats=True)
arithmetic(math.exp, "Exp", "aten::exp.int", "aten::exp.float", floats=True)
arithmetic(math.log, "Log", "aten::log.int", "aten::log.float", floats=True)
arithmetic(operator.and_, "And", "aten::__and__.bool", "python::and_", numbers=False)
arithmetic(operator.or_, "Or", "aten::__or__.bool", "python::or_", numbers=False)
arithmetic(operator.xor, "Xor", "aten::__xor__.bool", numbers=False)
arithmetic(operator.not_, "Not", "aten::__not__", "python::sym_not", "python::not_", numbers=False)
arithmetic(operator.and_, "BitwiseAnd", "aten::__and__.int")
arithmetic(operator.or_, "BitwiseOr", "aten::__or__.int")
arithmetic(operator.xor, "BitwiseXor", "aten::__xor__.int")
arithmetic(operator.lshift, "", "aten::__lshift__.int")
arithmetic(operator.rshift, "", "aten::__rshift__.int")
arithmetic(math.gcd, "", "aten::gcd.int")
arithmetic(math.atan2, "", "aten::atan2")
arithmetic(math.copysign, "", "aten::copysign")
arithmetic(math.fmod, "", "aten::fmod")
arithmetic(math.remainder, "", "aten::mathremainder")
arithmetic(lambda x, y: int(x / y), "", "aten::__round_to_zero_floordiv.int")
arithmetic(math.trunc, "", "aten::trunc")
for _name, _known in (("sin", math.sin), ("cos", math.cos), ("tan", math.tan), ("tanh", math.tanh), ("log2", math.log2),
                      ("log10", math.log10), ("degrees", math.degrees), ("radians", math.radians),
                      ("fabs", math.fabs), ("factorial", math.factorial), ("gamma", math.gamma),
                      ("lgamma", math.lgamma), ("erf", math.erf), ("erfc", math.erfc), ("expm1", math.expm1),
                      ("log1p", math.log1p), ("sinh", math.sinh), ("cosh", math.cosh), ("asin", math.asin),
                      ("acos", math.acos), ("atan", math.atan), ("asinh", math.asinh), ("acosh", math.acosh),
                      ("atanh", math.atanh), ("isfinite", math.isfinite),
                      ("isnan", math.isnan), ("isinf", math.isinf)):  # fmt: skip
    arithmetic(_known, "", f"aten::{_name}.int", f"aten::{_name}.float")


def _rounded(known: Function, op: str, *names: str) -> None:
    """Operators that give the int of a float."""

    def translate(t: Translator, x: Any) -> Any:
        if not isinstance(x, Number):
            return known(x)
        return number(t, lambda b: _cast(b, getattr(b, op)(_cast(b, x.value, DType.F64)), DType.I64))

    torch.op(*names, plain=True)(translate)


_rounded(math.ceil, "Ceil", "aten::ceil.float", "aten::ceil.int", "python::ceil")
_rounded(math.floor, "Floor", "aten::floor.float", "aten::floor.int", "python::floor")
_rounded(round, "Round", "aten::round.float", "aten::round.int", "python::round")


def _converted(kind: type, dtype: DType, *names: str) -> None:
    """Operators that make an int, float or bool of a number, a tensor of one element, or text."""

    def translate(t: Translator, x: Any) -> Any:
        if isinstance(x, Tensor):
            value = t.value(x)
            if value.data is not None:
                return kind(value.data.numpy().reshape(()).item())
            return number(t, lambda b: _cast(b, scalar(b, value), dtype))
        if isinstance(x, Number):
            return number(t, lambda b: _cast(b, x.value, dtype))
        return kind(x)

    torch.op(*names, plain=True)(translate)


_converted(int, DType.I64, "aten::Int", "aten::IntImplicit", "python::sym_int", "python::int", "python::trunc")
_converted(float, DType.F64, "aten::Float", "aten::FloatImplicit", "python::sym_float", "python::float")
_converted(bool, DType.BOOL, "aten::Bool", "python::bool")


@torch.op("aten::item", "aten::ScalarImplicit", "aten::_local_scalar_dense", plain=True)
def _(t, self):
    value = t.value(self)
    if value.data is not None:
        return value.data.numpy().reshape(()).item()
    kind = value.type.dtype
    to = DType.BOOL if kind is DType.BOOL else DType.I64 if kind.is_int else DType.F64
    return number(t, lambda b: _cast(b, scalar(b, value), to))


@torch.op("prim::NumToTensor", plain=True)
def _(t, x):
    if isinstance(x, Number):
        value = x.value
        return Tensor(value if value.type.dtype is not DType.F64 else t.builder.Cast(value, to=DType.F32))
    return Tensor(Value.constant(np.asarray(x, np.float32 if isinstance(x, float) else None)))


@torch.op(*(f"aten::divmod.{k}" for k in ("int", "float", "int_float", "float_int")), plain=True)
def _(t, x, y):
    return Tuple(divmod(known(x, "what is divided"), known(y, "the divisor")))


# ---- sizes and other facts of tensors


@torch.op("aten::size", "aten::sym_size", plain=True)
def _(t, self, dim=None):
    from minnow.converter.torch.symbolic.dimension import size_of, sizes_of

    value = t.value(self) if self.quant is None else self.value(t.builder)
    return t.folded(lambda: sizes_of(t.builder, value) if dim is None else size_of(t.builder, value, dim))


@torch.op("aten::numel", "aten::sym_numel", plain=True)
def _(t, self):
    count = self.type.count
    return count if count is not None else number(t, lambda b: b.Size(t.value(self)))


@torch.op("aten::dim", "prim::ndim", plain=True)
def _(t, self):
    if self.type.rank is None:
        raise UnsupportedError("the rank of a tensor must be known", hint="give the input shapes with `--input`")
    return self.type.rank


@torch.op("aten::is_floating_point", plain=True)
def _(t, self):
    return self.type.dtype.is_float


@torch.op("prim::dtype", plain=True)
def _(t, self):
    from minnow.converter.torch.symbolic.dtype import code_of

    return code_of(self.type.dtype)


@torch.op("prim::device", plain=True)
def _(t, self):
    return "cpu"


@torch.op("prim::type", plain=True)
def _(t, device):
    return device.partition(":")[0]


@torch.op("prim::layout", plain=True)
def _(t, self):
    return 0


@torch.op("prim::is_cuda", "prim::is_mkldnn", "prim::is_sparse", "prim::is_nested",
          "prim::requires_grad", "aten::is_complex", "aten::is_grad_enabled", "prim::is_meta", "prim::is_xla",
          "prim::is_mps", "prim::is_vulkan", "prim::is_xpu", "aten::is_autocast_enabled",
          "aten::is_autocast_cpu_enabled", "aten::_has_compatible_shallow_copy_type", plain=True)  # fmt: skip
def _(t, *_):
    return False


@torch.op("prim::is_quantized", "aten::is_quantized", plain=True)
def _(t, self):
    return self.quant is not None


@torch.op("prim::data", "aten::detach", "aten::requires_grad_", "aten::cpu", "aten::cuda", plain=True)
def _(t, self, *_):
    return self


@torch.op("aten::warn", "prim::Print", "aten::_assert_async", "aten::_assert_scalar", "aten::sym_constrain_range",
          "aten::sym_constrain_range_for_size", "aten::_assert_tensor_metadata", "aten::_assert_async.msg",
          "aten::manual_seed", "aten::_set_grad_enabled", "prim::profile", plain=True)  # fmt: skip
def _(t, *_, **__):
    return None
