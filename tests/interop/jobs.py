"""Jobs, each a folder, done by a worker in child processes: one that ends its process does not end the others."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

BATCH = 200
"""Jobs for one process."""


def run(command: Sequence[str], jobs: Sequence[Path]) -> dict[Path, str]:
    """Runs `command JOB...` until every job was tried once.

    Args:
        command: a worker that prints a line "job FOLDER" before each job. jobs: absolute folders.

    Returns:
        What ended the process, by the jobs that did.
    """
    ended: dict[Path, str] = {}
    todo = list(jobs)
    tests = Path(__file__).parents[1]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{tests}:{tests / 'suites'}"}
    while todo:
        batch = todo[:BATCH]
        done = subprocess.run(
            [*command, *map(str, batch)], capture_output=True, text=True, errors="replace", check=False, env=environment
        )
        tried = [line for line in done.stdout.splitlines() if line.startswith("job ")]
        if not tried:
            raise RuntimeError(f"{command[0]} cannot run {command[-1]}: {done.stderr[-2000:]}")
        if done.returncode:
            lines = done.stderr.strip().splitlines() or [""]
            ended[batch[len(tried) - 1]] = f"exit status {done.returncode} {lines[-1]}"[:300]
        todo = todo[len(tried) :]
    return ended
