"""Transposes that meet their inverse further on: what stands between them works in the other order of axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import Any

import numpy as np

from minnow.optimizer.layout.cut import Sides, bytes_of
from minnow.optimizer.rewrite import changed_by, erase_dead, graph_pass, rewrite
from minnow.optimizer.rewrite.pattern import Match
from minnow.schema.ir import Graph, Node, Value
from minnow.schema.ops import Builder, Trait, get
from minnow.schema.registry.op import ops_with

Perm = tuple[int, ...]


@graph_pass(level=2)
def sink_transposes(graph: Graph) -> int:
    """Moves transposes to where they cancel, if fewer bytes are moved then.

    Given:
        graph g(%x: f32[1,3,4,5], %y: f32[1,3,4,5]) {
          %a: f32[1,4,5,3] = Transpose(%x) {perm=(0, 2, 3, 1)}
          %b: f32[1,4,5,3] = Transpose(%y) {perm=(0, 2, 3, 1)}
          %c: f32[1,4,5,3] = Add(%a, f32[3](1.0, 2.0, 3.0))
          %d: f32[1,4,5,6] = Concat(%c, %b) {axis=3}
          %e: f32[1,6,4,5] = Transpose(%d) {perm=(0, 3, 1, 2)}
          return %e
        }
    Result:
        graph g(%x: f32[1,3,4,5], %y: f32[1,3,4,5]) {
          %c: f32[1,3,4,5] = Add(%x, f32[1,3,1,1](1.0, 2.0, 3.0))
          %e: f32[1,6,4,5] = Concat(%c, %y) {axis=1}
          return %e
        }
    """
    perms = dict.fromkeys(node.attrs["perm"] for node in graph if node.op == "Transpose")
    return sum(_turn(graph, perm) for perm in perms)


def _reduction(p: Any, x: Any) -> Any:
    named = (*ops_with(Trait.REDUCTION), *ops_with(Trait.ARGUMENT))
    return reduce(or_, (getattr(p, name)(x) for name in named))


@rewrite(lambda p, x: _reduction(p, p.Transpose(x, as_="transpose")), shared=True)
def reduce_before_transpose(b: Builder, m: Match) -> Value | None:
    """What is reduced needs not be moved first; what is left is less, and often in order.

    Given:
        graph g(%x: f32[1,3,4,5]) {
          %a: f32[1,4,5,3] = Transpose(%x) {perm=(0, 2, 3, 1)}
          %y: f32[1,3] = ReduceMean(%a) {axes=(1, 2), keepdims=False}
          return %y
        }
    Result:
        graph g(%x: f32[1,3,4,5]) {
          %y: f32[1,3] = ReduceMean(%x) {axes=(2, 3), keepdims=False}
          return %y
        }
    """
    perm, attrs = m.transpose.attrs["perm"], m.root.attrs
    if attrs.get("keepdims", True):
        return m.no("sink_transposes moves what keeps its axes")
    if "axis" in get(m.root.op).attrs:
        axes = (perm[attrs.get("axis", 0)],)
        changed = {"axis": axes[0]}
    else:
        listed = attrs.get("axes")
        axes = tuple(sorted(perm[a] for a in (range(len(perm)) if listed is None else listed)))
        changed = {"axes": axes}
    y = b.node(m.root.op, [m.x], {**attrs, **changed}).output
    kept = [p for p in perm if p not in axes]
    order = tuple(sorted(kept).index(p) for p in kept)
    return y if order == tuple(sorted(order)) else b.Transpose(y, perm=order)


@rewrite(lambda p, x, place: p.Gather(p.Transpose(x, as_="transpose"), place), shared=True)
def gather_before_transpose(b: Builder, m: Match) -> Value | None:
    """One place is taken out before the rest is moved, if the rest needs to be moved at all then.

    Given:
        graph g(%x: f32[N,5,3]) {
          %a: f32[5,N,3] = Transpose(%x) {perm=(1, 0, 2)}
          %y: f32[N,3] = Gather(%a, i64[](-1))
          return %y
        }
    Result:
        graph g(%x: f32[N,5,3]) {
          %y: f32[N,3] = Gather(%x, i64[](-1)) {axis=1}
          return %y
        }
    """
    perm = m.transpose.attrs["perm"]
    if m.place.type.rank != 0:
        return m.no("it takes out several places, or it is not known how many")
    axis = perm[m.root.attrs.get("axis", 0)]
    kept = [p for p in perm if p != axis]
    order = tuple(sorted(kept).index(p) for p in kept)
    moved = order != tuple(sorted(order))
    if moved and len(m.transpose.output.uses) > 1:
        return m.no("all places that are taken out are moved together")
    y = b.Gather(m.x, m.place, axis=axis)
    return b.Transpose(y, perm=order) if moved else y


def inverse(perm: Perm) -> Perm:
    return tuple(int(i) for i in np.argsort(perm))


@dataclass(frozen=True)
class Turned:
    """How a node is to be written when its axes stand in another order.

    Attributes:
        attrs: its attributes then.
        only_first: the first operand alone is turned, the others stay as they are.
        operands: constants that take the place of operands, by position.
    """

    attrs: Mapping[str, Any]
    only_first: bool = False
    operands: Mapping[int, Any] = field(default_factory=dict)


def _turn(graph: Graph, perm: Perm) -> int:
    """Has nodes between a transpose and its inverse work on what is in front of the transpose, where that pays."""
    back = inverse(perm)
    flexible = {node: turned for node in graph if (turned := _turned(node, perm)) is not None}
    if not flexible:
        return 0
    sides: Sides[Any] = Sides()
    for node in graph:
        if node in flexible:
            sides.place(node, None)
        elif node.op == "Transpose":
            # Its input is its result in the other order, and its inverse wants the other order.
            sides.place(("gives", node), node.attrs["perm"] == perm)
            sides.place(("takes", node), node.attrs["perm"] == back)
    for value in graph.values():
        if value.type.rank == len(perm) and value.uses:
            producer: Any = value.producer
            readers = [n if n in flexible else ("takes", n) for n, _ in value.uses]
            sides.link(producer if producer in flexible else ("gives", producer), readers, bytes_of(value))
    first = sides.solve()
    chosen = {node: turned for node, turned in flexible.items() if node in first}
    after: dict[Value, Value] = {}
    for node, turned in chosen.items():
        b = Builder(graph, node, changed_by(node.origin, "sink_transposes"))
        inputs: list[Any] = [
            v if v is None or (turned.only_first and i) else _operand(b, v, perm, after)
            for i, v in enumerate(node.inputs)
        ]
        for i, array in turned.operands.items():
            inputs[i : i + 1] = [array]
        made = b.node(node.op, inputs, turned.attrs, len(node.outputs), [v.name for v in node.outputs])
        after.update(zip(node.outputs, made.outputs, strict=True))
    for node in chosen:
        for value in node.outputs:
            _restore(graph, value, after[value], chosen, perm)
    erase_dead(graph, list(reversed(graph)))
    return len(chosen)


def _operand(b: Builder, value: Value, perm: Perm, after: dict[Value, Value]) -> Value:
    """The operand in the other order of axes."""
    if value.data is not None:
        array = value.data.numpy()
        full = array.reshape((1,) * (len(perm) - array.ndim) + array.shape) if array.ndim else array
        return Value.constant(full.transpose(inverse(perm)) if array.ndim else array, value.name)
    if value not in after:
        producer = value.producer
        if producer is not None and producer.op == "Transpose" and producer.attrs["perm"] == perm:
            after[value] = producer.input(0)
        else:
            after[value] = b.Transpose(value, perm=inverse(perm))
    return after[value]


def _restore(graph: Graph, old: Value, new: Value, chosen: Mapping[Node, Turned], perm: Perm) -> None:
    """Gives those readers that stay as they are what they read before."""
    plain: Value | None = None
    for reader, i in list(old.uses):
        if reader in chosen:
            continue
        if reader.op == "Transpose" and reader.attrs["perm"] == inverse(perm):
            new.name = reader.output.name or new.name
            reader.output.replace_all_uses(new)
            continue
        if plain is None:
            assert old.producer is not None
            b = Builder(graph, old.producer, changed_by(old.producer.origin, "sink_transposes"))
            plain = b.Transpose(new, perm=perm, names=[old.name])
        reader.set_input(i, plain)


def _turned(node: Node, perm: Perm) -> Turned | None:
    """How the node works in another order of axes; None when it does not."""
    rank, traits = len(perm), get(node.op).traits
    operands = [v for v in node.inputs if v is not None]
    if any(v.type.rank != rank for v in node.outputs) or all(v.is_const for v in operands):
        return None
    if node.op == "PRelu":
        slope = operands[1].array
        if slope is None or slope.ndim > rank:
            return None
        # Its file form wants the slope without axes in front.
        turned = slope.reshape((1,) * (rank - slope.ndim) + slope.shape).transpose(inverse(perm))
        leading = next((i for i, d in enumerate(turned.shape) if d != 1), rank)
        return Turned(node.attrs, only_first=True, operands={1: turned.reshape(turned.shape[leading:])})
    if Trait.ELEMENTWISE in traits and Trait.SPATIAL not in traits:
        # Of lower rank, constants can be given ones in front; what is computed would need a reshape.
        fits = all(v.type.rank == rank or (v.is_const and (v.type.rank or 0) <= rank) for v in operands)
        return Turned(node.attrs) if fits else None
    if operands[0].type.rank != rank:
        return None
    if node.op in _POINTWISE and all(v.type.rank == 0 or node.op == "LookUp" for v in operands[1:]):
        return Turned(node.attrs, only_first=True)
    if node.op in _ALONG:
        if any(v.type.rank != (rank if node.op in _ALIGNED else 1) for v in operands[1:] if v.type.rank != 0):
            return None
        schema = get(node.op)
        attrs = {name: node.attrs.get(name, schema.attrs[name].default) for name in _ALONG[node.op]}
        if Trait.REDUCTION in traits and node.has_input(1):
            return None
        if None in attrs.values():  # the axes of everything
            return Turned(node.attrs) if Trait.REDUCTION in traits else None
        moved = {name: _moved(axis, perm) for name, axis in attrs.items()}
        if node.op == "TopK" and attrs["axis"] in (-1, rank - 1) and moved["axis"] != rank - 1:
            return None  # runtimes of the format, and ours at its best, look along the last axis
        return Turned({**node.attrs, **moved}, only_first=node.op not in _ALIGNED)
    if node.op in ("LayerNorm", "RMSNorm"):
        first = node.attrs.get("axis", -1) % rank
        return Turned(node.attrs, only_first=True) if perm[first:] == tuple(range(first, rank)) else None
    if node.op in ("CumSum", "CumProd") and operands[1].array is not None:
        axis = perm[int(operands[1].array.reshape(()))]
        return Turned(node.attrs, only_first=True, operands={1: np.array(axis, np.int64)})
    if node.op in ("Tile", "Expand") and (numbers := operands[1].array) is not None and len(numbers) == rank:
        return Turned(node.attrs, only_first=True, operands={1: numbers[list(inverse(perm))]})
    if node.op == "Pad" and operands[1].array is not None:
        pads = operands[1].array.reshape(-1, 2)[list(inverse(perm))].reshape(-1)
        return Turned(node.attrs, only_first=True, operands={1: pads})
    if node.op == "Slice" and node.has_input(3) and (listed := node.input(3).array) is not None:
        axes = np.array([perm[int(a)] for a in listed.reshape(-1)], listed.dtype)
        return Turned(node.attrs, only_first=True, operands={3: axes})
    return None


_POINTWISE = frozenset({"LookUp", "QuantizeLinear", "DequantizeLinear"})
"""Ops of each element of the first operand, where the others say what is done to all of them alike."""

_ALIGNED = frozenset({"Concat", "GatherElements", "ScatterElements"})
"""Ops along an axis of which all operands have the axes of the first one."""

_ALONG: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        (*_ALIGNED, *ops_with(Trait.ARGUMENT), "Split", "Softmax", "LogSoftmax", "Hardmax", "TopK"), ("axis",)
    ),
    **dict.fromkeys(("Gather", "Compress"), ("axis",)),
    **dict.fromkeys(ops_with(Trait.REDUCTION), ("axes",)),
    "Reverse": ("axes",),
    "ReverseSequence": ("batch_axis", "time_axis"),
}
"""Ops that keep the other axes where they are, with the attributes that hold those along which they work."""


def _moved(axes: int | tuple[int, ...], perm: Perm) -> int | tuple[int, ...]:
    return perm[axes] if isinstance(axes, int) else tuple(sorted(perm[a] for a in axes))
