"""Containers of a program: lists, tuples, dicts, and attributes of objects."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.program.program import Object
from minnow.converter.torch.program.script import Unusable
from minnow.converter.torch.symbolic.dimension import known, scalar, size_of
from minnow.converter.torch.symbolic.dtype import Wrapped
from minnow.converter.torch.symbolic.tensor import Cell, Journal, Number, Tensor
from minnow.converter.torch.symbolic.thing import UNSET
from minnow.converter.torch.symbolic.translator import Translator
from minnow.schema.errors import ModelError, UnsupportedError


class RaisedError(Exception):
    """The program raises an exception here: an error if every run gets here, otherwise the result of a branch."""


@torch.op("prim::Constant", plain=True)
def _(t, value=None):
    if isinstance(value, Unusable):
        raise UnsupportedError(value.what)
    return Tensor(Wrapped.of(t.value(value))) if isinstance(value, Tensor) and value.quant is None else value


@torch.op("prim::GetAttr", plain=True)
def _(t, self, name):
    if not isinstance(self, Object) or name not in self.attrs:
        raise ModelError(f"there is no attribute '{name}'")
    return t.materialize(self.attrs[name])


@torch.op("prim::SetAttr", plain=True)
def _(t, self, value, name):
    t.set_attribute(self, name, value)


@torch.op("prim::ListConstruct", plain=True)
def _(t, *items):
    return list(items)


@torch.op("prim::TupleConstruct", plain=True)
def _(t, *items):
    return Tuple(items)


class Tuple(tuple[Any, ...]):
    """A tuple of the program, which is one result, not several."""


@torch.op("prim::DictConstruct", plain=True)
def _(t, *items):
    return dict(zip(items[::2], items[1::2], strict=True))


@torch.op("prim::TupleUnpack", "prim::ListUnpack", plain=True)
def _(t, items, *, node):
    if len(items) != node.n_outputs:
        raise ModelError(f"{len(items)} elements cannot be unpacked into {node.n_outputs}")
    return tuple(items)


@torch.op("prim::TupleIndex", "aten::__getitem__", "python::getitem", plain=True)
def _(t, items, index):
    if isinstance(index, Number):
        raise UnsupportedError("indexing a list by a number that is known only at run time is not supported")
    return items[index]


@torch.op("aten::len", plain=True)
def _(t, items):
    return t.folded(lambda: size_of(t.builder, t.value(items), 0)) if isinstance(items, Tensor) else len(items)


# ---- lists, which their methods change


@torch.op("aten::append", plain=True)
def _(t, self, el):
    return _changed(t, self).append(el) or self


@torch.op("aten::extend", plain=True)
def _(t, self, other):
    return _changed(t, self).extend(other) or self


@torch.op("aten::insert", plain=True)
def _(t, self, idx, el):
    return _changed(t, self).insert(idx, el) or self


@torch.op("aten::pop", plain=True)
def _(t, self, idx=-1):
    return _changed(t, self).pop(idx)


_KEYS = ("str", "int", "bool", "float", "complex", "Tensor")
"""What keys of dicts may be, by which overloads are called."""


@torch.op(*(f"aten::pop.Dict_{k}" for k in _KEYS), *(f"aten::pop.Dict_default_{k}" for k in _KEYS), plain=True)
def _(t, self, key, *default):
    return _changed(t, self).pop(key, *default)


@torch.op("aten::clear", "aten::reverse", "aten::sort.int", "aten::sort.float", plain=True)
def _(t, self, reverse=False, *, node):
    name = node.op.partition("::")[2].partition(".")[0]
    getattr(_changed(t, self), name)(**({"reverse": reverse} if name == "sort" else {}))
    return self


@torch.op("aten::Delete", plain=True)
def _(t, self, key):
    del _changed(t, self)[key]


@torch.op("aten::_set_item", plain=True)
def _(t, self, key, value):
    _changed(t, self)[key] = value
    return self


def _changed(t: Translator, items: Any) -> Any:
    """A list or dict about to be changed, which the blocks around note."""
    if Journal.current is not None:
        Journal.current.hold(_cell(t, items))
    return items


def _cell(t: Translator, items: Any) -> Cell:
    def restore(content: Any) -> None:
        items.clear()
        (items.update if isinstance(items, dict) else items.extend)(content)

    def write(content: Any) -> None:
        _changed(t, items)
        restore(content)

    return Cell(id(items), "", f"a {type(items).__name__}", lambda: type(items)(items), write, restore)


@torch.op("aten::copy.t", "aten::list", "aten::copy.Dict_str", "aten::dict", "aten::list.t", plain=True)
def _(t, items):
    return dict(items) if isinstance(items, dict) else list(items)


@torch.op("aten::slice.t", "aten::slice.str", plain=True)
def _(t, items, start=None, end=None, step=1):
    return items[start:end:step]


@torch.op("prim::TupleSlice", plain=True)
def _(t, items, beg=0, end=None):
    return Tuple(items[beg:end])


@torch.op("aten::add.t", "aten::add_.t", plain=True)
def _(t, a, b):
    if isinstance(a, list):
        return [*a, *b]
    return a + b


@torch.op("aten::mul.left_t", "aten::mul.right_", plain=True)
def _(t, items, n):
    return items * n


@torch.op("aten::sorted", plain=True)
def _(t, items, reverse=False):
    return sorted(known(items, "the numbers that are sorted"), reverse=reverse)


@torch.op("aten::sum.int", "aten::sum.float", "aten::sum.bool", plain=True)
def _(t, items):
    return sum(known(items, "the numbers that are added"))


@torch.op("prim::max.self_int", "prim::max.self_float", "prim::max.self_bool", plain=True)
def _(t, items):
    return max(known(items, "the numbers that are compared"))


@torch.op("prim::min.self_int", "prim::min.self_float", "prim::min.self_bool", plain=True)
def _(t, items):
    return min(known(items, "the numbers that are compared"))


@torch.op("aten::all.int", "aten::all.bool", plain=True)
def _(t, items):
    return all(known(items, "a list"))


@torch.op("aten::any.int", "aten::any.str", "aten::any.bool", plain=True)
def _(t, items):
    return any(known(items, "a list"))


@torch.op("aten::index.list_int", "aten::index.list_float", "aten::index.list_bool", "aten::index.list_str",
          "aten::count", "aten::count.int", "aten::count.float", "aten::count.bool", plain=True)  # fmt: skip
def _(t, items, x, *, node):
    name = node.op.partition("::")[2].partition(".")[0]
    return getattr(known(items, "what is searched"), name)(known(x, "what is searched for"))


@torch.op(*(f"aten::remove.{k}" for k in ("int", "float", "bool", "str")), plain=True)
def _(t, items, x):
    known(items, "what is searched")
    _changed(t, items).remove(known(x, "what is searched for"))


@torch.op("prim::rangelist", plain=True)
def _(t, n):
    return list(range(known(n, "the length of a list")))


@torch.op("aten::Size", plain=True)
def _(t, sizes):
    return sizes


@torch.op("prim::EnumName", plain=True)
def _(t, enum):
    return enum.attrs["name"]


@torch.op("prim::EnumValue", plain=True)
def _(t, enum):
    return t.materialize(enum.attrs["value"])


@torch.op("aten::__contains__", plain=True)
def _(t, items, x):
    return known(x, "what a list is searched for") in items


@torch.op("aten::__range_length", plain=True)
def _(t, low, high, step):
    if not any(isinstance(x, Number) for x in (low, high, step)):
        return len(range(low, high, step))
    step, b = known(step, "the step of a range"), t.builder
    if step == 0:
        raise ModelError("the step of a range is 0")
    ends = (low, high) if step > 0 else (high, low)

    def length() -> Number:
        span = b.Sub(scalar(b, ends[1]), scalar(b, ends[0]))
        rounds = b.FloorDiv(b.Add(span, np.array(abs(step) - 1)), np.array(abs(step)))
        return Number(b.Max(rounds, np.array(0)))

    return t.folded(length)


@torch.op("aten::__derive_index", plain=True)
def _(t, index, start, step):
    if isinstance(index, Number):
        return t.folded(lambda: Number(t.builder.Add(t.builder.Mul(index.value, step), start)))
    return start + index * step


@torch.op("aten::_get_tracing_state", "aten::is_scripting", plain=True)
def _(t, *, node):
    return node.op == "aten::is_scripting"


# ---- dicts


@torch.op("aten::keys", plain=True)
def _(t, self):
    return list(self)


@torch.op("aten::values", plain=True)
def _(t, self):
    return list(self.values())


@torch.op("aten::items", plain=True)
def _(t, self):
    return [Tuple(pair) for pair in self.items()]


@torch.op("aten::get", plain=True)
def _(t, self, key, default=None):
    return self.get(key, default)


@torch.op("aten::update", plain=True)
def _(t, self, to_add):
    _changed(t, self).update(to_add)


@torch.op("aten::setdefault", plain=True)
def _(t, self, key, default):
    return self[key] if key in self else _changed(t, self).setdefault(key, default)


@torch.op("aten::popitem", plain=True)
def _(t, self):
    return Tuple(_changed(t, self).popitem())


# ---- what is the same, and what is of which type


@torch.op("aten::__is__", plain=True)
def _(t, a, b):
    return a is b


@torch.op("aten::__isnot__", plain=True)
def _(t, a, b):
    return a is not b


@torch.op("prim::isinstance", plain=True)
def _(t, x, types=""):
    kinds = {"Tensor": Tensor, "int": int, "float": float, "bool": bool, "str": str, "NoneType": type(None)}
    wanted = [k.strip() for k in types.split(",")]
    return any(
        isinstance(x, kinds[k]) and not (k == "int" and isinstance(x, bool)) if k in kinds else _is_like(x, k)
        for k in wanted
    )


def _is_like(x: Any, kind: str) -> bool:
    """It is of a type with parts, of which only the outermost counts."""
    if kind.startswith(("List", "Tensor[", "int[", "float[")) or kind.endswith("[]"):
        return isinstance(x, list)
    if kind.startswith("Dict"):
        return isinstance(x, dict)
    return kind.startswith(("Tuple", "(")) and isinstance(x, tuple)


@torch.op("prim::RaiseException", plain=True)
def _(t, message, *rest):
    raise RaisedError(str(message))


@torch.op("prim::unchecked_unwrap_optional", "aten::_unwrap_optional", "prim::unchecked_cast", plain=True)
def _(t, x):
    return x


@torch.op("prim::Uninitialized", plain=True)
def _(t):
    return UNSET
