"""decode(encode(node)) is the node, for every op with a form of the format's own, on all samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from minnow.schema.ir import DType, Graph, Node, TensorType, Value
from minnow.schema.mnn import wire
from minnow.schema.ops import Builder, Op, Sample, Trait, WireOp, all_ops

Array = np.ndarray[Any, Any]
TYPES = {DType.F32, DType.I32, DType.BOOL, DType.U8, DType.I8}
SUBGRAPHS = {op.name for op in all_ops() if Trait.CONTROL_FLOW in op.traits}  # these need the names in a whole file


def nodes(op: Op) -> Iterator[tuple[Sample, Node, list[Array | None]]]:
    """Every sample in types of the file, with computed operands and with constant ones; and its arrays."""
    for sample in op.cases():
        arrays = [a if a is None or a.dtype != np.int64 else a.astype(np.int32) for a in sample.inputs]
        if any(a is not None and DType.of(a.dtype) not in TYPES for a in arrays):
            continue
        for first_const in {len(arrays), min(1, len(arrays)), 0} if len(arrays) > 1 else {1}:
            graph = Graph()
            values = [operand(graph, a, const=i >= first_const) for i, a in enumerate(arrays)]
            yield sample, Builder(graph).node(op, values, sample.attrs, sample.n_outputs), arrays


def operand(graph: Graph, array: Array | None, const: bool) -> Value | None:
    if array is None or const:
        return None if array is None else Value.constant(array)
    return graph.add_param(TensorType(DType.of(array.dtype), array.shape))


def through_file(op: WireOp) -> WireOp:
    """What is left of it when it has been written and read: no scalars at their default, no arrays as operands."""
    table: dict[str, Any] = {"type": op.type, "defaultDimentionFormat": op.format}
    if op.main_type:
        table |= {"main_type": op.main_type, "main": op.main}
    (read,) = wire.read(wire.write({"oplists": [table]}))["oplists"]
    inputs = [v if v is None or isinstance(v, Value) else Value.constant(v) for v in op.inputs]
    kept = read.get("defaultDimentionFormat", "NHWC")
    return WireOp(read.get("type", "AbsVal"), read.get("main_type", ""), read.get("main"), inputs, op.n_outputs, kept)


def decoded(op: WireOp) -> list[tuple[Op, Any, Any]]:
    found = [(o, o.mnn.decode(op)) for o in all_ops() if o.mnn is not None and op.type in o.mnn.types]
    return [(o, *result) for o, result in found if result is not None]


def same(a: Any, b: Any) -> bool:
    """Two operands: the same value, or constants of equal numbers."""
    if a is None or b is None:
        return a is b
    left, right = (v.array if isinstance(v, Value) and v.is_const else v for v in (a, b))
    if isinstance(left, Value) or isinstance(right, Value):
        return left is right
    left, right = np.asarray(left), np.asarray(right)
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()


def trimmed(operands: Any) -> list[Any]:
    out = list(operands)
    while out and out[-1] is None:
        out.pop()
    return out


# What comes back as another node that computes the same.
EQUIVALENT = {
    "Col2Im": "the sizes of its blocks are written as attributes",
    "Less": "it is written as Greater with the operands swapped",
    "LSTM": "both halves of the bias are written as their sum",
    "Slice": "steps without axes are written with all axes",
    "Reverse": "its axis is written as counted from the front",
    "RNN": "both halves of the bias are written as their sum",
}


@pytest.mark.parametrize("op", [o for o in all_ops() if o.mnn is not None and o.name not in SUBGRAPHS], ids=str)
def test_decode_inverts_encode(op: Op) -> None:
    written = 0
    for sample, node, arrays in nodes(op):
        form = op.mnn.encode(node)
        if form is None:
            continue
        written += 1
        what = f"{op.name}({sample}) as {form.type} {form.main}"
        readings = decoded(through_file(form))
        assert len(readings) == 1, f"{what} is read as {[o.name for o, *_ in readings]}"
        (back, operands, attrs) = readings[0]
        if op.name in EQUIVALENT:
            assert_equivalent(op, node, arrays, back, operands, attrs, what)
            continue
        assert back is op, what
        assert op.builds(operands, attrs) == node.attrs, what
        assert len(trimmed(operands)) == len(node.inputs), what
        for mine, theirs in zip(node.inputs, trimmed(operands), strict=True):
            assert same(mine, theirs), f"{what}: {mine} comes back as {theirs}"
    if op.name not in ("Raw", "Dropout"):
        assert written, f"no sample of {op.name} has a form in the file"


def assert_equivalent(
    op: Op, node: Node, arrays: list[Array | None], back: Op, operands: Any, attrs: Any, what: str
) -> None:
    numbers = {v: a for v, a in zip(node.inputs, arrays, strict=False) if v is not None}
    given = [numbers.get(v, v.array) if isinstance(v, Value) else v for v in operands]
    for before, after in zip(op.evaluate(arrays, node.attrs), back.evaluate(given, attrs), strict=True):
        np.testing.assert_allclose(before, after, rtol=1e-5, atol=1e-6, err_msg=what)
