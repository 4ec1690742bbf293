"""Values of TensorFlow's graphs that are not tensors of numbers: resources, lists, text."""

from __future__ import annotations

from dataclasses import dataclass


class Handle:
    """Known when the model is converted, and gone when it runs. `kind` names it in messages."""

    kind = "a resource"


@dataclass(frozen=True)
class Text(Handle):
    """A constant of text, of which only the shape may be read."""

    shape: tuple[int, ...] = ()
    kind = "text"
