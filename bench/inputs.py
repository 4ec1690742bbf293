"""The inputs of the models in benchmarks."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def inputs_of(source: Path, target: Path) -> dict[str, np.ndarray]:
    """The arrays in NAME.inputs.npz beside a source model, or random ones for the .mnn file made of it."""
    from minnow.runtime.verify.data import read_npz
    from minnow.runtime.verify.samples import random_inputs

    data = source.with_suffix(".inputs.npz")
    return read_npz(str(data)) if data.exists() else random_inputs(target, {})
