"""Linear algebra, computed by numpy at once, in double, and given in the type of the operands."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.expr.argument import flag
from minnow.expr.names import named
from minnow.expr.var import Var
from minnow.schema.errors import UsageError

_svd: Any = np.linalg.svd  # whose flags decide on what it gives


def _double(value: Any) -> Any:
    """The operand in double, so that the result has all digits of its own type."""
    array = np.asarray(value._shown() if isinstance(value, Var) else value)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"an operand has elements of the type {array.dtype}")
    return array.astype(np.float64)


def _computed(name: str, function: Any, *operands: Any, **kwargs: Any) -> Any:
    try:
        arrays = [_double(v) for v in operands]
        wide = any(isinstance(v, Var) and v._dtype() == np.float64 for v in operands)
        made = function(*arrays, **kwargs)
        kind = np.float64 if wide else np.float32
        rows = tuple(np.asarray(m, kind) for m in made) if isinstance(made, tuple) else np.asarray(made, kind)
    except (np.linalg.LinAlgError, ValueError, TypeError, IndexError, ArithmeticError) as error:
        raise UsageError(f"numpy.linalg.{name} refuses its arguments", why=str(error)) from error
    if isinstance(rows, tuple):
        return tuple(Var._of(np.ascontiguousarray(m)) for m in rows)
    return rows.item() if rows.ndim == 0 else Var._of(rows)


@named("numpy.linalg", like="numpy.linalg.norm")
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: Any = False) -> Any:
    """The norm of a vector or a matrix."""
    places = tuple(axis) if isinstance(axis, list) else axis
    return _computed("norm", np.linalg.norm, x, ord=ord, axis=places, keepdims=flag(keepdims, "keepdims"))


@named("numpy.linalg", like="numpy.linalg.solve")
def solve(a: Any, b: Any) -> Any:
    """The x for which a @ x = b."""
    return _computed("solve", np.linalg.solve, a, b)


@named("numpy.linalg", like="numpy.linalg.svd")
def svd(a: Any, full_matrices: Any = True, compute_uv: Any = True, hermitian: Any = False) -> Any:
    """Matrices u and vt, and singular values w, for which a = u @ diag(w) @ vt: (u, w, vt), or w alone."""
    flags = {
        "full_matrices": flag(full_matrices, "full_matrices"),
        "compute_uv": flag(compute_uv, "compute_uv"),
        "hermitian": flag(hermitian, "hermitian"),
    }
    return _computed("svd", _svd, a, **flags)


@named("numpy.linalg", like="numpy.linalg.inv", mnn=False)
def inv(a: Any) -> Any:
    """The inverse of a matrix."""
    return _computed("inv", np.linalg.inv, a)


@named("numpy.linalg", like="numpy.linalg.det", mnn=False)
def det(a: Any) -> Any:
    """The determinant of a matrix."""
    return _computed("det", np.linalg.det, a)
