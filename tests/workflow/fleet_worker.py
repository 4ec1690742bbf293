"""A run of the fleet as a program of its own, to be killed: fleet_worker.py MODELS STORE SCHEDULER JOBS."""

from __future__ import annotations

import sys
from pathlib import Path

from minnow.workflow.cell import Cell
from minnow.workflow.fleet.run import run_plan, scheduler
from minnow.workflow.fleet.work import Settings


def cells_in(folder: Path) -> list[Cell]:
    return [
        Cell(model=f"models.{p.stem}", variant="", source=str(p), output=str(folder.parent / "out" / f"{p.stem}.mnn"))
        for p in sorted(folder.glob("*.onnx"))
    ]


def main() -> None:
    models, store, on, jobs = sys.argv[1:]
    with scheduler(on, int(jobs)) as (runner, here):
        print("ready", flush=True)
        settings = Settings(store=store, jobs=here)
        results = run_plan(cells_in(Path(models)), "", settings, runner, lambda *a: print(a[1], flush=True))
    print("ended", results.counts["passed"], sum(c.cached for c in results.cells), f"{results.seconds:.3f}", flush=True)


if __name__ == "__main__":
    main()
