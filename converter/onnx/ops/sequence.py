"""Sequences and optionals. Where their lengths are known, the optimizer turns them into plain tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minnow.converter.onnx.frontend import frontend as onnx
from minnow.converter.onnx.tensor import dtype_of
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import DType, Graph, TensorType, Value
from minnow.schema.ir.type import optional, sequence
from minnow.schema.ops import Builder
from minnow.schema.registry.encoding import bound


def element_of(value: Value, what: str) -> TensorType:
    """What is known of the tensors in a sequence. Raises UnsupportedError when not even their element type is."""
    if not value.type.holds_tensors:
        raise ModelError(f"{what} is a tensor of type {value.type}, not a sequence or an optional")
    if value.type.element is None:
        raise UnsupportedError(f"the type of the tensors in {what} is not known")
    return value.type.element


def dimensions(type: TensorType) -> tuple[int, ...] | None:
    """The shape as an attribute: -1 stands for any dimension."""
    return None if type.shape is None else tuple(d if isinstance(d, int) else -1 for d in type.shape)


def at(b: Builder, holder: Value, position: Any, what: str) -> Value:
    """The element of a sequence or an optional at a position."""
    type = element_of(holder, what)
    shape = None if type.holds_tensors else dimensions(type)
    taken: Value = b.SequenceAt(holder, position, dtype=type.dtype, shape=shape)
    return taken


@onnx.op("SequenceEmpty")
def _(b, *, dtype=1):
    return b.SequenceConstruct(dtype=dtype_of(dtype, "an empty sequence"))


@onnx.op("SequenceConstruct")
def _(b, *xs):
    _one_dtype([x.type for x in xs])
    return b.SequenceConstruct(*xs)


@onnx.op("SequenceInsert")
def _(b, holder, x, position=None):
    _one_dtype([element_of(holder, "the sequence"), x.type])
    return b.SequenceInsert(holder, x, position)


def _one_dtype(types: Sequence[TensorType]) -> None:
    if any(t.holds_tensors for t in types):
        raise UnsupportedError("sequences of sequences are not supported")
    if len({t.dtype for t in types}) > 1:
        raise ModelError(
            f"the tensors of a sequence must have one element type, but there are {' and '.join(str(t) for t in types)}"
        )


@onnx.op("SequenceErase")
def _(b, holder, position=None):
    element_of(holder, "the sequence")
    return b.SequenceErase(holder, position)


@onnx.op("SequenceAt")
def _(b, holder, position):
    return at(b, holder, position, "the sequence")


@onnx.op("SequenceLength")
def _(b, holder):
    element_of(holder, "the sequence")
    return b.SequenceLength(holder)


@onnx.op("ConcatFromSequence")
def _(b, holder, *, axis, new_axis=0):
    type = element_of(holder, "the sequence")
    made = b.ConcatFromSequence(holder, axis=axis, new_axis=bool(new_axis), dtype=type.dtype)
    if shape := dimensions(made.type):
        made.producer.set_attrs(shape=shape)
    return made


@onnx.op("SplitToSequence")
def _(b, x, split=None, *, axis=0, keepdims=1):
    if split is not None and not keepdims and split.type.rank != 1:
        # The specification ignores keepdims beside a split. Exporters write single slices without their axis so (unbind
        # of PyTorch), and onnxruntime gives them.
        if split.data is None:
            raise UnsupportedError(
                "SplitToSequence with a computed split and keepdims=0 is not supported",
                hint="set keepdims, or leave out the split",
            )
        if split.data.numpy() == 1:
            split = None
    return b.SplitToSequence(x, split, axis=axis, keepdims=bool(keepdims))


_MOST_NODES = 1024
"""A loop with a body is smaller than more nodes than this."""


def _count(holder: Value) -> int | None:
    """How many tensors a sequence holds, when that is known here."""
    node = holder.producer
    if node is None or node.op not in ("SequenceConstruct", "SplitToSequence"):
        return None
    if node.op == "SequenceConstruct":
        return len(node.inputs)
    shape, attrs = node.input(0).type.shape, bound(node)
    dimension = None if shape is None else shape[attrs["axis"]]
    return dimension if isinstance(dimension, int) and not node.has_input(1) else None


def _round(b: Builder, body: Graph, operands: Sequence[Value], captured: Sequence[Value], i: int) -> list[Value]:
    """The results of one round of a map, whose nodes go into the current graph."""
    given = [at(b, v, np.array(i, np.int64), "a sequence") if v.type.holds_tensors else v for v in operands]
    return b.graph.absorb(body, dict(zip(body.params, [*given, *captured], strict=True)))


@onnx.op("SequenceMap")
def _(b, first, *others, body, node):
    """A loop over the positions: its body takes an element of every sequence, and the tensors as they are.

    Where it is known how many there are, the body stands there as often, and the sequences can vanish.
    """
    operands = [first, *others]
    holders = [v.type.holds_tensors for v in operands]
    if not holders[0]:
        raise ModelError("the first input of SequenceMap is not a sequence")
    types = [element_of(v, "a sequence") if held else v.type for v, held in zip(operands, holders, strict=True)]
    inner, captured = node.context.subgraph(body, types)
    results = [v.type for v in inner.outputs]
    if any(t.holds_tensors for t in results):
        raise UnsupportedError("sequences of sequences are not supported")
    count = _count(first)
    if count is not None and count * len(inner) <= _MOST_NODES:
        rows = [_round(b, inner.clone(), operands, captured, i) for i in range(count)]
        dtypes = [t.dtype for t in results]
        return tuple(b.SequenceConstruct(*(row[k] for row in rows), dtype=dtype) for k, dtype in enumerate(dtypes))
    # What all rounds give in one shape is stacked by the loop, which copies it once; else a sequence grows.
    stacked = all(t.is_static for t in results)
    graph = Graph(f"{node.name}/body")
    step = graph.add_param(TensorType(DType.I64, ()), "step")
    graph.add_param(TensorType(DType.BOOL, ()), "cond")
    kept = [] if stacked else results
    grown = [graph.add_param(sequence(TensorType(t.dtype)), f"results{i}") for i, t in enumerate(kept)]
    table: dict[Value, Value] = {}
    inside = Builder(graph, origin=b.origin)
    outside = [graph.add_param(v.type, v.name or f"operand{i}") for i, v in enumerate(operands)]
    for p in inner.params[len(operands) :]:
        table[p] = graph.add_param(p.type, p.name)
    for p, v, held in zip(inner.params, outside, holders, strict=False):
        table[p] = at(inside, v, step, "a sequence") if held else v
    outputs = graph.absorb(inner, table)
    if not stacked:
        outputs = [inside.SequenceInsert(s, v) for s, v in zip(grown, outputs, strict=True)]
    graph.outputs = [inside.const(np.array(True)), *outputs]
    empty = [b.SequenceConstruct(dtype=t.dtype) for t in kept]
    made = b.Loop(b.SequenceLength(first), None, *empty, *operands, *captured, body=graph, num_carried=len(empty),
                  n_outputs=len(results))  # fmt: skip
    return tuple(b.SplitToSequence(v, axis=0, keepdims=False) for v in made) if stacked else tuple(made)


# ---- optionals ---------------------------------------------------------------------------------------------------


@onnx.op("Optional")
def _(b, x=None, *, type=None, node):
    if x is not None:
        return b.SequenceConstruct(x, is_optional=True)
    if type is None:
        raise ModelError("an Optional without an operand needs the attribute 'type'")
    element = node.context.type_of(type, "the attribute 'type'")
    empty = b.SequenceConstruct(is_optional=True, dtype=element.dtype)
    # A tensor of bytes and a sequence are alike to the op; here it is known which of them is missing.
    empty.type = optional(element)
    return empty


@onnx.op("OptionalHasElement")
def _(b, x=None):
    if x is None or x.type.layout != "optional":
        return b.const(np.array(x is not None))
    return b.Cast(b.SequenceLength(x), to=DType.BOOL)


@onnx.op("OptionalGetElement")
def _(b, x):
    return at(b, x, np.array(0, np.int64), "the optional") if x.type.layout == "optional" else x


def wrap_optionals(body: Graph, carried: Sequence[Value]) -> set[int]:
    """Makes optionals of what the body of a loop gives for carried values that begin as such; gives their places.

    In ONNX what the last round leaves behind may be the very element of what the first one gets.
    """
    outputs = list(body.outputs)
    wrapped = {
        i for i, v in enumerate(carried) if v.type.layout == "optional" and outputs[1 + i].type.layout != "optional"
    }
    for i in wrapped:
        outputs[1 + i] = Builder(body).SequenceConstruct(outputs[1 + i], is_optional=True)
    body.outputs = outputs
    return wrapped
