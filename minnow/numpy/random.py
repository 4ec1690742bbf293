"""Random numbers, from numpy's generator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minnow.expr.argument import integer, integers
from minnow.expr.dtype import dtype as dtypes
from minnow.expr.dtype import wanted
from minnow.expr.names import named
from minnow.expr.var import Var
from minnow.schema.errors import UsageError

_state = {"generator": np.random.default_rng()}


@named(
    "numpy.random", like="numpy.random.seed", note="The numbers are not those that numpy gives for a seed.", mnn=False
)
def seed(seed: Any = None) -> None:
    """Makes the numbers that follow the same in each run of a program."""
    _state["generator"] = np.random.default_rng(None if seed is None else integer(seed, "seed", 0))


def _sizes(shape: Any) -> tuple[int, ...]:
    sizes = tuple(integers(shape, "shape"))
    if any(s < 0 for s in sizes) or len(sizes) > 32 or int(np.prod(sizes)) > 2**32:
        raise UsageError(f"{list(sizes)} is not a shape")
    return sizes


def _made(function: Callable[[], Any]) -> Var:
    try:
        return Var._of(np.asarray(function()))
    except (MemoryError, ValueError) as error:
        raise UsageError("there is no memory for so many numbers", why=str(error)) from error


@named("numpy.random", like="numpy.random.random", note="The result is float32.")
def random(shape: Any) -> Var:
    """Numbers from 0 up to 1, all with the same probability."""
    return _made(lambda: _state["generator"].random(_sizes(shape), np.float32))


@named("numpy.random", like="numpy.random.rand", note="The result is float32.")
def rand(*args: Any) -> Var:
    """Numbers from 0 up to 1, all with the same probability, in a shape given by several numbers."""
    return random(list(args))


@named("numpy.random", like="numpy.random.randn", note="The result is float32.")
def randn(*args: Any) -> Var:
    """Normal numbers of mean 0 and deviation 1, in a shape given by several numbers."""
    return _made(lambda: _state["generator"].standard_normal(_sizes(list(args)), np.float32))


@named("numpy.random", like="numpy.random.randint")
def randint(low: Any, high: Any = None, size: Any = None, dtype: Any = dtypes.int) -> Any:
    """Whole numbers from `low` up to `high`, or from 0 up to `low`, without the upper limit."""
    first, last = (0, integer(low, "low")) if high is None else (integer(low, "low"), integer(high, "high"))
    of = wanted(dtype)
    if of.kind not in "iu":
        raise UsageError(f"the type is {dtype!r}", hint="a type of whole numbers")
    try:
        made = _state["generator"].integers(first, last, None if size is None else _sizes(size), of)
    except (ValueError, MemoryError) as error:
        raise UsageError(f"there are no numbers from {first} up to {last}", why=str(error)) from error
    return int(made) if size is None else Var._of(np.asarray(made))
