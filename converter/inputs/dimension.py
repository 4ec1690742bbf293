"""Dimensions of inputs that the caller fixes; all others stay dynamic and keep their names."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from minnow.converter.inputs.given import Inputs
from minnow.schema.errors import ModelError, UsageError
from minnow.schema.ir import UNKNOWN, Dim, TensorType, Value
from minnow.schema.ir.type import merge

_FORMULA = re.compile(r"(?:\d+|[A-Za-z_]\w*)(?:[*+-](?:\d+|[A-Za-z_]\w*))+")


def symbols_in(name: str) -> list[str]:
    """The symbols in the name of a computed dimension, a sum of products ("2*n+1"). Empty for any other name."""
    return re.findall(r"[A-Za-z_]\w*", name) if _FORMULA.fullmatch(name) else []


def computed(name: str, numbers: Mapping[str, int]) -> int | None:
    """A dimension that has such a name, None where a number is missing for it."""
    if not all(s in numbers for s in symbols_in(name)):
        return None
    total = 0
    for sign, product in re.findall(r"([+-]?)([^+-]+)", name):
        term = math.prod(int(x) if x.isdigit() else numbers[x] for x in product.split("*"))
        total += -term if sign == "-" else term
    return total


def fix_inputs(types: Mapping[str, TensorType], given: Any = None, batch: int | None = None) -> dict[str, TensorType]:
    """The types of all inputs, with the dimensions that were asked for.

    A symbol that becomes a number does so in every input.

    Args:
        types: of the inputs, as the file declares them.
        given: what `Inputs` takes; "?" leaves a dimension as it is.
        batch: takes the place of the first dynamic dimension of every input.

    Raises:
        UsageError: what is given is for no input, or contradicts the file or the shape of another one.
    """
    said = Inputs.of(given).named(list(types))
    if unknown := sorted(set(said) - set(types)):
        raise UsageError(f"the model has no input '{unknown[0]}'", hint=f"its inputs: {', '.join(types)}")
    numbers: dict[str, int] = {}

    def settle(old: Dim, new: Dim) -> Dim:
        if isinstance(new, int) and not isinstance(old, int) and old != UNKNOWN and numbers.setdefault(old, new) != new:
            raise UsageError(
                f"the dimension {old} is given as {numbers[old]} and as {new}",
                why="a symbol has the same size everywhere",
            )
        return new

    fixed = {}
    for name, type in types.items():
        shape = type.shape
        if name in said and type.holds_tensors:
            raise UsageError(f"the input '{name}' is {type}, which has no shape to give")
        if name in said:
            said[name].check(name, type.dtype)
        if name in said and (wanted := said[name].shape) is not None:
            merged = _merged(name, wanted, type)
            shape = tuple(map(settle, shape or (UNKNOWN,) * len(merged), merged))
        if batch is not None and shape is not None and not type.holds_tensors:
            first = next((i for i, d in enumerate(shape) if not isinstance(d, int)), len(shape))
            shape = tuple(settle(d, batch) if i == first else d for i, d in enumerate(shape))
        fixed[name] = type.with_shape(shape)

    def number(d: Dim) -> Dim:
        if isinstance(d, int) or d in numbers or not symbols_in(d):
            return d if isinstance(d, int) else numbers.get(d, d)
        found = computed(d, numbers)
        return d if found is None else found

    return {
        name: type if type.shape is None else type.with_shape(map(number, type.shape)) for name, type in fixed.items()
    }


def _merged(name: str, wanted: tuple[Dim, ...], type: TensorType) -> tuple[Dim, ...]:
    try:
        merged = merge(wanted, type.shape)
    except ModelError:
        message = f"the shape given for input '{name}' does not fit"
        raise UsageError(message, why=f"it is [{','.join(map(str, wanted))}], and the model declares {type}") from None
    return wanted if merged is None else merged


def shape_from_use(value: Value) -> tuple[Dim, ...] | None:
    """The shape of an input, as the nodes that read it imply, where the file does not tell; None if they do not."""
    for node, i in value.uses:
        if node.op == "Conv" and i == 0:
            weights = node.input(1).type.shape
            if weights is not None and isinstance(weights[1], int):
                return (UNKNOWN, weights[1] * node.attrs.get("group", 1), *(UNKNOWN,) * (len(weights) - 2))
        if node.op == "Transpose":
            perm = node.attrs["perm"]
            turned = shape_from_use(node.output) or (UNKNOWN,) * len(perm)
            return tuple(turned[perm.index(axis)] for axis in range(len(perm)))
    return None
