"""mnnconvert run"""

from __future__ import annotations

from typing import Any

import click

from minnow.cli._option import FORMAT, INPUT, MODEL_FILE, PRECISION, THREADS, TIMEOUT, emit, table


@click.command()
@click.argument("model", type=MODEL_FILE)
@click.option("--data", type=click.Path(), help="An .npz file with one array per input; random inputs without it.")
@click.option("-o", "--output", type=click.Path(), help="An .npz file for the outputs.")
@INPUT
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of random inputs.")
@click.option(
    "--max-memory",
    type=click.IntRange(1),
    default=None,
    metavar="MIB",
    help="For intermediate tensors and results; by default 512 MiB and 256 times the size of model and inputs.",
)
@click.option("--max-rounds", type=click.IntRange(1), default=None, help="Of all loops together; by default 5 million.")
@TIMEOUT
@THREADS
@PRECISION
@FORMAT
def command(
    model: str, data: str | None, output: str | None, inputs: Any, seed: int, max_memory: int | None,
    max_rounds: int | None, timeout: float | None, threads: int | None, precision: str, format_: str,
) -> None:  # fmt: skip
    """Run a .mnn file once: arrays in, arrays out."""
    from pathlib import Path

    import numpy as np

    from minnow.cli._data import write_npz
    from minnow.runtime.session import load
    from minnow.runtime.verify.data import read_npz
    from minnow.runtime.verify.samples import random_inputs
    from minnow.schema.mnn.container import flat, gathered

    memory = None if max_memory is None else max_memory << 20
    session = load(model, threads, precision, timeout, memory, max_rounds)
    given = read_npz(data) if data else random_inputs(Path(model), dict(inputs), seed)
    for info in session.inputs if data else ():
        if info.container:
            given = {k: v for k, v in given.items() if not k.startswith(f"{info.name}[")} | {
                info.name: gathered(given, info.name, info.container)
            }
    results = session.run(given)
    # The tensors of a sequence are called y[0], y[1], ... in the table and in the file; so they are in `--data`.
    outputs = {key: array for name, value in results.items() for key, array in flat(name, value)}
    if output:
        write_npz(output, outputs)
    rows: list[dict[str, Any]] = []
    for name, array in outputs.items():
        numbers = array.astype(np.float64) if array.size else np.zeros(1)
        row = {"name": name, "dtype": str(array.dtype), "shape": list(array.shape)}
        rows.append(row | {"min": float(numbers.min()), "max": float(numbers.max()), "mean": float(numbers.mean())})
    emit(rows, format_, lambda: table(["output", "dtype", "shape", "min", "max", "mean"], [
        [r["name"], r["dtype"], "x".join(map(str, r["shape"])), *(f"{r[k]:.6g}" for k in ("min", "max", "mean"))]
        for r in rows
    ], right=3))  # fmt: skip
