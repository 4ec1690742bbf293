"""Variables of a source model: their value at each point of a graph, and the state that they become in the model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minnow.schema.errors import ModelError
from minnow.schema.ir import Graph, Model, State, Value


@dataclass
class View:
    """The variables as one graph sees them.

    Attributes:
        values: what each variable is now.
        params: the parameters that bring in variables from outside, by variable.
        assigned: the variables that the graph changes.
    """

    graph: Graph
    values: dict[str, Value] = field(default_factory=dict)
    params: dict[str, Value] = field(default_factory=dict)
    assigned: dict[str, None] = field(default_factory=dict)


def keep(model: Model, view: View, key: str, start: np.ndarray[Any, Any]) -> Value:
    """Makes a state of a variable that the main graph changes: its parameter gets a name, the model one more output.

    Args:
        start: what the first run begins with.

    Returns:
        What the variable is at the end, which is to be the graph's last output.

    Raises:
        ModelError: it is of another element type then.
    """
    param, after = view.params[key], view.values[key]
    if after.type.dtype is not param.type.dtype:
        raise ModelError(f"the variable '{key}' has the type {param.type}, but is assigned {after.type}")
    taken = {name for name, _ in (*model.inputs, *model.outputs)}
    names = []
    for wanted in (key, f"{key}:next"):
        while wanted in taken:
            wanted += "_"
        taken.add(wanted)
        names.append(wanted)
    param.name = names[0]
    model.inputs.append((names[0], param.type))
    model.outputs.append((names[1], param.type))
    model.states.append(State(names[0], names[1], start))
    return after
