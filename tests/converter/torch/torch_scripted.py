"""TorchScript modules and functions, scripted or traced, beside what Minnow makes of them: several runs in a row."""

from __future__ import annotations

import copy
import io
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_oracle import difference, flat, numpy_of

import minnow
from minnow.converter.torch.program.child import dump
from minnow.converter.torch.program.program import Program
from minnow.converter.torch.program.script import program_of
from minnow.converter.torch.reader import translate
from minnow.optimizer import optimize
from minnow.schema.ir import DType, Model, TensorType
from minnow.schema.mnn import encode

Array = np.ndarray[Any, Any]


def named(name: str, x: Any) -> Iterator[tuple[str, Any]]:
    """The tensors and numbers in an argument, under the names that the inputs have."""
    if isinstance(x, (list, tuple)):
        for i, part in enumerate(x):
            yield from named(f"{name}.{i}", part)
    elif isinstance(x, dict):
        for key, part in x.items():
            yield from named(f"{name}.{key}", part)
    elif isinstance(x, (torch.Tensor, bool, int, float)):
        yield name, x


def program_and_names(
    scripted: Any, args: Sequence[Any], dynamic_axes: Sequence[int] = ()
) -> tuple[Program, list[str]]:
    """The program of a module or function of TorchScript, its inputs having the types of the arguments.

    Args:
        dynamic_axes: these dimensions are not known, of all inputs that have them.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.pt"
        torch.jit.save(scripted, str(path))
        numbers = io.BytesIO()
        document = dump(str(path), numbers)
        names = [a["name"] for a in document["arguments"]]
        tensors = {n: x for name, a in zip(names, args, strict=False) for n, x in named(name, a)
                   if isinstance(x, torch.Tensor)}  # fmt: skip
        shapes = {
            n: tuple(f"{n}_{i}" if i in dynamic_axes else d for i, d in enumerate(x.shape)) for n, x in tensors.items()
        }
        program = program_of(path, document, np.frombuffer(numbers.getvalue(), np.uint8), shapes)
    for i in program.inputs:
        if i.type is not None:
            i.type = TensorType(DType.of(numpy_of(tensors[i.name]).dtype), shapes[i.name])
    return program, names


def converted(source: Any, args: Sequence[Any], dynamic_axes: Sequence[int] = ()) -> tuple[Model, list[str]]:
    """The model of a module or function, scripted where it is not yet, and the names of its arguments."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripted = (
            source
            if isinstance(source, (torch.jit.ScriptModule, torch.jit.ScriptFunction))
            else torch.jit.script(source)
        )
        program, names = program_and_names(scripted, args, dynamic_axes)
    return translate(program, "test"), names


def ends(model: Model) -> tuple[list[str], list[str]]:
    """The inputs and outputs that are no states."""
    states = {name for s in model.states for name in (s.input, s.output)}
    return [n for n, _ in model.inputs if n not in states], [n for n, _ in model.outputs if n not in states]


def same(
    source: Any,
    *runs: Sequence[Any],
    dynamic_axes: Sequence[int] = (),
    tolerance: float = 2e-5,
    off: Callable[[Array, Array], float] = difference,
) -> Model:
    """Runs in a row give what PyTorch gives; the first one says which types the inputs have."""
    eager = copy.deepcopy(source) if isinstance(source, torch.nn.Module) else source
    model, names = converted(source, runs[0], dynamic_axes)
    inputs, outputs = ends(model)
    optimize(model)
    session = minnow.load(encode(model), threads=1)
    for k, args in enumerate(runs):
        given = {n: numpy_of(x) for name, a in zip(names, args, strict=False) for n, x in named(name, a)}
        results = session.run({n: given[n] for n in inputs})
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            want = flat(eager(*copy.deepcopy(args)))
        got = [results[n] for n in outputs]
        assert len(got) == len(want), f"run {k}: {len(got)} results, not {len(want)}"
        for i, (g, w) in enumerate(zip(got, want, strict=True)):
            assert off(g, w) <= tolerance, f"run {k}: result {i} is {g.dtype}{g.shape} {g}, not {w.dtype}{w.shape} {w}"
    return model
