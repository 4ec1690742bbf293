"""Encodings that many ops share: op kinds of the file that pack a whole family behind one code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from minnow.schema.ir import DType, Node
from minnow.schema.registry.op import Decoded, Encoding, WireOp, get

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
"""Codes of element types in the file; u32, u64 and the storage types have none."""

TWINS: dict[DType, DType] = {
    DType.U32: DType.I32,
    DType.U64: DType.I64,
    **{t: DType.U8 for t in DType if t.is_storage},
}
"""What the file says of inputs and constants instead, where it has no code: the same bytes, called something else.
The metadata `minnow.types` tells what they are."""

FROM_WIRE_DTYPE = {name: dtype for dtype, name in WIRE_DTYPES.items()}


F32 = frozenset({DType.F32})
F32_I32 = frozenset({DType.F32, DType.I32})
I32 = frozenset({DType.I32})
BOOL = frozenset({DType.BOOL})


def bound(node: Node) -> dict[str, Any]:
    """All attributes of a node, defaults filled in."""
    return get(node.op, node.origin).bind(len(node.inputs), node.attrs, node.origin)


def dtype_of(wire: WireOp, i: int = 0) -> DType | None:
    """Element type of an operand that is being decoded."""
    value = wire.inputs[i] if i < len(wire.inputs) else None
    return None if value is None else value.type.dtype


def constant(wire: WireOp, i: int) -> np.ndarray[Any, Any] | None:
    """The numbers of an operand that is being decoded, None when it is not constant."""
    value = wire.inputs[i] if i < len(wire.inputs) else None
    return None if value is None else value.array


def unary(code: str, dtypes: frozenset[DType] = F32, legacy: str = "") -> Encoding:
    """UnaryOp with an operation code.

    Args:
        code: name in UnaryOpOperation.
        dtypes: element types that the format's runtime computes it for; others get the generic encoding.
        legacy: an op type of its own that old files have for it.
    """

    def encode(node: Node) -> WireOp | None:
        dtype = node.input(0).type.dtype
        if dtype not in dtypes:
            return None
        return WireOp("UnaryOp", "UnaryOp", {"opType": code, "T": WIRE_DTYPES[dtype]}, node.inputs)

    def decode(wire: WireOp) -> Decoded:
        return (wire.inputs, {}) if wire.type == legacy or wire.field("opType", "ABS") == code else None

    return Encoding(encode, decode, ("UnaryOp", legacy) if legacy else ("UnaryOp",))


def binary(
    code: str, dtypes: frozenset[DType] = F32_I32, *, aliases: tuple[str, ...] = (), eltwise: str = ""
) -> Encoding:
    """BinaryOp with an operation code.

    Args:
        code: name in BinaryOpOperation.
        dtypes: element types that the format's runtime computes it for; others get the generic encoding.
        aliases: further codes that mean the same.
        eltwise: code of Eltwise, the older form without broadcasting.
    """

    def encode(node: Node) -> WireOp | None:
        dtype = node.input(0).type.dtype
        if dtype not in dtypes:
            return None
        return WireOp("BinaryOp", "BinaryOp", {"opType": code, "T": WIRE_DTYPES[dtype]}, node.inputs)

    def decode(wire: WireOp) -> Decoded:
        if wire.type == "Eltwise":
            same = wire.field("type", "PROD") == eltwise and len(wire.inputs) == 2 and wire.field("coeff") is None
        else:
            same = wire.field("opType", "ADD") in (code, *aliases) and not wire.field("activationType", 0)
        # bool shares the file's int32 with the integers: which op a code stands for shows in the operands alone.
        types = {v.type.dtype for v in wire.inputs}
        return (wire.inputs, {}) if same and len(types) == 1 and types <= dtypes else None

    return Encoding(encode, decode, ("BinaryOp", "Eltwise") if eltwise else ("BinaryOp",))


def swapped(written: Encoding, read: Encoding) -> Encoding:
    """Writes one encoding with the two operands swapped, reads another one."""

    def encode(node: Node) -> WireOp | None:
        wire = written.encode(node)
        return None if wire is None else replace(wire, inputs=wire.inputs[::-1])

    return Encoding(encode, read.decode, read.types)


def simple(type: str, format: str = "NHWC") -> Encoding:
    """An op type of its own with no parameters."""

    def encode(node: Node) -> WireOp:
        return WireOp(type, inputs=node.inputs, n_outputs=len(node.outputs), format=format)

    return Encoding(encode, lambda w: (w.inputs, {}), (type,))


def fields(type: str, main_type: str = "", /, **names: str | tuple[str, Any]) -> Encoding:
    """An op type whose table holds the attributes: `attr="field"` or `attr=("field", default in the file)`.

    The table has the same name as the type unless `main_type` says otherwise. An attribute equal to None is left out.
    """
    table = main_type or type
    pairs: dict[str, tuple[str, Any]] = {a: (f, None) if isinstance(f, str) else f for a, f in names.items()}

    def encode(node: Node) -> WireOp:
        attrs = bound(node)
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


def computes(encoding: Encoding, dtypes: frozenset[DType] = F32) -> Encoding:
    """The encoding, for nodes whose first operand has one of these types: what the format's runtime computes with."""
    return when(lambda n: n.input(0).type.dtype in dtypes, encoding)
