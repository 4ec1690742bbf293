"""Times models in Minnow and in the runtimes installed beside it, and prints a table.

    ./dev bench MODEL.onnx ... [--threads 1,2] [--against onnxruntime,openvino] [--runs 50]

The numbers of a row are ratios of medians within one interleaved run: below 1 Minnow is faster.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import click
from inputs import inputs_of

import minnow


@click.command()
@click.argument("models", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--threads", default="1,2", show_default=True)
@click.option("--against", help="By default those of onnxruntime and openvino that are installed.")
@click.option("--runs", default=50, show_default=True)
def main(models: tuple[Path, ...], threads: str, against: str | None, runs: int) -> None:
    from minnow.options.run import RunOptions
    from minnow.runtime.benchmark.benchmark import benchmark, is_installed

    models = models or (Path(__file__).parent.parent / "examples" / "digits" / "digits.onnx",)
    usual = filter(is_installed, ("onnxruntime", "openvino"))
    peers = [*usual] if against is None else [p for p in against.split(",") if p]
    print(f"| model | threads | minnow ms | {' | '.join(f'minnow / {p}' for p in peers)} |")
    print(f"|---|---|---|{'---|' * len(peers)}")
    with tempfile.TemporaryDirectory() as folder:
        for source in models:
            target = Path(folder) / f"{source.stem}.mnn"
            minnow.convert(source, output=target, verify=False)
            session = minnow.load(target, threads=1)
            inputs = inputs_of(source, target)
            for count in map(int, threads.split(",")):
                timings = benchmark(
                    target,
                    inputs,
                    [o.name for o in session.outputs],
                    against=peers,
                    source=source,
                    session=RunOptions(threads=count),
                    runs=runs,
                )
                own = timings[0]
                if own.error:
                    print(f"{source.stem}: {own.error.splitlines()[0]}", file=sys.stderr)
                    continue
                by_name = {t.name: t for t in timings if not t.error}
                cells = [f"{1 / by_name[p].ratio:.2f}" if p in by_name else "" for p in peers]
                print(f"| {source.stem} | {count} | {1e3 * own.median_s:.2f} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
