"""Minnow as contestants of a benchmark harness that takes more of them from a file with a list `EXTRA`.

    python bench/prepare.py "$BENCH_MODELS"          # writes NAME.minnow.mnn beside each NAME.onnx
    BENCH_EXTRA=bench/extra.py python bench.py --configs ort,minnow

`MINNOW_PYTHON` names the interpreter that has minnow installed; by default the checkout's own environment.
"""

import os
from pathlib import Path

_HERE = Path(os.environ.get("BENCH_EXTRA", __file__)).resolve().parent
_PYTHON = os.environ.get("MINNOW_PYTHON", str(_HERE.parent / ".venv" / "bin" / "python"))


def _contestant(name: str, league: str, precision: str) -> dict:
    return {
        "id": name,
        "venv": _PYTHON,
        "script": str(_HERE / "worker.py"),
        "prec": league,
        "files": {"model": ".minnow.mnn"},
        "config": {"precision": precision},
    }


EXTRA = [_contestant("minnow", "fp32", "high"), _contestant("minnow.low", "low", "low")]
