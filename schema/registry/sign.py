"""What can be proved of the sign of integers: runtimes of the format take a negative index for out of range."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from minnow.schema.ir import DType, Value
from minnow.schema.registry.op import Trait, get

_UNSIGNED = frozenset({DType.BOOL, DType.U2, DType.U4, DType.U8, DType.U16, DType.U32, DType.U64})

# Ops whose result is not negative when so many of their operands are not. Mod has the sign of its divisor.
_RULES: dict[str, Callable[[Sequence[bool]], bool]] = {
    "Cast": all,
    "Add": all,
    "Mul": all,
    "Min": all,
    "Max": any,
    "Mod": lambda known: known[1],
    "Where": lambda known: known[1] and known[2],
    "Range": lambda known: known[0] and known[1],
    "CumSum": lambda known: known[0],
}


def is_nonnegative(value: Value, depth: int = 8) -> bool:
    """True when it is certain that no element of an integer value is negative.

    Args:
        value: any value.
        depth: how many nodes back to look.
    """
    if value.type.dtype in _UNSIGNED:
        return True
    if value.data is not None:
        return not np.any(np.less(value.data.numpy(), 0))
    node = value.producer
    if node is None or depth == 0 or not value.type.dtype.is_int:
        return False
    traits = get(node.op).traits
    if Trait.NONNEGATIVE in traits:
        return True
    rule = _RULES.get(node.op)
    if rule is not None:
        return not node.attrs.get("fmod") and rule(
            [v is not None and is_nonnegative(v, depth - 1) for v in node.inputs]
        )
    if Trait.MOVEMENT not in traits:
        return False
    # Of other operands (shapes, indices, axes) nothing gets into the result; all data of Concat has one type.
    data = node.inputs if node.op == "Concat" else node.inputs[:1]
    return all(v is not None and is_nonnegative(v, depth - 1) for v in data)
