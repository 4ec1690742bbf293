"""Equalization: channels of a tensor between two layers get ranges that are alike, and the function stays the same.

One step for all channels of a tensor is too coarse for those with small numbers. So the layer in front divides each of
its output channels by a factor, and the layer behind multiplies its weights for that channel by it. Between them may be
a Relu, which lets positive factors through. A norm in front takes the factors into its scale and bias, as SmoothQuant
does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from minnow.optimizer.quantize.activations import LAYERS
from minnow.schema.ir import Graph, Node, Value

Array = npt.NDArray[Any]

_MOST = 1e4
"""The largest ratio of two factors: beyond it weights would lose more than the tensor gains."""


@dataclass(frozen=True)
class Pair:
    """A layer or norm, and the only layer that reads its result, perhaps behind a Relu.

    Attributes:
        front, behind: the two nodes.
        value: the tensor that the second one reads.
    """

    front: Node
    behind: Node
    value: Value


def pairs(graph: Graph, skip: Callable[[Node], str] = lambda _: "") -> list[Pair]:
    """The pairs of a float graph, in order."""
    found = []
    for node in graph:
        if node.op not in LAYERS or node.input(1).data is None or skip(node):
            continue
        value = node.input(0)
        front = value.producer
        if front is not None and front.op == "Relu" and len(value.uses) == 1:
            front = front.input(0).producer
        if front is None or len(value.uses) != 1 or len(front.outputs) != 1 or len(front.output.uses) != 1:
            continue
        if _takes_factors(front) and _channels(front) == _inputs(node) and _axis(front) == _axis(node):
            found.append(Pair(front, node, value))
    return found


def _takes_factors(node: Node) -> bool:
    constants = [v for v in node.inputs[1:3] if v is not None]
    plain = not node.attrs.get("activation") and all(v is None for v in node.inputs[3:])
    if node.op == "LayerNorm":
        # Scale and bias are along the last axis, where the layer behind has its input channels.
        return len(constants) == 2 and all(v.data is not None and v.type.rank == 1 for v in constants)
    return node.op in LAYERS and plain and all(v.data is not None for v in constants)


def _axis(node: Node) -> int:
    return 1 if node.op == "Conv" else -1


def _channels(node: Node) -> int:
    return node.input(1).type.static_shape[0]


def _inputs(node: Node) -> int:
    return node.input(1).type.static_shape[1] * int(node.attrs.get("group", 1))


def factors(largest: Array, weights: Array, groups: int) -> Array:
    """By what each channel of a tensor is divided, f64[channels].

    Args:
        largest: the largest magnitude of each channel.
        weights: of the layer behind, [outputs, inputs / groups, ...].
        groups: of the layer behind.
    """
    by_input = np.abs(weights.astype(np.float64)).reshape(groups, -1, weights.shape[1], weights[0, 0].size)
    of_weights = by_input.max((1, 3)).reshape(-1)
    alive = (largest > 0) & (of_weights > 0)
    # Where each channel has weights with a scale of their own, all of the difference goes there.
    depthwise = groups == len(largest)
    wanted = np.where(alive, largest if depthwise else np.sqrt(largest / np.where(alive, of_weights, 1)), 1.0)
    middle = np.exp(np.log(wanted[alive]).mean()) if alive.any() else 1.0
    limit = np.sqrt(_MOST)
    return np.where(alive, np.clip(wanted / middle, 1 / limit, limit), 1.0)


def equalize(graph: Graph, largest: Mapping[Value, Array]) -> int:
    """Equalizes all pairs of a graph for which the magnitudes of the channels are known, in place.

    Returns:
        How many pairs there were.
    """
    found = [pair for pair in pairs(graph) if pair.value in largest]
    for pair in found:
        front, behind = pair.front, pair.behind
        groups = int(behind.attrs.get("group", 1))
        weights = np.asarray(behind.input(1).array, np.float32)
        by = factors(largest[pair.value], weights, groups)
        shape = (groups, -1, weights.shape[1], weights[0, 0].size)
        more = weights.astype(np.float64).reshape(shape) * by.reshape(groups, 1, weights.shape[1], 1)
        _replace(behind, 1, more.reshape(weights.shape))
        for i in (1, 2):
            if front.has_input(i):
                array = np.asarray(front.input(i).array, np.float64)
                _replace(front, i, array / by.reshape(-1, *(1,) * (array.ndim - 1)))
    return len(found)


def _replace(node: Node, i: int, array: Array) -> None:
    node.set_input(i, Value.constant(array.astype(np.float32), node.input(i).name))
