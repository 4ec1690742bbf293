"""Where functions on arrays become public: they take numpy arrays and `Var`s, and give `Var`s.

This module alone knows `Var`. A function of `minnow.cv` is written for numpy arrays:

    @exported
    def flip(src: Array, flipCode: int) -> Array: ...

Its callers may pass a `Var` wherever it takes an array, also in lists; the arrays that it returns become `Var`s in the
format NHWC. `None`, numbers, strings and tuples of numbers pass unchanged.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeAlias, TypeVar

import numpy as np

from minnow.expr import NHWC, Var
from minnow.expr.names import named

Array: TypeAlias = Any
"""What a public function takes and gives for an image, a matrix or a vector: a numpy array inside of this package, an
array or a `Var` for callers."""

P = ParamSpec("P")
R = TypeVar("R")


_PLAIN = (np.ndarray, int, float, type(None))


def exported(function: Callable[P, R]) -> Callable[P, R]:
    """Makes a function on arrays public, under its name, which is OpenCV's."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        arrays = [a if type(a) in _PLAIN else _array_of(a) for a in args]
        named = {name: _array_of(a) for name, a in kwargs.items()} if kwargs else kwargs
        result: Any = function(*arrays, **named)  # type: ignore[arg-type]
        return Var._of(result, NHWC) if type(result) is np.ndarray else _var_of(result)  # type: ignore[return-value]

    return named("cv", like=f"cv2.{function.__name__}")(call)


def _array_of(value: Any) -> Any:
    if isinstance(value, Var):
        return np.asarray(value)
    if isinstance(value, (list, tuple)):
        items = [item if type(item) in _PLAIN else _array_of(item) for item in value]
        return items if isinstance(value, list) else tuple(items)
    return value


def _var_of(result: Any) -> Any:
    if isinstance(result, np.ndarray):
        return Var._of(result, NHWC)  # of this very type: `from_array` gives no 16 bits and no float64
    if type(result) in (list, tuple):
        return type(result)([_var_of(item) for item in result])
    return result
