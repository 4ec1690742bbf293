"""What is done with a result while it is written: a residual is added, an activation applied."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

from minnow.optimizer.facts.format import FLOATS, is_encodable
from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Call, Match, Tracer, same_shape
from minnow.schema.ir import DType, Node, PackedBlob, Value
from minnow.schema.ops import Builder, all_ops, get
from minnow.schema.ops.epilogue import FUNCTIONS, RESIDUAL, as_activation
from minnow.schema.ops.math_binary import RECTIFIED

_LAYERS = tuple(op.name for op in all_ops() if "residual" in op.operand_names)

_FAR = 1000
"""Nodes between two layers, beyond which it does not matter which of them comes last."""


def _has_residual(node: Node) -> bool:
    operands = get(node.op).inputs
    return len(operands) > RESIDUAL and operands[RESIDUAL].name == "residual"


def _refusal(node: Node) -> str:
    """Why a layer can do no more than it does."""
    if node.output.type.dtype not in FLOATS:
        return "the engine does not compute the layer in f32"
    if isinstance(node.input(1).data, PackedBlob):
        return "the weights are packed, for which only the format's own op has a form"
    return ""


def _finished(b: Builder, node: Node, residual: Value | None, **changes: Any) -> Value:
    inputs = [*node.inputs, *[None] * RESIDUAL][:RESIDUAL]
    return b.node(node.op, [*inputs, residual, *node.inputs[RESIDUAL + 1 :]], {**node.attrs, **changes}).output


def _takes_residual(value: Value, other: Value) -> str:
    """Why the layer that gives `value` cannot add `other` to it; "" where it can."""
    node = value.producer
    if node is None or not _has_residual(node):
        return "neither summand is the result of a layer that could add the other one"
    if len(value.uses) > 1:
        return "the result of the layer is also read by others"
    if node.has_input(RESIDUAL) or node.attrs.get("activation"):
        return "the layer adds something or has an activation already"
    if not same_shape(value, other):
        return f"the summand {other!r} does not have the shape of the result {value!r}"
    return _refusal(node)


def _comes_last(a: Node, b: Node) -> bool:
    """`a` stands behind `b`, as far as the eye can see."""
    node = b.next
    for _ in range(_FAR):
        if node is a or node is None:
            return node is a
        node = node.next
    return False


@rewrite(lambda p, a, b: p.Add(a, b), shared=True, target="minnow")
def fuse_residual(b: Builder, m: Match) -> Value | None:
    """A layer adds another tensor of its result's shape itself; of two layers the one that is computed last.

    Given:
        graph g(%x: f32[1,1,2,2], %z: f32[1,1,2,2]) {
          %a: f32[1,1,2,2] = Conv(%x, f32[1,1,1,1](2.0)) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}
          %y: f32[1,1,2,2] = Add(%z, %a)
          return %y
        }
    Result:
        graph g(%x: f32[1,1,2,2], %z: f32[1,1,2,2]) {
          %y: f32[1,1,2,2] = Conv(%x, f32[1,1,1,1](2.0), _, %z) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}
          return %y
        }
    """
    ways = [(m.a, m.b), (m.b, m.a)]
    reasons = [_takes_residual(*way) for way in ways]
    fitting = [way for way, reason in zip(ways, reasons, strict=True) if not reason]
    if not fitting:
        return m.no(max(reasons, key=lambda r: not r.startswith("neither")))
    if len(fitting) == 2 and _comes_last(m.b.producer, m.a.producer):
        del fitting[0]
    value, other = fitting[0]
    return _finished(b, value.producer, other)


def layers(p: Tracer, x: Any, **attrs: Any) -> Any:
    """The layers that have a residual and an activation, with whatever further operands, under the name "layer"."""
    return reduce(or_, (getattr(p, op)(x, ..., as_="layer", **attrs) for op in _LAYERS))


def _activations(p: Tracer, x: Any) -> Any:
    finished = layers(p, x, activation="")
    return reduce(or_, (getattr(p, op)(finished) for op in dict.fromkeys(f.op.name for f in FUNCTIONS.values())))


@rewrite(_activations, target="minnow")
def fuse_activation(b: Builder, m: Match) -> Value | None:
    """An activation behind a layer is done by it.

    Given:
        graph g(%x: f32[2,3], %z: f32[2,1]) {
          %a: f32[2,1] = Linear(%x, f32[1,3](1.0, 2.0, 3.0), f32[1](1.0), %z)
          %y: f32[2,1] = LeakyRelu(%a) {alpha=0.25}
          return %y
        }
    Result:
        graph g(%x: f32[2,3], %z: f32[2,1]) {
          %y: f32[2,1] = Linear(%x, f32[1,3](1.0, 2.0, 3.0), f32[1](1.0), %z) {activation="leaky_relu", alpha=0.25}
          return %y
        }
    """
    layer: Node = m.layer
    activation = as_activation(m.root.op, m.root.attrs)
    if activation is None:
        return m.no(f"layers do not have {m.root.op} of this form")
    if m.root.attrs.get("min", 0) > m.root.attrs.get("max", float("inf")):
        return m.no("its limits are crossed")
    if reason := _refusal(layer):
        return m.no(reason)
    residual = layer.input(RESIDUAL) if layer.has_input(RESIDUAL) else None
    return _finished(b, layer, residual, **activation)


def _sums(p: Tracer, x: Any, y: Any) -> Call:
    return p.Relu(reduce(or_, (getattr(p, op)(x, y, as_="binary") for op in RECTIFIED)))


@rewrite(_sums)
def fuse_binary_relu(b: Builder, m: Match) -> Value | None:
    """Relu behind binary math is done by it.

    Given:
        graph g(%x: f32[2,3], %z: f32[3]) {
          %a: f32[2,3] = Sub(%x, %z)
          %y: f32[2,3] = Relu(%a)
          return %y
        }
    Result:
        graph g(%x: f32[2,3], %z: f32[3]) {
          %y: f32[2,3] = BinaryRelu(%x, %z) {op="Sub"}
          return %y
        }
    """
    if not is_encodable(m.binary) or m.root.output.type.dtype is not DType.F32:
        return m.no("other runtimes of the format do not compute it, or not in f32")
    return b.BinaryRelu(*m.binary.inputs, op=m.binary.op)
