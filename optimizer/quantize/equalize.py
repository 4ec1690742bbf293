"""Equalization: channels of a tensor in front of layers get ranges that are alike, and the function stays the same.

One step for all channels of a tensor is too coarse for those with small numbers. So what makes the tensor divides each
channel by a factor, and the layers that read it multiply their weights for that channel by it. A layer in front takes
the factors into its weights, a norm into its scale and bias, as SmoothQuant does; between them may be a Relu or a
pooling, which let positive factors through, or a concatenation. Of a product with a gate, one number for each channel,
the gate is divided. Behind a function such as HardSwish the division is a node of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from minnow.optimizer.quantize.activations import LAYERS, is_function
from minnow.schema.ir import Graph, Node, Value
from minnow.schema.ops import Builder

Array = npt.NDArray[Any]

_MOST = 1e4
"""The largest ratio of two factors: beyond it weights would lose more than the tensor gains."""

# op list: ops on channels, numbered from axis 1, whose results have a positive factor where their input has it
_THROUGH = ("Relu", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool")

_SATURATE = ("Relu", "Clip")
"""Functions that cost nothing: layers of integers do what they do."""


@dataclass(frozen=True)
class Front:
    """What divides some channels of a tensor.

    Attributes:
        node: a layer or norm, which divides what it has; or one whose result `value` is divided by a node of its own.
        value: the tensor to divide, None where the node does it itself.
        first, count: the channels.
    """

    node: Node
    value: Value | None
    first: int
    count: int


@dataclass(frozen=True)
class Group:
    """A tensor that nothing but layers read.

    Attributes:
        value: the tensor.
        behind: the layers.
        fronts: what divides its channels.
        is_free: nothing has more to compute than before, but for numbers that are one for each channel.
    """

    value: Value
    behind: tuple[Node, ...]
    fronts: tuple[Front, ...]
    is_free: bool


def groups(graph: Graph, skip: Callable[[Node], str] = lambda _: "") -> list[Group]:
    """The tensors of a float graph whose channels can be divided, in order."""
    found = []
    for value in dict.fromkeys(node.input(0) for node in graph if node.op in LAYERS):
        behind = tuple(dict.fromkeys(value.users))
        if value.is_output or value.producer is None or not all(
            n.op in LAYERS and n.input(0) is value and n.inputs.count(value) == 1 and n.input(1).data is not None
            and not skip(n) for n in behind
        ):  # fmt: skip
            continue
        channels, axis = _inputs(behind[0]), _axis(behind[0])
        if any((_inputs(n), _axis(n)) != (channels, axis) for n in behind):
            continue
        fronts = list(_fronts(value, 0, channels, axis))
        if sum(f.count for f in fronts) == channels:
            free = all(f.value is None or f.node.op == "Mul" for f in fronts)
            found.append(Group(value, behind, tuple(fronts), free))
    return found


def _fronts(value: Value, first: int, count: int, axis: int) -> Iterator[Front]:
    """What can divide channels of a tensor; fewer than there are where something cannot."""
    maker = value.producer
    if maker is None or len(maker.outputs) != 1:
        return
    inner = [v for v in maker.inputs if v is not None]
    alone = all(len(v.uses) == 1 and not v.is_output for v in inner if v.data is None)
    if _takes_factors(maker) and _axis(maker) == axis:
        if _channels(maker) == count:
            yield Front(maker, None, first, count)
    elif maker.op in _THROUGH and alone and (maker.op == "Relu" or axis == 1):
        yield from _fronts(maker.input(0), first, count, axis)
    elif maker.op == "Concat" and alone and axis == 1 and maker.attrs["axis"] == 1:
        for part in inner:
            size = part.type.shape[1] if part.type.shape is not None and len(part.type.shape) > 1 else None
            if not isinstance(size, int):
                return
            yield from _fronts(part, first, size, axis)
            first += size
    elif maker.op == "Mul" and axis == 1 and (gate := _gate(maker, count)) is not None:
        yield Front(maker, gate, first, count)
    elif maker.op not in _SATURATE and is_function(maker) and len(inner) == 1:
        before = inner[0].producer
        if before is not None and before.op in LAYERS:
            yield Front(maker, value, first, count)


def _gate(node: Node, channels: int) -> Value | None:
    """The operand of a product with one number for each channel, which nothing else reads."""
    for value, other in ((node.input(0), node.input(1)), (node.input(1), node.input(0))):
        shape, whole = value.type.shape, other.type.shape
        if shape is None or whole is None or len(shape) != len(whole) or len(shape) < 3:
            continue
        if shape[1] == channels and all(d == 1 for d in shape[2:]) and len(value.uses) == 1 and not value.is_output:
            return value
    return None


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


def factors(largest: Array, weights: Sequence[tuple[Array, int]]) -> Array:
    """By what each channel of a tensor is divided, f64[channels].

    Args:
        largest: the largest magnitude of each channel.
        weights: for each layer behind its weights, [outputs, inputs / groups, ...], and its groups.
    """
    of_weights = np.zeros(len(largest))
    depthwise = True
    for array, count in weights:
        by_input = np.abs(array.astype(np.float64)).reshape(count, -1, array.shape[1], array[0, 0].size)
        of_weights = np.maximum(of_weights, by_input.max((1, 3)).reshape(-1))
        depthwise = depthwise and count == len(largest)
    alive = (largest > 0) & (of_weights > 0)
    # Where each channel has weights with a scale of their own, all of the difference goes there.
    wanted = np.where(alive, largest if depthwise else np.sqrt(largest / np.where(alive, of_weights, 1)), 1.0)
    middle = np.exp(np.log(wanted[alive]).mean()) if alive.any() else 1.0
    limit = np.sqrt(_MOST)
    return np.where(alive, np.clip(wanted / middle, 1 / limit, limit), 1.0)


def equalize(graph: Graph, largest: Mapping[Value, Array], functions: bool = False) -> int:
    """Equalizes the tensors of a graph of which the magnitudes of the channels are known, in place.

    Args:
        graph: a float graph.
        largest: the largest magnitude of each channel.
        functions: also behind functions, at the price of a product.

    Returns:
        How many such tensors there were.
    """
    found = [g for g in groups(graph) if g.value in largest and (g.is_free or functions)]
    for group in found:
        weights = [(np.asarray(n.input(1).array, np.float32), int(n.attrs.get("group", 1))) for n in group.behind]
        by = factors(largest[group.value], weights)
        for node, (array, count) in zip(group.behind, weights, strict=True):
            shape = (count, -1, array.shape[1], array[0, 0].size)
            more = array.astype(np.float64).reshape(shape) * by.reshape(count, 1, array.shape[1], 1)
            _replace(node, 1, more.reshape(array.shape))
        for front in group.fronts:
            _divide(graph, front, by[front.first : front.first + front.count])
    return len(found)


def _divide(graph: Graph, front: Front, by: Array) -> None:
    node, value = front.node, front.value
    if value is None:
        for i in (1, 2):
            if node.has_input(i):
                array = np.asarray(node.input(i).array, np.float64)
                _replace(node, i, array / by.reshape(-1, *(1,) * (array.ndim - 1)))
        return
    if value.data is not None:
        shape = (-1, *(1,) * (value.data.numpy().ndim - 2))
        _replace(node, node.inputs.index(value), value.data.numpy() / by.reshape(shape))
        return
    assert value.producer is not None
    users = list(value.uses)
    behind = users[0][0]
    spatial = (value.type.rank or 2) - 2 if behind.op != "Linear" else 0
    b = Builder(graph, value.producer.next, f"{value.name} > equalize")
    divided: Value = b.Mul(value, (1 / by).astype(np.float32).reshape(-1, *(1,) * spatial))
    divided.name = f"{value.name}/divided"
    for reader, i in users:
        reader.set_input(i, divided)


def _replace(node: Node, i: int, array: Array) -> None:
    node.set_input(i, Value.constant(array.astype(np.float32), node.input(i).name))
