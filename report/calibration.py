"""What became of a model whose layers compute with integers: the record, and its text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from minnow.report.quantization import Quantization, totals

Measured = Literal["", "file", "steps"]
"""Where the result of a layer was measured: nowhere; in the file that was written; in the model before the optimizer,
whose layers compute in float with rounded weights, and whose tensors are rounded to integers and back."""


@dataclass
class CalibratedLayer:
    """A layer of the model.

    Attributes:
        name, op: of the layer.
        kind: "int8" if the file has it with integers, or "f32".
        low, high: the range of its output.
        saturated: share of the numbers of its output in the calibration that lie beyond the range.
        sqnr_db: power of its output divided by that of the error, in dB, where all layers are quantized; None without
            an error, or where it was not measured.
        cosine: of its output and that of the float model; None where it was not measured.
        measured: where both were measured.
        weight_error: norm of the errors of the weights divided by that of the weights.
        effect_db: SQNR of the outputs if this layer alone is quantized; None where it was not measured.
        why: why it is float. A layer that a rule of the optimizer has refused has rounded weights and inputs all the
            same: its range and its errors are there, too.
    """

    name: str
    op: str
    kind: str = "int8"
    low: float = 0.0
    high: float = 0.0
    saturated: float = 0.0
    sqnr_db: float | None = None
    cosine: float | None = None
    measured: Measured = ""
    weight_error: float = 0.0
    effect_db: float | None = None
    why: str = ""


@dataclass
class Calibrated(Quantization):
    """What became of a model whose layers compute with integers, and what that costs.

    Attributes:
        method: how ranges were chosen.
        runs: inputs of the calibration.
        tensors: how many the file has as integers.
        calibrated: the layers as they are in the file, in the order of the model.
        corrections: what was done to the model before: names of methods.
    """

    method: str = ""
    runs: int = 0
    tensors: int = 0
    calibrated: list[CalibratedLayer] = field(default_factory=list)
    corrections: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        whole = sum(layer.kind == "int8" for layer in self.calibrated)
        lines = [
            *_table(self.calibrated),
            "",
            f"layers: {whole} of {len(self.calibrated)} with integers of 8 bits; {self.tensors} tensors, "
            f"ranges by {self.method} from {self.runs} inputs" + "".join(f", {c}" for c in self.corrections),
        ]
        return "\n".join([*lines, *totals(self)[1:]])


_SHOWN = 60
_ELSEWHERE = "*"
"""Marks what was measured elsewhere than in the file."""


def _table(layers: list[CalibratedLayer]) -> list[str]:
    header = ("layer", "op", "type", "SQNR dB", "cosine", "range", "beyond", "weights")
    shown = layers[:_SHOWN]
    rows = [header, *map(_cells, shown)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(header))]
    notes = ["", *(layer.why for layer in shown)]
    lines = []
    for row, note in zip(rows, notes, strict=True):
        cells = [c.ljust(w) if i < 3 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        lines.append(f"{'  '.join(cells)}  {note}".rstrip())
    lines.insert(1, "  ".join("-" * w for w in widths))
    if (rest := len(layers) - _SHOWN) > 0:
        lines.append(f"and {rest} more layers")
    if any(layer.measured == "steps" for layer in shown):
        lines.append(f"{_ELSEWHERE} measured before the optimizer: the file does not have this tensor")
    return lines


def _cells(layer: CalibratedLayer) -> tuple[str, ...]:
    name = layer.name if len(layer.name) <= 40 else f"...{layer.name[-37:]}"
    if not layer.measured:
        return name, layer.op, layer.kind, "", "", "", "", ""
    mark = _ELSEWHERE if layer.measured == "steps" else ""
    return (
        name,
        layer.op,
        layer.kind,
        "" if layer.sqnr_db is None else f"{layer.sqnr_db:.1f}{mark}",
        "" if layer.cosine is None else f"{layer.cosine:.5f}{mark}",
        f"{layer.low:.3g} .. {layer.high:.3g}",
        f"{layer.saturated:.2%}",
        f"{layer.weight_error:.2g}",
    )
