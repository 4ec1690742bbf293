"""Encodings that many ops share: op kinds of the file that pack a whole family behind one code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minnow.schema.ir import DType, Node
from minnow.schema.ops.op import Decoded, Encoding, WireOp

WIRE_DTYPES: dict[DType, str] = {
    DType.F32: "DT_FLOAT",
    DType.F64: "DT_DOUBLE",
    DType.F16: "DT_HALF",
    DType.BF16: "DT_BFLOAT16",
    DType.I8: "DT_INT8",
    DType.U8: "DT_UINT8",
    DType.I16: "DT_INT16",
    DType.U16: "DT_UINT16",
    DType.I32: "DT_INT32",
    DType.I64: "DT_INT64",
    DType.BOOL: "DT_BOOL",
}
"""Codes of element types in the file; u32 and u64 have none."""

FROM_WIRE_DTYPE = {name: dtype for dtype, name in WIRE_DTYPES.items()}


def unary(code: str) -> Encoding:
    """UnaryOp with an operation code."""

    def encode(node: Node) -> WireOp:
        main = {"opType": code, "T": WIRE_DTYPES.get(node.input(0).type.dtype, "DT_FLOAT")}
        return WireOp("UnaryOp", "UnaryOp", main, node.inputs)

    def decode(wire: WireOp) -> Decoded:
        return (wire.inputs, {}) if wire.field("opType", "ABS") == code else None

    return Encoding(encode, decode, ("UnaryOp",))


def binary(code: str, swap: bool = False) -> Encoding:
    """BinaryOp with an operation code; `swap` writes the operands in the other order (Less as GREATER)."""

    def encode(node: Node) -> WireOp:
        main = {"opType": code, "T": WIRE_DTYPES.get(node.input(0).type.dtype, "DT_FLOAT")}
        return WireOp("BinaryOp", "BinaryOp", main, node.inputs[::-1] if swap else node.inputs)

    def decode(wire: WireOp) -> Decoded:
        if wire.field("opType", "ADD") != code or wire.field("activationType", 0) or swap:
            return None
        return wire.inputs, {}

    return Encoding(encode, decode, ("BinaryOp",))


def simple(type: str) -> Encoding:
    """An op type of its own with no parameters."""
    return Encoding(
        lambda n: WireOp(type, inputs=n.inputs, n_outputs=len(n.outputs)), lambda w: (w.inputs, {}), (type,)
    )


def fields(type: str, main_type: str = "", /, **names: str | tuple[str, Any]) -> Encoding:
    """An op type whose table holds the attributes: `attr="field"` or `attr=("field", default in the file)`.

    The table has the same name as the type unless `main_type` says otherwise. An attribute equal to None is left out.
    """
    table = main_type or type
    pairs: dict[str, tuple[str, Any]] = {a: (f, None) if isinstance(f, str) else f for a, f in names.items()}

    def encode(node: Node) -> WireOp:
        from minnow.schema.ops.op import get

        attrs = get(node.op).bind(len(node.inputs), node.attrs)
        main = {}
        for attr, (field, _) in pairs.items():
            if attrs[attr] is not None:
                main[field] = list(attrs[attr]) if isinstance(attrs[attr], tuple) else attrs[attr]
        return WireOp(type, table, main, node.inputs, len(node.outputs))

    def decode(wire: WireOp) -> Decoded:
        attrs = {}
        for attr, (field, default) in pairs.items():
            value = wire.field(field, default)
            attrs[attr] = tuple(value.tolist()) if hasattr(value, "tolist") else value
        return wire.inputs, attrs

    return Encoding(encode, decode, (type,))


def when(condition: Callable[[Node], bool], encoding: Encoding) -> Encoding:
    """The encoding, for nodes that meet a condition; others get the generic one."""
    return Encoding(lambda n: encoding.encode(n) if condition(n) else None, encoding.decode, encoding.types)
