"""Attributes of ops in the generic encoding: `Extra{engine: "minnow", type: <op>, attr: [Attribute]}`.

One Attribute table per attribute; `type` says which field holds it:

    int        DT_INT32 `i`, or DT_INT64 with the number in decimal in `s` where 32 bits do not hold it
    float      DT_FLOAT `f`           bool   DT_BOOL `b`        str    DT_STRING `s`
    dtype      DT_VARIANT, `i` = its DataType number, or `s` = its name where the format has no number for it
    tuple      DT_INT32 `list.i`, DT_FLOAT `list.f`, DT_STRING `list.s`
    graph      DT_RESOURCE, `s` = name of the subgraph
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minnow.schema.errors import FormatError, UnsupportedError
from minnow.schema.ir import DType, Graph
from minnow.schema.mnn import wire
from minnow.schema.registry.encoding import FROM_WIRE_DTYPE, WIRE_DTYPES

ENGINE = "minnow"


def encode_attribute(name: str, value: Any) -> dict[str, Any]:
    """The Attribute table of one attribute. Raises UnsupportedError for kinds the format cannot hold."""
    if isinstance(value, bool):
        return {"key": name, "type": "DT_BOOL", "b": value}
    if isinstance(value, DType):
        if value not in WIRE_DTYPES:
            return {"key": name, "type": "DT_VARIANT", "s": value.value}
        return {"key": name, "type": "DT_VARIANT", "i": wire.enums["DataType"][WIRE_DTYPES[value]]}
    if isinstance(value, int):
        if -(2**31) <= value < 2**31:
            return {"key": name, "type": "DT_INT32", "i": value}
        return {"key": name, "type": "DT_INT64", "s": str(value)}
    if isinstance(value, float):
        return {"key": name, "type": "DT_FLOAT", "f": value}
    if isinstance(value, str):
        return {"key": name, "type": "DT_STRING", "s": value}
    if isinstance(value, Graph):
        return {"key": name, "type": "DT_RESOURCE", "s": value.name}
    if isinstance(value, tuple):
        if all(isinstance(v, int) for v in value):
            return {"key": name, "type": "DT_INT32", "list": {"i": list(value)}}
        if all(isinstance(v, (int, float)) for v in value):
            return {"key": name, "type": "DT_FLOAT", "list": {"f": list(value)}}
        if all(isinstance(v, str) for v in value):
            return {"key": name, "type": "DT_STRING", "list": {"s": list(value)}}
    raise UnsupportedError(f"the format has no form for the attribute {name}={value!r}")


def encode_attributes(attrs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The Attribute tables, sorted by name; attributes that are None are left out."""
    return [encode_attribute(k, attrs[k]) for k in sorted(attrs) if attrs[k] is not None]


def decode_attributes(tables: list[dict[str, Any]], graphs: Mapping[str, Graph]) -> dict[str, Any]:
    """The inverse of `encode_attributes`. Raises FormatError for a table that holds none of the known kinds."""
    return {str(t.get("key", "")): _value(t, graphs) for t in tables}


def _value(table: dict[str, Any], graphs: Mapping[str, Graph]) -> Any:
    kind = table.get("type", "DT_INVALID")
    try:
        if "list" in table:
            items = table["list"]
            if kind == "DT_INT32":
                return tuple(int(v) for v in items.get("i", ()))
            if kind == "DT_FLOAT":
                return tuple(float(v) for v in items.get("f", ()))
            return tuple(items.get("s", ()))
        if kind == "DT_VARIANT" and "s" in table:
            return DType(table["s"])
        if kind == "DT_VARIANT":
            numbers = {number: name for name, number in wire.enums["DataType"].items()}
            return FROM_WIRE_DTYPE[numbers[table.get("i", 0)]]
        if kind == "DT_INT64":
            return int(table["s"])
        if kind == "DT_RESOURCE":
            return graphs[table["s"]]
        field, default = {
            "DT_BOOL": ("b", False),
            "DT_INT32": ("i", 0),
            "DT_FLOAT": ("f", 0.0),
            "DT_STRING": ("s", ""),
        }[kind]
        return table.get(field, default)
    except (KeyError, ValueError) as e:
        raise FormatError(f"the attribute '{table.get('key')}' is invalid", why=f"{type(e).__name__}: {e}") from None
