"""The inputs that a user gives to compare on: arrays, `.npz` files of them, and pictures."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from minnow.runtime.session import TensorInfo, check_shape, to_array
from minnow.runtime.verify.picture import fitted, is_picture
from minnow.schema.errors import FormatError, UsageError
from minnow.schema.ir import Model
from minnow.schema.mnn.container import gathered, opened


@dataclass
class Sample:
    """The inputs of one run.

    Attributes:
        inputs: arrays by name, with the element types that the model declares.
        picture: name of the input that is a picture, whose values may also be scaled to other ranges; "" for none.
    """

    inputs: dict[str, Any]
    picture: str = ""


def samples(data: Any, model: Model, given: Mapping[str, Any]) -> list[Sample]:
    """The runs that the user asks for.

    Args:
        data: arrays by name; the path of an .npz file with them, or of a picture for the image input; or a list of
            these, one for each run.
        given: arrays for the inputs that `data` lacks.

    Raises:
        FormatError: a file cannot be read.
        UsageError: its content does not fit the inputs.
    """
    if isinstance(data, (str, os.PathLike, Mapping)):
        data = [data]
    elif not isinstance(data, Sequence):
        raise UsageError(f"data is given as {type(data).__name__}", hint="arrays by name, or the path of a file")
    found = []
    for item in data:
        picture = ""
        if isinstance(item, Mapping):
            arrays = dict(item)
        elif is_picture(path := Path(item)):
            picture, array = fitted(path, model)
            arrays = {picture: array}
        else:
            arrays = read_npz(path)
        missing = (
            "a picture is one input: give the other inputs with `inputs`, or all of them in an .npz file"
            if picture
            else ""
        )
        found.append(Sample(complete({**given, **arrays}, model, missing), picture))
    return found


def complete(arrays: Mapping[str, Any], model: Model, hint: str = "") -> dict[str, Any]:
    """Arrays for all inputs, with the types that the model declares. Raises UsageError if one is missing or unfit."""
    if missing := [n for n, t in model.user_inputs if not t.holds_tensors and n not in arrays]:
        raise UsageError(
            f"the data lacks the input '{missing[0]}'", hint=hint or "an .npz file needs one array for each input"
        )
    return {n: typed(arrays, n, model) for n, _ in model.user_inputs}


def typed(arrays: Mapping[str, Any], name: str, model: Model) -> Any:
    """The array for an input, with the type that the model declares. Raises UsageError if it does not fit."""
    container, type = opened(dict(model.user_inputs)[name], name)
    if container:
        return gathered(arrays, name, container)
    info = TensorInfo(name, type.dtype.numpy.name, type.shape)
    array = to_array(arrays[name], info)
    check_shape(array, info, name)
    return array


def read_npz(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The arrays of an .npz file. Nothing in it is executed: pickled objects are refused.

    Raises:
        FormatError: it cannot be read.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            if not hasattr(file, "files"):
                raise FormatError(
                    "the file holds a single array", where=str(path), hint="save the inputs by name with numpy.savez"
                )
            return {name: file[name] for name in file.files}
    except OSError as e:
        raise FormatError("cannot read the file", where=str(path), why=e.strerror or str(e)) from None
    except (ValueError, EOFError, zipfile.BadZipFile) as e:
        # What numpy takes for a pickle it recommends to load nevertheless.
        why = "" if "allow_pickle" in str(e) else str(e)
        hint = "save arrays, no other objects, by name with numpy.savez"
        raise FormatError("the file is not an .npz file, or damaged", where=str(path), why=why, hint=hint) from None
