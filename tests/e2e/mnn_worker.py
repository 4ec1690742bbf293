"""Runs one file in MNN's own runtime. Started by the Python of an environment that has MNN; imports nothing of ours.

    python mnn_worker.py model.mnn inputs.npz outputs.npz OUTPUT_NAME...
"""

import sys

import MNN.expr as expr
import MNN.nn as nn
import numpy as np

# Winograd convolution costs MNN four digits in deep networks: what is compared here is the file, not the kernels.
WINOGRAD_MEMORY_LEVEL = 3

CODES = {"float32": expr.float, "int32": expr.int, "uint8": expr.uint8, "int8": expr.int8}


def main() -> None:
    model, given, wanted, *outputs = sys.argv[1:]
    arrays = np.load(given)
    manager = nn.create_runtime_manager(({"backend": "CPU", "precision": "high", "numThread": 1},))
    manager.set_hint(WINOGRAD_MEMORY_LEVEL, 0)
    module = nn.load_module_from_file(model, list(arrays.files), outputs, runtime_manager=manager)
    feed = [expr.const(a, list(a.shape), expr.NCHW, CODES[a.dtype.name]) for a in map(arrays.__getitem__, arrays.files)]
    results = module.forward(feed)
    results = results if isinstance(results, list) else [results]
    # The shape first: reading alone gives flat numbers for some tensors.
    plain = [expr.convert(r, expr.NCHW) if r.data_format == expr.NC4HW4 else r for r in results]
    np.savez(wanted, **{n: np.array(r.read()).reshape(r.shape) for n, r in zip(outputs, plain)})


if __name__ == "__main__":
    main()
