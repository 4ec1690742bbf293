"""What a file says of its weights: whether they are compressed, and by how much its outputs may differ for that."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from pathlib import Path

import numpy as np

from minnow.schema.errors import FormatError
from minnow.schema.mnn import wire
from minnow.schema.mnn.decoder import metadata_of
from minnow.schema.mnn.form import ops

QUANTIZED = "minnow.quantized"
"""Metadata of a file with smaller weights: the tolerance of a comparison with its source, "" if it is not known."""

_FEW_BITS = (1, 2, 4)
"""Types of compressed weights that are integers."""


@dataclass(frozen=True)
class StoredWeights:
    """Weights of a file that are not those of its source.

    Attributes:
        tolerance: what a comparison with the source accepts, as a fraction of the output's largest magnitude; 0 if the
            file does not say.
    """

    tolerance: float = 0.0

    @property
    def note(self) -> str:
        """What to say with a comparison."""
        if self.tolerance:
            return (
                f"the weights of the file are compressed: the tolerance is {self.tolerance:g}, four times the largest "
                "error that was measured when it was written"
            )
        return "the weights of the file are compressed: `--tolerance X` accepts the error of that"


def stored_weights(target: Path) -> StoredWeights | None:
    """What a `.mnn` file says of its weights; None if they are plain floats."""
    try:
        net = wire.read(np.memmap(target, np.uint8, mode="r"))
        text = metadata_of(net).get(QUANTIZED)
    except (FormatError, OSError, ValueError):
        return None  # loading the file says what is wrong with it
    if text is not None:
        return StoredWeights(_tolerance(text))
    tables = (op.get("main") for op in ops(net))
    quantized = (t["quanParameter"] for t in tables if isinstance(t, dict) and t.get("quanParameter") is not None)
    return StoredWeights() if any(q.get("type", 0) in _FEW_BITS for q in quantized) else None


def _tolerance(text: str) -> float:
    try:
        number = float(text or 0)
    except ValueError:
        return 0.0
    return number if isfinite(number) and number > 0 else 0.0
