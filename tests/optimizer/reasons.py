"""Which of the reasons that rules give are ever given: every `m.no(...)` in the passes, and those that were reached."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import minnow.optimizer
from minnow.optimizer.rewrite.pattern import Match

FOLDER = Path(minnow.optimizer.__file__).resolve().parent

Place = tuple[str, int]
"""A file, and the first line of the call."""


def written() -> dict[Place, str]:
    """Every reason in the sources, with its text."""
    found = {}
    for path in sorted((FOLDER / "passes").rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "no":
                found[str(path), node.lineno] = ast.get_source_segment(source, node) or ""
    return found


@contextmanager
def collected() -> Iterator[set[Place]]:
    """Collects the reasons that are given meanwhile."""
    reached: set[Place] = set()
    no = Match.no

    def noted(self: Match, reason: str) -> Any:
        frame = sys._getframe(1)
        reached.add((str(Path(frame.f_code.co_filename).resolve()), frame.f_lineno))
        return no(self, reason)

    Match.no = noted  # type: ignore[method-assign]
    try:
        yield reached
    finally:
        Match.no = no  # type: ignore[method-assign]
