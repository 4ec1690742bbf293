"""Lets programs for MNN run with Minnow: after `install()`, `import MNN` gives Minnow.

import minnow.compat

minnow.compat.install()
import MNN
import MNN.numpy as np

`python -m minnow.compat SCRIPT [ARGUMENTS]` runs a program that way. Nothing is installed under the name MNN: an
installed MNN stays as it is, and is not seen by this process.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from minnow.schema.errors import UsageError

__all__ = ["install"]

_NAME = "MNN"
_OURS = "minnow"
_OTHER = {"MNN.llm": "minnow.compat.llm"}
"""Modules that do not have the name of their counterpart."""


class _Alias(ModuleType):
    """The module MNN: what `minnow` has, and the `Session` of `Interpreter`."""

    def __getattr__(self, name: str) -> Any:
        if name == "Session":
            from minnow.interpreter import Session

            return Session
        if f"{_NAME}.{name}" in _OTHER:
            return importlib.import_module(_OTHER[f"{_NAME}.{name}"])
        try:
            return getattr(importlib.import_module(_OURS), name)
        except AttributeError:
            raise AttributeError(f"module 'MNN', which is minnow here, has no attribute {name!r}") from None

    def __dir__(self) -> list[str]:
        import minnow.interpreter

        ours = importlib.import_module(_OURS)
        return sorted({*ours.__all__, *ours._MODULES, *minnow.interpreter.__all__})


class _Loader(importlib.abc.Loader):
    """Gives the module of Minnow for a name below MNN."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        if spec.name == _NAME:
            module: ModuleType = _Alias(_NAME, importlib.import_module("minnow.compat").__doc__)
        else:
            module = importlib.import_module(_ours(spec.name))
        self._spec = getattr(module, "__spec__", None)
        return module

    def exec_module(self, module: ModuleType) -> None:
        if not isinstance(module, _Alias):
            module.__spec__ = self._spec  # it stays the module of Minnow


class _Finder(importlib.abc.MetaPathFinder):
    """Finds MNN and all below it."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != _NAME and not name.startswith(f"{_NAME}."):
            return None
        ours = _ours(name)
        if importlib.util.find_spec(ours) is None:
            raise ModuleNotFoundError(f"Minnow has no counterpart of {name}", name=name)
        return importlib.machinery.ModuleSpec(name, _Loader(), origin=ours, is_package=True)


def _ours(name: str) -> str:
    for theirs, ours in _OTHER.items():
        if name == theirs or name.startswith(f"{theirs}."):
            return ours + name.removeprefix(theirs)
    return _OURS + name.removeprefix(_NAME)


def install() -> None:
    """Makes `import MNN` and all below it mean Minnow, in this process.

    Raises:
        UsageError: MNN itself has been imported already.
    """
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    if _NAME in sys.modules:
        raise UsageError("MNN has been imported already", hint="minnow.compat.install() comes before the first import")
    sys.meta_path.insert(0, _Finder())
