"""Operators that nothing defines, kept by name: an op of the file of type `Extra`, as MNN's converter writes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import DType, Node, TensorType, Value
from minnow.schema.ops import Builder
from minnow.schema.ops.raw import CUSTOM_ENGINE

_OPSET = "onnx_opset_version"


def custom_node(
    b: Builder, node: onnx.NodeProto, inputs: Sequence[Value | None], types: Sequence[TensorType | None], version: int
) -> Node:
    """A node that stands for an operator.

    Args:
        b: where it goes.
        node: the operator.
        inputs: its operands.
        types: of its results, as far as the file declares them.
        version: of its set of operators.

    Raises:
        UnsupportedError: it has an attribute that the format has no form for.
    """
    attrs = [_attribute(a, b.origin) for a in node.attribute]
    main = {"type": node.op_type, "engine": CUSTOM_ENGINE, "attr": [*attrs, {"key": _OPSET, "i": version}]}
    raw = {"type": "Extra", "main_type": "Extra", "main": main, "format": "NHWC"}
    made = [TensorType(DType.F32) if type is None else type for type in types]
    return b.node("Raw", inputs, raw, len(made), list(node.output), made)


def _attribute(a: onnx.AttributeProto, origin: str) -> dict[str, Any]:
    kinds = onnx.AttributeProto
    value = helper.get_attribute_value(a)
    table: dict[str, Any] = {"key": a.name}
    if a.type == kinds.INT and -(2**31) <= value < 2**31:
        return {**table, "i": value}
    if a.type == kinds.FLOAT:
        return {**table, "f": value}
    if a.type == kinds.STRING:
        return {**table, "s": value.decode("utf-8", "surrogateescape")}
    if a.type == kinds.INTS and all(-(2**31) <= v < 2**31 for v in value):
        return {**table, "list": {"i": list(value)}}
    if a.type == kinds.FLOATS:
        return {**table, "list": {"f": list(value)}}
    if a.type == kinds.STRINGS:
        return {**table, "list": {"s": [v.decode("utf-8", "surrogateescape") for v in value]}}
    if a.type == kinds.TENSOR and a.t.data_type == onnx.TensorProto.FLOAT:
        array = np.ascontiguousarray(numpy_helper.to_array(a.t))
        blob = {"dims": list(array.shape), "dataFormat": "NCHW", "float32s": array.reshape(-1)}
        return {**table, "tensor": blob}
    kind = kinds.AttributeType.Name(a.type)
    raise UnsupportedError(f"the attribute '{a.name}' has no form in the file", where=origin, why=f"it is {kind}")
