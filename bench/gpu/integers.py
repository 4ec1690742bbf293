"""Times quantized networks and products of bytes on the GPU:

    python bench/gpu/integers.py [NETWORK.mnn ...] [--beside FOLDER]

A network computes in 8 bits (`--precision high`); its results are compared with those of the CPU. With `--beside`, the
network of bench/gpu/prepare.py of the same name, such as FOLDER/resnet50_1.mnn for resnet50_1.mnn, is timed in turns
with it, in f16 (`--precision low`). Products of bytes are timed beside `torch._int_mm`, whose results are i32; ours are
bytes, as those of a layer. A sample is one run, from the call until the GPU has finished; the median is printed.
"""

from __future__ import annotations

import argparse
import statistics
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import minnow
from minnow.schema.ir import DType, Graph, Model, TensorType
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder

# Rows, depth, columns: convolutions of ResNet-50 at batch 1 and 32, and layers of BERT-base at 128 and 4096 tokens.
PRODUCTS = (
    (3136, 64, 256),
    (3136, 576, 64),
    (784, 1152, 128),
    (49, 4608, 512),
    (100352, 576, 64),
    (25088, 1152, 128),
    (1568, 2048, 512),
    (128, 768, 3072),
    (128, 3072, 768),
    (4096, 768, 3072),
    (4096, 3072, 768),
    (8192, 8192, 8192),
)


def bound(model: Any, inputs: dict[str, np.ndarray], precision: str) -> tuple[Callable[[], Any], minnow.Session]:
    """A function that runs on memory of the GPU, and the session."""
    session = minnow.load(model, device="cuda", precision=precision)
    return session.bind({k: torch.from_numpy(v).cuda() for k, v in inputs.items()}, device_outputs=True).run, session


def medians(*functions: Callable[[], Any], samples: int = 200) -> list[float]:
    """Milliseconds of each, in turns."""
    for _ in range(40):
        for function in functions:
            function()
    torch.cuda.synchronize()
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(samples):
        for list_, function in zip(times, functions, strict=True):
            start = time.perf_counter()
            function()
            list_.append(1e3 * (time.perf_counter() - start))
    return [statistics.median(t) for t in times]


def random_inputs(session: minnow.Session) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    inputs = {}
    for i in session.inputs:
        dtype = np.dtype(i.dtype)
        floats = rng.standard_normal(i.shape) if dtype.kind == "f" else rng.integers(0, 200, i.shape)
        inputs[i.name] = np.asarray(floats).astype(dtype)
    return inputs


def network(path: Path, beside: Path | None) -> str:
    host = minnow.load(path)
    inputs = random_inputs(host)
    run, session = bound(path, inputs, "high")
    functions = [run]
    twin = None if beside is None else beside / path.name
    if twin is not None and twin.exists():
        functions.append(bound(twin, random_inputs(minnow.load(twin)), "low")[0])
    times = medians(*functions)
    got = [torch.from_dlpack(v).cpu().numpy() for v in run().values()]
    want = list(host.run(inputs).values())
    same = all(np.array_equal(g, w) for g, w in zip(got, want, strict=True))
    rows = session.placement({k: v.shape for k, v in inputs.items()})
    elsewhere = sorted({row["op"] for row in rows if row["device"] == "cpu"})
    other = f"{times[1]:.3f}" if len(times) > 1 else "-"
    return f"{path.stem} | {times[0]:.3f} | {other} | {'yes' if same else 'no'} | {', '.join(elsewhere) or '-'}"


def product(m: int, k: int, n: int) -> str:
    rng = np.random.default_rng(1)
    w = rng.integers(-128, 128, (k, n)).astype(np.int8)
    graph = Graph()
    x = graph.add_param(TensorType(DType.I8, (m, k)))
    factor, shift = np.full(n, 2**30, np.int32), np.full(n, -8, np.int32)
    b = Builder(graph)
    graph.outputs = [b.QuantizedMatMul(x, w, None, None, None, factor, shift, to=DType.I8, min=-128, max=127)]
    model = encode(Model(graph, [("x", x.type)], [("y", graph.outputs[0].type)]))
    a = rng.integers(-128, 128, (m, k)).astype(np.int8)
    run, session = bound(model, {"x": a}, "high")
    left, right = torch.from_numpy(a).cuda(), torch.from_numpy(np.ascontiguousarray(w.T)).cuda().t()

    def theirs() -> None:
        torch._int_mm(left, right)

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        theirs()
    torch.cuda.synchronize()
    recorded = torch.cuda.CUDAGraph()
    with torch.cuda.graph(recorded):
        theirs()

    def replay() -> None:
        recorded.replay()
        torch.cuda.synchronize()

    own, peer = medians(run, replay)
    scheme = session.profile({"x": a}, runs=1)[0]["scheme"]
    tera = 2e-9 * m * k * n
    return f"{m} {k} {n} | {own:.4f} | {peer:.4f} | {own / peer:.2f} | {tera / own:.0f} | {scheme}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", type=Path)
    parser.add_argument("--beside", type=Path)
    given = parser.parse_args()
    if given.networks:
        print("network | ms in 8 bits | ms in f16 | as the CPU | ops on the CPU")
    for path in given.networks:
        try:
            print(network(path, given.beside), flush=True)
        except Exception:  # noqa: BLE001  (the others are to be timed all the same)
            print(f"{path.stem}: failed")
            traceback.print_exc(limit=4)
    print("rows, depth, columns | minnow ms | torch._int_mm ms | ratio | 10^12 operations a second | scheme")
    for sizes in PRODUCTS:
        try:
            print(product(*sizes), flush=True)
        except Exception:  # noqa: BLE001
            print(f"{sizes}: failed")
            traceback.print_exc(limit=4)


if __name__ == "__main__":
    main()
