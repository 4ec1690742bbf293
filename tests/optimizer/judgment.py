"""What a rule or pass makes of graphs that are nearly its example: faults that its numbers show."""

from __future__ import annotations

from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np
from mutations import KINDS, Edit, edited, extents_for, square
from rewriting import ALL, apply, golden, inputs_for, read, run

from minnow.optimizer.rewrite import Trace
from minnow.schema.errors import MinnowError
from minnow.schema.ir import DType, Graph, TensorType
from minnow.schema.registry.op import NUMPY_REFUSALS
from minnow.schema.registry.verify import verify

_REFUSALS = (MinnowError, *NUMPY_REFUSALS)
_TOLERANCE = {DType.F64: 1e-10, DType.F16: 2e-2}

_CHANGE_TYPES = {"narrow_types", "lower_bools"}


def example(name: str) -> Graph:
    texts = golden(ALL[name])
    assert texts is not None
    return read(texts[0])


@lru_cache(maxsize=1)
def _param_types(name: str) -> list[TensorType]:
    return [p.type for p in example(name).params]


def judged(name: str, kind: str, step: int = 1) -> tuple[int, int, list[str]]:
    """How many edits of a kind there are, how many of them an op takes, and what went wrong.

    Args:
        step: one of so many edits is tried.
    """
    graph = example(name)
    possible = valid = 0
    wrong: list[str] = []
    for base in filter(None, (graph, square(graph))):
        for edit in islice(KINDS[kind](base), 0, None, step):
            possible += 1
            made = edited(base, edit)
            if made is None or not is_valid(made):
                continue
            valid += 1
            if text := _fault(name, made, edit):
                wrong.append(text)
    return possible, valid, wrong


def is_valid(graph: Graph) -> bool:
    try:
        verify(graph)
    except MinnowError:
        return False
    return True


def _fault(name: str, before: Graph, edit: Edit) -> str:
    after = before.clone()
    with np.errstate(all="ignore"):
        try:
            changes = apply(ALL[name], after, Trace(explain=frozenset({name})))
        except MinnowError as e:
            # What runs on no input is no graph that a rule could be asked about.
            like = edit.like or before
            runs = any(numbers_of(name, before, symbols, 0, like) is not None for symbols in extents_for(like))
            return f"{edit.what}: {type(e).__name__}: {e}\n{before}" if runs else ""
        if not changes:
            return ""
        if name not in _CHANGE_TYPES and [v.type.dtype for v in after.outputs] != [
            v.type.dtype for v in before.outputs
        ]:
            return f"{edit.what}: other types of outputs\n{before}"
        return other_numbers(name, before, after, edit)


def numbers_of(
    name: str, graph: Graph, symbols: dict[str, int], seed: int, like: Graph | None = None
) -> tuple[list[Any], list[Any]] | None:
    """Inputs and outputs; None where the numbers fit no op. What may have any rank has that of the rule's example.

    Args:
        like: a graph whose parameters have the shapes of the inputs; without one it is the graph itself.
    """
    params = (like or graph).params
    try:
        types = [p.type if p.type.shape is not None else _param_types(name)[i] for i, p in enumerate(params)]
        arrays = inputs_for(types, seed, symbols)
        return arrays, run(graph, arrays)
    except (*_REFUSALS, KeyError, IndexError):
        return None


def other_numbers(name: str, before: Graph, after: Graph, edit: Edit) -> str:
    tolerance = min((_TOLERANCE.get(v.type.dtype, 1e-5) for v in before.values() if v.type.dtype.is_float), default=0)
    tolerance = max([tolerance, *(_TOLERANCE[DType.F16] for v in before.values() if v.type.dtype is DType.F16)])
    like = edit.like or before
    for symbols in extents_for(like):
        for seed in range(2):
            if (numbers := numbers_of(name, before, symbols, seed, like)) is None:
                continue
            arrays, want = numbers
            try:
                got = run(after, arrays)
            except _REFUSALS as e:
                return f"{edit.what}, {symbols}: {e}\nof {before}\nit makes {after}"
            for g, w in zip(got, want, strict=True):
                if g.shape != w.shape or not _are_close(g, w, tolerance):
                    return f"{edit.what}, {symbols}: {g.reshape(-1)[:5]}, not {w.reshape(-1)[:5]}"
    return ""


def _are_close(got: np.ndarray, want: np.ndarray, tolerance: float) -> bool:
    g, w = np.asarray(got, np.float64), np.asarray(want, np.float64)
    finite = np.abs(w[np.isfinite(w)])
    scale = max(1.0, float(finite.max())) if finite.size else 1.0
    return bool(np.allclose(g, w, rtol=0, atol=tolerance * scale, equal_nan=True))
