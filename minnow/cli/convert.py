"""mnnconvert convert"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from minnow.cli._option import FORMAT, MODEL_FILE, STRICT_TARGET, emit, optimizing, reading


@click.command()
@click.argument("source", type=MODEL_FILE)
@click.option("-o", "--output", type=click.Path(), help="File to write; by default SOURCE with the suffix .mnn.")
@reading
@optimizing
@STRICT_TARGET
@click.option("--verify/--no-verify", default=True, help="Run the written file and compare it with the source.")
@click.option(
    "--data", type=click.Path(), multiple=True,
    help="What to compare on instead of random inputs: an .npz file with one array per input, or a picture.",
)  # fmt: skip
@click.option(
    "--tolerance", type=click.FloatRange(0), default=None,
    help="Largest error as a fraction of the output's scale; by default 1e-4, for float16 sources 1e-2.",
)  # fmt: skip
@click.option(
    "--explain", default="", metavar="RULE[@NODE]", help="Say where a rule or pass was applied, and why not elsewhere."
)
@click.option(
    "--check-each", is_flag=True,
    help="Compare the graph with the source after every step of the optimizer, by the slow reference; exit code 4 at "
    "the first step that changes the numbers.",
)  # fmt: skip
@click.option(
    "--check-limit", type=click.FloatRange(0), default=300.0, show_default=True, metavar="SECONDS",
    help="Time for --check-each; what comes later is compared at once, at the end.",
)  # fmt: skip
@click.option("--stats", is_flag=True, help="Show what each pass did.")
@click.option("--biz-code", default="", help="Free text kept in the file.")
@click.option(
    "--side-file/--no-side-file", default=None,
    help="Put the big weights into a file of their own, OUTPUT.weight; by default only where one cannot hold them.",
)  # fmt: skip
@click.option(
    "--prepack", is_flag=True,
    help="Also write OUTPUT.packed: the weights as this kind of processor wants them, mapped at load, not packed.",
)  # fmt: skip
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
@FORMAT
def command(
    source: str, output: str | None, reading: dict[str, Any], optimizing: dict[str, Any], strict_target: bool,
    verify: bool, data: tuple[str, ...], tolerance: float | None, explain: str, check_each: bool, check_limit: float,
    stats: bool, biz_code: str, side_file: bool | None, prepack: bool, quiet: bool, format_: str,
) -> None:  # fmt: skip
    """Convert a model file to .mnn, and verify the result.

    The file appears only when everything has succeeded.
    """
    from minnow.convert import convert

    with progress_bar() as progress:
        report = convert(
            source,
            output=output,
            **reading,
            **optimizing,
            strict_target=strict_target,
            verify=verify,
            data=data,
            tolerance=tolerance,
            explain=explain,
            check_each=check_each,
            check_limit=check_limit,
            biz_code=biz_code,
            side_file=side_file,
            prepack=prepack,
            progress=progress,
        )
    if not quiet:
        emit(report, format_, lambda: _text(report, stats, explain))


def _text(report: Any, stats: bool, explain: str) -> str:
    from minnow.cli._report import effect_text, statistics_text

    rows = [str(report), "", effect_text(report.before, report.after)]
    if stats:
        rows += ["", statistics_text(report.statistics)]
    if explain:
        rows += _explained(report, *explain.partition("@")[::2])
    return "\n".join(rows)


def _explained(report: Any, name: str, node: str) -> Iterator[str]:
    """Where a rule or pass was applied, and where it was not, and why."""
    from minnow.optimizer.rewrite import rules

    if name in report.unused:
        yield f"{name}: {report.unused[name]}"
        return
    hits = report.statistics.get(name, {}).get("hits", 0)
    yield f"{name}: applied {hits:.0f} times"
    yield from (f"{rule} at {place}: applied" for rule, place in report.applied)
    yield from (f"{rule} at {place}: {reason}" for rule, place, reason in report.explained)
    if not report.applied and not report.explained and (node or not hits):
        ops = dict.fromkeys(p.op for p in rules[name].patterns) if name in rules else ()
        yield (
            f"{name}@{node}: no {' or '.join(ops) or 'node'} of that name"
            if node
            else (
                f"{name}: no {' or '.join(ops)} in the model, which it starts from" if ops else f"{name}: nothing to do"
            )
        )


@contextmanager
def progress_bar() -> Iterator[Any]:
    """A spinner with the current step on a terminal; nothing elsewhere."""
    import sys

    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("read")
        yield lambda name: bar.update(task, description=name)
