"""GitHub: annotations as workflow commands, the summary of the job, and outputs of the step."""

from __future__ import annotations

import os
from collections import Counter
from typing import TextIO

from minnow.output import append_text
from minnow.report.formats import report
from minnow.report.formats._finding import LEVELS, Finding, findings
from minnow.report.formats._text import clipped, plain
from minnow.report.formats.md import headline, markdown
from minnow.workflow.result import Results
from minnow.workflow.rule import Level

PER_STEP = 10
"""The annotations of each level that GitHub shows for one step."""

_COMMANDS: dict[Level, str] = {"error": "error", "warning": "warning", "note": "notice"}


def _deliver(results: Results, text: str, stream: TextIO) -> None:
    """Prints the annotations, and appends to the files that GitHub names in the environment.

    Raises:
        WriteError: these files cannot be written.
    """
    stream.write(text)
    stream.flush()
    if path := os.environ.get("GITHUB_STEP_SUMMARY"):
        append_text(path, markdown(results) + "\n")
    if path := os.environ.get("GITHUB_OUTPUT"):
        rows = [f"{status}={count}" for status, count in results.counts.items()]
        append_text(path, "\n".join([*rows, f"exit-code={results.exit_code}", ""]))


@report("github", "annotations and a job summary, in a workflow of GitHub Actions", deliver=_deliver)
def github(results: Results) -> str:
    """Workflow commands, the worst first: as many as GitHub shows, and a line that tells how many are left out."""
    found = findings(results)
    lines: list[str] = []
    left: Counter[Level] = Counter()
    for level in LEVELS:
        those = [f for f in found if f.level == level]
        lines += [_command(f) for f in those[:PER_STEP]]
        left[level] = max(len(those) - PER_STEP, 0)
    if any(left.values()):
        named = ", ".join(f"{count} {_COMMANDS[level]}s" for level, count in left.items() if count)
        lines.append(
            f"{headline(results)}. Not shown as annotations, of which GitHub shows {PER_STEP} of each kind: {named}"
        )
    return "".join(f"{line}\n" for line in lines)


def _command(found: Finding) -> str:
    message = found.text
    if found.check.nodes:
        more = len(found.check.nodes) - 5
        message += f"\nNodes: {', '.join(found.check.nodes[:5])}" + (f", and {more} more" if more > 0 else "")
    if found.rule.help and found.level != "note":
        message += f"\n{found.rule.help}"
    place = f"file={_property(found.path)},line={found.line},title={_property(clipped(found.title, 200))}"
    return f"::{_COMMANDS[found.level]} {place}::{_data(clipped(message, 2_000))}"


def _data(text: str) -> str:
    return plain(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
