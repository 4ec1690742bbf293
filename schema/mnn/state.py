"""States in the metadata of a file: which input a session feeds with which output, and what it begins with.

To other runtimes they are inputs and outputs like all others. A first dimension that is a symbol is one by which the
state grows: it begins with 0, see `minnow.Session.resize_states`.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from minnow.schema.errors import FormatError
from minnow.schema.ir import Model, State


def row(state: State) -> dict[str, str]:
    """A state in JSON-ready values: `value` is its bytes, two hexadecimal digits each; zeros are left out."""
    named = {"input": state.input, "output": state.output}
    data = np.ascontiguousarray(state.value).tobytes()
    return named | {"value": data.hex()} if any(data) else named


def parse(text: str, model: Model) -> list[State]:
    """The states of a model whose inputs and outputs are known. Raises FormatError."""
    try:
        return [_state(r, model) for r in json.loads(text)]
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise FormatError("the metadata 'minnow.states' is invalid", why=f"{type(e).__name__}: {e}") from None


def _state(r: dict[str, Any], model: Model) -> State:
    type = dict(model.inputs)[r["input"]]
    if r["output"] not in dict(model.outputs):
        raise KeyError(r["output"])
    shape = tuple(0 if k == 0 and not isinstance(d, int) else int(d) for k, d in enumerate(type.shape or ()))
    if "value" not in r:
        return State(r["input"], r["output"], np.zeros(shape, type.dtype.numpy))
    value = np.frombuffer(bytes.fromhex(r["value"]), type.dtype.numpy).reshape(shape)
    return State(r["input"], r["output"], value)
