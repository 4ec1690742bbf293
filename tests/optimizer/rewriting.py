"""What tests of rules and passes share: the texts in their docstrings, normal forms, and numbers before and after."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from typing import Any

import numpy as np

import minnow.optimizer.pipeline  # noqa: F401  (registers all rules and passes)
from minnow.optimizer.rewrite import GraphPass, Rule, Trace, apply_rules, erase_dead, passes, rules
from minnow.schema.ir import DType, Graph, TensorType
from minnow.schema.ir.text import parse, to_text
from minnow.schema.registry.interpreter import evaluate
from minnow.schema.registry.verify import verify

Array = np.ndarray[Any, Any]

ALL: dict[str, Rule | GraphPass] = {**rules, **passes}

# Dimensions for symbols: primes, so that a mix-up shows.
_SYMBOLS = {"N": 3, "S": 5, "H": 7, "?": 2}


def golden(item: Rule | GraphPass) -> tuple[str, str] | None:
    """The texts behind `Given:` and `Result:` of a docstring."""
    found = re.search(r"^Given:\n(.*?)^Result:\n(.*)\Z", item.doc, re.S | re.M)
    return None if found is None else (textwrap.dedent(found.group(1)), textwrap.dedent(found.group(2)))


def chain(*lines: str, params: str = "%x: f32[4]", result: str = "%y") -> str:
    """The text of a graph with these lines."""
    return f"graph g({params}) {{ {' '.join(lines)} return {result} }}"


def read(text: str) -> Graph:
    """A graph from text, checked."""
    graph = parse(text)
    verify(graph)
    return graph


def apply(item: Rule | GraphPass, graph: Graph, log: Trace | None = None) -> int:
    """Applies exactly this rule or pass, and takes away what nobody reads then. Gives the number of changes."""
    if isinstance(item, Rule):
        changes = apply_rules(graph, [item], log)
    else:
        changes = sum(item.apply(g) for g in ([graph] if item.whole else reversed(list(graph.walk()))))
    for inner in graph.walk():
        erase_dead(inner, list(reversed(inner)))
    verify(graph)
    return changes


def normal_form(graph: Graph) -> str:
    """The text without origins and without the names of inner values."""
    graph = graph.clone()
    for inner in graph.walk():
        outside = {*inner.params, *inner.outputs}
        for node in inner:
            node.origin = ""
            for value in node.outputs:
                value.name = value.name if value in outside else ""
        for constant in inner.constants():
            constant.name = ""
    return to_text(graph)


def inputs_for(types: list[TensorType], seed: int = 0, symbols: Mapping[str, int] = _SYMBOLS) -> list[Array]:
    """Random arrays of these types."""
    rng = np.random.default_rng(seed)
    return [_array(rng, t, symbols) for t in types]


def _array(rng: np.random.Generator, type: TensorType, symbols: Mapping[str, int]) -> Array:
    shape = [d if isinstance(d, int) else symbols[d] for d in type.shape or ()]
    if type.dtype is DType.BOOL:
        return np.asarray(rng.integers(0, 2, shape)).astype(bool)
    if type.dtype.is_float:
        return np.asarray(rng.standard_normal(shape)).astype(type.dtype.numpy)
    return np.asarray(rng.integers(1, 3, shape)).astype(type.dtype.numpy)


def run(graph: Graph, arrays: list[Array]) -> list[Array]:
    """The outputs by the numpy references, for inputs in whatever types the graph has now."""
    return evaluate(graph, [a.astype(p.type.dtype.numpy) for a, p in zip(arrays, graph.params, strict=True)])


def assert_same_numbers(before: Graph, after: Graph, tolerance: float = 1e-5, seeds: int = 2) -> None:
    """Both graphs give the same for the same inputs, up to `tolerance` times the largest number of an output."""
    for seed in range(seeds):
        arrays = inputs_for([p.type for p in before.params], seed)
        for i, (want, got) in enumerate(zip(run(before, arrays), run(after, arrays), strict=True)):
            assert want.shape == got.shape, f"output {i} has the shape {got.shape}, not {want.shape}"
            wide = np.asarray(want, np.float64)
            finite = np.abs(wide[np.isfinite(wide)])
            scale = max(1.0, float(finite.max())) if finite.size else 1.0
            np.testing.assert_allclose(np.asarray(got, np.float64), wide, rtol=0, atol=tolerance * scale)
