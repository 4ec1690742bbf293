"""Functions that change an image that they are given, and return it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np

from minnow.cv.boundary import _array_of
from minnow.expr import Var
from minnow.expr.names import named
from minnow.schema.errors import UsageError

P = ParamSpec("P")
R = TypeVar("R")

IMAGE_NAMES = ("img", "image")


def drawn(function: Callable[P, R]) -> Callable[P, R]:
    """Makes a function public, under its name, that changes its first argument, an image [height, width, channels].

    Callers get the very object back that they have given: an array, or a `Var`, whose value is another one then.
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        named_arguments: dict[str, Any] = {n: _array_of(a) for n, a in kwargs.items() if n not in IMAGE_NAMES}
        image: Any
        if args:
            image, *rest = args
        else:
            image, rest = next((kwargs[n] for n in IMAGE_NAMES if n in kwargs), None), []
        canvas: Any = np.array(image) if isinstance(image, Var) else image
        function(canvas, *map(_array_of, rest), **named_arguments)
        if isinstance(image, Var):
            image.write(canvas)
        return image  # type: ignore[no-any-return]

    return named("cv", like=f"cv2.{function.__name__}")(call)


def writable(image: Any) -> np.ndarray[Any, Any]:
    """The image, if it can be drawn on. Raises UsageError for anything else."""
    if not isinstance(image, np.ndarray):
        raise UsageError("an image that is drawn on must be a numpy array or a Var", hint="convert it with numpy.array")
    if not image.flags.writeable:
        raise UsageError("the image is read-only: it cannot be drawn on", hint="give a copy of it")
    return image
