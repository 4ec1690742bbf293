"""Counts what the second and third run of models allocate; a JSON line per model, null where the first run fails.

usage: LD_PRELOAD=HOOK.so allocation_worker.py HOOK.so THREADS <LIST, a line per MODEL.mnn; its inputs in MODEL.mnn.npz
"""

from __future__ import annotations

import ctypes as c
import json
import sys

import numpy as np
from capi import Options, Tensor, tensor

from minnow.runtime import _engine


def allocations(hook: c.CDLL, path: str, threads: int) -> list[int] | None:
    api = c.CDLL(_engine.__file__)
    model, session = c.c_void_p(), c.c_void_p()
    assert api.minnow_load_file(path.encode(), c.byref(model)) == 0
    assert api.minnow_create_session(model, c.byref(Options(threads=threads)), c.byref(session)) == 0
    with np.load(path + ".npz") as data:
        arrays = dict(data)
    inputs = (Tensor * len(arrays))(*(tensor(a, name.encode()) for name, a in arrays.items()))
    api.minnow_num_outputs.restype = c.c_size_t
    n = api.minnow_num_outputs(session)
    outputs = (Tensor * n)()
    sizes = [c.c_size_t(len(arrays)), outputs, c.c_size_t(n)]
    if api.minnow_run(session, inputs, *sizes) != 0:
        return None
    counts = []
    for _ in range(2):
        for output in outputs:
            output.name = None
        counts.append(hook.allocations_of_run(api.minnow_run, session, inputs, *sizes))
    api.minnow_free_session(session)
    api.minnow_free_model(model)
    return counts


def main() -> None:
    hook = c.CDLL(sys.argv[1])
    hook.allocations_of_run.restype = c.c_long
    for line in sys.stdin:
        print(json.dumps(allocations(hook, line.strip(), int(sys.argv[2]))), flush=True)


if __name__ == "__main__":
    main()
