"""Operator options as plain values: every field by its name in snake_case, enumerations by the names of their values.

The classes of the package `tflite` are generated from the schema, so that their methods are the list of fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import flatbuffers
import tflite

from minnow.converter.tflite.tensor import DTYPES

# Enumerations by the names of the fields that hold them.
_ENUMS = {
    "Padding": tflite.Padding,
    "FusedActivationFunction": tflite.ActivationFunctionType,
    "Mode": tflite.MirrorPadMode,
    "Combiner": tflite.CombinerType,
    "KernelType": tflite.LSTMKernelType,
    "WeightsFormat": tflite.FullyConnectedOptionsWeightsFormat,
    "ReduceFunction": tflite.ReduceWindowFunction,
    "ComparisonDirection": tflite.StablehloComparisonDirection,
    "CompareType": tflite.StablehloComparisonType,
    "Algorithm": tflite.RngAlgorithm,
}
_TYPES = frozenset({"InDataType", "OutDataType", "OutType", "OutputType", "IdxOutType"})
_SUFFIXES = ("AsNumpy", "Length", "IsNone")


@cache
def _fields(kind: type) -> tuple[tuple[str, bool], ...]:
    """(name, whether it is a vector) of the fields of a table."""
    names = [n for n in vars(kind) if n[0].isupper() and not n.endswith("HasIdentifier")]
    vectors = {n.removesuffix("Length") for n in names if n.endswith("Length")}
    plain = [n for n in names if n != "Init" and not n.startswith("GetRoot") and not n.endswith(_SUFFIXES)]
    return tuple((n, n in vectors) for n in plain)


@cache
def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


@cache
def _kinds(enum: type) -> dict[int, str]:
    return {v: k for k, v in vars(enum).items() if isinstance(v, int) and k[0] != "_" and k != "NONE"}


@cache
def _empty(kind: Any) -> dict[str, Any]:
    """What the fields are that a file does not give."""
    builder = flatbuffers.Builder(32)
    builder.StartObject(0)
    builder.Finish(builder.EndObject())
    return _values(kind.GetRootAs(builder.Output(), 0), lambda size: None)


@cache
def _enum(field: str) -> dict[int, str]:
    return {v: k for k, v in vars(_ENUMS[field]).items() if isinstance(v, int) and k[0] != "_"}


def activation_of(code: int) -> str:
    """The name of a fused activation by its number, as custom operators give it."""
    return _enum("FusedActivationFunction").get(code, f"value {code}")


def options(op: Any, spend: Callable[[int], None]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of an operator, and what they are where the file does not give them.

    Args:
        op: the accessor.
        spend: called with the bytes of what is about to be read.
    """
    for kind, table, unions in (
        (op.BuiltinOptionsType(), op.BuiltinOptions, tflite.BuiltinOptions),
        (op.BuiltinOptions2Type(), op.BuiltinOptions2, tflite.BuiltinOptions2),
    ):
        name = _kinds(unions).get(kind)
        union = table() if name else None
        if name and union is not None:
            accessor = getattr(tflite, name)
            reader = accessor()
            reader.Init(union.Bytes, union.Pos)
            return _values(reader, spend), _empty(accessor)
        if kind and not name:
            raise ValueError(f"options of kind {kind}")
    return {}, {}


def _values(table: Any, spend: Callable[[int], None]) -> dict[str, Any]:
    kind: Any = type(table)
    return {_snake(name): _value(table, name, vector, spend) for name, vector in _fields(kind)}


def _value(table: Any, name: str, vector: bool, spend: Callable[[int], None]) -> Any:
    if vector:
        count = int(getattr(table, f"{name}Length")())
        spend(8 * count + 4)
        if not hasattr(table, f"{name}AsNumpy"):
            return tuple(getattr(table, name)(i) for i in range(count))
        return tuple(v.item() for v in getattr(table, f"{name}AsNumpy")()) if count else ()
    raw = getattr(table, name)()
    if raw is None:
        return ""
    if isinstance(raw, bytes):
        spend(len(raw))
        return raw.decode("utf-8", "replace")
    if name in _ENUMS:
        return _enum(name).get(raw, f"value {raw}")
    if name in _TYPES:
        return DTYPES.get(raw, raw)
    return raw
