"""Results that OpenCV gives as a pair, and MNN as an array alone: programs written for either run."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

from minnow.cv.boundary import _PLAIN, _array_of, _var_of
from minnow.expr import NHWC, Var
from minnow.expr.names import named

P = ParamSpec("P")
R = TypeVar("R")


class PairVar(Var):
    """An array that also is a pair, of which it is one part.

    It can be unpacked, and the indices 0 and 1 give the parts, as of OpenCV's results: `level, image = threshold(...)`.
    All else sees the array, as of MNN's results: `threshold(...) * 2`. Rows of the array are `x[0:1]`.
    """

    __slots__ = ("_parts",)
    _parts: tuple[Any, Any]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._parts)

    def __getitem__(self, index: Any) -> Any:
        if type(index) is int and -2 <= index < 2:
            return self._parts[index]
        return super().__getitem__(index)


def paired(main: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Makes a function public, under its name, that gives a pair of which the part `main` is what MNN gives alone."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            arrays = [a if type(a) in _PLAIN else _array_of(a) for a in args]
            named = {name: _array_of(a) for name, a in kwargs.items()} if kwargs else kwargs
            parts: Any = function(*arrays, **named)  # type: ignore[arg-type]
            first, second = _var_of(parts[0]), _var_of(parts[1])
            both: Any = PairVar._of(parts[main], NHWC)
            both._parts = (first, second)
            return both  # type: ignore[no-any-return]

        note = "A Var that is the result of MNN, and can be unpacked as the pair of OpenCV."
        return named("cv", like=f"cv2.{function.__name__}", note=note)(call)

    return decorate
