"""What a file says of its weights: whether they are compressed, and by how much its outputs may differ for that."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from minnow.schema.errors import FormatError
from minnow.schema.mnn import wire
from minnow.schema.mnn.decoder import metadata_of
from minnow.schema.mnn.form import ops

QUANTIZED = "minnow.quantized"
"""Metadata of a file with smaller weights: the tolerance of a comparison with its source, "" if it is not known."""
QUANTIZED_RANDOM = "minnow.quantized.random"
"""The same for random inputs, where the other one is for inputs of the user."""
QUANTIZED_INPUTS = "minnow.quantized.inputs"
"""The least and the largest number of each float input of the user, as JSON: random inputs are to lie there."""

_FEW_BITS = (1, 2, 4)
"""Types of compressed weights that are integers."""


@dataclass(frozen=True)
class StoredWeights:
    """Weights of a file that are not those of its source.

    Attributes:
        tolerance: what a comparison with the source accepts, as a fraction of the output's largest magnitude; 0 if the
            file does not say.
        ranges: by name of an input, where random numbers lie that the tolerance is for, if not in [0, 1).
    """

    tolerance: float = 0.0
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def note(self) -> str:
        """What to say with a comparison."""
        if self.tolerance:
            what = (
                "twice the largest error for random inputs in the range of its calibration"
                if self.ranges
                else ("four times the largest error that was measured when it was written")
            )
            return f"the weights of the file are compressed: the tolerance is {self.tolerance:g}, {what}"
        return "the weights of the file are compressed: `--tolerance X` accepts the error of that"


def stored_weights(target: Path, is_random: bool = True) -> StoredWeights | None:
    """What a `.mnn` file says of its weights; None if they are plain floats.

    Args:
        is_random: whether the comparison is with random inputs.
    """
    try:
        net = wire.read(np.memmap(target, np.uint8, mode="r"))
        metadata = metadata_of(net)
    except (FormatError, OSError, ValueError):
        return None  # loading the file says what is wrong with it
    if is_random and (ranges := _ranges(metadata.get(QUANTIZED_INPUTS, ""))):
        return StoredWeights(_tolerance(metadata.get(QUANTIZED_RANDOM, "")), ranges)
    if (text := metadata.get(QUANTIZED)) is not None:
        return StoredWeights(_tolerance(text))
    tables = (op.get("main") for op in ops(net))
    quantized = (t["quanParameter"] for t in tables if isinstance(t, dict) and t.get("quanParameter") is not None)
    return StoredWeights() if any(q.get("type", 0) in _FEW_BITS for q in quantized) else None


def ranges_text(inputs: Iterable[Mapping[str, Any]]) -> str:
    """The metadata `QUANTIZED_INPUTS` for the inputs of some runs; "" where none is an array of floats."""
    found: dict[str, list[float]] = {}
    for one in inputs:
        for name, array in one.items():
            if not isinstance(array, np.ndarray) or array.dtype.kind != "f" or not array.size:
                continue
            low, high = float(array.min()), float(array.max())
            if isfinite(low) and isfinite(high):
                before = found.get(name, [low, high])
                found[name] = [min(low, before[0]), max(high, before[1])]
    return json.dumps(found, separators=(",", ":")) if found else ""


def _ranges(text: str) -> dict[str, tuple[float, float]]:
    """By name, as `ranges_text` wrote them; what is damaged is left out."""
    try:
        found = json.loads(text or "{}")
        pairs = {str(name): (float(low), float(high)) for name, (low, high) in found.items()}
    except (ValueError, TypeError, AttributeError):
        return {}
    return {name: pair for name, pair in pairs.items() if isfinite(pair[0]) and isfinite(pair[1])}


def _tolerance(text: str) -> float:
    try:
        number = float(text or 0)
    except ValueError:
        return 0.0
    return number if isfinite(number) and number > 0 else 0.0
