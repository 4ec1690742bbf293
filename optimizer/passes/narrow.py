"""Types of the file format: what its runtimes compute with."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from minnow.optimizer.rewrite import graph_pass
from minnow.schema.ir import Blob, DType, Graph, LazyBlob, Node, Value
from minnow.schema.ir.blob import nbytes
from minnow.schema.ops import Builder, infer_node

FLOATS = {DType.F64: DType.F32, DType.F16: DType.F32, DType.BF16: DType.F32}
INTS = dict.fromkeys((DType.I64, DType.U64, DType.U32, DType.I16, DType.U16), DType.I32)

_INT32 = np.iinfo(np.int32)


@graph_pass(level=1, whole=True)
def narrow_types(graph: Graph) -> int:
    """Makes f32 of all floats and i32 of all wide integers, in all graphs.

    Results that are int64 by definition (shapes, indices) get a cast. Integers stay wide everywhere when some constant
    does not fit 32 bits; bounds of slices and trip counts are clamped, they only mean "to the end". Weights of
    convolutions stay f16. Boolean parameters become i32, with a comparison behind them.

    Given:
        graph g(%x: f16[2,3], %i: i64[2,3], %c: bool[2,3]) {
          %a: i64[2] = Shape(%x)
          %b: i64[2,3] = Expand(%i, %a)
          %y: i64[2,3] = Where(%c, %b, i64[](7))
          return %y
        }
    Result:
        graph g(%x: f32[2,3], %i: i32[2,3], %c: i32[2,3]) {
          %0: bool[2,3] = NotEqual(%c, i32[](0))
          %1: i64[2] = Shape(%x)
          %2: i32[2] = Cast(%1) {to=i32}
          %3: i32[2,3] = Expand(%i, %2)
          %y: i32[2,3] = Where(%0, %3, i32[](7))
          return %y
        }
    """
    table = {**FLOATS, **(INTS if _fits(graph) else {})}
    return _narrow(graph, table, main=True)


def _fits(graph: Graph) -> bool:
    if any(p.type.dtype in (DType.U32, DType.U64) for p in graph.params):
        return False  # half of their numbers have no place in i32
    for g in graph.walk():
        for value in g.constants():
            if value.type.dtype not in INTS or value.data is None or nbytes(value.data) == 0:
                continue
            array = value.data.numpy()
            if (array.min() < _INT32.min or array.max() > _INT32.max) and not _is_bound(value):
                return False
    return True


def _is_bound(value: Value) -> bool:
    return all((n.op == "Slice" and i > 0) or (n.op == "Loop" and i == 0) for n, i in value.uses)


def _narrow(graph: Graph, table: dict[DType, DType], main: bool) -> int:
    changes = 0
    for param in graph.params:
        if param.type.dtype in table:
            param.type = param.type.with_dtype(table[param.type.dtype])
            changes += 1
        elif param.type.dtype is DType.BOOL and main:
            _unbool(graph, param)
            changes += 1
    constants: dict[Value, Value] = {}
    for node in [*graph, graph.ret]:
        for i, value in enumerate(node.inputs):
            if value is not None and value.data is not None and value.type.dtype in table:
                if value.type.dtype is DType.F16 and i > 0 and _takes_halves(node):
                    continue
                if value not in constants:
                    constants[value] = _converted(value, table[value.type.dtype])
                node.set_input(i, constants[value])
                changes += 1
        if node is not graph.ret:
            changes += _narrow_node(node, table)
    return changes


def _takes_halves(node: Node) -> bool:
    """The op computes with f32 whatever its weights are: convolutions do."""
    return node.op in ("Conv", "ConvTranspose")


def _narrow_node(node: Node, table: dict[DType, DType]) -> int:
    changes = 0
    attrs: dict[str, Any] = {k: table[v] for k, v in node.attrs.items() if isinstance(v, DType) and v in table}
    if attrs:
        node.set_attrs(**attrs)
    for body in node.subgraphs.values():
        changes += _narrow(body, table, main=False)
    types = infer_node(node)
    for value, type in zip(node.outputs, types, strict=True):
        # Inference may know less than what was recorded, never another dtype or layout.
        value.type = value.type.with_dtype(type.dtype)
        if type.dtype in table and node.graph is not None:
            b = Builder(node.graph, node.next, f"{node.origin} > narrow_types")
            cast = b.Cast(value, to=table[type.dtype])
            cast.name = value.name
            value.name = f"{value.name}_{type.dtype}" if value.name else ""
            for reader, i in list(value.uses):
                if reader is not cast.producer:
                    reader.set_input(i, cast)
            changes += 1
    return changes + len(attrs)


def _unbool(graph: Graph, param: Value) -> None:
    readers = list(param.uses)
    param.type = param.type.with_dtype(DType.I32)
    first = next(iter(graph), None)
    truth = Builder(graph, first, "narrow_types").NotEqual(param, 0)
    for node, i in readers:
        node.set_input(i, truth)


def _converted(value: Value, dtype: DType) -> Value:
    blob = value.data
    assert blob is not None

    def compute() -> np.ndarray[Any, Any]:
        array = blob.numpy()
        if dtype is DType.I32:
            array = np.clip(array, _INT32.min, _INT32.max)
        return array.astype(dtype.numpy)

    return Value.constant(LazyBlob(compute, dtype, tuple(blob.shape)), value.name)


@graph_pass(level=1)
def lower_bools(graph: Graph) -> int:
    """Boolean constants become comparisons of integers: the format's runtimes have no constants of that type.

    Given:
        graph g(%x: bool[2]) {
          %y: bool[2] = And(%x, bool[2](True, False))
          return %y
        }
    Result:
        graph g(%x: bool[2]) {
          %0: bool[2] = NotEqual(i32[2](1, 0), i32[](0))
          %y: bool[2] = And(%x, %0)
          return %y
        }
    """
    changes = 0
    for value in graph.constants():
        if value.type.dtype is not DType.BOOL or value.data is None:
            continue
        blob = value.data
        numbers = LazyBlob(partial(_as_int32, blob), DType.I32, tuple(blob.shape))
        truth: Value | None = None
        for node, i in list(value.uses):
            if node.graph is not graph:
                continue
            if node.op == "Loop" and i == 1 and bool(blob.numpy().all()):
                node.set_input(i, None)  # a loop without a condition goes on
                continue
            if truth is None:
                b = Builder(graph, next(iter(graph), None), "lower_bools")
                truth = b.NotEqual(Value.constant(numbers, value.name), 0)
            node.set_input(i, truth)
        changes += 1
    return changes


def _as_int32(blob: Blob) -> np.ndarray[Any, Any]:
    return blob.numpy().astype(np.int32)
