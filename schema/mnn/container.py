"""Sequences and optionals at the border: what files and sessions call them, and Python values to bytes and back.

A container is written around the type of its tensors: "sequence", "optional", or "optional(sequence)".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from minnow.schema.errors import UnsupportedError, UsageError
from minnow.schema.ir import TensorType
from minnow.schema.ir.blob import Array
from minnow.schema.ir.sequence import pack, unpack
from minnow.schema.ir.type import optional, sequence

CONTAINERS = ("", "sequence", "optional", "optional(sequence)")


def opened(type: TensorType, name: str) -> tuple[str, TensorType]:
    """The container of a type, "" for a tensor, and the type of the tensors in it.

    Raises:
        UnsupportedError: not even the element type of these is known.
    """
    kinds = []
    while type.holds_tensors:
        kinds.append(type.layout)
        if type.element is None:
            raise UnsupportedError(f"the type of the tensors in '{name}' is not known", where=name)
        type = type.element
    return "(".join(kinds) + ")" * (len(kinds) - 1), type


def closed(type: TensorType, container: str) -> TensorType:
    """The inverse of `opened`. Raises ValueError when there is no such container."""
    if container not in CONTAINERS:
        raise ValueError(f"there is no container {container!r}")
    if "sequence" in container:
        type = sequence(type)
    return optional(type) if "optional" in container else type


def row(name: str, type: TensorType) -> dict[str, Any]:
    """An input or output in JSON-ready values; `container` is present only if it is not a tensor."""
    container, inner = opened(type, name)
    shape = None if inner.shape is None else list(inner.shape)
    made = {"name": name, "dtype": inner.dtype.value, "shape": shape}
    return {**made, "container": container} if container else made


def to_bytes(value: Any, container: str, name: str, to_array: Callable[[Any, str], Array]) -> Array:
    """The bytes of a list of tensors, or of a tensor or list that may be None.

    Args:
        value: as the user gives it.
        container: see above.
        name: of the input, for messages.
        to_array: makes an array of an element, and is told what it is.
    """
    if container == "sequence":
        if not isinstance(value, (list, tuple)):
            what = f"{type(value).__name__}"
            raise UsageError(f"input '{name}' is a sequence, not one {what}", hint="pass a list with an array each")
        return pack(to_array(v, f"{name}[{i}]") for i, v in enumerate(value))
    if value is None:
        return pack([], "optional")
    inner = container.removeprefix("optional").strip("()")
    return pack([to_bytes(value, inner, name, to_array) if inner else to_array(value, name)], "optional")


def of_bytes(data: Array, container: str) -> Any:
    """The inverse of `to_bytes`; arrays share the memory of the bytes. Raises ModelError when they are damaged."""
    arrays = unpack(data)
    if container == "sequence":
        return arrays
    if not arrays:
        return None
    return unpack(arrays[0]) if container == "optional(sequence)" else arrays[0]


def flat(name: str, value: Any) -> Iterator[tuple[str, Array]]:
    """The arrays in a value by name: `name[0]`, `name[1]`... in a list, none for None."""
    if isinstance(value, list):
        yield from ((f"{name}[{i}]", v) for i, v in enumerate(value))
    elif value is not None:
        yield name, value


def gathered(arrays: Mapping[str, Array], name: str, container: str) -> Any:
    """The inverse of `flat`; without a place of its own a list is empty, and an optional None.

    Raises:
        UsageError: a number of the list is missing.
    """
    if "sequence" not in container:
        return arrays.get(name)
    places = [key for key in arrays if key.startswith(f"{name}[") and key.endswith("]")]
    if missing := [f"{name}[{i}]" for i in range(len(places)) if f"{name}[{i}]" not in places]:
        raise UsageError(f"the data lacks '{missing[0]}'", why=f"it has {', '.join(sorted(places))}")
    if not places and container != "sequence":
        return None
    return [arrays[f"{name}[{i}]"] for i in range(len(places))]
