"""The two small files that flags of MNN's converter name: shapes of inputs, and how a check is run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from minnow.schema.errors import FormatError, UnsupportedError, UsageError

_PRECISIONS = {0: "high", 1: "high", 2: "low", 3: "low"}
"""By MNN's numbers: normal (which on a CPU is float32), high, low, low with bfloat16."""
_NOTED = ("memory", "power", "hints")
_CPU = 0
_KNOWN = ("backend", "mode", "precision", *_NOTED)


def input_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """The shapes that the file of `--inputConfigFile` gives to inputs by name.

    Raises:
        FormatError: the file cannot be read. UsageError: names and shapes do not fit together.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as e:
        raise FormatError("cannot read the file", where=str(path), why=str(e)) from None
    rows = [line.partition("=") for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    values = {key.strip(): value.strip() for key, equals, value in rows if equals}
    known = ("input_size", "input_names", "input_dims")
    hint = "the form is: input_names = a,b and input_dims = 1x3x224x224,1x8, each on a line of its own"
    if unknown := [key.strip() for key, equals, _ in rows if not equals or key.strip() not in known]:
        raise UsageError(f"the line '{unknown[0][:80]}' is unknown", where=str(path), hint=hint)
    names = [name.strip() for name in values.get("input_names", "").split(",") if name.strip()]
    dims = [text.strip() for text in values.get("input_dims", "").split(",") if text.strip()]
    try:
        shapes = [tuple(int(d) for d in text.split("x")) for text in dims]
        size = int(values.get("input_size", len(names)))
    except ValueError as e:
        raise UsageError("a number is invalid", where=str(path), why=str(e), hint=hint) from None
    if not len(names) == len(shapes) == size or not names:
        why = f"{size} inputs, {len(names)} names, {len(shapes)} shapes"
        raise UsageError("names and shapes do not fit together", where=str(path), why=why, hint=hint)
    return dict(zip(names, shapes, strict=True))


def check_options(path: Path) -> tuple[dict[str, Any], list[str]]:
    """What the file of `--testconfig` says of a run: options of a session, and notes on what it says in vain.

    Raises:
        FormatError: the file cannot be read. UnsupportedError: the check is to run on another device.
    """
    try:
        table = json.loads(path.read_text(encoding="utf-8-sig"))
        if not isinstance(table, dict):
            raise ValueError("it is not an object")
        numbers = {key: int(table[key]) for key in ("backend", "mode", "precision") if key in table}
    except (OSError, ValueError, TypeError, RecursionError) as e:
        raise FormatError("cannot read the configuration of the check", where=str(path), why=str(e)) from None
    if unknown := [key for key in table if key not in _KNOWN]:
        raise UsageError(f"the key '{unknown[0][:80]}' is unknown", where=str(path), hint=f"keys: {', '.join(_KNOWN)}")
    if numbers.get("backend", _CPU) != _CPU:
        why = f"backend {numbers['backend']} of MNN"
        hint = "`mnnconvert verify MODEL --testdir DIR --device cuda` checks on another device"
        raise UnsupportedError("the check runs on the CPU only", where=str(path), why=why, hint=hint)
    if numbers.get("precision", 1) not in _PRECISIONS:
        raise UsageError(f"the precision is {numbers['precision']}", where=str(path), hint="0 to 3")
    options: dict[str, Any] = {"precision": _PRECISIONS[numbers.get("precision", 1)]}
    if "mode" in numbers:
        options["threads"] = max(1, numbers["mode"])
    notes = [f"{key} of --testconfig does not change the result of a check" for key in _NOTED if key in table]
    return options, notes
