"""Checks and times Vulkan on a GPU, beside CUDA where that is there:

    python bench/gpu/vulkan.py check
    python bench/gpu/prepare.py FOLDER resnet50:1
    python bench/gpu/vulkan.py time FOLDER resnet50:1 ... [--profile 8]

`check` compares layers with the CPU's results. `time` runs the networks in f16 on each device, in turns: a sample is
one run from the call to the results in the host's memory. For each it prints the median and the largest difference from
the CPU, and with --profile which layers take the longest on Vulkan.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

import minnow
from minnow.runtime import _engine
from minnow.schema.errors import MinnowError

LOW = 2  # precision: values as f16
LAYERS: list[tuple[str, dict[str, Any], list[tuple[int, ...]]]] = [
    ("Conv", {}, [(1, 64, 14, 14), (256, 64, 1, 1), (256,)]),
    ("Conv", {}, [(1, 512, 7, 7), (2048, 512, 1, 1), (2048,), (1, 2048, 7, 7)]),
    ("Conv", {"activation": "relu"}, [(2, 200, 9, 9), (72, 200, 1, 1), (72,)]),
    ("Conv", {"pads": (1, 1, 1, 1)}, [(1, 512, 7, 7), (512, 512, 3, 3), (512,)]),
    ("Conv", {"pads": (1, 1, 1, 1), "strides": (2, 2)}, [(2, 20, 31, 29), (44, 20, 3, 3), (44,)]),
    ("Conv", {"pads": (1, 1, 1, 1)}, [(1, 64, 56, 56), (64, 64, 3, 3), (64,)]),
    ("Conv", {"pads": (3, 3, 3, 3), "strides": (2, 2)}, [(1, 3, 224, 224), (64, 3, 7, 7), (64,)]),
    ("Conv", {"pads": (1, 1, 1, 1), "group": 4}, [(1, 128, 20, 20), (128, 32, 3, 3), (128,)]),
    ("Conv", {"pads": (1, 1, 1, 1), "group": 96}, [(1, 96, 56, 56), (96, 1, 3, 3), (96,)]),
    ("Conv", {"pads": (2, 2, 2, 2), "group": 240, "strides": (2, 2)}, [(1, 240, 28, 28), (240, 1, 5, 5), (240,)]),
    ("ConvTranspose", {"strides": (2, 2)}, [(1, 64, 32, 32), (64, 32, 2, 2), (32,)]),
    ("Linear", {}, [(1, 2048), (1000, 2048), (1000,)]),
    ("Linear", {"activation": "gelu"}, [(197, 384), (1536, 384), (1536,)]),
    ("Linear", {}, [(128, 3072), (768, 3072), (768,)]),
    ("MaxPool", {"kernel": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)}, [(1, 64, 112, 112)]),
    ("GlobalAveragePool", {}, [(2, 72, 28, 28)]),
]


def check(_: argparse.Namespace) -> None:
    rng = np.random.default_rng(0)
    for op, attrs, shapes in LAYERS:
        arrays = [rng.standard_normal(s).astype(np.float16).astype(np.float32) for s in shapes]
        if len(arrays) > 1:
            depth = arrays[1][0].size
            arrays[1] = (arrays[1] / np.sqrt(depth)).astype(np.float16).astype(np.float32)
        want = np.asarray(_engine.run_op(op, attrs, arrays, 1, 1, False, constants=True)[0])
        line = f"{op} {attrs} {shapes}:"
        for precision in (0, LOW):
            try:
                got = _engine.run_op(
                    op, attrs, arrays, 1, 1, False, constants=True, precision=precision, device="vulkan"
                )[0]
                line += f" {np.abs(np.asarray(got) - want).max() / np.abs(want).max():.1e}"
            except MinnowError as e:
                line += f" {type(e).__name__}: {e}"
        print(line, flush=True)


def data(session: minnow.Session) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = {i.name: [d if isinstance(d, int) else 1 for d in i.shape] for i in session.inputs}
    return {
        i.name: rng.standard_normal(shapes[i.name]).astype(np.float32)
        if "float" in str(i.dtype).lower() or "f32" in str(i.dtype).lower()
        else rng.integers(0, 1000, shapes[i.name]).astype(np.int64)
        for i in session.inputs
    }


def seconds(session: minnow.Session, given: dict[str, np.ndarray]) -> float:
    start = time.perf_counter()
    session.run(given)
    return time.perf_counter() - start


def measure(path: Path, given: argparse.Namespace) -> None:
    cpu = minnow.load(path)
    inputs = data(cpu)
    want = cpu.run(inputs)
    line = [path.stem]
    sessions = {}
    for device in given.devices.split(","):
        start = time.perf_counter()
        try:
            session = minnow.load(path, device=device, precision=given.precision)
            for _ in range(12):
                got = session.run(inputs)
        except MinnowError as e:
            print(f"{path.stem} {device}: {type(e).__name__}: {e}", flush=True)
            continue
        sessions[device] = session
        error = max(float(np.abs(got[k] - want[k]).max() / np.abs(want[k]).max()) for k in want)
        line.append(f"{device} ready in {time.perf_counter() - start:.1f} s, error {error:.1e}")
    samples: dict[str, list[float]] = {device: [] for device in sessions}
    for _ in range(given.samples):
        for device, session in sessions.items():
            samples[device].append(seconds(session, inputs))
    medians = {device: statistics.median(times) for device, times in samples.items()}
    line += [f"{device} {1e3 * t:.3f} ms" for device, t in medians.items()]
    if {"vulkan", "cuda"} <= set(medians):
        line.append(f"{medians['vulkan'] / medians['cuda']:.2f} times cuda")
    print(" | ".join(line), flush=True)
    if given.profile and "vulkan" in sessions:
        rows = sessions["vulkan"].profile(inputs, runs=5)
        print(f"  {len(rows)} nodes, {sum(r['ms'] for r in rows):.3f} ms one by one")
        kinds: dict[tuple[str, str, str], list[float]] = {}
        for r in rows:
            kinds.setdefault((r["op"], r["scheme"], r["device"]), []).append(r["ms"])
        for kind, times in sorted(kinds.items(), key=lambda item: -sum(item[1]))[: given.profile]:
            print(f"  {sum(times):8.3f} ms in {len(times):3d}: {' '.join(kind)}")
        for r in sorted(rows, key=lambda r: -r["ms"])[: given.profile]:
            print(f"  {r['ms']:8.3f} ms {r['op']} {r['scheme']} {r['shape']} {r['macs'] / 1e6:.1f} M macs", flush=True)


def measure_all(given: argparse.Namespace) -> None:
    for job in given.jobs:
        measure(given.folder / f"{job.replace(':', '_')}.mnn", given)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    commands.add_parser("check").set_defaults(function=check)
    timed = commands.add_parser("time")
    timed.set_defaults(function=measure_all)
    timed.add_argument("folder", type=Path)
    timed.add_argument("jobs", nargs="+")
    timed.add_argument("--devices", default="vulkan,cuda")
    timed.add_argument("--precision", default="low")
    timed.add_argument("--samples", type=int, default=50)
    timed.add_argument("--profile", type=int, default=0)
    given = parser.parse_args()
    given.function(given)


if __name__ == "__main__":
    main()
