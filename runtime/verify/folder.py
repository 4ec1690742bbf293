"""The folders with which MNN's tools check a model: inputs, and the outputs that are expected for them, as text.

    DIR/input.json      {"inputs": [{"name": "x", "shape": [1, 3], "value": 0.5}], "outputs": ["y"]}
    DIR/x.txt           the numbers of an input without a "value", separated by white space
    DIR/y.txt           those of an output; or DIR/0.txt by its position among the outputs

`value` is one number for all elements, or a list. A name with slashes is a path in the folder.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from minnow.schema.errors import FormatError, ModelError, UnsupportedError, UsageError

if TYPE_CHECKING:
    from minnow.options.run import RunOptions
    from minnow.runtime.verify.verification import Verification

Array = np.ndarray[Any, Any]

_LEAST_SCALE = 1e-4
"""An output whose largest magnitude is smaller is compared as if it were this."""
_MOST_ELEMENTS = 1 << 31

DESCRIPTION = "input.json"


@dataclass
class _Given:
    """What a folder says of an input."""

    name: str
    shape: tuple[int, ...]
    value: Any = None


def check(folder: Path, model: Path, tolerance: float, options: RunOptions) -> Verification:
    """Runs a `.mnn` file on the inputs of a folder, and compares its outputs with those in the folder.

    An output passes if no error is larger than `tolerance` times the largest magnitude of what is
    expected, at least 1e-4, as in MNN's converter; an output of the folder without a file is not compared.

    Raises:
        FormatError: the folder or the model cannot be read. UsageError: the folder does not fit the model.
    """
    from minnow.runtime.session import load
    from minnow.runtime.verify.verification import Case, Verification

    given, names = _description(folder)
    session = load(model, **vars(options))
    inputs = _inputs(folder, given, {info.name: info.dtype for info in session.inputs})
    outputs = {info.name: info for info in session.outputs}
    if unknown := [name for name in names if name not in outputs]:
        why = f"its outputs are {', '.join(outputs)}"
        raise UsageError(f"the model has no output '{unknown[0]}'", where=str(folder / DESCRIPTION), why=why)
    wanted = {name: _found(folder, name, k) for k, name in enumerate(names or list(outputs))}
    missing = [name for name, path in wanted.items() if path is None]
    if len(missing) == len(wanted):
        why = f"there is neither {missing[0]}.txt nor 0.txt" if missing else "the model has no outputs"
        raise FormatError("the folder has no expected output", where=str(folder), why=why)
    case = Case({name: array.shape for name, array in inputs.items()})
    note = f"not compared, since the folder does not have them: {', '.join(missing)}" if missing else ""
    out = Verification(str(folder), str(model), "the numbers in the folder", [case], note)
    try:
        results = session.run(inputs)
    except (ModelError, UnsupportedError) as e:
        case.error = str(e)
        return out
    for name, path in wanted.items():
        if path is not None:
            got = tensor(results[name], name).astype(np.float64)
            case.outputs.append(_compared(name, got, _numbers(path, "float64"), tolerance))
    return out


def _compared(name: str, got: Array, want: Array, tolerance: float) -> Any:
    """The comparison by MNN's rule. Text has no shape: that of the result counts."""
    from minnow.runtime.verify.comparison import compare

    want = want.reshape(got.shape) if want.size == got.size else want
    found = compare(name, got, want, tolerance, floor=tolerance * _LEAST_SCALE)
    if not np.isfinite(got).all() and found.passed:
        found.passed, found.reason = False, "it has NaN or infinite elements, which MNN's converter never accepts"
    return found


def lines(verification: Verification) -> list[str]:
    """The lines of MNN's converter about a check: one for each wrong output, or that all is right."""
    found = [f"TESTERROR {case.error.splitlines()[0]}" for case in verification.cases if case.error]
    for case in verification.cases:
        for o in case.outputs:
            if not o.passed:
                sizes = f"absMaxV:{max(o.scale, _LEAST_SCALE):f} - DiffMax {o.max_abs:f}"
                found.append(f"TESTERROR {o.name} value error : {o.reason or sizes}")
    return found or ["TEST_SUCCESS"]


def tensor(value: Any, name: str) -> Array:
    """The array of an input or output. Raises UnsupportedError if it is a sequence."""
    if not isinstance(value, np.ndarray) and not np.isscalar(value):
        raise UnsupportedError(f"'{name}' is not a tensor", hint="a folder of text files has tensors only")
    return np.asarray(value)


def _description(folder: Path) -> tuple[list[_Given], list[str]]:
    path = folder / DESCRIPTION
    try:
        table = json.loads(path.read_text(encoding="utf-8-sig"))
        rows = [_Given(str(r["name"]), tuple(map(int, r["shape"])), r.get("value")) for r in table["inputs"]]
        names = [str(name) for name in table.get("outputs", ())]
    except OSError as e:
        raise FormatError("cannot read the file", where=str(path), why=e.strerror or str(e)) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        why = f"{type(e).__name__}: {str(e)[:200]}"
        hint = '{"inputs": [{"name": "x", "shape": [1, 3]}], "outputs": ["y"]} is the form'
        raise FormatError("the description of the folder is invalid", where=str(path), why=why, hint=hint) from None
    for row in rows:
        if any(d < 0 for d in row.shape) or math.prod(row.shape) > _MOST_ELEMENTS:
            raise FormatError(f"the input '{row.name}' has the shape {list(row.shape)}", where=str(path))
    return rows, names


def inputs_in(folder: Path, dtypes: Mapping[str, str]) -> dict[str, Array]:
    """The inputs in a folder, by name.

    Args:
        folder: with `input.json`.
        dtypes: the element types of the inputs that the model has.

    Raises:
        FormatError: the folder cannot be read. UsageError: it does not fit the model.
    """
    return _inputs(folder, _description(folder)[0], dtypes)


def _inputs(folder: Path, given: Sequence[_Given], dtypes: Mapping[str, str]) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for row in given:
        if row.name not in dtypes:
            why = f"its inputs are {', '.join(dtypes)}"
            raise UsageError(f"the model has no input '{row.name}'", where=str(folder / DESCRIPTION), why=why)
        dtype = dtypes[row.name]
        count = math.prod(row.shape)
        if row.value is None:
            path = inside(folder, f"{row.name}.txt")
            flat = _numbers(path, dtype)
        else:
            path = folder / DESCRIPTION
            flat = _typed(row.value if isinstance(row.value, list) else [row.value] * count, dtype, path)
        if flat.size != count:
            why = f"there are {flat.size} numbers for the shape {list(row.shape)}"
            raise FormatError(f"the values of the input '{row.name}' do not fit its shape", where=str(path), why=why)
        found[row.name] = flat.reshape(row.shape)
    return found


def _found(folder: Path, name: str, position: int) -> Path | None:
    """The file of an output, by name or position; None if there is neither."""
    paths = (inside(folder, f"{name}.txt"), folder / f"{position}.txt")
    return next((path for path in paths if path.is_file()), None)


def inside(folder: Path, name: str) -> Path:
    """The path of a file in the folder. Raises FormatError if it is elsewhere."""
    path = folder / name
    if "\0" in name or folder.resolve() not in path.resolve().parents:
        raise FormatError(f"the name '{name}' is that of a file outside of the folder", where=str(folder))
    return path


def _numbers(path: Path, dtype: str) -> Array:
    """All numbers of a text file."""
    try:
        return _typed(path.read_text(encoding="utf-8").split(), dtype, path)
    except OSError as e:
        raise FormatError("cannot read the file", where=str(path), why=e.strerror or str(e)) from None
    except UnicodeDecodeError as e:
        raise FormatError("the file is not text", where=str(path), why=str(e)) from None


def _typed(values: Sequence[Any], dtype: str, path: Path) -> Array:
    kind = np.dtype(dtype) if dtype != "bfloat16" else np.dtype(np.float32)
    try:
        if kind.kind in "iu":
            try:
                return np.asarray([int(v) for v in values], kind)  # exact, also beyond 2^53
            except ValueError:
                pass
        numbers = np.asarray(values, np.float64).reshape(-1)
    except (ValueError, TypeError, OverflowError) as e:
        raise FormatError("the file does not hold numbers", where=str(path), why=str(e)[:200]) from None
    with np.errstate(all="ignore"):
        typed = numbers.astype(kind)
    if kind.kind in "iu" and not np.array_equal(typed.astype(np.float64), numbers):
        raise FormatError(f"the file holds numbers that are not of type {dtype}", where=str(path))
    return typed
