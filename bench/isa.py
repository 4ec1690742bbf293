"""Times models on each instruction set of this machine, and in onnxruntime, and prints a table.

    ./dev bench isas MODEL.onnx ... [--isas avx512,avx2,sse4] [--runs 15]

An instruction set is chosen once per process (MINNOW_ISA), so each has a separate process; their runs are interleaved.
Times are milliseconds of processor time of one run with one thread, medians; onnxruntime chooses its own instructions.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
from inputs import inputs_of

import minnow

PEER = "onnxruntime"


class Contestant:
    """A process that runs a model when told to."""

    def __init__(self, name: str, model: Path, inputs: Path) -> None:
        self.name = name
        self.times: list[float] = []
        command = [sys.executable, __file__, "--worker", name, str(model), str(inputs)]
        env = {**os.environ, "MINNOW_ISA": name, "ORT_DISABLE_TELEMETRY": "1"}
        if name == PEER:
            del env["MINNOW_ISA"]
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self) -> float:
        assert self.process.stdin
        assert self.process.stdout
        print(file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"{self.name}: cannot run; see above")
        return 1e3 * float(answer)

    def end(self) -> float:
        self.process.communicate("")
        return statistics.median(self.times)


def runner(name: str, model: str, inputs: str) -> Callable[[], object]:
    feeds = dict(np.load(inputs))
    if name == PEER:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        return lambda: session.run(None, feeds)
    own = minnow.load(model, threads=1)
    return lambda: own.run(feeds)


def worker(name: str, model: str, inputs: str) -> None:
    run = runner(name, model, inputs)
    for _ in sys.stdin:
        start = time.process_time()
        run()
        print(time.process_time() - start, flush=True)


@click.command()
@click.argument("models", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--isas", default="avx512,avx2,sse4", show_default=True)
@click.option("--runs", default=15, show_default=True)
def main(models: tuple[Path, ...], isas: str, runs: int) -> None:
    names = [*isas.split(","), PEER]
    print(f"| model | {' | '.join(f'{n} ms' for n in names)} | {' | '.join(f'{n} / {PEER}' for n in names[:-1])} |")
    print("|---|" + "---|" * (2 * len(names) - 1))
    with tempfile.TemporaryDirectory() as folder:
        for source in models:
            target, inputs = Path(folder) / f"{source.stem}.mnn", Path(folder) / f"{source.stem}.npz"
            minnow.convert(source, output=target, verify=False)
            np.savez(inputs, **inputs_of(source, target))
            contestants = [Contestant(n, source if n == PEER else target, inputs) for n in names]
            for number in range(runs + 2):  # the first two warm up
                for contestant in contestants:
                    ms = contestant.run()
                    if number > 1:
                        contestant.times.append(ms)
            medians = [c.end() for c in contestants]
            cells = [f"{m:.2f}" for m in medians] + [f"{m / medians[-1]:.2f}" for m in medians[:-1]]
            print(f"| {source.stem} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(*sys.argv[2:5])
    else:
        main()
