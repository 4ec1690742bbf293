"""Runs files in MNN's own runtime. Started by the Python of an environment that has MNN; imports nothing of ours.

    python mnn_worker.py JOB...

A job is a folder with `model.mnn`, `inputs.npz` (one array per input, by name) and `outputs.txt` (one name a line). Its
results go to `results.npz`, numbered like the lines. Jobs are done in order: one that ends the process, as MNN does for
ops it does not know, leaves the later ones undone.
"""

import sys
from pathlib import Path

import MNN.expr as expr
import MNN.nn as nn
import numpy as np

# Winograd convolution costs MNN four digits in deep networks: what is compared here is the file, not the kernels.
WINOGRAD_MEMORY_LEVEL = 3

CODES = {"float32": expr.float, "int32": expr.int, "uint8": expr.uint8, "int8": expr.int8}


def run(job: Path) -> None:
    arrays = np.load(job / "inputs.npz")
    outputs = (job / "outputs.txt").read_text().splitlines()
    manager = nn.create_runtime_manager(({"backend": "CPU", "precision": "high", "numThread": 1},))
    manager.set_hint(WINOGRAD_MEMORY_LEVEL, 0)
    module = nn.load_module_from_file(str(job / "model.mnn"), arrays.files, outputs, runtime_manager=manager)
    feed = [given(arrays[name]) for name in arrays.files]
    results = module.forward(feed)
    results = results if isinstance(results, list) else [results]
    plain = [expr.convert(r, expr.NCHW) if r.data_format == expr.NC4HW4 else r for r in results]
    np.savez(job / "results.npz", *map(read, plain))


def given(array: np.ndarray, layout: int = expr.NCHW, packed: bool = False) -> expr.Var:
    """An input, `packed` in channel blocks. Of 8-bit integers MNN takes no arrays, but their bytes."""
    data = array.tobytes() if array.dtype == np.int8 else array
    var = expr.const(data, list(array.shape), layout, CODES[array.dtype.name])
    return expr.convert(var, expr.NC4HW4) if packed else var


def read(result: expr.Var) -> np.ndarray:
    """Its numbers. Reading an empty tensor fails, and gives flat numbers for others; shapes settle while reading."""
    if 0 in result.shape:
        return np.zeros(result.shape, np.float32)
    numbers = np.array(result.read())
    return numbers.reshape(result.shape)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print("job", argument, flush=True)
        try:
            run(Path(argument))
        except (RuntimeError, ValueError, KeyError) as e:
            print(type(e).__name__, e, flush=True)
