"""Receipts: what an output was made of, in a file beside it, so that it can be checked without a conversion.

A receipt has hashes, options and versions, and neither times nor absolute paths: with the same packages, the same
conversion gives the same receipt on any machine, so that it can be committed with its output. `stale` compares it with
the files and options of today.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import minnow
from minnow.schema.errors import MinnowError
from minnow.workflow.cell import Cell
from minnow.workflow.key import FileHashes, canonical_options, source_files, take_files
from minnow.workflow.result import CellResult, Check
from minnow.workflow.rule import RULES

SUFFIX = ".receipt.json"
"""What follows the name of the output."""
SCHEMA = 1
COMPANIONS = (".weight", ".packed")
"""What the name of an output can be followed by: its companion files."""

_OF_MACHINE = ("latency", "max_error")
"""Metrics that differ between machines."""


def receipt_path(output: Path) -> Path:
    """Where the receipt of an output is."""
    return output.with_name(output.name + SUFFIX)


def receipt_of(cell: Cell, result: CellResult, source: Path, output: Path, hashes: FileHashes) -> str:
    """The text of a receipt.

    Args:
        cell, result: the conversion, which has succeeded. source, output: the files of it.

    Raises:
        FormatError: a file cannot be read.
    """
    outputs = {suffix: _file(output.with_name(output.name + suffix), hashes) for suffix in ("", *COMPANIONS)}
    document = {
        "schema": SCHEMA,
        "minnow": minnow.__version__,
        **inputs_of(cell, source, hashes),
        "output": {suffix: file for suffix, file in outputs.items() if file is not None},
        "verification": _verification(result),
        "metrics": {name: value for name, value in result.metrics.items() if name not in _OF_MACHINE},
    }
    return json.dumps(document, indent=2, sort_keys=True, allow_nan=False) + "\n"


def inputs_of(cell: Cell, source: Path, hashes: FileHashes) -> dict[str, Any]:
    """What an output depends on, besides the version: hashes of sources and data, options.

    Raises:
        FormatError: a file is missing or cannot be read. UsageError: an option is out of range.
    """
    options = canonical_options(cell.options)
    sources = source_files(source, options)
    data = take_files(options, hashes)
    return {
        "sources": {name: hashes.of(path) if path is not None else None for name, path in sources.items()},
        "data": data,
        "options": options,
    }


def check_fresh(cell: Cell, hashes: FileHashes | None = None) -> CellResult:
    """Whether the output of a cell belongs to its sources and options as they are now; nothing is converted."""
    result = CellResult(
        model=cell.model, variant=cell.variant, source=cell.source, output=cell.output, checks=(), place=cell.place,
        cached=True,
    )  # fmt: skip
    if cell.excluded:
        return replace(result, checks=(Check("fresh", "skipped", message=cell.excluded),), cached=False)
    rule = RULES["stale-output"].name
    checks = tuple(Check("fresh", "failed", rule, why) for why in stale(cell, hashes or FileHashes()))
    return replace(result, checks=checks or _fresh(cell), cached=not checks)


def stale(cell: Cell, hashes: FileHashes) -> Iterator[str]:
    """The reasons why the output of a cell is not fresh; nothing if it is."""
    output = Path(cell.output)
    if not output.is_file():
        yield f"{cell.output} does not exist"
        return
    path = receipt_path(output)
    try:
        receipt = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(receipt, dict) or receipt.get("schema") != SCHEMA:
            yield f"{path} is not a receipt of this version of Minnow"
            return
    except FileNotFoundError:
        yield f"{path} does not exist: the output was not made by `mnnconvert ci`"
        return
    except (OSError, ValueError):
        yield f"{path} is damaged"
        return
    if receipt.get("minnow") != minnow.__version__:
        yield f"it was made by Minnow {receipt.get('minnow')}; this is {minnow.__version__}"
    try:
        if "://" in cell.source:
            now = {"options": _without_files(canonical_options(cell.options))}
        else:
            now = inputs_of(cell, Path(cell.source), hashes)
    except MinnowError as e:
        yield f"{e.message}: {e.where}" if e.where else e.message
        return
    for what, word in (("sources", "source file"), ("data", "data of the option"), ("options", "option")):
        if what in now:
            yield from _changes(word, receipt.get(what), now[what], cell.source if what == "sources" else "")
    yield from _edited(output, receipt.get("output"), hashes)


def _changes(word: str, was: Any, now: Mapping[str, Any], own: str) -> Iterator[str]:
    was = was if isinstance(was, Mapping) else {}
    for name in sorted({*was, *now}):
        shown = f"{word} {name}" if name else f"source {own}"
        if name not in was:
            yield f"the {shown} is new" + (f": {_said(now[name])}" if word == "option" else "")
        elif name not in now:
            yield f"the {shown} is gone" + (f"; it was {_said(was[name])}" if word == "option" else "")
        elif was[name] != now[name]:
            yield f"the {shown} has changed" + (
                f" from {_said(was[name])} to {_said(now[name])}" if word == "option" else ""
            )


def _edited(output: Path, was: Any, hashes: FileHashes) -> Iterator[str]:
    was = was if isinstance(was, Mapping) else {}
    for suffix in ("", *COMPANIONS):
        path = output.with_name(output.name + suffix)
        file = _file(path, hashes)
        known = was.get(suffix)
        if file is None and known is not None:
            yield f"{path} does not exist"
        elif file is not None and known is not None and file != known:
            yield f"{path} has been edited since it was made"
        elif file is not None and known is None and not suffix:
            yield f"the receipt does not name {path}"


def _file(path: Path, hashes: FileHashes) -> dict[str, Any] | None:
    return {"sha256": hashes.of(path), "bytes": path.stat().st_size} if path.is_file() else None


def _verification(result: CellResult) -> dict[str, Any] | None:
    """Which outputs were compared with what; None without verification."""
    if not result.reference:
        return None
    outputs = {c.name.partition(":")[2]: c.status for c in result.checks if c.name.startswith("verify:")}
    return {
        "reference": result.reference,
        "outputs": {name: "inconclusive" if status == "warning" else status for name, status in outputs.items()},
    }


def _fresh(cell: Cell) -> tuple[Check, ...]:
    note = "the source at the URL was not compared" if "://" in cell.source else ""
    return (Check("fresh", "passed", "notice" if note else "", note),)


def _without_files(options: Mapping[str, Any]) -> dict[str, Any]:
    from minnow.options.convert import ConvertOptions
    from minnow.options.option import file_options

    files = file_options(ConvertOptions)
    return {name: value for name, value in options.items() if name not in files}


def _said(value: Any) -> str:
    return json.dumps(value)
