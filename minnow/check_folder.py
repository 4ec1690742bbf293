"""Writes a folder of inputs and expected outputs as text, with which MNN's tools check a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from minnow.options.verify import VerifyOptions
from minnow.output import write_text, writing
from minnow.runtime.verify.folder import DESCRIPTION, inside, tensor
from minnow.schema.errors import UsageError

Array = np.ndarray[Any, Any]


def write_folder(folder: Path, source: Path, options: VerifyOptions) -> dict[str, tuple[int, ...]]:
    """Writes random inputs, and the outputs of a source model for them; returns the shapes of all by name.

    The folder is created if need be. `input.json` is written last, so that a folder with it is complete.

    Raises:
        FormatError, ModelError, UnsupportedError: the source cannot be read. UnsupportedError: an input or output is
            not a tensor. WriteError: the folder cannot be written.
    """
    from minnow.converter import read
    from minnow.converter.inputs.given import Inputs
    from minnow.runtime.verify.samples import candidates
    from minnow.runtime.verify.source import open_source

    given = Inputs.of(options.inputs)
    reading = {**options.for_reader(), "inputs": given}
    batch = reading.pop("batch")
    model = read(source, options.framework, batch=batch, **reading)
    reference, _ = open_source(source, model, options.framework, **reading)
    found, refused = None, ""
    for k, candidate in enumerate(candidates(model, [options.seed])):
        try:
            found = candidate.inputs, reference.run(candidate.inputs)
            break
        except RuntimeError as e:
            refused = str(e).splitlines()[0]
        if k > 99:
            break
    if found is None:
        raise UsageError("the source model runs with none of the inputs tried", where=str(source), why=refused)
    inputs, outputs = ({n: tensor(a, n) for n, a in arrays.items()} for arrays in found)
    _make(folder)
    for name, array in {**inputs, **outputs}.items():
        path = inside(folder, f"{name}.txt")
        _make(path.parent)
        write_text(path, _text(array))
    rows = [{"name": name, "shape": list(array.shape)} for name, array in inputs.items()]
    text = json.dumps({"inputs": rows, "outputs": list(outputs)}, indent=1)
    write_text(folder / DESCRIPTION, f"{text}\n")
    return {name: array.shape for name, array in {**inputs, **outputs}.items()}


def _make(folder: Path) -> None:
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)


def _text(array: Array) -> str:
    """One number in a line. MNN reads numbers as float32, for which 9 digits are enough; integers are exact."""
    flat = array.reshape(-1)
    if flat.dtype.kind in "iub":
        return "".join(f"{int(v)}\n" for v in flat)
    return "".join(f"{v:.9g}\n" for v in flat.astype(np.float64).tolist())
