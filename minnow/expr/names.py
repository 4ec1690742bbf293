"""The registry of public names of the packages that MNN's users know: `expr`, `numpy`, `cv`, `nn`, `optim`, `data`.

A module adds a name where it defines what is called so. The tables of docs/express.md are generated from the registry,
and a test asks that each callable has a test case.

    @named("numpy", like="numpy.add")
    def add(x, y): ...

    plus = also(add, "numpy", "plus", like="numpy.add")         another name of the same function
    BORDER_WRAP = constant("cv", "BORDER_WRAP", 3, like="cv2.BORDER_WRAP")

The first argument is the package in `minnow`, with a part of it behind a dot ("nn.loss", "numpy.linalg"). `like` is
what is called so, or does the same, in numpy, OpenCV or PyTorch, and defines the result; `note` says in one sentence
how the results differ from that, and why (what scripts for MNN rely on).

The `__init__.py` of a package imports all that its modules define (`from ... import *`), and `keep_public` removes from
it what is not in the registry, such as what these modules import themselves.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C")

PACKAGES = ("expr", "numpy", "cv", "nn", "optim", "data")


@dataclass(frozen=True)
class Name:
    """One public name.

    Attributes:
        package: "numpy", "nn.loss".
        name: the name in it, "add", or "Var.read" for a method.
        value: the function, class or constant.
        like: what it corresponds to, "numpy.add"; "" if it has no counterpart.
        note: how it differs from that, one sentence; "" if it does not.
        callable: it is a function or a class, not a constant.
        mnn: MNN has it, under the same name.
    """

    package: str
    name: str
    value: Any
    like: str = ""
    note: str = ""
    callable: bool = True
    mnn: bool = True

    @property
    def ours(self) -> str:
        """Where it is: "minnow.numpy.add"."""
        return f"minnow.{self.package}.{self.name}"

    @property
    def summary(self) -> str:
        """The first line of its documentation."""
        return (getattr(self.value, "__doc__", "") or "").strip().partition("\n")[0] if self.callable else ""


_names: dict[tuple[str, str], Name] = {}


def _add(entry: Name) -> None:
    key = entry.package, entry.name
    if key in _names and _names[key].value is not entry.value:
        raise ValueError(f"{entry.ours} is defined twice")
    _names[key] = entry


def named(package: str, name: str = "", *, like: str = "", note: str = "", mnn: bool = True) -> Callable[[F], F]:
    """Decorator: registers a function or class under its own name, or under `name`. `mnn`: MNN has it, too."""

    def add(value: F) -> F:
        _add(Name(package, name or value.__name__, value, like, note, True, mnn))
        return value

    return add


def also(value: F, package: str, name: str, *, like: str = "", note: str = "", mnn: bool = True) -> F:
    """Registers one more name of a function."""
    _add(Name(package, name, value, like, note, True, mnn))
    return value


def constant(package: str, name: str, value: C, *, like: str = "", note: str = "", mnn: bool = True) -> C:
    """Registers a constant."""
    _add(Name(package, name, value, like, note, False, mnn))
    return value


def keep_public(namespace: dict[str, Any], package: str, *others: str) -> None:
    """Removes all names from the namespace of a package but those in the registry, `others`, and its modules."""
    kept = {e.name for e in _names.values() if e.package == package}.union(others)
    for name, value in list(namespace.items()):
        is_part = isinstance(value, ModuleType) and value.__name__.startswith(f"minnow.{package}.")
        if not (name in kept or is_part or name.startswith("__")):
            del namespace[name]


def all_names(package: str = "") -> list[Name]:
    """All names, or those of one package and its parts, in order of package and name; imports the packages."""
    for one in PACKAGES:
        if importlib.util.find_spec(f"minnow.{one}") is not None:
            for module in pkgutil.iter_modules(importlib.import_module(f"minnow.{one}").__path__):
                importlib.import_module(f"minnow.{one}.{module.name}")  # parts are imported when they are used
    chosen = [e for e in _names.values() if not package or e.package == package or e.package.startswith(f"{package}.")]
    return sorted(chosen, key=lambda e: (PACKAGES.index(e.package.partition(".")[0]), e.package, e.name))
