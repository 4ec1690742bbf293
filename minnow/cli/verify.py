"""mnnconvert verify"""

from __future__ import annotations

from typing import Any

import click

from minnow.cli._option import FORMAT, MODEL_FILE, PRECISION, THREADS, TIMEOUT, emit, reading


@click.command()
@click.argument("source", type=MODEL_FILE)
@click.argument("model", type=MODEL_FILE)
@reading
@click.option(
    "--data", type=click.Path(), multiple=True,
    help="What to compare on instead of random inputs: an .npz file with one array per input, or a picture.",
)  # fmt: skip
@click.option("--runs", type=click.IntRange(1), default=3, show_default=True, help="Random inputs to compare on.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the first run.")
@click.option(
    "--tolerance", type=click.FloatRange(0), default=None,
    help="Largest error as a fraction of the output's scale; by default 1e-4, for float16 sources 1e-2, "
    "with --precision low 5e-2.",
)  # fmt: skip
@click.option("--strict", is_flag=True, help="Exit code 4 where the verdict is inconclusive, too.")
@TIMEOUT
@THREADS
@PRECISION
@FORMAT
def command(
    source: str, model: str, reading: dict[str, Any], data: tuple[str, ...], runs: int, seed: int,
    tolerance: float | None, strict: bool, timeout: float | None, threads: int | None, precision: str,
    format_: str,
) -> int:  # fmt: skip
    """Compare a .mnn file with the model it was made from.

    The verdict is PASS, FAIL (exit code 4), or INCONCLUSIVE where nothing is wrong, but no run has made the model give
    numbers that could have been: compare on real input then, with --data.
    """
    from minnow.runtime.verify import verify
    from minnow.schema.errors import VerifyError

    result = verify(
        source,
        model,
        **reading,
        data=data,
        seeds=range(seed, seed + runs),
        tolerance=tolerance,
        timeout=timeout,
        threads=threads,
        precision=precision,
    )
    emit(result, format_)
    bad = ("fail", "inconclusive") if strict else ("fail",)
    return VerifyError.exit_code if result.verdict in bad else 0
