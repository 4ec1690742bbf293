"""mnnconvert benchmark"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from minnow.cli._log import error, step
from minnow.cli._option import FORMAT, MNN_FILE, Command, emit, options, table
from minnow.cli._terminal import spinner

if TYPE_CHECKING:
    from minnow.options.run import BenchmarkCommand


@click.command(cls=Command)
@click.argument("model", type=MNN_FILE)
@options("run.BenchmarkCommand")
@FORMAT
def command(model: str, options: BenchmarkCommand, format_: str) -> int:
    """Measure the speed, load time and memory of a .mnn file.

    Shows the median and tail latency, the peak memory, and the time of each op.
    """
    from pathlib import Path

    from minnow.converter.formats import check_readable
    from minnow.options.run import RunOptions
    from minnow.runtime.benchmark.benchmark import Baseline, benchmark
    from minnow.runtime.benchmark.turns import STARTS
    from minnow.runtime.session import load
    from minnow.runtime.verify.data import read_npz
    from minnow.runtime.verify.samples import random_inputs
    from minnow.schema.errors import ModelError, UsageError

    running = replace(options.only(RunOptions), threads=options.threads or 1)
    with step(f"load {model}"):
        session = load(model, **vars(replace(running, threads=1)))
    if held := next((info for info in session.inputs if info.container), None):
        raise UsageError(f"only models with array inputs can be timed; input '{held.name}' is a {held.container}")
    arrays = read_npz(options.data) if options.data else random_inputs(Path(model), options.inputs or {})
    if options.timeout is not None:
        session.run(arrays)  # a model that does not end within the timeout is not timed
    names = [o.name for o in session.outputs]
    del session
    base, python = (Path(p) if p else None for p in (options.compare, options.compare_python))
    if base is not None:
        check_readable(base)
    baseline = Baseline(base, python=python) if base or python else None
    runs = options.runs if baseline else options.runs or 50
    with step(f"benchmark {', '.join(['minnow', *options.against])}"), spinner() as progress:
        if progress is not None:
            progress("benchmark")
        timings = benchmark(
            Path(model), arrays, names, baseline=baseline, against=options.against,
            source=Path(options.source) if options.source else None,
            session=running, runs=runs, starts=options.starts or (STARTS if baseline else 1),
            profile_runs=min(runs or 20, 20) if options.profile else 0,
        )  # fmt: skip
    if options.roofline and timings[0].profile:
        from minnow.runtime.benchmark.roofline import measure_devices
        from minnow.runtime.benchmark.roofline import roofline as limits

        limit = limits(running.threads or 1, timings[0].version)
        timings[0].limits = vars(limit)
        for row in timings[0].profile:
            if row["device"] == "cpu":
                row |= limit.rates(row)
        if running.device != "cpu":
            measure_devices(running.device, running.threads or 1, timings[0].version)
    if not options.samples:
        for timing in timings:
            timing.samples = []
    emit(timings, format_, lambda: _text(timings))
    if timings[0].error:
        # In JSON the error is part of the result; raising it would print a second document.
        error(f"error: {ModelError('the model does not run', where=model, why=timings[0].error)}")
        return ModelError.exit_code
    return 0


def _text(timings: list[Any]) -> str:
    times = ["min ms", "median ms", "p90 ms", "p99 ms"]
    header = ["runtime", "version", *times, "load ms", "first ms", "peak MB", "time / minnow"]
    interval = any(t.ratio_low is not None for t in timings)
    rows = []
    for t in timings:
        if t.error:
            rows.append([t.name, t.version, t.error[:60], *[""] * (7 + interval)])
        else:
            times = [f"{1e3 * s:.3f}" for s in (t.min_s, t.median_s, t.p90_s, t.p99_s)]
            setup = [f"{1e3 * s:.1f}" for s in (t.load_s, t.first_s)]
            ends = [] if not interval else ["" if t.ratio_low is None else f"{t.ratio_low:.3f} to {t.ratio_high:.3f}"]
            ratio = f"{t.ratio:.3f}" if interval else f"{t.ratio:.2f}"
            rows.append([t.name, t.version, *times, *setup, f"{t.peak_bytes / 1e6:.0f}", ratio, *ends])
    text = table([*header, "95 %"] if interval else header, rows, right=2)
    for t in timings:
        if t.place != "host" and not t.error:
            text += f"\n\n{t.name}: inputs and outputs lie on {t.place}; "
            text += f"{1e3 * t.host_s:.3f} ms with copies from and to the host"
    if timings[0].comparison:
        text += f"\n\n{_comparison(timings[0].comparison)}"
    return f"{text}\n\n{_profile(timings[0])}" if timings[0].profile else text


def _comparison(found: dict[str, Any]) -> str:
    """One line on the model beside the baseline."""
    text = f"MODEL takes {found['ratio']:.3f} times as long as the baseline, {found['baseline']}"
    if found["low"] is None:
        return f"{text}; for an interval at least 6 starts and 6 runs are needed"
    return f"{text} (95 %: {found['low']:.3f} to {found['high']:.3f}): {found['verdict']}"


def _choices(timing: Any) -> str:
    """The slowest nodes with several possible schemes, and the estimated times of these with one thread."""
    nodes = {n["considered"]: n for n in sorted(timing.profile, key=lambda n: n["ms"]) if n.get("considered")}
    rows = [[n["name"][-40:], n["scheme"], f"{n['ms']:.3f}", text] for text, n in list(nodes.items())[::-1][:5]]
    header = ["slowest nodes", "scheme", "ms", "schemes considered: estimated ms with one thread"]
    return f"\n\n{table(header, rows, right=2)}" if rows else ""


def _bytes(n: int) -> str:
    return f"{n:,}" if n else ""


def _placement(timing: Any) -> str:
    """Each node in order of execution: its device, and why it runs there; what is copied between devices."""
    rows = [
        [n["name"][-40:], n["op"], n["device"], n["scheme"], f"{n['ms']:.3f}", _bytes(n["copied"]), n["why"]]
        for n in timing.profile
    ]  # fmt: skip
    by_device: dict[str, float] = {}
    for n in timing.profile:
        by_device[n["device"]] = by_device.get(n["device"], 0) + n["ms"]
    head = ", ".join(f"{ms:.3f} ms on {device}" for device, ms in by_device.items())
    copied = sum(n["copied"] for n in timing.profile)
    header = ["node", "op", "device", "scheme", "ms", "bytes copied", "why it runs there"]
    return f"\n\n{head}; {copied:,} bytes copied between devices\n{table(header, rows, right=99)}"


def _profile(timing: Any) -> str:
    """The nodes by op and scheme, and by device where others than the CPU are in use, slowest first."""
    others = any(node["device"] != "cpu" for node in timing.profile)
    groups: dict[tuple[str, ...], dict[str, float]] = {}
    for node in timing.profile:
        kind = (node["op"], node["scheme"], *([node["device"]] if others else []))
        group = groups.setdefault(kind, dict.fromkeys(("nodes", "ms", "macs", "bytes", "least"), 0))
        for name in ("ms", "macs", "bytes"):
            group[name] += node[name]
        group["nodes"] += 1
        group["least"] += node["ms"] * node.get("roofline", 0)
    total = sum(g["ms"] for g in groups.values()) or 1.0
    columns = ["op", "scheme", *(["device"] if others else [])]
    header = [*columns, "nodes", "ms", "share", "GFLOP/s", "GB/s", *(["roofline"] if timing.limits else [])]
    rows = []
    for kind, g in sorted(groups.items(), key=lambda kv: -kv[1]["ms"]):
        ms = g["ms"] or 1e-9
        rates = [f"{2e-6 * g['macs'] / ms:.1f}" if g["macs"] else "", f"{1e-6 * g['bytes'] / ms:.1f}"]
        limit = [f"{g['least'] / ms:.0%}"] if timing.limits else []
        rows.append([*kind, f"{g['nodes']:.0f}", f"{ms:.3f}", f"{ms / total:.1%}", *rates, *limit])
    text = table(header, rows, right=len(columns))
    if timing.limits:
        flops, size = (1e-9 * timing.limits[name] for name in ("flops", "bytes"))
        text += f"\n\nroofline: {flops:.0f} GFLOP/s, {size:.1f} GB/s"
        text += "; above 100%: the algorithm needs fewer operations, or the data is in a cache"
    if beside := [node["group"] for node in timing.profile if node.get("group")]:
        text += f"\n\n{len(beside)} nodes ran in parallel, in {len(set(beside))} groups, and share their group's time"
    return text + (_placement(timing) if others else "") + _choices(timing)
