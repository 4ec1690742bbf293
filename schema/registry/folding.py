"""Constant folding of single nodes by the numpy reference."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from minnow.schema.ir import Graph, Node, Value
from minnow.schema.limit import LIMITS
from minnow.schema.registry.op import NUMPY_REFUSALS, Trait, get

Array = np.ndarray[Any, Any]


def fold(graph: Graph, made: Iterable[Node], results: Sequence[Value | None]) -> list[Value | None]:
    """Replaces new nodes whose inputs are small constants, or that read static shapes only, by constants.

    Returns:
        The results, with folded ones replaced.
    """
    table: dict[Value, Value] = {}
    for node in made:
        if node.graph is not graph or not _is_small(node):
            continue
        arrays = _evaluate(node)
        if arrays is None:
            continue
        for old, array in zip(node.outputs, arrays, strict=False):
            table[old] = Value.constant(array, old.name)
            old.replace_all_uses(table[old])
        graph.erase(node)
    return [table.get(v, v) if v is not None else None for v in results]


def _is_small(node: Node) -> bool:
    op = get(node.op)
    if op.traits & {Trait.CONTROL_FLOW, Trait.RANDOM}:
        return False
    most = LIMITS.folded_elements
    return _has_small_windows(node) and all((v.type.count or 0) <= most and v.type.is_static for v in node.outputs)


_WINDOWS = ("dilations", "kernel", "output_padding", "pads")


def _has_small_windows(node: Node) -> bool:
    """What stands between small operands and small results is small, too."""
    numbers = [n for name in _WINDOWS for n in _listed(node.attrs.get(name))]
    return all(abs(n) <= LIMITS.window for n in numbers if isinstance(n, int))


def _listed(attribute: Any) -> Sequence[Any]:
    return attribute if isinstance(attribute, (tuple, list)) else (attribute,)


def _evaluate(node: Node) -> tuple[Array, ...] | None:
    op = get(node.op)
    inputs: list[Array | None]
    if Trait.SHAPE_ONLY in op.traits:
        (x,) = node.inputs
        if x is None or not x.type.is_static:
            return None
        # Only the shape is read: an array that takes no memory stands for the input.
        inputs = [np.broadcast_to(np.zeros((), x.type.dtype.numpy), x.type.static_shape)]
    else:
        if any(
            v is not None and (v.data is None or math.prod(v.data.shape) > LIMITS.folded_elements) for v in node.inputs
        ):
            return None
        inputs = [None if v is None or v.data is None else v.data.numpy() for v in node.inputs]
    try:
        return op.evaluate(inputs, node.attrs)
    except NUMPY_REFUSALS:
        return None  # if the model runs it, it is an error then
