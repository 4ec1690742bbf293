"""The PyTorch frontend object, to which the families register."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from minnow.converter.base import Description, Frontend, Mapping_
from minnow.converter.formats.torch import FORMAT
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
        moving: operators whose result holds elements of the first operand only; those in `views` do, too.
        plain: operators that get and give what the program has: `Tensor`, lists that it may change, objects.
        complex: what operators are for complex tensors, in the same way, by their names without overloads.
    """

    views: dict[str, Function | None]
    copying: set[str]
    moving: set[str]
    plain: set[str]
    complex: dict[str, Function]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.views, self.copying, self.moving, self.plain, self.complex = {}, set(), set(), set(), {}

    def op(
        self,
        *names: str,
        since: int = 1,
        until: int | None = None,
        view: bool = False,
        write: Function | None = None,
        copies: bool = False,
        moves: bool = False,
        plain: bool = False,
    ) -> Callable[[Function], Function]:
        """Registers the translation of operators.

        Args:
            view: the result shares the memory of the first operand.
            write: (builder, base, changed view, **arguments) -> the base, for views whose change has a short form. Of
                one view of several, `pick` is its place among them.
            copies: it is a view only where that needs no copy, as `reshape` has it.
            moves: the result holds elements of the first operand only: quantized ones pass as they are.
            plain: the function gets the translator in place of the builder, and what the program has: tensors are
                `Tensor`, and lists are those of the program.
        """
        for name in names:
            if view:
                self.views[name] = write
            if copies:
                self.copying.add(name)
            if moves:
                self.moving.add(name)
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


def _read(path: Path, **options: Any) -> Model:
    from minnow.converter.torch.reader import read

    return read(path, **options)


def _describe(path: Path, trust: bool = False) -> Description:
    from minnow.converter.torch.description import describe

    return describe(path, trust)


frontend = Torch(FORMAT, _read, _describe, options=("trust",))
"""Mappings register with `@frontend.op(...)`."""
