"""Writes bench/TABLE.md: time, start and memory divided by those of the peers, from the results of an external harness.

    python bench/table.py RESULTS.jsonl [--contestant minnow] [--precision fp32] [--output bench/TABLE.md]

`extra.py` makes Minnow a contestant there. A line of the results is a contestant's turn at a model: {"model",
"threads", "id", "prec", "median_ms", "ratio_to_anchor", "load_s", "first_s", "peak_rss_kb", ...}. Lines without a
time are failures, and a later line replaces an earlier one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

Row = dict[str, Any]
Rows = dict[tuple[int, str], dict[str, Row]]
"""By threads and model, then by contestant."""


def read(lines: Iterable[str], precisions: set[str]) -> Rows:
    found: Rows = {}
    for line in filter(str.strip, lines):
        row = json.loads(line)
        if row.get("prec") in precisions and row.get("median_ms") and not row.get("diff_note"):
            found.setdefault((row["threads"], row["model"]), {})[row["id"]] = row
    return dict(sorted(found.items()))


def time(row: Row) -> float:
    """In units of the anchor's, which every round of the harness measures again: drift of the machine cancels."""
    return float(row["ratio_to_anchor"])


def start(row: Row) -> float:
    """Seconds until the first result."""
    return float(row["load_s"] + row["first_s"])


def memory(row: Row) -> float:
    """Megabytes at the peak."""
    return float(row["peak_rss_kb"]) / 1e3


def table(rows: Rows, own: str) -> str:
    """As Markdown, the geometric mean of the ratios below each number of threads."""
    rows = {key: row for key, row in rows.items() if own in row and len(row) > 1}
    peers = sorted({peer for row in rows.values() for peer in row} - {own})
    ratios = [*(f"/ {p}" for p in peers), "/ best"]
    header = [f"{own} ms", *ratios, "start s", "/ best", "peak MB", "/ best"]
    lines = [f"| threads | model | {' | '.join(header)} |", f"|---|---|{'---|' * len(header)}"]
    for threads in sorted({threads for threads, _ in rows}):
        logs: dict[str, list[float]] = {name: [] for name in ratios}
        for (count, model), row in rows.items():
            if count != threads:
                continue
            others = [row[p] for p in peers if p in row]

            def over_best(measure: Callable[[Row], float], row: Row = row, others: list[Row] = others) -> float:
                return measure(row[own]) / min(map(measure, others))

            found = {f"/ {p}": time(row[own]) / time(row[p]) for p in peers if p in row} | {"/ best": over_best(time)}
            for name, ratio in found.items():
                logs[name].append(math.log(ratio))
            cells = [f"{row[own]['median_ms']:.2f}", *(f"{found[r]:.2f}" if r in found else "" for r in ratios)]
            for measure, digits in ((start, 3), (memory, 0)):
                cells += [f"{measure(row[own]):.{digits}f}", f"{over_best(measure):.2f}"]
            lines.append(f"| {threads} | {model} | {' | '.join(cells)} |")
        means = [f"**{math.exp(sum(values) / len(values)):.2f}**" if values else "" for values in logs.values()]
        lines.append(f"| {threads} | geometric mean | | {' | '.join([*means, *[''] * 4])} |")
    return "\n".join(lines)


@click.command()
@click.argument("results", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--contestant", default="minnow", show_default=True)
@click.option("--precision", default="fp32", show_default=True, help="Of the peers.")
@click.option("--output", type=click.Path(path_type=Path), default=Path(__file__).with_name("TABLE.md"))
def main(results: tuple[Path, ...], contestant: str, precision: str, output: Path) -> None:
    rows = read((line for path in results for line in path.read_text().splitlines()), set(precision.split(",")))
    if not any(contestant in row for row in rows.values()):
        raise click.ClickException(f"there is no time of '{contestant}' in {precision}")
    versions = {p: r["version"] for row in rows.values() for p, r in sorted(row.items()) if r.get("version")}
    output.write_text(
        f"# {contestant} relative to its peers, {precision}\n\nThe columns that begin with a slash are ratios, "
        f"{contestant}'s value divided by that of a peer; below 1, {contestant} is better. `{contestant} ms` is the "
        "median time of one inference, `start s` the time until the first result (loading and first inference), "
        "`peak MB` the peak memory, and `best` the best of the peers in that row. "
        "Written by `./dev bench table RESULTS.jsonl`.\n\n"
        f"Versions: {', '.join(f'{p} {v}' for p, v in versions.items())}.\n\n{table(rows, contestant)}\n"
    )
    click.echo(f"wrote {output}")


if __name__ == "__main__":
    main()
