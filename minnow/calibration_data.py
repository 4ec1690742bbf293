"""The inputs that a model is calibrated with: from a folder, a file, a function, an iterable, or random ones."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from minnow.options.calibration import CalibrationOptions, Preprocess, parsed_preprocess
from minnow.schema.errors import FormatError, MinnowError, UsageError
from minnow.schema.ir import DType

if TYPE_CHECKING:
    from minnow.schema.ir import Model

Array = npt.NDArray[Any]
Inputs = dict[str, Any]
_T = TypeVar("_T")

_ARRAYS = (".npy", ".npz")
_PICTURES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
_MEASURED = 32
"""Inputs of the calibration that results are measured with, where no `data` is given."""
_ROWS = 16
"""Samples of an array with more of them that run together, where the model takes any number."""


def calibration_inputs(options: CalibrationOptions, model: Model) -> Callable[[], Iterator[Inputs]]:
    """A function that gives the inputs, for all runs in the same order each time; an iterable is read once.

    Raises:
        UsageError: there are none.
        FormatError: a file cannot be read.
    """
    given = options.calibration
    limit = options.calibration_limit
    if isinstance(given, (str, os.PathLike)):
        text = os.fspath(given)
        path, _, function = text.rpartition(":")
        if path.endswith(".py") and function.isidentifier():
            given = list(islice(_called(path, function), limit))
        else:
            files = _files(Path(text))
            how = parsed_preprocess(options.preprocess)
            return lambda: islice(_all_of(files, model, how), limit)
    if isinstance(given, Mapping):
        given = [given]
    if isinstance(given, np.ndarray) or not isinstance(given, Iterable):
        raise UsageError(
            f"calibration is given as {type(given).__name__}", hint="what gives arrays by name, or the path of a folder"
        )
    kept = [one for item in islice(given, limit) for one in _checked(item, model, "the calibration")]
    if not kept:
        raise UsageError("the calibration gives no inputs", hint="it needs one set of inputs at least")
    return lambda: iter(kept[:limit])


def spread(inputs: Iterator[_T], count: int, most: int = _MEASURED) -> list[_T]:
    """Some of the inputs, from the first to the last: those that follow each other may show the same."""
    if count <= most:
        return list(inputs)
    wanted = {i * (count - 1) // (most - 1) for i in range(most)}
    return [one for i, one in enumerate(inputs) if i in wanted]


def _called(path: str, name: str) -> Iterator[Any]:
    from runpy import run_path

    if not Path(path).is_file():
        raise UsageError(f"there is no file '{path}'", hint="calibration is FOLDER, FILE or FILE.py:FUNCTION")
    try:
        function = run_path(path).get(name)
        if not callable(function):
            raise UsageError(f"the file has no function '{name}'", where=path)
        yield from function()
    except MinnowError:
        raise
    except Exception as e:
        raise UsageError(f"the function '{name}' fails", where=path, why=f"{type(e).__name__}: {e}") from e


def _files(path: Path) -> list[Path]:
    """The files of a folder and of those in it, by name; or the file itself."""
    if not path.exists():
        raise FormatError("there is no such file or folder", where=str(path))
    if path.is_file():
        return [path]
    from minnow.runtime.verify.folder import DESCRIPTION

    kinds = (*_ARRAYS, *_PICTURES)
    found = [p for p in path.rglob("*") if (p.suffix.lower() in kinds or p.name == DESCRIPTION) and p.is_file()]
    shown = sorted((p for p in found if not p.name.startswith(".")), key=lambda p: p.relative_to(path).parts)
    if not shown:
        raise UsageError(
            "the folder has no inputs to calibrate with",
            where=str(path),
            hint=f"pictures ({', '.join(_PICTURES)}), arrays ({', '.join(_ARRAYS)}), or folders with {DESCRIPTION}",
        )
    return shown


def _all_of(files: Iterable[Path], model: Model, how: Preprocess) -> Iterator[Inputs]:
    from minnow.runtime.verify.data import read_npz
    from minnow.runtime.verify.folder import DESCRIPTION, inputs_in
    from minnow.runtime.verify.picture import is_picture

    dtypes = {name: str(np.dtype(type.dtype.numpy)) for name, type in model.user_inputs}
    for path in files:
        if path.name == DESCRIPTION:
            item: Any = inputs_in(path.parent, dtypes)
        elif is_picture(path):
            item = _picture(path, model, how)
        elif path.suffix.lower() == ".npy":
            item = _read_npy(path)
        else:
            item = read_npz(path)
        yield from _checked(item, model, str(path))


def _read_npy(path: Path) -> Array:
    try:
        array: Array = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as e:
        raise FormatError("cannot read the array", where=str(path), why=str(e)) from None
    return array


def _picture(path: Path, model: Model, how: Preprocess) -> Inputs:
    from minnow.runtime.verify.data import complete
    from minnow.runtime.verify.picture import fitted

    height, width = how.crop
    name, array = fitted(path, model, (height, width), (how.size[0], how.size[1]) if how.size else None)
    if (how.mean, how.std, how.order) != ((0.0,), (255.0,), "rgb") and array.dtype.kind == "f":
        axis = 1 if array.ndim == 4 and array.shape[1] in (1, 3) else 0 if array.shape[0] in (1, 3) else array.ndim - 1
        shape = [1] * array.ndim
        shape[axis] = -1
        pixels = np.rint(array.astype(np.float64) * 255)
        if how.order == "bgr" and model.source != "caffe":
            pixels = np.flip(pixels, axis)
        moved = (pixels - np.reshape(how.mean, shape)) / np.reshape(how.std, shape)
        if moved.shape != array.shape:
            raise UsageError("preprocess has numbers for 3 channels, the input has 1", where=str(path))
        array = moved.astype(array.dtype)
    return complete({name: array}, model, "a picture is one input: give all of them in .npz files")


def _checked(item: Any, model: Model, where: str) -> list[Inputs]:
    """The inputs of one or more runs, of the model's types. Raises UsageError for what does not fit."""
    from minnow.runtime.verify.data import complete

    names = [name for name, _ in model.user_inputs]
    if isinstance(item, Mapping):
        arrays = {str(name): array for name, array in item.items()}
        if len(arrays) == len(names) == 1:
            arrays = {names[0]: next(iter(arrays.values()))}
    elif len(names) == 1:
        arrays = {names[0]: np.asarray(item)}
    else:
        raise UsageError(
            f"the model has {len(names)} inputs, and one array is given", where=where, hint=f"by name: {names}"
        )
    runs = []
    for part in _split(arrays, model):
        try:
            found = complete(part, model)
        except UsageError as e:
            raise UsageError(e.message, where=where, why=e.why, hint=e.hint) from None
        for name, array in found.items():
            if isinstance(array, np.ndarray) and DType.of(array.dtype).is_float:
                strange = int(array.size - np.isfinite(array.astype(np.float64)).sum())
                if strange:
                    raise UsageError(
                        f"the input '{name}' has {strange} numbers that are NaN or infinity",
                        where=where,
                        why="no range holds them",
                        hint="leave this input out, or repair it",
                    )
        runs.append(found)
    return runs


def _split(arrays: Inputs, model: Model) -> Iterator[Inputs]:
    """An array of more samples than the model takes at once, in parts: all inputs have as many."""
    types = {n: t for n, t in model.user_inputs if n in arrays and not t.holds_tensors}
    dims = [t.shape[0] if t.shape else None for t in types.values()]
    counts = {np.shape(arrays[n])[0] if np.ndim(arrays[n]) else None for n in types}
    fixed = {d for d in dims if isinstance(d, int)}
    symbols = {d for d in dims if isinstance(d, str)}
    rows = counts.pop() if len(counts) == 1 else None
    size = fixed.pop() if len(fixed) == 1 and not symbols else _ROWS if len(symbols) == 1 and not fixed else None
    same_rank = all(t.shape is not None and len(t.shape) == np.ndim(arrays[n]) for n, t in types.items())
    if not rows or not size or None in dims or not same_rank or rows <= size or (not symbols and rows % size):
        yield arrays
        return
    for i in range(0, rows, size):
        yield {n: v[i : i + size] if n in types else v for n, v in arrays.items()}


def synthetic_inputs(model: Model, count: int, run: Callable[[Inputs], Any]) -> list[Inputs]:
    """Random inputs that the model runs with.

    Args:
        count: how many; at least one is found.
        run: runs the model, or raises a MinnowError.

    Raises:
        UsageError: it runs with none.
    """
    from minnow.runtime.verify.samples import Search

    search = Search(model, range(count), lambda candidate: run(candidate.inputs), (MinnowError,))
    found: list[Inputs] = [candidate.inputs for candidate, _ in islice(search, count)]
    if not found:
        hint = "give real ones with `--calibration`"
        raise UsageError("the model runs with none of the random inputs", hint=hint, where="synthetic")
    return found
