"""mnnconvert verify"""

from __future__ import annotations

from typing import Any

import click

from minnow.cli._option import FORMAT, MODEL_FILE, PRECISION, THREADS, emit, reading


@click.command()
@click.argument("source", type=MODEL_FILE)
@click.argument("model", type=MODEL_FILE)
@reading
@click.option("--data", type=click.Path(), multiple=True, help="An .npz file with one array per input, to compare on.")
@click.option("--runs", type=click.IntRange(1), default=3, show_default=True, help="Random inputs to compare on.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the first run.")
@click.option(
    "--tolerance", type=click.FloatRange(0), default=None,
    help="Largest error as a fraction of the output's scale; by default 1e-4, for float16 sources 1e-2, "
    "with --precision low 5e-2.",
)  # fmt: skip
@THREADS
@PRECISION
@FORMAT
def command(
    source: str, model: str, reading: dict[str, Any], data: tuple[str, ...], runs: int, seed: int,
    tolerance: float | None, threads: int | None, precision: str, format_: str,
) -> int:  # fmt: skip
    """Compare a .mnn file with the model it was made from."""
    from minnow.cli._data import read_npz
    from minnow.runtime.verify import verify
    from minnow.schema.errors import VerifyError

    result = verify(
        source,
        model,
        **reading,
        data=[read_npz(path) for path in data],
        seeds=range(seed, seed + runs),
        tolerance=tolerance,
        threads=threads,
        precision=precision,
    )
    emit(result, format_)
    return 0 if result.passed else VerifyError.exit_code
