"""Single operators run by TensorFlow, and by the engine from the file that is converted of the same graph."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np

import minnow
from minnow.converter import read
from minnow.optimizer import optimize
from minnow.schema.mnn import encode

Array = np.ndarray[Any, Any]

TOLERANCE = {np.dtype(np.float16): 4e-3}


class C:
    """An operand that is constant in the graph."""

    def __init__(self, value: Any, dtype: Any = None) -> None:
        self.value = np.asarray(value, dtype)


def build(
    op: str, operands: Sequence[Any], attrs: Mapping[str, Any], used: Sequence[int] | None, rank_only: bool
) -> tuple[bytes, list[tuple[str, Any]], dict[str, Array]]:
    """A graph of one operator: the file, names and values of its results, and what it was fed.

    Args:
        operands: arrays are inputs, `C` constants; a list stands for an operand that is several.
        rank_only: makes the dimensions of the inputs dynamic.
    """
    import tensorflow as tf
    from tensorflow.python.framework import op_def_library, op_def_registry

    definition = op_def_registry.get(op)
    graph, feed = tf.Graph(), {}
    numbers = itertools.count()

    def given(operand: Any) -> Any:
        if isinstance(operand, list):
            return [given(o) for o in operand]
        if isinstance(operand, C):
            return tf.constant(operand.value)
        shape = [None] * operand.ndim if rank_only else operand.shape
        place = tf.compat.v1.placeholder(operand.dtype, shape, f"x{next(numbers)}")
        feed[place] = operand
        return place

    with graph.as_default():
        named = {a.name: given(o) for a, o in zip(definition.input_arg, operands, strict=False)}
        _, _, node, _ = op_def_library._apply_op_helper(op, name="y", **named, **{**_defaults(definition), **attrs})
        results = node.outputs
        asked = results if used is None else [results[i] for i in used]
        if op == "DepthwiseConv2dNative" and "dilations" in attrs:  # which the kernel takes on some processors only
            rates = attrs["dilations"][1:3]
            asked = [tf.nn.depthwise_conv2d(*named.values(), attrs["strides"], attrs["padding"], dilations=rates)]
        with tf.compat.v1.Session(graph=graph) as session:
            values = session.run(asked, feed)
    names = [r.name for i, r in enumerate(results) if used is None or i in used]
    fed = {place.op.name: value for place, value in feed.items()}
    return graph.as_graph_def().SerializeToString(), list(zip(names, values, strict=True)), fed


def _defaults(definition: Any) -> dict[str, Any]:
    """The attributes of an operator that have a default and do not follow from its operands."""
    implied = {n for a in definition.input_arg for n in (a.type_attr, a.number_attr, a.type_list_attr)}
    out = {}
    for attr in definition.attr:
        if attr.name in implied or not attr.HasField("default_value"):
            continue
        kind = attr.default_value.WhichOneof("value")
        value = getattr(attr.default_value, kind)
        if kind == "list":
            value = [*value.i, *value.f, *value.s, *value.type]
        out[attr.name] = value
    return out


def run(path: Path, names: Sequence[str], feed: Mapping[str, Array], level: int) -> list[Array]:
    """What the engine gives for a graph file."""
    model = read(path, cut_outputs=list(names))
    optimize(model, level)
    session = minnow.load(encode(model))
    known = {info.name for info in session.inputs}
    found = session.run({k: v for k, v in feed.items() if k in known})
    return [found[n.removesuffix(":0")] for n in names]


def pairs(array: Array) -> Array:
    """Complex numbers as the converter has them."""
    return np.stack([array.real, array.imag], -1) if array.dtype.kind == "c" else array


def check(
    op: str,
    operands: Sequence[Any],
    attrs: Mapping[str, Any],
    folder: Path,
    *,
    used: Sequence[int] | None = None,
    rank_only: bool = False,
    tolerance: float = 1e-4,
) -> None:
    """The engine gives what TensorFlow gives, unoptimized and optimized. `used`: the results that are asked for."""
    data, results, feed = build(op, operands, attrs, used, rank_only)
    path = folder / "graph.pb"
    path.write_bytes(data)
    for level in (0, 2):
        found = run(path, [name for name, _ in results], {k: pairs(v) for k, v in feed.items()}, level)
        for (name, wanted), got in zip(results, found, strict=True):
            compare(got, pairs(np.asarray(wanted)), tolerance, f"{name} at -O{level}")


def compare(got: Array, wanted: Array, tolerance: float, what: str) -> None:
    """Floats within a part of the largest number, everything else exactly."""
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape), what
    if wanted.dtype.kind != "f":
        np.testing.assert_array_equal(got, wanted, what)
        return
    finite = np.isfinite(wanted)
    np.testing.assert_array_equal(got[~finite], wanted[~finite], what)
    scale = max(float(np.abs(wanted[finite].astype(np.float64)).max(initial=0)), 1e-3)
    off = np.abs(got[finite].astype(np.float64) - wanted[finite].astype(np.float64)).max(initial=0)
    assert off <= max(tolerance, TOLERANCE.get(wanted.dtype, 0)) * scale, f"{what}: off by {off / scale:.1e} of scale"
