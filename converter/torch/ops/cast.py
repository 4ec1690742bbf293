"""Casts, copies, and operators that leave a tensor as it is."""

from __future__ import annotations

from typing import Any

from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.ops.compare import always
from minnow.converter.torch.symbolic.dtype import as_value, dtype_of
from minnow.converter.torch.symbolic.tensor import Tensor
from minnow.converter.torch.symbolic.translator import Translator
from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import DType

# ---- casts: the same tensor where the type is right already, unless a copy is asked for


def converted(t: Translator, x: Tensor, dtype: DType, copy: bool) -> Tensor:
    """x in another type: itself where it has that type, or a copy."""
    if x.type.dtype is dtype and not copy:
        return x
    return Tensor(t.folded(lambda: as_value(t.builder, t.value(x), dtype)))


@torch.op("aten::to", "aten::to.dtype", plain=True)
def _(t, self, dtype=None, non_blocking=False, copy=False, memory_format=None):
    return converted(t, self, dtype_of(dtype, self.type.dtype), copy)


@torch.op("aten::to.prim_dtype", plain=True)
def _(t, self, dtype=None, non_blocking=False, copy=False):
    return converted(t, self, dtype_of(dtype, self.type.dtype), copy)


@torch.op("aten::to.device", "aten::to.prim_Device", plain=True)
def _(t, self, device=None, dtype=None, non_blocking=False, copy=False, memory_format=None):
    return converted(t, self, dtype_of(dtype, self.type.dtype), copy)


@torch.op("aten::to.dtype_layout", plain=True)
def _(t, self, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, copy=False,
      memory_format=None):  # fmt: skip
    return converted(t, self, dtype_of(dtype, self.type.dtype), copy)


@torch.op("aten::to.other", plain=True)
def _(t, self, other, non_blocking=False, copy=False, memory_format=None):
    return converted(t, self, other.type.dtype, copy)


@torch.op("aten::to.prim_other", plain=True)
def _(t, self, non_blocking=False, copy=False):
    return converted(t, self, self.type.dtype, copy)


@torch.op("aten::type_as", plain=True)
def _(t, self, other):
    return converted(t, self, other.type.dtype, False)


@torch.op("aten::as_tensor", plain=True)
def _(t, data, dtype=None, device=None):
    return converted(t, data, dtype_of(dtype, data.type.dtype), False)


@torch.op("aten::_to_copy")
def _(b, self, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, memory_format=None):
    return as_value(b, self, dtype_of(dtype, self.type.dtype))


_CASTS = {
    "Byte": DType.U8,
    "Char": DType.I8,
    "Short": DType.I16,
    "Int": DType.I32,
    "Long": DType.I64,
    "Half": DType.F16,
    "Float": DType.F32,
    "Double": DType.F64,
}


def _cast(name: str, dtype: DType) -> None:
    @torch.op(f"aten::_cast_{name}", plain=True)
    def _(t, self, non_blocking=False):
        return converted(t, self, dtype, False)


for _name, _dtype in _CASTS.items():
    _cast(_name, _dtype)


# ---- copies, and none

_CONTIGUOUS = 0


@torch.op("aten::clone", "aten::lift_fresh_copy", "aten::alias_copy", "aten::detach_copy", moves=True)
def _(b, self, memory_format=None):
    return self


@torch.op("aten::contiguous", plain=True, moves=True)
def _(t, self, memory_format=None):
    ordered = self.is_ordered() if memory_format in (None, _CONTIGUOUS) else None
    if ordered:
        return self
    copy = Tensor(self.value(t.builder))
    copy.quant = self.quant
    if ordered is None:
        self.apart(copy)
        copy.ordered = memory_format in (None, _CONTIGUOUS)
    return copy


@torch.op("aten::alias", "aten::lift_fresh", "aten::lift", "aten::positive", "aten::real",
          "aten::resolve_conj", "aten::resolve_neg", "aten::conj", "aten::_conj", "aten::conj_physical",
          "aten::data", "aten::detach_", plain=True)  # fmt: skip
def _(t, self):
    return self


# ---- dropout


def _dropped(x: Any, p: Any, train: Any) -> Any:
    if train and p != 0:
        raise UnsupportedError(
            "dropout in training mode is not supported", hint="call `model.eval()` before the model is saved"
        )
    return x


@torch.op(*(f"aten::{name}{in_place}" for name in ("dropout", "alpha_dropout", "feature_dropout",
            "feature_alpha_dropout") for in_place in ("", "_")), plain=True, moves=True)  # fmt: skip
def _(t, input, p, train):
    return _dropped(input, p, train)


@torch.op("aten::native_dropout", plain=True)
def _(t, input, p, train=None):
    mask = t.folded(lambda: always(t.builder, t.value(input), True))
    return _dropped(input, p, train is not False), Tensor(mask)
