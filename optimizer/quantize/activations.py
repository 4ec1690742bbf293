"""Which tensors of a float graph become integers of 8 bits, and the graph with these steps.

A layer (`Conv`, `Linear`) computes with integers when its input, its weights and its result are integers. What stands
between layers and can work on integers is taken in, too: sums, concatenations, pooling by maximum, and ops that move
elements. A function of one tensor needs nothing here: the optimizer makes a table of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from minnow.optimizer.passes.legalize.after import behind
from minnow.optimizer.quantize.ranges import Function
from minnow.optimizer.quantize.rounding import fitted
from minnow.schema.ir import DType, Graph, Node, Value
from minnow.schema.ops import Builder, Trait, get
from minnow.schema.ops.epilogue import RESIDUAL
from minnow.schema.ops.resize import computes_between

Array = npt.NDArray[Any]

RULES = {"Conv": "quantize_conv", "Linear": "quantize_matmul"}
"""The ops with weights that can compute with integers, and the rules of the optimizer that let them."""
LAYERS = tuple(RULES)

# op list: the ops that the rule `move_integers` of the optimizer writes out as its pattern.
_SAME_SCALE = ("MaxPool", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Expand", "Gather")
"""Ops that leave the numbers as they are."""


def _moves(node: Node) -> bool:
    """Whether a node only moves or chooses among the numbers of its first operand."""
    if node.op == "Resize":
        return not computes_between(node)
    return node.op in _SAME_SCALE and len(node.outputs) == 1


_STEPS = 255
_WIDE_STEPS = 32767
_WEIGHT_MOST = 127
_MOST_STEPS = 2.0**29
"""Of a bias: beside the sums of products they have to fit into 31 bits."""


@dataclass(frozen=True)
class Step:
    """What the integers of a tensor mean: (number - zero) * scale.

    Attributes:
        scale: a float32 number above 0.
        zero: the number that stands for 0.0, 0 to 255; 0 for i16.
        dtype: of the integers, u8 or i16.
    """

    scale: np.float32
    zero: int
    dtype: DType = DType.U8

    @classmethod
    def of(cls, low: float, high: float) -> Step:
        """The step for a range, which is made to hold 0."""
        low, high = min(float(low), 0.0), max(float(high), 0.0)
        scale = np.float32((high - low) / _STEPS)
        if not np.isfinite(scale) or scale < np.finfo(np.float32).tiny:
            return cls(np.float32(1.0 / _STEPS), 0)
        return cls(scale, int(np.clip(np.rint(-low / float(scale)), 0, _STEPS)))

    @classmethod
    def wide(cls, low: float, high: float) -> Step:
        """The step of i16 for a range."""
        scale = np.float32(max(-float(low), float(high)) / _WIDE_STEPS)
        if not np.isfinite(scale) or scale < np.finfo(np.float32).tiny:
            scale = np.float32(1.0 / _WIDE_STEPS)
        return cls(scale, 0, DType.I16)

    @property
    def ends(self) -> tuple[int, int]:
        """The least and the largest integer."""
        return (-_WIDE_STEPS, _WIDE_STEPS) if self.dtype is DType.I16 else (0, _STEPS)

    @property
    def low(self) -> float:
        """The least number that there is."""
        return (self.ends[0] - self.zero) * float(self.scale)

    @property
    def high(self) -> float:
        """The largest number that there is."""
        return (self.ends[1] - self.zero) * float(self.scale)

    def floats(self, numbers: Array) -> Array:
        """What integers mean, f32."""
        return np.asarray((np.asarray(numbers, np.float32) - np.float32(self.zero)) * self.scale, np.float32)

    def rounded(self, x: Array) -> Array:
        """Floats as they are after quantization, as float32."""
        return self.floats(np.clip(np.rint(np.asarray(x, np.float32) / self.scale) + np.float32(self.zero), *self.ends))


@dataclass
class Plan:
    """What of a graph is computed with integers.

    Attributes:
        layers: the nodes with weights, in order.
        points: for each tensor that becomes integers the tensor whose step it has: itself, or another one.
        ends: for each layer its result as others read it: behind its activation, if that needs no step of its own.
        kept: names of layers that stay float, and why.
    """

    layers: list[Node] = field(default_factory=list)
    points: dict[Value, Value] = field(default_factory=dict)
    ends: dict[Node, Value] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)

    def moved(self, values: Mapping[Value, Value], nodes: Mapping[Node, Node]) -> Plan:
        """The same plan for a copy of the graph."""
        return Plan(
            [nodes[n] for n in self.layers],
            {values[v]: values[w] for v, w in self.points.items()},
            {nodes[n]: values[v] for n, v in self.ends.items()},
            dict(self.kept),
        )


def planned(graph: Graph, skip: Callable[[Node], str] = lambda _: "") -> Plan:
    """Chooses the tensors that become integers.

    Args:
        graph: a float graph.
        skip: why a node is to stay float; "" where it may become integers.
    """
    plan = Plan()
    wanted: list[Value] = []
    for node in graph:
        if node.op not in LAYERS:
            continue
        if why := skip(node) or _refusal(node):
            plan.kept[node.name] = why
            continue
        plan.layers.append(node)
        plan.ends[node] = _end(node)
        wanted += [node.input(0), plan.ends[node]]
    seen: set[Value] = set()
    while wanted:
        value = wanted.pop()
        if value in seen or not _is_float(value):
            continue
        seen.add(value)
        maker = value.producer
        if maker is not None and not skip(maker):
            wanted += _needs(_before(maker))
    for value in graph.values():
        if value in seen:
            plan.points[value] = value
    _share(plan, graph, skip)
    return plan


def wide_results(plan: Plan) -> set[Value]:
    """The results of layers that may have more bits: nothing reads them that computes with integers of 8 bits."""
    owners = [owner for value, owner in plan.points.items() if owner is not value]
    inputs = {node.input(0) for node in plan.layers}
    found = set()
    for value in plan.ends.values():
        alone = plan.points.get(value) is value and value not in owners and value not in inputs
        if alone and not any(
            out in plan.points and value in _needs(_before(n)) for n in value.users for out in n.outputs
        ):
            found.add(value)
    return found


def read_by_layers(graph: Graph) -> set[Value]:
    """The tensors that a layer depends on."""
    found: set[Value] = set()
    for node in reversed(graph):
        if node.op in LAYERS or any(v in found for v in node.outputs):
            found.update(v for v in node.inputs if v is not None)
    return found


def function_of(value: Value, plan: Plan) -> Function | None:
    """What the only reader of a tensor makes of each number; None where the tensor means more than that."""
    if value.is_output or len(value.uses) != 1 or plan.points[value] is not value:
        return None
    node = value.users[0]
    shared = any(owner is value and v is not value for v, owner in plan.points.items())
    if shared or len(node.inputs) != 1 or len(node.outputs) != 1 or not is_function(node):
        return None
    op = get(node.op)
    return lambda x: np.asarray(op.evaluate([np.asarray(x, np.float32)], node.attrs)[0], np.float64)


def is_function(node: Node) -> bool:
    traits = get(node.op).traits
    return Trait.ELEMENTWISE in traits and Trait.RANDOM not in traits and node.output.type.dtype is DType.F32


def _refusal(node: Node) -> str:
    weights = node.input(1)
    if weights.data is None or weights.type.dtype is not DType.F32 or node.input(0).type.dtype is not DType.F32:
        return "its weights are computed, or no float32"
    if node.input(0).data is not None:
        return "its input is constant"
    if node.has_input(2) and node.input(2).data is None:
        return "its bias is computed"
    if node.op == "Linear" and (node.input(0).type.rank or 0) < 2:
        return "the rank of its input is not known, or 1"
    array = weights.array
    if array is None or array.size == 0 or not np.isfinite(array).all():
        return "its weights are not finite"
    return ""


def _is_float(value: Value) -> bool:
    return value.data is None and value.type.dtype is DType.F32 and not value.type.holds_tensors


def _end(node: Node) -> Value:
    """The result of a node, behind a Relu or a Clip from 0 that is its only reader."""
    y = node.output
    if len(y.uses) != 1:
        return y
    user = y.users[0]
    if user.op == "Relu" or (user.op == "Clip" and len(user.inputs) == 1 and user.attrs.get("min") == 0):
        return user.output
    return y


def _before(node: Node) -> Node:
    """The node whose result an activation is part of."""
    maker = node.input(0).producer if node.op in ("Relu", "Clip") else None
    if maker is not None and maker.op == "Add" and _end(maker) is node.output:
        return maker
    return node


def _needs(node: Node) -> list[Value]:
    """The tensors that have to be integers so that the result of a node can be computed from integers."""
    operands = [v for v in node.inputs if v is not None]
    if node.op == "Add":
        same = len(operands) == 2 and operands[0].type.shape == operands[1].type.shape != None  # noqa: E711
        return operands if same and all(v.data is None for v in operands) else []
    if node.op == "Concat":
        return operands if all(v.data is None for v in operands) else []
    return [node.input(0)] if _moves(node) else []


def _share(plan: Plan, graph: Graph, skip: Callable[[Node], str]) -> None:
    """Gives one step to tensors where another one would cost a rounding."""
    for node in graph:
        if _moves(node) and not skip(node):
            x, y = node.input(0), node.output
            if x in plan.points and y in plan.points:
                plan.points[y] = plan.points[x]
    for node in reversed(graph):
        if node.op != "Concat" or node.output not in plan.points or skip(node):
            continue
        whole = plan.points[node.output]
        for value in node.inputs:
            # A tensor with no other reader is rounded once, with the step of the whole.
            if value is not None and plan.points.get(value) is value and len(value.uses) == 1:
                plan.points[value] = whole
    for value, other in plan.points.items():
        while plan.points[other] is not other:
            other = plan.points[other]
        plan.points[value] = other


def insert(graph: Graph, plan: Plan, steps: Mapping[Value, Step], weights: Mapping[Node, Weights]) -> dict[Value, Node]:
    """Puts the steps to integers and back into a graph, in place.

    Args:
        graph: that of the plan.
        plan: what becomes integers.
        steps: for each tensor that becomes integers what these mean.
        weights: for each layer of the plan its weights, with scales that hold its bias.

    Returns:
        For each such tensor the node from integers back to floats, whose result others read in its place.
    """
    given = {node: steps[node.input(0)] for node in plan.layers}
    found = {value: _insert_step(graph, value, steps[value]) for value in plan.points}
    for node in plan.layers:
        _insert_weights(graph, node, weights[node], given[node])
    return found


def _insert_step(graph: Graph, value: Value, step: Step) -> Node:
    users = list(value.uses)
    before = next(iter(graph)) if value.producer is None else value.producer.next
    b = Builder(graph, before, f"{value.name} > quantize")
    scale, zero = np.asarray(step.scale, np.float32), np.asarray(step.zero).astype(step.dtype.numpy)
    numbers: Value = b.QuantizeLinear(value, scale, zero, to=step.dtype)
    back: Value = b.DequantizeLinear(numbers, scale, zero)
    for node, i in users:
        node.set_input(i, back)
    numbers.name, back.name = f"{value.name}/{step.dtype}", f"{value.name}/integers"
    if back.is_output:
        value.name, back.name = f"{value.name}/float", value.name
    assert back.producer is not None
    return back.producer


@dataclass(frozen=True)
class Weights:
    """Weights of a layer as integers, around 0, with one scale for each output channel.

    Attributes:
        numbers: i8, in the shape of the weights.
        scale: f32[output channels].
        bias: f32[output channels] that is added; None for none.
    """

    numbers: Array
    scale: Array
    bias: Array | None

    @classmethod
    def of(
        cls,
        weights: Array,
        bias: Array | None,
        squares: Array | None = None,
        larger: Callable[[Array], Array] = lambda scale: scale,
    ) -> Weights:
        """Each channel from minus to plus its largest magnitude.

        Args:
            weights: f32[output channels, ...].
            bias: f32[output channels], or None.
            squares: the mean products of the inputs of an output, by which weights are rounded; None: to the nearest.
            larger: scales that are to be used in place of the smallest ones that hold all weights.
        """
        rows = np.asarray(weights, np.float32).reshape(len(weights), -1)
        scale = (np.abs(rows).max(1) / np.float32(_WEIGHT_MOST)).astype(np.float32)
        scale = larger(np.where(scale < np.finfo(np.float32).tiny, np.float32(1), scale))
        if squares is None:
            found = np.clip(np.rint(rows / scale[:, None]), -_WEIGHT_MOST, _WEIGHT_MOST)
        else:
            found = fitted(rows, scale, -_WEIGHT_MOST, _WEIGHT_MOST, squares)
        numbers = found.astype(np.int8).reshape(weights.shape)
        return cls(numbers, scale, None if bias is None else np.asarray(bias, np.float32))

    def holding_bias(self, step: Step) -> Weights:
        """The same with larger scales where the bias would be too many steps of the sums, as with weights near 0."""
        if self.bias is None:
            return self
        least = (np.abs(self.bias.astype(np.float64)) / (_MOST_STEPS * float(step.scale))).astype(np.float32)
        scale = np.maximum(self.scale, least)
        rows = np.rint(self.floats.reshape(len(scale), -1) / scale[:, None])
        return Weights(rows.astype(np.int8).reshape(self.numbers.shape), scale, self.bias)

    @property
    def floats(self) -> Array:
        """The weights that the integers stand for, f32."""
        scale = self.scale.reshape(-1, *(1,) * (self.numbers.ndim - 1))
        return (self.numbers.astype(np.float32) * scale).astype(np.float32)


def bias_of(node: Node) -> Array | None:
    """The bias of a layer; None for none."""
    return np.asarray(node.input(2).array, np.float32).reshape(-1) if node.has_input(2) else None


def _insert_weights(graph: Graph, node: Node, weights: Weights, step: Step) -> None:
    b = Builder(graph, node, f"{node.origin} > quantize".removeprefix(" > "))
    w = b.DequantizeLinear(Value.constant(weights.numbers, node.input(1).name), weights.scale, axis=0)
    bias = None if weights.bias is None else _whole(weights.bias, weights.scale.astype(np.float64) * float(step.scale))
    if node.op == "Conv":
        node.set_input(1, w)
        if bias is not None:
            while len(node.inputs) < 3:
                node.append_input(None)
            node.set_input(2, Value.constant(bias))
        return
    product = b.MatMul(node.input(0), w, transpose_b=True)
    result = product if bias is None else b.Add(product, bias)
    result.name = node.output.name
    node.output.replace_all_uses(result)
    graph.erase(node)


def _whole(bias: Array, unit: Array) -> Array:
    """A bias as whole numbers of the units of the sums, which have 31 bits."""
    limit = float(2**31 - 1)
    numbers = np.clip(np.rint(bias.astype(np.float64) / unit), -limit, limit)
    return np.asarray(numbers * unit, np.float32)


def split(graph: Graph) -> None:
    """Puts residuals and activations that are part of layers behind these, in place: files have them there.

    The layer keeps the name, unless it is that of an output.
    """
    for node in list(graph):
        if node.op not in LAYERS or not (node.has_input(RESIDUAL) or node.attrs.get("activation")):
            continue
        old = node.output
        new = behind(Builder(graph, node, f"{node.origin} > split".removeprefix(" > ")), node)
        layer = new.producer
        while layer is not None and layer.op != node.op:
            layer = layer.input(0).producer
        assert layer is not None
        new.name, layer.output.name = f"{old.name}/activated", old.name
        if old.is_output:
            new.name, layer.output.name = old.name, f"{old.name}/layer"
        new.type = old.type
        old.replace_all_uses(new)
        graph.erase(node)


def unique_names(graph: Graph, outputs: Sequence[str] = ()) -> None:
    """Gives each tensor a name that no other one has, so that a run can give its contents.

    Args:
        graph: it is changed.
        outputs: the names that its outputs have for users.
    """
    for value, name in zip(graph.outputs, outputs, strict=False):
        if value.producer is not None:
            value.name = name
    used = {v.name for v in (*graph.params, *graph.outputs)}
    kept = {*graph.params, *graph.outputs}
    for k, value in enumerate(graph.values()):
        if value in kept:
            continue
        name = value.name or f"tensor/{k}"
        while name in used:
            name += "_"
        value.name = name
        used.add(name)
