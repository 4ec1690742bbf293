"""Memory and start of models in Minnow and in onnxruntime, each in a fresh process.

    python bench/memory.py MODEL.onnx ... [--against onnxruntime] [--room 1.05]

`arena / least` is the memory for intermediate tensors divided by its lower bound, the most bytes needed at the same
time. The exit code is 1 if that of a model is above `--room`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import click
from inputs import inputs_of

import minnow


@click.command()
@click.argument("models", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--against", default="onnxruntime", show_default=True)
@click.option("--room", default=1.05, show_default=True, help="The most that an arena may be of what is needed.")
def main(models: tuple[Path, ...], against: str, room: float) -> None:
    from minnow.runtime.benchmark.benchmark import benchmark

    names = ["minnow", *(name for name in against.split(",") if name)]
    columns = ["arena MB", "arena / least", *(f"{n} {what}" for n in names for what in ("peak MB", "start ms"))]
    print(f"| model | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    above = []
    with tempfile.TemporaryDirectory() as folder:
        for source in models:
            target = Path(folder) / f"{source.stem}.mnn"
            minnow.convert(source, output=target, verify=False)
            session = minnow.load(target, threads=1)
            inputs, outputs = inputs_of(source, target), [o.name for o in session.outputs]
            del session
            timings = benchmark(target, inputs, outputs, against=names[1:], source=source, runs=1)
            arena, least = (timings[0].memory[name] for name in ("arena_bytes", "least_arena_bytes"))
            ratio = arena / max(1, least)
            if ratio > room:
                above.append(source.stem)
            cells = [f"{arena / 1e6:.2f}", f"{ratio:.3f}"]
            for t in timings:
                start = 1e3 * (t.load_s + t.first_s)
                cells += ["", ""] if t.error else [f"{t.peak_bytes / 1e6:.0f}", f"{start:.0f}"]
            print(f"| {source.stem} | {' | '.join(cells)} |", flush=True)
            target.unlink()
    if above:
        sys.exit(f"arenas above {room} of what is needed: {', '.join(above)}")


if __name__ == "__main__":
    main()
