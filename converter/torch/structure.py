"""What programs build of tensors and numbers: lists, tuples, dicts, and the attributes of objects."""

from __future__ import annotations

from typing import Any

from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.program import Object
from minnow.converter.torch.script import Unusable
from minnow.converter.torch.tensor import Number
from minnow.schema.errors import ModelError, UnsupportedError


class RaisedError(Exception):
    """The program raises an exception here: an error if the run certainly gets here, else what a branch does."""


@torch.op("prim::Constant", plain=True)
def _(t, value=None):
    if isinstance(value, Unusable):
        raise UnsupportedError(value.what)
    return value


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
def _(t, items, node):
    if len(items) != node.n_outputs:
        raise ModelError(f"{len(items)} things are unpacked into {node.n_outputs}")
    return tuple(items)


@torch.op("prim::TupleIndex", "aten::__getitem__", "python::getitem", plain=True)
def _(t, items, index):
    if isinstance(index, Number):
        raise UnsupportedError("an element of a list, at a place that only the run knows")
    return items[index]


@torch.op("aten::len", plain=True)
def _(t, items):
    return len(items)


@torch.op("aten::append", plain=True)
def _(t, items, x):
    items.append(x)
    return items


@torch.op("prim::RaiseException", plain=True)
def _(t, message, *rest):
    raise RaisedError(str(message))


@torch.op("prim::unchecked_unwrap_optional", "aten::_unwrap_optional", "prim::unchecked_cast", plain=True)
def _(t, x):
    return x


@torch.op("prim::Uninitialized", plain=True)
def _(t):
    return None
