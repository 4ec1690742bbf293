"""What can be proved of the sign of integers: runtimes of the format take a negative index for out of range."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minnow.schema.ir import DType, Node, Value
from minnow.schema.registry.op import Trait, get

_UNSIGNED = frozenset({DType.BOOL, DType.U2, DType.U4, DType.U8, DType.U16, DType.U32, DType.U64})


def where_all(*operands: int) -> Callable[..., bool]:
    """`@Op.sign` of an op whose result is not negative where these operands are not; without any, where none is."""

    def rule(known: list[bool], **attrs: Any) -> bool:
        return all(known[i] for i in operands) if operands else all(known)

    return rule


def where_any(known: list[bool], **attrs: Any) -> bool:
    """`@Op.sign` of an op whose result is not negative where one operand is not."""
    return any(known)


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
    return _gives_nonnegative(node, depth)


def _gives_nonnegative(node: Node, depth: int) -> bool:
    op = get(node.op)
    if Trait.NONNEGATIVE in op.traits:
        return True
    if op.sign_rule is None:
        # Of other operands (shapes, indices, axes) nothing gets into the result.
        x = node.inputs[0] if node.inputs else None
        return Trait.MOVEMENT in op.traits and x is not None and is_nonnegative(x, depth - 1)
    known = [v is not None and is_nonnegative(v, depth - 1) for v in node.inputs]
    return bool(op.sign_rule(known, **node.attrs))
