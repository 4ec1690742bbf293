"""Forms that other converters write and ours does not: each is read as the op that means the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minnow.schema.ir import DType, Graph, TensorType, Value
from minnow.schema.ops import WireOp, all_ops


def value(dtype: DType, shape: tuple[int, ...] = (2, 3, 5, 7)) -> Value:
    return Graph().add_param(TensorType(dtype, shape))


F, N, B = (value(t) for t in (DType.F32, DType.I32, DType.BOOL))


def binary(code: str, a: Value = F, b: Value | None = None, **more: Any) -> WireOp:
    return WireOp("BinaryOp", "BinaryOp", {"opType": code, **more}, [a, a if b is None else b])


def reduction(code: str, x: Value = F, *axes: Any, **more: Any) -> WireOp:
    return WireOp("Reduction", "ReductionParam", {"operation": code, **more}, [x, *axes])


def layer_norm(**fields: Any) -> WireOp:
    return WireOp("LayerNorm", "LayerNorm", fields, [F])


AXES = Value.constant(np.array([1, -1], np.int32))

FORMS: list[tuple[WireOp, str, dict[str, Any]]] = [
    (binary("LESS"), "Less", {}),
    (binary("DIV"), "Div", {}),
    (binary("MAX_TEMP"), "Max", {}),
    (binary("MUL", B), "And", {}),
    (binary("MUL", N), "Mul", {}),
    (binary("EQUAL"), "Equal", {}),
    (binary("MOD"), "Mod", {"fmod": True}),
    (binary("MOD", N), "Mod", {}),
    (binary("FLOORMOD"), "Mod", {}),
    (binary("FLOORMOD", N), "Mod", {"fmod": True}),
    (WireOp("BinaryOp", "BinaryOp", {}, [F, F]), "Add", {}),
    (WireOp("Eltwise", "Eltwise", {"type": "SUM"}, [F, F]), "Add", {}),
    (WireOp("Eltwise", "Eltwise", {}, [F, F]), "Mul", {}),
    (WireOp("AbsVal", inputs=[F]), "Abs", {}),
    (WireOp("Sigmoid", inputs=[F]), "Sigmoid", {}),
    (WireOp("TanH", inputs=[F]), "Tanh", {}),
    (WireOp("Dropout", inputs=[F]), "Identity", {}),
    (WireOp("UnaryOp", "UnaryOp", {"opType": "ROUND"}, [F]), "Round", {"halves": "away"}),
    (WireOp("ReLU", inputs=[F]), "Relu", {}),
    (WireOp("ReLU6", inputs=[F]), "Clip", {"min": 0.0, "max": 6.0}),
    (WireOp("Cast", "CastParam", {"dstT": "DT_BOOL"}, [F]), "Cast", {"to": DType.BOOL}),
    (WireOp("Cast", "CastParam", {"dstT": "DT_HALF"}, [N]), "Cast", {"to": DType.F32}),
    (WireOp("Cast", "CastParam", {"dstT": "DT_INT64"}, [F]), "Cast", {"to": DType.I32}),
    (reduction("MEAN", F, AXES, keepDims=True), "ReduceMean", {"axes": (1, -1)}),
    (reduction("SUM"), "ReduceSum", {"keepdims": False}),
    (reduction("SUM", F, value(DType.I32, (2,))), "ReduceSum", {"keepdims": False}),
    (reduction("ANY", B, keepDims=True), "ReduceMax", {}),
    (WireOp("Softmax", "Axis", {}, [F]), "Softmax", {"axis": 0}),
    (layer_norm(axis=np.array([2, 3], np.int32), epsilon=0.5), "LayerNorm", {"axis": 2, "epsilon": 0.5}),
    (layer_norm(axis=np.array([-1], np.int32), useRMSNorm=True, epsilon=0.5), "RMSNorm", {"epsilon": 0.5}),
    (binary("ADD", activationType=1), "BinaryRelu", {}),
    (binary("DIV", activationType=1), "BinaryRelu", {"op": "Div"}),
    (WireOp("BatchMatMul", "BatchMatMulParam", {"adjY": True}, [F, F]), "MatMul", {"transpose_b": True}),
    (WireOp("ArgMax", "ArgMax", {"axis": 2}, [F]), "ArgMax", {"axis": 2, "keepdims": False}),
]


@pytest.mark.parametrize(("form", "name", "attrs"), FORMS, ids=lambda v: v if isinstance(v, str) else "")
def test_is_read_as(form: WireOp, name: str, attrs: dict[str, Any]) -> None:
    found = [(op, op.mnn.decode(form)) for op in all_ops() if op.mnn is not None and form.type in op.mnn.types]
    ((op, (operands, given)),) = [(op, result) for op, result in found if result is not None]
    assert op.name == name
    assert op.builds(operands, given) == attrs


UNREAD = [
    binary("ADD", activationType=2),
    binary("POW", activationType=1),
    binary("MUL_SILU"),
    binary("MUL", B, N),
    WireOp("Eltwise", "Eltwise", {"type": "SUM"}, [F, F, F]),
    WireOp("Eltwise", "Eltwise", {"type": "SUM", "coeff": np.array([1, -1], np.float32)}, [F, F]),
    WireOp("UnaryOp", "UnaryOp", {"opType": "ERFINV"}, [F]),
    reduction("ALL", N),
    reduction("ASUM"),
    reduction("SUM", F, value(DType.I32, ("n",))),
    layer_norm(axis=np.array([-1], np.int32), group=2),
    WireOp("ArgMax", "ArgMax", {"axis": 10000, "topK": 5}, [F]),
    WireOp("LRN", "LRN", {"regionType": 1, "localSize": 3}, [F]),
    WireOp("LSTM", "LSTM", {"outputCount": 3, "weightI": {}}, [F]),
    WireOp("Identity", inputs=[F, F], n_outputs=2),
]


@pytest.mark.parametrize("form", UNREAD, ids=lambda f: f.type)
def test_is_left_as_it_stands(form: WireOp) -> None:
    assert not [op for op in all_ops() if op.mnn is not None and form.type in op.mnn.types and op.mnn.decode(form)]
