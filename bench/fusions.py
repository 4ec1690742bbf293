"""The speedup of each fusion: times models with and without it, interleaved in one process.

    ./dev bench fusions MODEL.onnx ... [--rules fuse_conv_bn,norm:*] [--target mnn] [--threads 1] [--rounds 15]

Numbers are processor time at one thread and wall time at more. Each name, a rule, a pass or all rules of a group, is
left out separately. The engine fuses at load what is left, so a ratio near 1 means that it finds the same fusion, and
only the file is smaller.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from inputs import inputs_of

import minnow
from minnow.optimizer.phases import rules_of


def _names(text: str) -> tuple[str, ...]:
    return tuple(rule.name for rule in rules_of(text[:-2])) if text.endswith(":*") else (text,)


def _seconds(session: Any, inputs: Any, clock: Callable[[], float]) -> float:
    begin = clock()
    session.run(inputs)
    return clock() - begin


@click.command()
@click.argument("models", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--rules", default="activation:*,norm:*,matmul:*,convolution:*,movement:*", show_default=True)
@click.option("--target", type=click.Choice(["mnn", "minnow"]), default="mnn", show_default=True)
@click.option("--threads", default=1, show_default=True)
@click.option("--rounds", default=15, show_default=True)
def main(models: tuple[Path, ...], rules: str, target: Any, threads: int, rounds: int) -> None:
    print("| model | left out | nodes without | nodes with | ms without | ms with | with / without |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for source in models:
            files = {}
            counts = {}
            for name in ("", *rules.split(",")):
                files[name] = Path(folder) / f"{source.stem}.{len(files)}.mnn"
                passes = [f"-{rule}" for rule in _names(name)] if name else []
                report = minnow.convert(source, output=files[name], target=target, passes=passes, verify=False)
                counts[name] = sum(report.nodes_after.values())
            inputs = inputs_of(source, files[""])
            sessions = {name: minnow.load(file, threads=threads) for name, file in files.items()}
            taken: dict[str, list[float]] = {name: [] for name in sessions}
            for i in range(rounds + 2):
                for name, session in sessions.items():
                    seconds = _seconds(session, inputs, time.process_time if threads == 1 else time.perf_counter)
                    if i >= 2:
                        taken[name].append(seconds)
            for name in rules.split(","):
                ratio = statistics.median(a / b for a, b in zip(taken[""], taken[name], strict=True))
                off, on = (1e3 * statistics.median(taken[k]) for k in (name, ""))
                row = f"{counts[name]} | {counts['']} | {off:.2f} | {on:.2f} | {ratio:.2f}"
                print(f"| {source.stem} | {name} | {row} |", flush=True)


if __name__ == "__main__":
    main()
