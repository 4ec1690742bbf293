"""Graph -> graph: small integers become floats that hold the same numbers, or tensors that MNN's runtime rounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minnow.optimizer.facts.limits import name_of
from minnow.optimizer.facts.range import Ranges, analyze
from minnow.optimizer.portable.sharing import LEAST_STORED, ExpandedBlob
from minnow.optimizer.portable.steps import Steps, choose_steps
from minnow.schema.ir import Blob, DType, Graph, Node, TensorType, Value
from minnow.schema.ops import Builder, Trait, get

Array = np.ndarray[Any, Any]
SMALL = frozenset({DType.I8, DType.U8, DType.I16, DType.U16})
"""Integers that the other graph has as floats: these hold them exactly."""


class NoFormError(Exception):
    """A node has no form in the other graph. The text says which, and why."""


@dataclass(frozen=True)
class Rounding:
    """How MNN's runtime rounds a tensor to 8 bits: real = (q - zero) * scale, with least <= q <= most."""

    scale: float
    zero: int
    least: int = -128
    most: int = 127

    @property
    def row(self) -> dict[str, Any]:
        """What the file says of the tensor."""
        numbers = {"scale": self.scale, "zero": self.zero, "min": self.least, "max": self.most}
        return {**{k: float(v) for k, v in numbers.items()}, "type": "DT_INT8"}

    def fits(self, other: Rounding) -> bool:
        """The integers mean the same, whatever their limits are."""
        return self.scale == other.scale and self.zero == other.zero


@dataclass
class _Small:
    """Small integers in the other graph.

    Attributes:
        floats: f32 that hold the numbers.
        rounded: reals that MNN's runtime keeps as 8 bits, and how.
    """

    floats: Value | None = None
    rounded: tuple[Value, Rounding] | None = None
    ints: Value | None = None


@dataclass
class Portable:
    """What `portable` makes.

    Attributes:
        graph: with the same parameters and outputs.
        in_integers: nodes by op that MNN's runtime computes with integers of 8 bits.
        in_floats: the names of the nodes, by op, that it computes with floats instead.
        turned: the weights of products in the first graph that lie on their side here.
    """

    graph: Graph
    in_integers: Counter[str] = field(default_factory=Counter)
    in_floats: dict[str, list[str]] = field(default_factory=dict)
    turned: list[Blob] = field(default_factory=list)


Rule = Callable[["Translation", Node], None]
_RULES: dict[str, Rule] = {}


def computes(*names: str) -> Callable[[Rule], Rule]:
    """Registers what becomes of the nodes of ops that take or give small integers."""

    def register(rule: Rule) -> Rule:
        _RULES.update(dict.fromkeys(names, rule))
        return rule

    return register


def is_small(value: Value | None) -> bool:
    """Whether a value of the old graph is a small integer."""
    return value is not None and value.type.dtype in SMALL


def has_small_integers(graph: Graph) -> bool:
    """Something in the graph, or in one nested in it, is a small integer, or computed as those are."""
    return any(
        _is_ours(node) or any(is_small(v) for v in (*node.inputs, *node.outputs)) for g in graph.walk() for node in g
    )


def _is_ours(node: Node) -> bool:
    """Only Minnow's engine has the op, and there is a rule for it."""
    return node.op in _RULES and get(node.op).mnn is None


def portable(graph: Graph) -> Portable:
    """The graph in ops that do not compute with small integers.

    Raises:
        NoFormError: a node has no such form.
    """
    return Translation(graph).run()


class Translation:
    """One run. Functions of ops ask for what a value of the old graph is in the new one, and say what a result is."""

    def __init__(self, graph: Graph) -> None:
        self.old = graph
        self.made = Portable(Graph(graph.name))
        self.b = Builder(self.made.graph)
        self.steps: Steps = choose_steps(graph)
        self.ranges: Ranges = analyze(graph)
        self._plain: dict[Value, Value] = {}
        self._small: dict[Value, _Small] = {}

    def run(self) -> Portable:
        for param in self.old.params:
            self._plain[param] = self.made.graph.add_param(_outside(param.type), param.name)
        for param in self.old.params:
            if is_small(param):
                self._small[param] = _Small(self.b.Cast(self._plain[param], to=DType.F32))
        for node in self.old:
            self.b.origin = node.origin
            self._node(node)
        self.made.graph.outputs = [self._output(v) for v in self.old.outputs]
        return self.made

    def _node(self, node: Node) -> None:
        nested = [g for graph in node.subgraphs.values() for g in graph.walk()]
        rule = _RULES.get(node.op)
        if not _is_ours(node) and not any(is_small(v) for v in (*node.inputs, *node.outputs)):
            if any(has_small_integers(g) for g in nested):
                raise NoFormError(f"{node.op} with small integers inside")
            self.copy(node)
            return
        if rule is not None:
            rule(self, node)
        elif get(node.op).traits & {Trait.MOVEMENT, Trait.COMPARE, Trait.ARGUMENT}:
            on_floats(self, node)
        else:
            raise NoFormError(f"{node.op} of small integers")

    def copy(self, node: Node) -> None:
        """The node as it is."""
        attrs = {k: v.clone() if isinstance(v, Graph) else v for k, v in node.attrs.items()}
        types = [v.type for v in node.outputs]
        names = [v.name for v in node.outputs]
        operands = [None if v is None else self.value(v) for v in node.inputs]
        made = self.b.node(node.op, operands, attrs, len(node.outputs), names, types)
        self._plain.update(zip(node.outputs, made.outputs, strict=True))

    def _output(self, value: Value) -> Value:
        if not is_small(value):
            return self.value(value)
        made: Value = self.b.Cast(self.floats(value), to=_outside(value.type).dtype)
        return made

    # ---- what a value of the old graph is

    def value(self, value: Value) -> Value:
        """The same value, of another type than small integers."""
        if value not in self._plain:
            assert value.data is not None, value
            self._plain[value] = Value(value.type, value.name, value.data)
        return self._plain[value]

    def floats(self, value: Value) -> Value:
        """f32 that hold the numbers of a value of any type."""
        if not is_small(value):
            if value.type.dtype is DType.F32:
                return self.value(value)
            if value.array is not None and value.type.dtype is not DType.I64:
                return Value.constant(value.array.astype(np.float32), value.name)
            made: Value = self.b.Cast(self.value(value), to=DType.F32)
            return made
        found = self._small.setdefault(value, _Small())
        if found.floats is None:
            if value.data is not None:
                found.floats = _floats_of(value, value.data)
            else:
                assert found.rounded is not None
                real, rounding = found.rounded
                steps = self.freed(real, 1.0 / rounding.scale)
                # The quotient may be beside a whole number by an error of rounding.
                steps = steps if rounding.scale == 1.0 else self.b.Round(steps, halves="away")
                found.floats = self.plus(steps, rounding.zero + offset_of(value.type.dtype))
        return found.floats

    def ints(self, value: Value) -> Value:
        """i32 that hold the numbers of a value."""
        if not is_small(value):
            return self.value(value) if value.type.dtype is DType.I32 else self.b.Cast(self.value(value), to=DType.I32)
        if value.array is not None:
            return self.b.const(value.array.astype(np.int32))
        found = self._small.setdefault(value, _Small())
        if found.ints is None:
            found.ints = self.b.Cast(self.floats(value), to=DType.I32)
        return found.ints

    def place(self, value: Value) -> Value:
        """The places of small integers in a table of all numbers of their type."""
        lowest, _ = ends_of(value.type.dtype)
        at = self.b.Sub(self.ints(value), np.int32(lowest)) if lowest else self.ints(value)
        # Always true: so nothing has to look for places that are counted from the end.
        made: Value = self.b.Max(at, np.int32(0))
        return made

    def rounded(self, value: Value, zero: int) -> tuple[Value, Rounding]:
        """The reals of integers of 8 bits, as MNN's runtime keeps them.

        Args:
            value: of i8 or u8.
            zero: the integer for 0.0, of that type.
        """
        wanted = Rounding(self.steps.scale(value), zero - offset_of(value.type.dtype))
        found = self._small.setdefault(value, _Small())
        if found.rounded is None or not found.rounded[1].fits(wanted):
            real = self.layer("BinaryOp", _times(), [self.plus(self.floats(value), -zero), np.float32(wanted.scale)],
                              [None, None, wanted], "BinaryOp", value.type.shape)  # fmt: skip
            found.rounded = real, wanted
        return found.rounded

    def freed(self, real: Value, factor: float = 1.0) -> Value:
        """Reals that MNN's runtime has as 8 bits, as floats: what is done with these is done with floats."""
        return self.layer("BinaryOp", _times(), [real, np.float32(factor)], [None, None, None], "BinaryOp",
                          real.type.shape)  # fmt: skip

    def plus(self, x: Value, number: float) -> Value:
        return self.b.Add(x, np.float32(number)) if number else x

    def in_floats(self, node: Node) -> None:
        """Counts a node that is computed with floats."""
        self.made.in_floats.setdefault(node.op, []).append(name_of(node))

    # ---- what a result is

    def set_value(self, old: Value, new: Value) -> None:
        new.name = old.name
        self._plain[old] = new

    def set_floats(self, old: Value, new: Value) -> None:
        self._small[old] = _Small(new)

    def set_rounded(self, old: Value, new: Value, rounding: Rounding) -> None:
        self._small[old] = _Small(rounded=(new, rounding))

    def layer(self, type: str, main: Any, operands: Any, roundings: list[Rounding | None], main_type: str,
              shape: Any) -> Value:  # fmt: skip
        """A node of the file whose tensors are rounded; inputs first."""
        rows = [None if r is None else r.row for r in roundings]
        attrs = {"type": type, "main_type": main_type, "main": main, "roundings": rows, "shape": shape}
        return self.b.node("Raw", operands, attrs, types=[TensorType(DType.F32, shape)]).output


def _floats_of(value: Value, data: Blob) -> Value:
    many = value.type.dtype in (DType.I8, DType.U8) and (value.type.count or 0) >= LEAST_STORED
    return Value.constant(ExpandedBlob(data) if many else data.numpy().astype(np.float32), value.name)


def _outside(type: TensorType) -> TensorType:
    """The type that inputs and outputs of the file have: there is none of 16 bits."""
    return type.with_dtype(DType.I32) if type.dtype in (DType.I16, DType.U16) else type


def ends_of(dtype: DType) -> tuple[int, int]:
    """The least and the greatest number of an integer type."""
    numpy: Any = dtype.numpy
    info = np.iinfo(numpy)
    return int(info.min), int(info.max)


def offset_of(dtype: DType) -> int:
    """What is taken from integers of 8 bits so that they fit a signed byte."""
    return 128 if dtype is DType.U8 else 0


def _times() -> dict[str, Any]:
    return {"opType": "MUL", "T": "DT_FLOAT"}


def on_floats(t: Translation, node: Node) -> None:
    """The same op on floats with the same numbers."""
    operands = [None if v is None else t.floats(v) if is_small(v) else t.value(v) for v in node.inputs]
    made = t.b.node(node.op, operands, node.attrs, len(node.outputs))
    for old, new in zip(node.outputs, made.outputs, strict=True):
        t.set_floats(old, new) if is_small(old) else t.set_value(old, new)
    if Trait.MOVEMENT not in get(node.op).traits:
        t.in_floats(node)
