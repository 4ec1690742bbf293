"""Runs a graph by the numpy references of its ops: slow, and right. The oracle of passes and engine."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from minnow.schema.errors import InternalError, MinnowError, ModelError
from minnow.schema.ir import DType, Graph, Node, TensorType, Value
from minnow.schema.registry.op import NUMPY_REFUSALS, get

Array = np.ndarray[Any, Any]


_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """What is evaluated here ends in a ModelError after so many seconds: a Loop need not end by itself."""
    token = _deadline.set(min(_deadline.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _deadline.reset(token)


def evaluate(graph: Graph, inputs: Sequence[Array], values: dict[Value, Array] | None = None) -> list[Array]:
    """The outputs of a graph. Subgraphs are run by the ops that hold them.

    Args:
        graph: any graph whose ops have references.
        inputs: one array per parameter, of its dtype and, where that is known, its shape.
        values: filled with every intermediate result, so that nothing is freed; without it, each is freed after its
            last use.

    Raises:
        ModelError: inputs that do not fit the parameters, or numbers that do not fit an op (`where`: its origin); more
            time is taken than there is (`within`).
        InternalError: a result is not of the type recorded for it.
    """
    if time.monotonic() > _deadline.get():
        raise ModelError(f"graph '{graph.name}' takes longer than there is time for")
    if len(inputs) != len(graph.params):
        raise ModelError(f"graph '{graph.name}' takes {len(graph.params)} inputs, not {len(inputs)}")
    live: dict[Value, Array] = {} if values is None else values
    for param, array in zip(graph.params, inputs, strict=True):
        live[param] = np.asarray(array)
        if not _fits(live[param], param.type):
            raise ModelError(f"the input {param!r} is given as {_text(live[param])}")
    left = {v: len(v.uses) for v in graph.values()} if values is None else {}
    for node in graph:
        results = _results(node, [_array(v, live) for v in node.inputs])
        made = zip(node.outputs, results, strict=True)
        live.update((v, a) for v, a in made if v.uses or values is not None)
        for used in node.inputs if values is None else ():
            if used in left:
                left[used] -= 1
                if not left[used]:
                    del live[used]
    return [a for a in (_array(v, live) for v in graph.outputs) if a is not None]


def _array(value: Value | None, live: dict[Value, Array]) -> Array | None:
    if value is None:
        return None
    return live[value] if value.data is None else np.asarray(value.data.numpy())


def _results(node: Node, inputs: Sequence[Array | None]) -> list[Array]:
    try:
        results = get(node.op, node.origin).evaluate(inputs, node.attrs)
    except MinnowError as e:
        e.where = e.where or node.origin
        raise
    except NUMPY_REFUSALS as e:
        texts = ", ".join("nothing" if a is None else _text(a) for a in inputs)
        raise ModelError(f"{node!r} cannot be computed from {texts}", where=node.origin, why=str(e)) from e
    if len(results) < len(node.outputs):
        raise InternalError(f"{node!r} has {len(node.outputs)} outputs, its op gives {len(results)}", where=node.origin)
    return [_recorded(node, v, a) for v, a in zip(node.outputs, results, strict=False)]


def _recorded(node: Node, value: Value, array: Array) -> Array:
    if not _fits(array, value.type):
        raise InternalError(f"{node!r} gives {_text(array)}, recorded as {value.type}", where=node.origin)
    return array


def _fits(array: Array, type: TensorType) -> bool:
    if array.dtype != type.dtype.numpy:
        return False
    if type.shape is None:
        return True
    pairs = zip(type.shape, array.shape, strict=False)
    return len(type.shape) == array.ndim and all(isinstance(d, str) or d == n for d, n in pairs)


def _text(array: Array) -> str:
    return f"{DType.of(array.dtype)}[{','.join(map(str, array.shape))}]"
