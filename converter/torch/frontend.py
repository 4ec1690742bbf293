"""The PyTorch frontend object, to which the families register, and the test for its two formats."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from minnow.converter.base import Description, Frontend, Mapping_
from minnow.schema.ir import Model

Function = Callable[..., Any]


class Torch(Frontend):
    """Mappings by the name of the operator's schema ("aten::add"), or of one overload of it ("aten::max.dim").

    The parameters of a mapping have the names, the order and the defaults of that schema. Tensors come as Values,
    lists as lists, and what only the run can tell of numbers as `Number`. "aten::add_" is "aten::add", whose result
    goes where its first operand is, unless it has a mapping of its own.

    Attributes:
        views: operators whose result shares the memory of the first operand, by how a change of it gets there.
        copying: those of them that copy where the elements do not stand in memory as the result needs them.
        plain: operators that get and give what the program has: `Tensor`, lists that it may change, objects.
        complex: what operators are for complex tensors, in the same way, by their names without overloads.
    """

    views: dict[str, Function | None]
    copying: set[str]
    plain: set[str]
    complex: dict[str, Function]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.views, self.copying, self.plain, self.complex = {}, set(), set(), {}

    def op(
        self,
        *names: str,
        since: int = 1,
        until: int | None = None,
        view: bool = False,
        write: Function | None = None,
        copies: bool = False,
        plain: bool = False,
    ) -> Callable[[Function], Function]:
        """Registers the translation of operators.

        Args:
            view: the result shares the memory of the first operand.
            write: (builder, base, changed view, **arguments) -> the base, for views whose change has a short form. Of
                one view of several, `pick` is its place among them.
            copies: it is a view only where that needs no copy, as `reshape` has it.
            plain: the function gets the translator in place of the builder, and what the program has: tensors are
                `Tensor`, and lists are those of the program.
        """
        for name in names:
            if view:
                self.views[name] = write
            if copies:
                self.copying.add(name)
            if plain:
                self.plain.add(name)
        return super().op(*names, since=since, until=until)

    def of_complex(self, *names: str) -> Callable[[Function], Function]:
        """Registers what operators are for complex tensors: plain, with the parameters of the ordinary mapping."""

        def add(function: Function) -> Function:
            self.complex.update(dict.fromkeys(names, function))
            return function

        return add

    @cached_property
    def on_numbers(self) -> frozenset[str]:
        """Operators on tensors that stand for arithmetic on numbers, too, where they have no overload."""
        return frozenset(n.removesuffix(".int") for n in self.plain if n.endswith(".int"))

    def resolve(self, target: str) -> tuple[str, Mapping_] | None:
        """The name under which an operator ("aten::add.Tensor") has a mapping, and that."""
        for name in (target, target.partition(".")[0]):
            if (mapping := self.find(name, 1)) is not None:
                return name, mapping
        return None

    def resolve_in_place(self, target: str) -> tuple[str, Mapping_] | None:
        """The mapping of the operator that "aten::add_.Tensor" writes to its first operand."""
        name, _, overload = target.partition(".")
        if not name.endswith("_") or name.endswith("__"):
            return None
        return self.resolve(f"{name[:-1]}.{overload}" if overload else name[:-1])


def archive_kind(path: Path) -> str:
    """ "torchscript" or "torch_export" for an archive of that kind, "pickle" for one of weights alone, else ""."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError):
        return ""
    inner = [n.partition("/")[2] for n in names]
    if "archive_format" in inner or "serialized_exported_program.json" in names:
        return "torch_export"
    if any(n.startswith("code/") or n == "bytecode.pkl" for n in inner):
        return "torchscript"
    return "pickle" if "data.pkl" in inner else ""


def _sniff(path: Path, head: bytes) -> bool:
    """Both formats are zip archives; Keras has such files, too."""
    return head[:4] == b"PK\x03\x04" and bool(archive_kind(path))


def _read(path: Path, **options: Any) -> Model:
    from minnow.converter.torch.reader import read

    return read(path, **options)


def _describe(path: Path) -> Description:
    from minnow.converter.torch.description import describe

    return describe(path)


frontend = Torch("torch", _sniff, _read, _describe, (".pt2", ".pt", ".pth", ".jit", ".ts", ".ptl", ".torchscript"))
"""Mappings register with `@frontend.op(...)`."""
