"""PyTorch functions run eagerly, and by Minnow from what torch.export and TorchScript make of them."""

from __future__ import annotations

import io
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import minnow
from minnow.converter.torch.program.child import dump
from minnow.converter.torch.program.exported import read_program
from minnow.converter.torch.program.program import Program
from minnow.converter.torch.program.script import program_of
from minnow.converter.torch.reader import translate
from minnow.optimizer import optimize
from minnow.schema.ir import DType, Model, TensorType
from minnow.schema.mnn import encode
from minnow.schema.registry.interpreter import evaluate

Array = np.ndarray[Any, Any]
ROADS = ("export", "trace")

TOLERANCE = {torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float32: 2e-5, torch.float64: 1e-9}


class Call(torch.nn.Module):
    """A function as a module; keyword arguments are bound."""

    def __init__(self, function: Callable[..., Any], **keywords: Any) -> None:
        super().__init__()
        self.function = function
        self.keywords = keywords

    def forward(self, *xs: Any) -> Any:
        return self.function(*xs, **self.keywords)


def exported(module: torch.nn.Module, args: Sequence[Any], dynamic: Any = None) -> Program:
    """The program that torch.export makes of a module, read from its archive."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "program.pt2"
        torch.export.save(torch.export.export(module.eval(), tuple(args), dynamic_shapes=dynamic), path)
        program = read_program(path)
        for tensor in program.bound.values():
            if hasattr(tensor, "load"):  # the archive goes with the folder
                tensor.load = lambda array=tensor.load(): array
        return program


def scripted(module: torch.nn.Module, args: Sequence[Any], how: str = "trace") -> Program:
    """The program in a TorchScript file, traced or scripted, with the types of the arguments."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "program.pt"
        made = torch.jit.script(module.eval()) if how == "script" else torch.jit.trace(module.eval(), tuple(args),
                                                                                       check_trace=False)  # fmt: skip
        made.save(str(path))
        numbers = io.BytesIO()
        document = dump(str(path), numbers)
        program = program_of(path, document, np.frombuffer(numbers.getvalue(), np.uint8), {})
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    for given, tensor in zip([i for i in program.inputs if i.type is not None], tensors, strict=True):
        given.type = TensorType(DType.of(numpy_of(tensor).dtype), tuple(tensor.shape))
    return program


def numpy_of(x: Any) -> Array:
    """A tensor or number as an array."""
    if isinstance(x, torch.Tensor):
        x = x.detach()
        if x.dtype is torch.bfloat16:
            return x.float().numpy().astype(DType.BF16.numpy)
        return x.resolve_conj().resolve_neg().numpy()
    return np.asarray(x)


def flat(x: Any) -> list[Array]:
    """All tensors and numbers in what a module gives, in order."""
    if isinstance(x, dict):
        return [a for v in x.values() for a in flat(v)]
    if isinstance(x, (tuple, list)):
        return [a for v in x for a in flat(v)]
    return [] if x is None else [numpy_of(x)]


def model_of(module: torch.nn.Module, args: Sequence[Any], road: str) -> Model:
    """The model that a road ("export", "trace" or "script") makes of a module."""
    program = exported(module, args) if road == "export" else scripted(module, args, road)
    return translate(program, road)


def run(model: Model, args: Sequence[Any], engine: bool = True) -> list[Array]:
    """What the model gives: by the engine after all passes, or by the numpy references of its ops."""
    arrays = [numpy_of(a) for a in args if isinstance(a, (torch.Tensor, bool, int, float))]
    arrays = arrays[: len(model.inputs)]
    if not engine:
        return evaluate(model.graph, arrays)
    names = [n for n, _ in model.inputs]
    optimize(model)
    session = minnow.load(encode(model), threads=1)
    results = session.run(dict(zip(names, arrays, strict=True)))
    return [results[n] for n, _ in model.outputs]


def difference(got: Array, want: Array) -> float:
    """The largest difference in units of what is allowed; infinite for other types, shapes, or places of NaN."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return float("inf")
    if want.size == 0:
        return 0.0
    if want.dtype.kind in "biu":
        return 0.0 if np.array_equal(got, want) else float("inf")
    got, want = got.astype(np.float64), want.astype(np.float64)
    if not np.array_equal(np.isnan(got), np.isnan(want)):
        return float("inf")
    finite = np.isfinite(want)
    if not np.array_equal(got[~finite], want[~finite], equal_nan=True):
        return float("inf")
    if not finite.any():
        return 0.0
    scale = max(1e-3, float(np.abs(want[finite]).max()))
    return float(np.abs(got[finite] - want[finite]).max()) / scale


def check(
    function: Callable[..., Any],
    *args: Any,
    roads: Sequence[str] = ROADS,
    engine: bool = True,
    tolerance: float | None = None,
    **keywords: Any,
) -> None:
    """All roads give what PyTorch gives eagerly. Functions get copies: they may change their arguments."""
    module = function if isinstance(function, torch.nn.Module) else Call(function, **keywords)
    copies = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
    with torch.no_grad():
        want = flat(module.eval()(*copies))
    allowed = tolerance or max((TOLERANCE.get(a.dtype, 0.0) for a in args if isinstance(a, torch.Tensor)), default=0.0)
    for road in roads:
        got = run(model_of(module, [a.clone() if isinstance(a, torch.Tensor) else a for a in args], road), args, engine)
        assert len(got) == len(want), f"{road}: {len(got)} results, not {len(want)}"
        for i, (g, w) in enumerate(zip(got, want, strict=True)):
            off = difference(g, w)
            assert off <= (allowed or 2e-5), (
                f"{road}: result {i} is off by {off}: {g.dtype}{g.shape}, {w.dtype}{w.shape}"
            )
