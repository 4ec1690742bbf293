"""Structural nodes: inputs, constants, identities, calls, and nodes that only observe a run."""

from __future__ import annotations

from typing import Any

from minnow.converter.tensorflow.frontend import frontend as tf
from minnow.converter.tensorflow.symbolic.handle import Text
from minnow.schema.errors import ModelError
from minnow.schema.ir import Value

_PLACE = "nothing stands for it: it is an input of the graph"


@tf.op("Const", "HostConst", handles=True, complex=True)
def _(b, *, value):
    if not isinstance(value, (Value, Text)):
        raise ModelError("the value of a constant is not a tensor")
    return value


@tf.op("Placeholder", "PlaceholderV2")
def _(b, *, shape=None, node):
    # Inputs are parameters of the graph before its nodes are translated.
    raise ModelError(f"the input '{node.name}' gets no value", why="it is inside of a function")


@tf.op("Identity", "Snapshot", "StopGradient", "PreventGradient", "PlaceholderWithDefault", "EnsureShape", "DeepCopy",
       "_EagerConst", "OptionalFromValue", handles=True, complex=True)  # fmt: skip
def _(b, x, *, shape=None, message=""):
    return x


@tf.op("Dropout")
def _(b, x, *, rate=0.0, seed=0):
    return x  # another maker's: while a model runs, nothing is dropped


@tf.op("CheckNumerics", "CheckNumericsV2")
def _(b, x, *, message=""):
    return x


@tf.op("IdentityN", handles=True, complex=True)
def _(b, *xs):
    return tuple(xs)


@tf.op("Print", handles=True)
def _(b, x, *data, message="", first_n=-1, summarize=3):
    return x


@tf.op("NoOp", "Assert", "PrintV2", handles=True, silent=True)
def _(b, *xs, summarize=3, output_stream="stderr", end="\n"):
    return ()


@tf.op("PartitionedCall", "StatefulPartitionedCall", "RemoteCall", handles=True, complex=True, effect=True)
def _(b, *arguments, f, node) -> Any:
    return node.context.inline(f, arguments, {}, node.name)
