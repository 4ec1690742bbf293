"""The TFLite frontend object, to which the families register."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minnow.converter.base import Call, Description, Frontend, Mapping_
from minnow.converter.formats.tflite import FORMAT
from minnow.schema.ir import Model, TensorType

if TYPE_CHECKING:
    from minnow.converter.tflite.document import Operator, Tensor
    from minnow.converter.tflite.quantization import Quantization

Function = Callable[..., Any]


@dataclass
class Operation(Call):
    """An operator while it is translated.

    Attributes:
        operator: as it stands in the file.
        tensors_in, tensors_out: what the file says of its operands (None: left out) and results.
        tensors_between: the same of what its kernel computes between the two.
    """

    operator: Operator = field(kw_only=True)
    tensors_in: list[Tensor | None] = field(kw_only=True)
    tensors_out: list[Tensor] = field(kw_only=True)
    tensors_between: list[Tensor] = field(kw_only=True, default_factory=list)

    def quant(self, i: int) -> Quantization | None:
        """How the numbers of operand `i` stand for real ones; None: they are the numbers."""
        tensor = self.tensors_in[i] if i < len(self.tensors_in) else None
        return None if tensor is None else tensor.quant

    def quant_out(self, i: int = 0) -> Quantization | None:
        """How the numbers of result `i` stand for real ones; None: they are the numbers."""
        return self.tensors_out[i].quant if i < len(self.tensors_out) else None

    def type_out(self, i: int = 0) -> TensorType:
        """The type that the file declares for result `i`. Raises UnsupportedError where we have none like it."""
        return self.tensors_out[i].type


class TFLiteFrontend(Frontend):
    """Mappings by the schema's name of the operator ("CONV_2D"), or by the code of a custom one.

    Attributes:
        quantized_mappings: translations for operands that are quantized; NotImplemented leaves the call to the others.
        moving: operators that only move numbers, so that quantized values pass as they are.
        raw: operators that read and write the numbers as they are stored, whatever these stand for.
        flow: operators that hand tensors on, in the form that the translation has them.
        complex_mappings: translations where an operand or result is complex: pairs of numbers along a new last axis.
    """

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self.quantized_mappings: dict[str, Mapping_] = {}
        self.moving: set[str] = set()
        self.raw: set[str] = set()
        self.flow: set[str] = set()
        self.complex_mappings: dict[str, Mapping_] = {}

    def op(self, *names: str, since: int = 1, until: int | None = None, moves: bool = False, raw: bool = False,
           flow: bool = False) -> Callable[[Function], Function]:  # fmt: skip
        """Registers the translation of operators in float, or of what only moves numbers.

        Args:
            moves: the results hold numbers of the operands only: the function is called with quantized values, too, all
                of one quantization, which is that of the results.
            raw: the function gets and gives the numbers as they are stored.
            flow: the function gets and gives the values as the translation has them, quantized or real.
        """
        for which, table in ((moves, self.moving), (raw, self.raw), (flow, self.flow)):
            if which:
                table.update(names)
        return super().op(*names, since=since, until=until)

    def quantized(self, *names: str) -> Callable[[Function], Function]:
        """Registers the translation of operators for quantized operands.

        It is asked first where any operand or result is quantized, and gets the quantized values; `node.quant(i)` and
        `node.quant_out(i)` say what they mean. NotImplemented leaves the call to the float mapping.
        """

        return _into(self.quantized_mappings, names)

    def complex(self, *names: str) -> Callable[[Function], Function]:
        """Registers the translation of operators where an operand or a result is complex."""
        return _into(self.complex_mappings, names)

    def knows(self, name: str, version: int) -> bool:
        """Some mapping is for this operator."""
        return bool(self.find(name, version)) or name in self.quantized_mappings or name in self.complex_mappings


def _into(table: dict[str, Mapping_], names: tuple[str, ...]) -> Callable[[Function], Function]:
    def add(function: Function) -> Function:
        table.update(dict.fromkeys(names, Mapping_(function)))
        return function

    return add


def _read(path: Path, **options: Any) -> Model:
    from minnow.converter.tflite.reader import read

    return read(path, **options)


def _describe(path: Path) -> Description:
    from minnow.converter.tflite.description import describe

    return describe(path)


frontend = TFLiteFrontend(FORMAT, _read, _describe, options=("signature", "dequantize", "cut_inputs", "cut_outputs"))
