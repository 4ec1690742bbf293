"""Runs files in our engine: python -m interop.engine_runs RESULTS JOB...

A job is a folder of the corpus. A line of JSON for each is added to RESULTS: outcome, and what was said.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np

import minnow
from minnow.schema.errors import MinnowError, UnsupportedError

from .judge import wrong

SECONDS = 60


def outcome(place: Path) -> tuple[str, str]:
    """("right", ""), or what else and why."""
    case = json.loads((place / "case.json").read_text())
    want = dict(np.load(place / "expected.npz"))
    try:
        got: dict[str, Any] = minnow.load(place / "model.mnn", threads=1).run(dict(np.load(place / "inputs.npz")))
    except UnsupportedError as e:
        return "refused", str(e)
    except MinnowError as e:
        return "error", str(e)
    if text := wrong(got, want, case):
        return "wrong", text
    mnn = np.load(place / "mnn.npz")
    for i, name in enumerate(want):
        shapes = want[name].shape, mnn[f"arr_{i}"].shape
        if got[name].shape not in shapes and not case["rows"]:
            return "wrong", f"{name}: shape {got[name].shape}, expected {' or '.join(map(str, shapes))}"
    return "right", ""


if __name__ == "__main__":
    with Path(sys.argv[1]).open("a") as out:
        for argument in sys.argv[2:]:
            sys.stdout.write(f"job {argument}\n")
            sys.stdout.flush()
            signal.alarm(SECONDS)
            try:
                what, why = outcome(Path(argument))
            except Exception as e:  # noqa: BLE001
                what, why = "raised", f"{type(e).__name__}: {e}"
            signal.alarm(0)
            place = Path(argument)
            print(
                json.dumps({"case": f"{place.parent.name}/{place.name}", "outcome": what, "why": why}),
                file=out,
                flush=True,
            )
