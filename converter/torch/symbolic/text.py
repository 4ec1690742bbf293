"""Strings of a program, and objects that it makes: known at conversion time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.program.program import Object
from minnow.converter.torch.symbolic.structure import Tuple
from minnow.converter.torch.symbolic.tensor import Number, Tensor
from minnow.schema.errors import ModelError, UnsupportedError

_METHODS = ("capitalize", "casefold", "center", "count", "endswith", "expandtabs", "find", "index", "isalnum",
            "isalpha", "isdecimal", "isdigit", "isidentifier", "islower", "isnumeric", "isprintable", "isspace",
            "istitle", "isupper", "join", "ljust", "lower", "lstrip", "partition", "replace", "rfind", "rindex",
            "rjust", "rpartition", "rsplit", "rstrip", "split", "splitlines", "startswith", "strip", "swapcase",
            "title", "upper", "zfill")  # fmt: skip
"""Methods of text that are Python's."""
_OVERLOADED = frozenset({"count", "index", "split"})
"""Those of them whose names other operators have, too: text has the overload `str`."""


def _method(name: str) -> None:
    def translate(t: Any, self: str, *args: Any) -> Any:
        made = getattr(self, name)(*args)
        return Tuple(made) if isinstance(made, tuple) else made

    torch.op(f"aten::{name}.str" if name in _OVERLOADED else f"aten::{name}", plain=True)(translate)


for _name in _METHODS:
    _method(_name)


def _function(function: Callable[..., Any], name: str) -> None:
    torch.op(f"aten::{name}", plain=True)(lambda t, x: function(x))


for _known, _name in ((ord, "ord"), (chr, "chr"), (hex, "hex"), (oct, "oct"), (bin, "bin")):
    _function(_known, _name)


@torch.op("prim::StringIndex", plain=True)
def _(t, string, index):
    return string[index]


def _shown(x: Any) -> Any:
    """A part of a message; values that are known only at run time have no text."""
    return "?" if isinstance(x, (Number, Tensor)) else x


@torch.op("aten::format", plain=True)
def _(t, text, *parts):
    return str(text).format(*(_shown(p) for p in parts))


@torch.op("aten::percentFormat", plain=True)
def _(t, text, *parts):
    if any(isinstance(p, (Number, Tensor)) for p in parts):
        return f"{text} {[_shown(p) for p in parts]}"
    return str(text) % parts


@torch.op("aten::str", plain=True)
def _(t, x):
    return str(_shown(x))


# ---- objects


@torch.op("prim::CreateObject", plain=True)
def _(t, kind):
    return Object(kind, {}, None)


@torch.op("prim::Enter", "prim::Exit", plain=True)
def _(t, self, *_):
    if "grad" not in self.kind and "profiler" not in self.kind:
        raise UnsupportedError(f"`with` over an object of the class {self.kind} is not supported")
    return self


@torch.op("prim::CallMethod", plain=True)
def _(t, self, *arguments):
    *given, name = arguments
    if not isinstance(self, Object) or name not in self.methods:
        raise ModelError(f"there is no method '{name}'")
    block = self.methods[name]
    results = t.call(block, dict(zip(block.params, [self, *given], strict=True)))
    return results[0] if len(results) == 1 else Tuple(results)
