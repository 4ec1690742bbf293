"""Writes bench/TABLE.md: Minnow's time over that of its peers, from the results of the harness that `extra.py` feeds.

    python bench/table.py RESULTS.jsonl [--contestant minnow] [--output bench/TABLE.md]

A line of the results is a contestant's time for a model: {"model", "threads", "id", "prec", "median_ms"}; lines without
a time are failures, and a later line replaces an earlier one. Times of one line of the table come from one run.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path

import click


def times(lines: Iterable[str], precision: str) -> dict[tuple[int, str], dict[str, float]]:
    """Median milliseconds by threads and model, then by contestant."""
    found: dict[tuple[int, str], dict[str, float]] = {}
    for line in lines:
        if not line.strip():
            continue
        row = json.loads(line)
        if row.get("prec") == precision and row.get("median_ms") and not row.get("diff_note"):
            found.setdefault((row["threads"], row["model"]), {})[row["id"]] = row["median_ms"]
    return found


def table(found: dict[tuple[int, str], dict[str, float]], own: str) -> str:
    """Ratios as a Markdown table, the geometric mean of each column below."""
    rows = {key: row for key, row in sorted(found.items()) if own in row}
    peers = sorted({peer for row in rows.values() for peer in row} - {own})
    lines = [
        f"| threads | model | {own} ms | {' | '.join(f'/ {p}' for p in peers)} |",
        f"|---|---|---|{'---|' * len(peers)}",
    ]
    for threads in sorted({threads for threads, _ in rows}):
        columns: dict[str, list[float]] = {p: [] for p in peers}
        for (count, model), row in rows.items():
            if count != threads:
                continue
            for peer in peers:
                if peer in row:
                    columns[peer].append(row[own] / row[peer])
            cells = [f"{row[own] / row[p]:.2f}" if p in row else "" for p in peers]
            lines.append(f"| {threads} | {model} | {row[own]:.2f} | {' | '.join(cells)} |")
        means = [f"**{math.exp(sum(map(math.log, c)) / len(c)):.2f}**" if c else "" for c in columns.values()]
        lines.append(f"| {threads} | geometric mean | | {' | '.join(means)} |")
    return "\n".join(lines)


@click.command()
@click.argument("results", type=click.Path(exists=True, path_type=Path))
@click.option("--contestant", default="minnow", show_default=True)
@click.option("--precision", default="fp32", show_default=True)
@click.option("--output", type=click.Path(path_type=Path), default=Path(__file__).with_name("TABLE.md"))
def main(results: Path, contestant: str, precision: str, output: Path) -> None:
    found = times(results.read_text().splitlines(), precision)
    if not any(contestant in row for row in found.values()):
        raise click.ClickException(f"{results} has no time of '{contestant}' in {precision}")
    output.write_text(
        f"# Time of {contestant} over that of its peers, {precision}\n\nBelow 1 it is faster. Written by `./dev bench "
        f"table RESULTS.jsonl`; see README.md for how to read such numbers.\n\n{table(found, contestant)}\n"
    )
    click.echo(f"wrote {output}")


if __name__ == "__main__":
    main()
