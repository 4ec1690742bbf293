"""What more threads than free cores cost, in processor time, which others on the machine do not change much.

python bench/threads.py
"""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os, sys, time
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import numpy as np
import minnow
from minnow.schema.ir import DType, Graph, Model, TensorType
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder

rng = np.random.default_rng(0)
def floats(*shape): return (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)
graph = Graph()
if sys.argv[1] == "conv":
    x = graph.add_param(TensorType(DType.F32, (1, 32, 56, 56)))
    b = Builder(graph)
    y = x
    for _ in range(6):
        y = b.Conv(y, floats(32, 32, 3, 3), strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1))
        y = b.Relu(y)
else:
    x = graph.add_param(TensorType(DType.F32, (30, 1, 64)))
    b = Builder(graph)
    y = b.LSTM(x, floats(1, 2048, 64), floats(1, 2048, 512), floats(1, 4096), hidden=512)
    y = y[0] if isinstance(y, (tuple, list)) else y
graph.outputs = [y]
data = encode(Model(graph, [("x", x.type)], [("y", y.type)]))
inputs = {"x": floats(*x.type.shape)}
sessions = {n: minnow.load(data, threads=n) for n in (1, 2, 4)}
times = {n: [] for n in sessions}
for _ in range(25):
    for n, session in sessions.items():
        start = time.process_time()
        session.run(inputs)
        times[n].append(time.process_time() - start)
one = np.median(times[1])
print(*(np.median(t) / one for t in times.values()))
"""


def main() -> None:
    for model in ("conv", "lstm"):
        done = subprocess.run([sys.executable, "-c", PROGRAM, model], capture_output=True, text=True, check=True)
        one, two, four = (float(word) for word in done.stdout.split())
        print(f"{model}: processor time on one core, 1 thread {one:.2f}, 2 threads {two:.2f}, 4 threads {four:.2f}")


if __name__ == "__main__":
    main()
