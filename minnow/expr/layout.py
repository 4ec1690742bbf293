"""Data formats: which axes of an image are where."""

from __future__ import annotations

from typing import Any

from minnow.expr.constant import NHWC, data_format
from minnow.expr.names import named
from minnow.expr.operation import apply_one
from minnow.expr.var import Var, as_var
from minnow.schema.errors import UsageError


@named("expr")
def convert(x: Any, format: data_format) -> Var:
    """The same image with its axes in another order: from or to NHWC, the axis of channels moves.

    Args:
        x: of two axes at least, for a conversion from or to NHWC; one of two axes has no other order.
        format: expr.NCHW, expr.NHWC or expr.NC4HW4.

    Raises:
        UsageError: it is not a data format.
    """
    if not isinstance(format, data_format):
        raise UsageError(f"{format!r} is not a data format", hint="expr.NCHW, expr.NHWC or expr.NC4HW4")
    var = as_var(x)
    if var.data_format is format:
        return var
    rank = var.ndim
    if rank < 3 or (var.data_format is not NHWC and format is not NHWC):
        return with_format(var, format)
    axes = list(range(rank))
    perm = [0, rank - 1, *axes[1:-1]] if format is not NHWC else [0, *axes[2:], 1]
    return apply_one("Transpose", var, perm=tuple(perm), format=format)


def with_format(x: Var, format: data_format) -> Var:
    """The same values, said to be in another data format."""
    array = x._constant()
    if array is not None:
        return Var._of(array, format)
    if x._operation is not None:
        return Var._result(x._operation, x._index, format)
    return apply_one("Identity", x, format=format)
