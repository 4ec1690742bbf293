"""mnnconvert optimize"""

from __future__ import annotations

from typing import Any

import click

from minnow.cli._option import FORMAT, MODEL_FILE, STRICT_TARGET, emit, optimizing


@click.command()
@click.argument("model", type=MODEL_FILE)
@click.option("-o", "--output", type=click.Path(), required=True, help="File to write.")
@optimizing
@STRICT_TARGET
@click.option("--verify/--no-verify", default=True, help="Run the new file and the old one and compare them.")
@click.option("--stats", is_flag=True, help="Show what each pass did.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
@FORMAT
def command(
    model: str, output: str, optimizing: dict[str, Any], strict_target: bool, verify: bool, stats: bool, quiet: bool,
    format_: str,
) -> None:  # fmt: skip
    """Optimize a .mnn file again, or a model of any other format.

    The file appears only when the engine has given the same numbers for it as for MODEL.
    """
    from minnow.cli._report import effect_text, statistics_text
    from minnow.cli.convert import progress_bar
    from minnow.convert import convert

    with progress_bar() as progress:
        report = convert(
            model, output=output, **optimizing, strict_target=strict_target, verify=verify, progress=progress
        )

    def text() -> str:
        parts = [str(report), effect_text(report.before, report.after)]
        return "\n\n".join([*parts, statistics_text(report.statistics)] if stats else parts)

    if not quiet:
        emit(report, format_, text)
