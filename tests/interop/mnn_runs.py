"""Runs files in MNN's own runtime. Started by the Python of an environment that has MNN; imports nothing of ours.

    python mnn_runs.py JOB...

A job is a folder with `model.mnn`, `inputs.npz` (one array per input, by name) and `run.json`: the names of the
outputs, and the layout of inputs and outputs ("NCHW" or "NHWC"). Results go to `mnn.npz`, numbered like the outputs.
Jobs are done in order: one that ends the process leaves the later ones undone.
"""

import json
import signal
import sys
from pathlib import Path

import MNN.expr as expr
import MNN.nn as nn
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "e2e"))
from mnn_worker import WINOGRAD_MEMORY_LEVEL, given, read

SECONDS = 60
LAYOUTS = {"NCHW": expr.NCHW, "NHWC": expr.NHWC, "NC4HW4": expr.NC4HW4}


def run(job: Path) -> None:
    arrays = np.load(job / "inputs.npz")
    wanted = json.loads((job / "run.json").read_text())
    layout = LAYOUTS[wanted["layout"]]
    manager = nn.create_runtime_manager(({"backend": "CPU", "precision": "high", "numThread": 1},))
    manager.set_hint(WINOGRAD_MEMORY_LEVEL, 0)
    module = nn.load_module_from_file(str(job / "model.mnn"), arrays.files, wanted["outputs"], runtime_manager=manager)
    feed = [given(arrays[name], layout, name in wanted["packed"]) for name in arrays.files]
    results = module.forward(feed)
    results = results if isinstance(results, list) else [results]
    plain = [expr.convert(r, layout) if r.data_format == expr.NC4HW4 else r for r in results]
    np.savez(job / "mnn.npz", *map(read, plain))


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        sys.stdout.write(f"job {argument}\n")
        sys.stdout.flush()
        signal.alarm(SECONDS)
        try:
            run(Path(argument))
        except Exception as e:  # noqa: BLE001
            (Path(argument) / "run.log").write_text(f"{type(e).__name__} {e}")
        signal.alarm(0)
