"""The TensorFlow frontend object, to which the families register."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from minnow.converter.base import Description, Frontend, Mapping_
from minnow.converter.formats.tensorflow import FORMAT
from minnow.schema.ir import Model


class TensorFlow(Frontend):
    """A frontend whose operators name their outputs: the bodies of functions refer to these names.

    Attributes:
        results: names of the outputs, of operators that have several.
        handles: operators on values that are not tensors (variables, lists of tensors, text).
        variables: operators that are handed a variable itself, and not its numbers.
        effects: operators with an effect: they run even if their results are unused.
        silent: operators without a result that could be an output.
        pairs: mappings of operators on complex numbers: tensors with a last axis of real and imaginary part.
    """

    results: dict[str, tuple[str, ...]]
    handles: set[str]
    variables: set[str]
    effects: set[str]
    silent: set[str]
    pairs: dict[str, Mapping_]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.results, self.pairs = {}, {}
        self.handles, self.variables, self.effects, self.silent = set(), set(), set(), set()

    def op(
        self,
        *names: str,
        since: int = 1,
        until: int | None = None,
        outputs: tuple[str, ...] = (),
        handles: bool = False,
        variables: bool = False,
        complex: bool = False,
        effect: bool = False,
        silent: bool = False,
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Registers the translation of operators.

        Args:
            outputs: their names where there are several, as TensorFlow's registry has them.
            handles: whether operands or results may be a `Handle`; all other operators get tensors only.
            variables: whether it is handed a variable itself; all others get what it is at that place.
            complex: whether it translates complex numbers, too.
            effect: whether it runs even if its results are unused.
            silent: whether it has no result that could be an output.
        """
        for name in names:
            if outputs:
                self.results[name] = outputs
            flags = ((handles or variables, self.handles), (variables, self.variables), (effect, self.effects))
            for wanted, known in (*flags, (silent, self.silent)):
                if wanted:
                    known.add(name)

        def add(function: Callable[..., Any]) -> Callable[..., Any]:
            if complex:
                self.complex(*names)(function)
            return super(TensorFlow, self).op(*names, since=since, until=until)(function)

        return add

    def complex(self, *names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Registers the translation of operators on complex numbers, where it is another than that on real ones."""

        def add(function: Callable[..., Any]) -> Callable[..., Any]:
            self.pairs.update(dict.fromkeys(names, Mapping_(function)))
            return function

        return add


def _read(path: Path, **options: Any) -> Model:
    from minnow.converter.tensorflow.reader import read

    return read(path, **options)


def _describe(path: Path) -> Description:
    from minnow.converter.tensorflow.description import describe

    return describe(path)


frontend = TensorFlow(FORMAT, _read, _describe, options=("cut_inputs", "cut_outputs", "signature"))
"""Mappings register with `@frontend.op(...)`, under the names of TensorFlow's own operators."""
