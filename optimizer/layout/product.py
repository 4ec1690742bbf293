"""Matrix products with a constant as convolutions of one element, whose weights the file can compress."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.schema.ir import DType, Graph, LazyBlob, Node, Value
from minnow.schema.ops import Builder


def products_to_convolutions(graph: Graph) -> int:
    """Replaces products of floats with a constant matrix, with or without a constant bias; returns how many there were.

    Rows of the operand become images of one element, its columns their channels. A product is left as it is if more
    than one dimension of its result is not known, or if it does more than that.
    """
    found = [(node, what) for part in graph.walk() for node in part if (what := _matrix(node))]
    for node, (weight, transposed, bias) in found:
        _replace(node, weight, transposed, bias)
    return len(found)


def _matrix(node: Node) -> tuple[Value, bool, Value | None] | None:
    """The constant matrix of a product, whether its rows are those of the result's columns, and the bias."""
    if node.op == "MatMul" and not node.attrs.get("transpose_a"):
        transposed = bool(node.attrs.get("transpose_b"))
    elif node.op == "Linear" and not node.attrs.get("activation") and not node.has_input(3):
        transposed = True
    else:
        return None
    x, w, shape = node.input(0), node.input(1), node.output.type.shape
    bias = node.input(2) if node.has_input(2) else None
    if w.data is None or w.type.rank != 2 or (bias is not None and bias.data is None):
        return None
    if any(v.type.dtype is not DType.F32 for v in (x, w)) or (x.type.rank or 0) < 2 or shape is None:
        return None
    return None if sum(not isinstance(d, int) for d in shape) > 1 else (w, transposed, bias)


def _replace(node: Node, w: Value, transposed: bool, bias: Value | None) -> None:
    y, blob = node.output, w.data
    assert blob is not None
    assert y.type.shape is not None
    assert node.graph is not None
    rows, columns = (int(d) for d in blob.shape)
    outputs, inputs = (rows, columns) if transposed else (columns, rows)

    def kernel() -> np.ndarray[Any, Any]:
        matrix = blob.numpy() if transposed else blob.numpy().T
        return np.ascontiguousarray(matrix).reshape(outputs, inputs, 1, 1)

    b = Builder(node.graph, node, f"{node.origin} > products_to_convolutions")
    weight = Value.constant(LazyBlob(kernel, blob.dtype, (outputs, inputs, 1, 1)), w.name)
    image = b.ConvertLayout(b.Reshape(node.input(0), np.asarray([-1, inputs, 1, 1])), to="NC4HW4")
    made = b.Conv(image, weight, bias, strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1))
    shape = [d if isinstance(d, int) else -1 for d in y.type.shape]
    result = b.Reshape(b.ConvertLayout(made, to="NCHW"), np.asarray(shape))
    result.name, y.name = y.name, f"{y.name}_product" if y.name else ""
    y.replace_all_uses(result)
    node.graph.erase(node)
