"""Results as reports show them: relative paths, text that can be encoded, and no times where there should be none."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from minnow.workflow.result import Results

_SURROGATES = re.compile("[\ud800-\udfff]")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


def cleaned(results: Results) -> Results:
    """The results with paths below the current folder made relative and characters that UTF-8 lacks replaced.

    Results without a start (`started` is "") lose everything that differs between two runs: times, workers, numbers
    of attempts, logs, and whether a cache was used.
    """
    current, home = Path.cwd(), Path.home()
    absolute = [
        (re.compile(rf"(?<!/){re.escape(str(folder) + os.sep)}"), shown)  # not within a URL
        for folder, shown in ((current, ""), (home, "~/"))
        if folder.parent != folder
    ]

    def text(given: str) -> str:
        for path, shown in absolute:
            given = path.sub(shown, given)
        return _SURROGATES.sub("\ufffd", given)

    shown = Results.of(_mapped(results.as_dict(), text))
    return shown if results.started else _steady(shown)


def _mapped(value: Any, text: Callable[[str], str]) -> Any:
    """A JSON-ready value with all its strings mapped."""
    if isinstance(value, str):
        return text(value)
    if isinstance(value, dict):
        return {text(key): _mapped(item, text) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_mapped(item, text) for item in value]
    return value


def _steady(results: Results) -> Results:
    def without_times(cell: Any) -> Any:
        checks = tuple(replace(check, seconds=0.0) for check in cell.checks)
        return replace(cell, checks=checks, seconds={}, cached=False, attempts=1, worker="", log="")

    return replace(results, seconds=0.0, host="", cells=tuple(map(without_times, results.cells)))


def repository_path(path: str) -> str:
    """A path relative to the root of the repository, with "/" between its parts; the file's name if it is outside.

    The root is that of the CI service's checkout, or the folder with `.git`, or else the current folder.
    """
    if _URL.match(path) and not os.path.exists(path):
        return posixpath.basename(path.rstrip("/")) or path
    given = os.path.normpath(os.path.join(os.getcwd(), path))
    relative = os.path.relpath(given, _root()).replace(os.sep, "/")
    return posixpath.basename(relative) if relative.startswith("../") else relative


def _root() -> str:
    current = Path.cwd()
    named = [Path(os.environ[name]) for name in ("GITHUB_WORKSPACE", "CI_PROJECT_DIR") if os.environ.get(name)]
    marked = [folder for folder in (current, *current.parents) if (folder / ".git").exists()]
    return str(next((folder for folder in (*named, *marked) if current.is_relative_to(folder)), current))
