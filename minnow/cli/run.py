"""mnnconvert run"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from minnow.cli._option import FORMAT, MNN_FILE, Command, emit, options, table

if TYPE_CHECKING:
    from minnow.options.run import RunCommand


@click.command(cls=Command)
@click.argument("model", type=MNN_FILE)
@options("run.RunCommand")
@FORMAT
def command(model: str, options: RunCommand, format_: str) -> None:
    """Run a .mnn file once, with given or random inputs."""
    from pathlib import Path

    import numpy as np

    from minnow.cli._data import write_npz
    from minnow.cli._log import step
    from minnow.options.run import LoadOptions
    from minnow.runtime.session import load
    from minnow.runtime.verify.data import read_npz
    from minnow.runtime.verify.samples import random_inputs
    from minnow.schema.mnn.container import flat, gathered

    with step(f"load {model}"):
        session = load(model, **vars(options.only(LoadOptions)))
    given = read_npz(options.data) if options.data else random_inputs(Path(model), options.inputs or {}, options.seed)
    for info in session.inputs if options.data else ():
        if info.container:
            given = {k: v for k, v in given.items() if not k.startswith(f"{info.name}[")} | {
                info.name: gathered(given, info.name, info.container)
            }
    with step("run"):
        results = session.run(given)
    # The tensors of a sequence are called y[0], y[1], ... in the table and in .npz files, also those for --data.
    outputs = {key: array for name, value in results.items() for key, array in flat(name, value)}
    if options.output:
        write_npz(options.output, outputs)
    rows: list[dict[str, Any]] = []
    for name, array in outputs.items():
        numbers = array.astype(np.float64) if array.size else np.zeros(1)
        row = {"name": name, "dtype": str(array.dtype), "shape": list(array.shape)}
        rows.append(row | {"min": float(numbers.min()), "max": float(numbers.max()), "mean": float(numbers.mean())})
    emit(rows, format_, lambda: table(["output", "dtype", "shape", "min", "max", "mean"], [
        [r["name"], r["dtype"], "x".join(map(str, r["shape"])), *(f"{r[k]:.6g}" for k in ("min", "max", "mean"))]
        for r in rows
    ], right=3))  # fmt: skip
