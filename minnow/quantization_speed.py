"""How fast a quantized model is, beside the float model that it was made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from minnow.options.run import RunOptions
from minnow.report.quantization import Speed

_STARTS = 6


def speed_of(
    path: Path, baseline: Path, inputs: Mapping[str, Any], outputs: Sequence[str], options: RunOptions
) -> Speed | str | None:
    """Latency and memory of a file and of the float model, with one thread, in turns.

    Returns:
        None for inputs that are not all arrays, and a reason where a model did not run.
    """
    from minnow.runtime.benchmark.benchmark import Baseline, benchmark

    running = replace(options, threads=1)
    if any(not isinstance(a, np.ndarray) for a in inputs.values()):
        return None
    timings = benchmark(
        path, inputs, outputs, baseline=Baseline(model=baseline), session=running, runs=None, starts=_STARTS
    )
    own, base = timings[:2]
    if own.error or base.error:
        return str(own.error or base.error)
    compared = own.comparison
    return Speed(
        base.median_s,
        own.median_s,
        compared["ratio"],
        compared["low"],
        compared["high"],
        compared["verdict"],
        base.peak_bytes,
        own.peak_bytes,
    )
