"""Numbers, lists, tuples, dicts and text of a program: computed here where they are known."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from minnow.converter.torch.extent import scalar
from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.tensor import Number, Tensor
from minnow.converter.torch.translator import Translator
from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder

Function = Callable[..., Any]


def number(t: Translator, make: Callable[[Builder], Value]) -> Any:
    """A number computed by a graph: an ordinary one where that is known."""
    return t.folded(lambda: Number(make(t.builder)))


def _floats(b: Builder, xs: list[Value]) -> list[Value]:
    return [x if x.type.dtype is DType.F64 else b.Cast(x, to=DType.F64) for x in xs]


def _alike(b: Builder, xs: list[Value]) -> list[Value]:
    """Scalars of one type."""
    if any(x.type.dtype is DType.F64 for x in xs):
        return _floats(b, xs)
    if len({x.type.dtype for x in xs}) > 1:
        return [x if x.type.dtype is DType.I64 else b.Cast(x, to=DType.I64) for x in xs]
    return xs


def arithmetic(known: Function, op: str, *names: str, floats: bool = False, overloads: str = "") -> None:
    """Operators on numbers: by Python where all are known, else by an op of ours.

    Args:
        known: what Python computes.
        op: what the graph computes.
        names: of the program's operators; "python::" ones stand in exported programs.
        floats: computed in floats.
    """

    def translate(t: Translator, *xs: Any) -> Any:
        if any(isinstance(x, Tensor) for x in xs):
            raise UnsupportedError(f"{names[0]} of a tensor and a number")
        if not any(isinstance(x, Number) for x in xs):
            return known(*xs)
        b = t.builder
        values = [scalar(b, x) for x in xs]
        if floats or all(v.type.dtype is DType.BOOL for v in values):
            values = _floats(b, values) if floats else [b.Cast(v, to=DType.I64) for v in values]
        return number(t, lambda b: getattr(b, op)(*_alike(b, values)))

    torch.op(*names, plain=True)(translate)


def _scalars(name: str) -> list[str]:
    """The overloads of an operator that take numbers."""
    kinds = ("int", "float", "int_float", "float_int", "bool", "")
    return [f"aten::{name}.{k}" for k in kinds if k]


arithmetic(operator.add, "Add", *_scalars("add"), "python::add")
arithmetic(operator.sub, "Sub", *_scalars("sub"), "python::sub")
arithmetic(operator.mul, "Mul", *_scalars("mul"), "python::mul")
arithmetic(operator.truediv, "Div", *_scalars("div"), "python::truediv", floats=True)
arithmetic(operator.floordiv, "FloorDiv", *_scalars("floordiv"), "aten::floordiv", "python::floordiv")
arithmetic(operator.mod, "Mod", *_scalars("remainder"), "python::mod")
arithmetic(operator.neg, "Neg", *_scalars("neg"), "python::neg")
arithmetic(operator.eq, "Equal", *_scalars("eq"), "python::eq")
arithmetic(operator.ne, "NotEqual", *_scalars("ne"), "python::ne")
arithmetic(operator.lt, "Less", *_scalars("lt"), "python::lt")
arithmetic(operator.le, "LessOrEqual", *_scalars("le"), "python::le")
arithmetic(operator.gt, "Greater", *_scalars("gt"), "python::gt")
arithmetic(operator.ge, "GreaterOrEqual", *_scalars("ge"), "python::ge")
arithmetic(max, "Max", "prim::max.int", "prim::max.float", "python::sym_max")
arithmetic(min, "Min", "prim::min.int", "prim::min.float", "python::sym_min")
arithmetic(math.sqrt, "Sqrt", "aten::sqrt.int", "aten::sqrt.float", "python::_sym_sqrt", floats=True)


@torch.op("aten::sym_size", "aten::size.int", plain=True)
def _(t, self, dim):
    from minnow.converter.torch.extent import size_of

    return t.folded(lambda: size_of(t.builder, t.value(self), dim))


@torch.op("aten::sym_numel", "aten::numel", plain=True)
def _(t, self):
    count = t.value(self).type.count
    return count if count is not None else number(t, lambda b: b.Size(t.value(self)))
