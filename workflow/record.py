"""Dataclasses from JSON-ready values, checked by the types of their fields, and the JSON schema of these."""

from __future__ import annotations

import functools
import math
import re
import types
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")


def record(kind: type[T], values: Any, where: str = "") -> T:
    """An instance of a dataclass. Fields that it does not have are left out, missing ones have their defaults.

    A number that JSON does not have is null there, and NaN here. Fields are strings, numbers, booleans, literals,
    other dataclasses, tuples, mappings by strings, and any of these or None.

    Raises:
        TypeError: a value is not of the type of its field, or a field without a default is missing.
    """
    if not isinstance(values, Mapping):
        raise TypeError(f"{where or 'it'} is {_shown(values)} instead of an object")
    hints = _hints(cast(Any, kind))
    given: dict[str, Any] = {}
    for f in fields(cast(Any, kind)):
        at = f"{where}.{f.name}" if where else f.name
        if f.name in values:
            given[f.name] = _value(hints[f.name], values[f.name], at)
        elif _is_required(f):
            raise TypeError(f"{at} is missing")
    return kind(**given)


def schema(kind: type) -> dict[str, Any]:
    """The JSON schema of a dataclass, with the descriptions of its docstring; objects may have more fields."""
    docs = _attributes(kind)
    hints = _hints(kind)
    own = {f.name: {**_schema(hints[f.name]), **({"description": docs[f.name]} if f.name in docs else {})}
           for f in fields(cast(Any, kind))}  # fmt: skip
    required = [f.name for f in fields(cast(Any, kind)) if _is_required(f)]
    about = (kind.__doc__ or "").partition("\n\n")[0]
    return {"type": "object", "description": " ".join(about.split()), "required": required, "properties": own}


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _is_required(f: Field[Any]) -> bool:
    return f.default is MISSING and f.default_factory is MISSING


def _value(hint: Any, value: Any, where: str) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        (other,) = (t for t in inner if t is not types.NoneType)
        return None if value is None else _value(other, value, where)
    if hint is float:
        if value is None:
            return math.nan
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value) if abs(value) < 1e308 or isinstance(value, float) else math.inf
    elif origin is Literal:
        if value in inner and isinstance(value, type(inner[0])):
            return value
    elif is_dataclass(hint):
        return record(cast(Any, hint), value, where)
    elif origin is tuple and isinstance(value, (list, tuple)):
        kinds = [inner[0]] * len(value) if inner[-1] is Ellipsis else list(inner)
        if len(kinds) == len(value):
            return tuple(_value(k, v, f"{where}[{i}]") for i, (k, v) in enumerate(zip(kinds, value, strict=True)))
    elif hasattr(origin, "keys") and isinstance(value, Mapping):
        return {str(key): _value(inner[1], item, f"{where}.{key}") for key, item in value.items()}
    elif isinstance(hint, type) and isinstance(value, hint) and isinstance(value, bool) == (hint is bool):
        return value
    raise TypeError(f"{where} is {_shown(value)} instead of {_schema(hint).get('type', 'one of its values')}")


def _schema(hint: Any) -> dict[str, Any]:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        (other,) = (t for t in inner if t is not types.NoneType)
        return {"anyOf": [_schema(other), {"type": "null"}]}
    if origin is Literal:
        return {"enum": list(inner)}
    if is_dataclass(hint):
        return schema(cast(type, hint))
    if origin is tuple and inner[-1] is Ellipsis:
        return {"type": "array", "items": _schema(inner[0])}
    if origin is tuple:
        return {"type": "array", "prefixItems": [_schema(t) for t in inner], "minItems": len(inner)}
    if hasattr(origin, "keys"):
        return {"type": "object", "additionalProperties": _schema(inner[1])}
    if hint is float:
        return {"type": ["number", "null"]}
    return {"type": {str: "string", int: "integer", bool: "boolean"}[hint]}


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _attributes(kind: type) -> dict[str, str]:
    """The descriptions of fields, from the section "Attributes" of the docstring."""
    section = (kind.__doc__ or "").partition("Attributes:\n")[2]
    found: dict[str, str] = {}
    for names, text in re.findall(r"^ {8}(\w[\w, ]*): (.*(?:\n {9,}\S.*)*)", section, re.MULTILINE):
        for name in re.split(r", *", names):
            found[name] = " ".join(text.split())
    return found
