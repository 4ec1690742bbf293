"""Steps and scales that leave no doubt to which of two integers a result is rounded, whatever runtime computes it.

Runtimes scale sums of products in different ways: with floats or with integers, before or after they have added the
zero point. Where a result is in the middle of two integers, or nearer to it than their errors of rounding, they do not
agree, and in a deep network a few such numbers change most others. So factors become fractions with odd denominators,
which are so small that no whole number times such a fraction comes near to the middle.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from minnow.optimizer.quantize.activations import Plan, Step
from minnow.schema.ir import DType, Graph, Node, Value

Array = npt.NDArray[Any]

_MOST = 8191
"""Denominators of the factors of layers."""
_LEAST = 64
"""Fractions with smaller denominators may be more than 3% larger than what they take the place of."""
_OF_SUMS = 2047
"""The denominator of the factors of sums, whose operands both have errors."""


def exact_scales(node: Node, x: Step, y: Step, scale: Array) -> Array:
    """Scales of a layer's weights that are a little larger, for results that all runtimes round alike.

    Args:
        node: the layer.
        x, y: the steps of its input and its result.
        scale: f32[output channels].
    """
    if y.dtype is not DType.U8:
        return scale
    unit = float(x.scale) / float(y.scale)
    # MNN's runtime adds the zero point, of signed bytes, to the sums of depthwise layers: as a whole number of these.
    found = _fractions(scale.astype(np.float64) * unit, y.zero - 128 if _is_depthwise(node) else 0)
    return (found / unit).astype(np.float32)


def _fractions(factors: Array, whole: int) -> Array:
    """Fractions that are a little larger, with odd denominators.

    Args:
        factors: f64, above 0.
        whole: a whole number times each fraction; 0 for any.
    """
    if whole:
        above = np.ones_like(factors)
        for part in (p for p in range(1, abs(whole) + 1) if whole % p == 0):
            above = np.where(part / factors <= _MOST, part, above)
    else:
        above = np.maximum(np.floor(_MOST * factors), 1)
    below = np.floor(above / factors)
    below -= below % 2 == 0
    return np.where(below >= _LEAST, above / np.maximum(below, 1), factors)


def _is_depthwise(node: Node) -> bool:
    group = int(node.attrs.get("group", 1)) if node.op == "Conv" else 1
    return group > 1 and node.input(1).type.static_shape[:2] == (group, 1)


def exact_sums(graph: Graph, plan: Plan, steps: Mapping[Value, Step]) -> dict[Value, Step]:
    """Steps that are a little larger where sums read them, so that all runtimes round these alike.

    Args:
        graph: that of the plan.
        plan: what becomes integers.
        steps: for each tensor that becomes integers.
    """
    made = dict(steps)
    settled: set[Value] = set()
    for node in reversed(graph):
        end = node.output if node.op == "Add" else None
        if end is not None and end not in made and len(end.uses) == 1 and end.users[0].op in ("Relu", "Clip"):
            end = end.users[0].output  # the activation is part of the sum
        operands = [v for v in node.inputs if v is not None]
        if end is None or end not in made or not all(v in made for v in operands):
            continue
        settled.add(plan.points[end])
        for value in operands:
            owner = plan.points[value]
            if owner in settled or any(step.dtype is not DType.U8 for step in (made[value], made[end])):
                continue
            settled.add(owner)
            old, ratio = made[value], float(made[value].scale) / float(made[end].scale)
            if ratio * _OF_SUMS < _LEAST:
                continue
            new = Step(np.float32(np.ceil(ratio * _OF_SUMS) / _OF_SUMS * float(made[end].scale)), old.zero)
            made |= {v: new for v, of in plan.points.items() if of is owner and made[v] == old}
    return made
