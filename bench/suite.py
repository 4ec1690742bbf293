"""Shared by the test suites: processes for cases, which may crash them, and the table of outcomes."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

SECONDS = 60
"""Time limit for a case; one that takes longer counts as crashed."""

Outcome = tuple[str, str]
"""pass, wrong, refused, error or crash; and what was said."""


class RefusedError(Exception):
    """The runtime says that it does not take the model."""


def options(doc: str | None, backends: Iterable[str]) -> argparse.ArgumentParser:
    """What every suite is asked."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("backend", choices=list(backends))
    parser.add_argument("--json", type=Path, help="file for the outcome of every case")
    parser.add_argument("--match", default="", help="only cases whose name matches")
    parser.add_argument("--list", action="store_true", help="print what does not pass")
    return parser


def run(
    attempt: Callable[[int], Outcome], cases: Iterable[tuple[str, str]], asked: argparse.Namespace, left_out: str = ""
) -> None:
    """Runs cases, numbered from 0 and given as (name, group), and prints their outcomes.

    Args:
        left_out: an outcome that does not count.
    """
    worker = _Worker(attempt)
    begin = time.perf_counter()
    rows = []
    for i, (name, group) in enumerate(cases):
        outcome, said = worker.run(i)
        if left_out and outcome == left_out:
            continue
        rows.append({"case": name, "group": group, "outcome": outcome, "said": said})
        if asked.list and outcome != "pass":
            print(name, outcome, said, sep="\t", flush=True)
    seconds = time.perf_counter() - begin
    if asked.json:
        asked.json.write_text(json.dumps(rows, indent=1))
    print(table(rows))
    print(f"{asked.backend}: {len(rows)} cases in {seconds:.0f} s")


def table(rows: list[dict[str, str]]) -> str:
    """Outcomes by group, as Markdown."""
    columns = ("pass", "wrong", "refused", "error", "crash")
    lines = [f"| group | cases | {' | '.join(columns)} | pass % |", "|" + " --- |" * (len(columns) + 3)]
    groups = sorted({r["group"] for r in rows}, key=lambda g: -sum(r["group"] == g for r in rows))
    for group in (*groups, None):
        outcomes = Counter(r["outcome"] for r in rows if group in (r["group"], None))
        n = sum(outcomes.values())
        cells = [str(outcomes[c]) for c in columns]
        lines.append(f"| {group or 'all'} | {n} | {' | '.join(cells)} | {100 * outcomes['pass'] / max(n, 1):.1f} |")
    return "\n".join(lines)


class _Worker:
    """A process for cases, started again when one has ended it."""

    def __init__(self, attempt: Callable[[int], Outcome]) -> None:
        self._attempt = attempt
        self._process: Any = None

    def run(self, number: int) -> Outcome:
        if self._process is None:
            context = multiprocessing.get_context("fork")
            self._pipe, other = context.Pipe()
            self._process = context.Process(target=_child, args=(self._attempt, other), daemon=True)
            self._process.start()
            other.close()
        try:
            self._pipe.send(number)
            if self._pipe.poll(SECONDS):
                outcome, said = self._pipe.recv()
                return outcome, said
            outcome = "crash", f"no answer in {SECONDS} s"
        except (EOFError, OSError):
            self._process.join()
            outcome = "crash", f"exit {self._process.exitcode}"
        self._process.kill()
        self._process = None
        return outcome


def _child(attempt: Callable[[int], Outcome], pipe: Any) -> None:
    """Answers numbers of cases with their outcomes, until it is told to stop, or a case ends it."""
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    os.chdir(tempfile.mkdtemp(prefix="suite-"))  # for what a converter leaves in the folder it runs in
    while (number := pipe.recv()) is not None:
        pipe.send(attempt(number))
