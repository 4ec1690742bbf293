"""mnnconvert benchmark"""

from __future__ import annotations

from typing import Any

import click

from minnow.cli._option import FORMAT, INPUT, PRECISION, THREADS, emit, table


@click.command()
@click.argument("model", type=click.Path())
@INPUT
@click.option("--runs", type=click.IntRange(1), default=50, show_default=True, help="Timed inferences per runtime.")
@click.option("--against", default="", help="Other runtimes to time in the same run: onnxruntime,openvino,mnn,ncnn.")
@click.option(
    "--source", type=click.Path(), help="Model file for those that do not read .mnn; by default beside MODEL."
)
@click.option("--profile/--no-profile", default=True, help="Show the time of each op.")
@THREADS
@PRECISION
@FORMAT
def command(
    model: str, inputs: Any, runs: int, against: str, source: str | None, profile: bool, threads: int | None,
    precision: str, format_: str,
) -> None:  # fmt: skip
    """Time a .mnn file: median, tail, load time, memory, and where the time goes."""
    from pathlib import Path

    from minnow.cli._data import random_inputs
    from minnow.cli.convert import progress_bar
    from minnow.runtime.benchmark.benchmark import benchmark
    from minnow.runtime.session import load
    from minnow.schema.errors import UsageError

    session = load(model, threads=1)
    if held := next((info for info in session.inputs if info.container), None):
        raise UsageError(f"only models that take arrays are timed, input '{held.name}' is a {held.container}")
    arrays = random_inputs(session, dict(inputs))
    names = [o.name for o in session.outputs]
    del session
    with progress_bar() as progress:
        if progress is not None:
            progress("benchmark")
        timings, notes = benchmark(
            Path(model), arrays, names, against=[n for n in against.split(",") if n],
            source=Path(source) if source else None, threads=threads or 1, precision=precision, runs=runs,
            profile_runs=min(runs, 20) if profile else 0,
        )  # fmt: skip
    for note in notes:
        click.echo(f"note: {note}", err=True)
    emit([vars(t) for t in timings], format_, lambda: _text(timings))
    if timings[0].error:
        from minnow.schema.errors import ModelError

        raise ModelError("the model does not run", where=model, why=timings[0].error)


def _text(timings: list[Any]) -> str:
    header = ["runtime", "version", "median ms", "p90 ms", "p99 ms", "load ms", "first ms", "peak MB", "time / minnow"]
    rows = []
    for t in timings:
        if t.error:
            rows.append([t.name, t.version, t.error[:60], *[""] * 6])
        else:
            times = [f"{1e3 * s:.3f}" for s in (t.median_s, t.p90_s, t.p99_s)]
            setup = [f"{1e3 * s:.1f}" for s in (t.load_s, t.first_s)]
            rows.append([t.name, t.version, *times, *setup, f"{t.peak_bytes / 1e6:.0f}", f"{t.ratio:.2f}"])
    text = table(header, rows, right=2)
    return f"{text}\n\n{_profile(timings[0].profile)}" if timings[0].profile else text


def _profile(nodes: list[dict[str, Any]]) -> str:
    """Nodes by op and scheme, the most expensive first."""
    groups: dict[tuple[str, str], list[float]] = {}
    for node in nodes:
        g = groups.setdefault((node["op"], node.get("scheme", "")), [0.0, 0.0, 0.0])
        g[0] += 1
        g[1] += node["ms"]
        g[2] += node.get("macs", 0)
    total = sum(g[1] for g in groups.values()) or 1.0
    rows = []
    for (op, scheme), (n, ms, macs) in sorted(groups.items(), key=lambda kv: -kv[1][1]):
        speed = f"{2e-6 * macs / ms:.1f}" if macs and ms else ""
        rows.append([op, scheme, f"{n:.0f}", f"{ms:.3f}", f"{ms / total:.1%}", speed])
    return table(["op", "scheme", "nodes", "ms", "share", "GFLOP/s"], rows, right=2)
