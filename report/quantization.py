"""What became of the weights of a quantized model: the record, and its text."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from math import floor, isfinite, log10
from typing import Any

from minnow.optimizer.quantize.compress import LayerResult

_MARGIN = 4.0
"""What other inputs may need, relative to those that were measured."""

RANDOM_MARGIN = 2.0
"""The same for random inputs, which are all alike."""


def tolerance_for(largest: float, margin: float = _MARGIN) -> float:
    """What to accept of other inputs where the largest error was that: 1, 2 or 5 times a power of 10; 0 if unknown."""
    worst = margin * largest
    if worst <= 0 or not isfinite(worst):
        return 0.0
    unit = 10.0 ** floor(log10(worst))
    return float(f"{next(k * unit for k in (1, 2, 5, 10) if k * unit >= worst * 0.999999):.1g}")


@dataclass
class Similarity:
    """How near outputs are to those of the float model, over all inputs that were run.

    Attributes:
        sqnr_db: power of the output divided by that of the error, in dB; None without an error.
        cosine: of output and float output; for integers, the share of equal elements.
        largest: the largest error, as a fraction of the output's largest magnitude.
        integer: the output is no float.
    """

    sqnr_db: float | None
    cosine: float
    largest: float
    integer: bool = False


@dataclass
class Speed:
    """Latency and memory on this machine, with one thread, measured in turns.

    Attributes:
        before_s, after_s: median seconds of a run of the float model, and of the quantized one.
        ratio, low, high: after divided by before, with the interval of 95 % confidence.
        verdict: what that means.
        before_bytes, after_bytes: peak memory of a process that loads and runs the model.
    """

    before_s: float
    after_s: float
    ratio: float
    low: float | None
    high: float | None
    verdict: str
    before_bytes: int
    after_bytes: int


@dataclass
class Quantization:
    """What became of the weights of a model, and what that costs.

    Attributes:
        layers: in the order of the model.
        before_bytes, after_bytes: of the file with float weights, and of the one that is written.
        outputs: by name, how near they are to those of the float model; empty if it was not run.
        before_score, score: of the metric, or of the similarity (the smallest cosine), before and after.
        tried: how many models were run to choose the widths.
        speed: latency and memory, if measured.
    """

    layers: list[LayerResult] = field(default_factory=list)
    before_bytes: int = 0
    after_bytes: int = 0
    outputs: dict[str, Similarity] = field(default_factory=dict)
    before_score: float | None = None
    score: float | None = None
    tried: int = 0
    speed: Speed | None = None

    @property
    def tolerance(self) -> float:
        """What a comparison with the source has to accept, as `tolerance_for` says."""
        return tolerance_for(max((s.largest for s in self.outputs.values()), default=0.0))

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {**asdict(self), "tolerance": self.tolerance}

    def __str__(self) -> str:
        return "\n".join([*_rows(self.layers), "", *totals(self)])


_SHOWN = 40
"""Layers in the text; the JSON has all."""


def _rows(layers: list[LayerResult]) -> list[str]:
    header = ("layer", "op", "shape", "weights", "scales", "error", "SQNR dB", "of output", "before", "after")
    cells = [header, *(_cells(layer) for layer in layers[:_SHOWN])]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    left = 4
    lines = [
        "  ".join(c.ljust(w) if i < left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        for row in cells
    ]
    notes = [""] + [layer.why for layer in layers[:_SHOWN]]
    shown = [f"{line.rstrip() if not note else line}  {note}".rstrip() for line, note in zip(lines, notes, strict=True)]
    rest = len(layers) - _SHOWN
    return [
        shown[0],
        "  ".join("-" * w for w in widths),
        *shown[1:],
        *([f"and {rest} more layers"] if rest > 0 else []),
    ]


def _cells(layer: LayerResult) -> tuple[str, ...]:
    return (
        layer.name if len(layer.name) <= 40 else f"...{layer.name[-37:]}",
        layer.op,
        "x".join(map(str, layer.shape)),
        weights_text(layer),
        "" if layer.kind != "int" else f"{layer.block or 'channel'}, {layer.scale_bits} bits",
        "" if layer.after == layer.before else f"{layer.error:.2g}",
        "" if layer.sqnr_db is None else f"{layer.sqnr_db:.1f}",
        "" if layer.output_error is None else f"{layer.output_error:.2g}",
        str(layer.before),
        str(layer.after),
    )


def weights_text(layer: LayerResult) -> str:
    """The element type of a layer's weights, and how they were quantized."""
    kept = f", {layer.density:.0%} kept" if layer.density < 1 else ""
    if layer.kind != "int":
        return f"{layer.kind}{kept}"
    fitted = " fitted" if layer.rounding == "fitted" else ""
    return f"int{layer.bits} {layer.method}{fitted}{', symmetric' if layer.symmetric else ''}{kept}"


def totals(done: Quantization) -> list[str]:
    """What holds for the whole model, in lines: layers, file, outputs, score, latency, memory."""
    share = done.after_bytes / done.before_bytes if done.before_bytes else 1.0
    kinds = Counter("int" + str(r.bits) if r.kind == "int" else r.kind for r in done.layers)
    rows = [
        f"layers: {', '.join(f'{n} {kind}' for kind, n in sorted(kinds.items()))}",
        f"file: {done.before_bytes} -> {done.after_bytes} bytes ({share:.0%})",
    ]
    for name, near in done.outputs.items():
        if near.integer:
            rows.append(f"output {name}: {near.cosine:.2%} of the elements are equal")
            continue
        sqnr = "no error" if near.sqnr_db is None else f"SQNR {near.sqnr_db:.1f} dB"
        rows.append(
            f"output {name}: {sqnr}, cosine {near.cosine:.6f}, largest error {near.largest:.2g} of its magnitude"
        )
    if done.score is not None and done.before_score is not None:
        chosen = f", {done.tried} models run" if done.tried > 1 else ""
        rows.append(f"score: {done.before_score:.6g} -> {done.score:.6g}{chosen}")
    if (speed := done.speed) is not None:
        rows.append(
            f"latency: {1e3 * speed.before_s:.3f} -> {1e3 * speed.after_s:.3f} ms, one thread: {speed.verdict}"
            f" ({speed.ratio:.2f} times{_interval(speed)})"
        )
        rows.append(f"peak memory: {speed.before_bytes / 1e6:.1f} -> {speed.after_bytes / 1e6:.1f} MB")
    return rows


def _interval(speed: Speed) -> str:
    return "" if speed.low is None or speed.high is None else f", {speed.low:.2f} to {speed.high:.2f}"
