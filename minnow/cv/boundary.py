"""Where functions on arrays become public: they take numpy arrays and `Var`s, and give `Var`s.

This module alone knows `Var`. A function of `minnow.cv` is written for numpy arrays:

    @exported
    def flip(src: Array, flipCode: int) -> Array: ...

Its callers may pass a `Var` wherever it takes an array, also in lists; the arrays that it returns become `Var`s in the
format NHWC. `None`, numbers, strings and tuples of numbers pass unchanged.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, ParamSpec, TypeAlias, TypeVar

import numpy as np

Array: TypeAlias = Any
"""What a public function takes and gives for an image, a matrix or a vector: a numpy array inside of this package, an
array or a `Var` for callers."""

P = ParamSpec("P")
R = TypeVar("R")

FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""All public functions by name."""


def exported(function: Callable[P, R]) -> Callable[P, R]:
    """Makes a function on arrays public."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        arrays = [_array_of(a) for a in args]
        named = {name: _array_of(a) for name, a in kwargs.items()}
        return _var_of(function(*arrays, **named))  # type: ignore[no-any-return]

    FUNCTIONS[function.__name__] = call
    return call


def _var_type() -> Any:
    """The class `Var`, if it has been imported: before that, no argument can be one."""
    module = sys.modules.get("minnow.expr")
    return getattr(module, "Var", None)


def _array_of(value: Any) -> Any:
    var = _var_type()
    if var is not None:
        if isinstance(value, var):
            return np.asarray(value)
        if isinstance(value, (list, tuple)) and any(isinstance(item, (var, list, tuple)) for item in value):
            return type(value)([_array_of(item) for item in value])
    return value


def _var_of(result: Any) -> Any:
    if isinstance(result, np.ndarray):
        try:
            from minnow.expr import Var
        except ImportError:
            return result
        return Var.from_array(result, "NHWC")
    if type(result) in (list, tuple):
        return type(result)([_var_of(item) for item in result])
    return result
