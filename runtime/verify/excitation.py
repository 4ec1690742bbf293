"""Finds the outputs that the inputs of a verification do not test: a detector, for example, finds nothing in noise.

An output that has no elements in any run, or is the same for all inputs, passes without having been tested: the verdict
is then "inconclusive". This does not concern outputs that do not depend on the values of the inputs (constants,
shapes), nor integers, such as the index of a maximum, which may well be the same for all inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from minnow.runtime.verify.comparison import SMALL, Array, OutputComparison
from minnow.runtime.verify.samples import PIXELS, Candidate
from minnow.runtime.verify.source import TwoRuns
from minnow.schema.ir import DType, Model, Value
from minnow.schema.ops import Trait, get

_COARSE = 6
"""Random values along an axis of a smooth picture; the elements between them are interpolated."""
_MEAN, _DEVIATION = 0.449, 0.226
"""Of the pixels of ImageNet, over all channels: many models expect normalized pictures."""


class Judged:
    """The outputs of a model that depend on the values of the inputs, and which of them a set of runs has tested."""

    def __init__(self, model: Model) -> None:
        self._driven = _driven(model)
        pairs = zip(model.outputs, model.graph.outputs, strict=True)
        self._whole = frozenset(name for (name, _), value in pairs if _is_whole(value))

    def unexcited(self, runs: Sequence[Mapping[str, Array]]) -> dict[str, str]:
        """The outputs that none of the runs has tested, with the reason; `runs` has the outputs of each run by name."""
        names = dict.fromkeys(name for run in runs for name in run)
        found = {name: self._why(name, [np.asarray(run[name]) for run in runs if name in run]) for name in names}
        return {name: why for name, why in found.items() if why}

    def faint(self, runs: Sequence[Mapping[str, Array]]) -> dict[str, str]:
        """The outputs whose values are almost zero in all runs, with the text that says so."""
        names = dict.fromkeys(name for run in runs for name in run if self._port(name) in self._driven)
        small = (name for name in names if all(_is_faint(np.asarray(run[name])) for run in runs if name in run))
        return dict.fromkeys(small, "its values are as small as rounding errors in all runs")

    @staticmethod
    def _port(name: str) -> str:
        """The output that an array belongs to, also if it is an element of a list or comes from the second run."""
        return name.removesuffix(TwoRuns.SECOND).partition("[")[0]

    def _why(self, name: str, arrays: Sequence[Array]) -> str:
        port = self._port(name)
        if port not in self._driven:
            return ""
        elements = [a for a in arrays if a.size]
        if not elements:
            return "it has no elements in any run"
        if port in self._whole or not all(_is_float(a) for a in elements):
            return ""
        numbers = [a.astype(np.float64) for a in elements]
        first = numbers[0].flat[0]
        constant = all(np.array_equal(a, np.full_like(a, first), equal_nan=True) for a in numbers)
        if constant and (first == 0 or sum(a.size for a in numbers) > 1):
            return f"it is {first:g} everywhere in all runs"
        if len(numbers) > 1 and all(np.array_equal(a, numbers[0], equal_nan=True) for a in numbers[1:]):
            return "it is the same for all inputs"
        return ""


def mark(cases: Sequence[Sequence[OutputComparison]], unexcited: Mapping[str, str], faint: Mapping[str, str]) -> None:
    """Writes into the comparisons which outputs have not been tested, and why.

    Almost zero (`faint`) outputs count as tested if their errors are small relative to them.
    """
    by_name: dict[str, list[OutputComparison]] = {}
    for outputs in cases:
        for o in outputs:
            by_name.setdefault(o.name, []).append(o)
    for name, found in by_name.items():
        why = unexcited.get(name) or (faint.get(name, "") if all(o.by_floor for o in found) else "")
        for o in found:
            o.inconclusive = "" if o.random else why


def livelier(candidate: Candidate, picture: str = "") -> Iterator[Candidate]:
    """Inputs to try if random ones test too little: in other ranges, and smooth like pictures.

    Scalars and vectors stay as they are: they may be thresholds, or the number of iterations of a loop.

    Args:
        candidate: inputs with floats in [0, 1).
        picture: name of the input that is a picture: it is real already, so that only its range is changed. "": none.
    """
    data = [n for n, v in candidate.inputs.items() if n == picture or (not picture and _is_data(v))]
    if not data:
        return

    def of(changed: Candidate) -> Candidate:
        return Candidate({**candidate.inputs, **{n: changed.inputs[n] for n in data}}, candidate.symbols)

    if picture:
        yield of(candidate.scaled(PIXELS))
        yield of(candidate.changed(lambda a: 2 * a - 1))
        yield of(candidate.changed(lambda a: (a - _MEAN) / _DEVIATION))
        return
    smooth = candidate.changed(_smooth, bytes_too=True)
    yield of(smooth)
    yield of(candidate.scaled(PIXELS))
    yield of(smooth.scaled(PIXELS))
    yield of(smooth.changed(lambda a: 6 * a - 3))


def _is_data(value: Any) -> bool:
    """Whether an input, or each element of a list, has more than one axis and holds floats or bytes."""
    if isinstance(value, list):
        return all(map(_is_data, value))
    if value is None or value.ndim < 2:
        return False
    return value.dtype.kind != "b" and (_is_float(value) or value.dtype.itemsize == 1)


def _smooth(array: Array) -> Array:
    """Random values from 0 to 1 that change slowly along all long axes."""
    rng = np.random.default_rng(array.size)
    found = rng.random([min(n, _COARSE) for n in array.shape])
    for axis, n in enumerate(array.shape):
        if n > _COARSE:
            places = np.linspace(0, _COARSE - 1, n)
            below = np.minimum(places.astype(int), _COARSE - 2)
            part = (places - below).reshape([-1 if i == axis else 1 for i in range(array.ndim)])
            found = found.take(below, axis) * (1 - part) + found.take(below + 1, axis) * part
    return found


def _is_faint(array: Array) -> bool:
    return array.size > 0 and _is_float(array) and bool(np.abs(array.astype(np.float64)).max() < SMALL)


def _is_float(array: Array) -> bool:
    try:
        return DType.of(array.dtype).is_float
    except KeyError:
        return False


def _driven(model: Model) -> frozenset[str]:
    """The outputs that depend on the values of the inputs, not only on their shapes."""
    reached: set[Value] = set(model.graph.params)
    for node in model.graph:
        if Trait.SHAPE_ONLY not in get(node.op).traits and any(v in reached for v in node.inputs):
            reached.update(node.outputs)
    return frozenset(n for (n, _), v in zip(model.outputs, model.graph.outputs, strict=True) if v in reached)


def _is_whole(value: Value) -> bool:
    """Whether its values are integers or booleans, possibly stored as floats: counts, classes, indices."""
    while value.type.dtype.is_float:
        node = value.producer
        if node is None or not (node.op in ("Cast", "Identity") or Trait.VIEW in get(node.op).traits):
            return False
        source = node.inputs[0]
        if source is None:
            return False
        value = source
    return True
