"""Conversion of element types."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.expr.dtype import Array, NumpyType, dtype, wanted
from minnow.expr.names import named
from minnow.expr.operation import apply_one
from minnow.expr.setting import SETTINGS
from minnow.expr.var import Var, as_var
from minnow.schema.ir import DType


def cast_array(array: Array, to: NumpyType) -> Array:
    """The array in another type: floats are cut to whole numbers, and those wrap around where they do not fit."""
    if array.dtype == to:
        return array
    with np.errstate(all="ignore"):
        if array.dtype.kind == "f" and to.kind in "iu" and to.itemsize < 8:
            # Through 64 bits, so that what does not fit wraps around on every processor.
            return array.astype(np.int64).astype(to)
        return array.astype(to)


@named("expr", like="numpy.ndarray.astype")
def cast(x: Any, dtype: Any = dtype.float) -> Var:
    """The elements in another type. Integers wrap around, as in numpy; floats are cut to whole numbers.

    Raises:
        UsageError: `dtype` is not an element type.
    """
    var, to = as_var(x), wanted(dtype)
    if not SETTINGS.lazy and var._is_known():
        return Var._of(cast_array(var._value(), to), var.data_format)
    if var._dtype() == to:
        return var
    return apply_one("Cast", var, to=DType.of(to), saturate=False)
