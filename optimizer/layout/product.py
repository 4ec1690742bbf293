"""Matrix products with a constant as convolutions of one element, whose weights the file can compress."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from minnow.schema.ir import Blob, DType, Graph, LazyBlob, Node, Value
from minnow.schema.ops import Builder


@dataclass(frozen=True)
class Matrix:
    """The constant of a product.

    Attributes:
        weight: the matrix.
        transposed: its rows are the columns of the result.
        bias: a constant that is added to each row, or None.
    """

    weight: Value
    transposed: bool
    bias: Value | None


def products_to_convolutions(graph: Graph) -> int:
    """Replaces products of floats with a constant matrix, with or without a constant bias; returns how many there were.

    Rows of the operand become images of one element, its columns their channels. A product is left as it is if more
    than one dimension of its result is not known, or if it does more than that.
    """
    found = [(node, what) for part in graph.walk() for node in part if (what := matrix_of(node)) and _is_simple(node)]
    for node, what in found:
        to_convolution(node, what)
    return len(found)


def matrix_of(node: Node) -> Matrix | None:
    """The constant matrix of a product of floats that does nothing else, but perhaps adds a constant bias."""
    if node.op == "MatMul" and not node.attrs.get("transpose_a"):
        transposed = bool(node.attrs.get("transpose_b"))
    elif node.op == "Linear" and not node.attrs.get("activation") and not node.has_input(3):
        transposed = True
    else:
        return None
    x, w = node.input(0), node.input(1)
    bias = node.input(2) if node.has_input(2) else None
    if w.data is None or w.type.rank != 2 or (bias is not None and bias.data is None):
        return None
    if any(v.type.dtype is not DType.F32 for v in (x, w)) or (x.type.rank or 0) < 2 or node.output.type.shape is None:
        return None
    return Matrix(w, transposed, bias)


def _is_simple(node: Node) -> bool:
    return sum(not isinstance(d, int) for d in node.output.type.shape or ()) <= 1


def to_convolution(node: Node, matrix: Matrix, weight: Blob | None = None, blocked: bool = True) -> None:
    """Makes a convolution of one element of a product.

    Args:
        node: the product.
        matrix: what `matrix_of` says of it.
        weight: the weights [outputs, inputs, 1, 1] to use instead.
        blocked: with conversions of layout around it, as files for all runtimes have them.
    """
    y, blob, bias = node.output, matrix.weight.data, matrix.bias
    assert blob is not None
    assert y.type.shape is not None
    assert node.graph is not None
    rows, columns = (int(d) for d in blob.shape)
    outputs, inputs = (rows, columns) if matrix.transposed else (columns, rows)

    def kernel() -> np.ndarray[Any, Any]:
        array = blob.numpy() if matrix.transposed else blob.numpy().T
        return np.ascontiguousarray(array).reshape(outputs, inputs, 1, 1)

    b = Builder(node.graph, node, f"{node.origin} > products_to_convolutions")
    made_of = LazyBlob(kernel, blob.dtype, (outputs, inputs, 1, 1)) if weight is None else weight
    x = node.input(0)
    image = b.Reshape(x, np.asarray([-1, inputs, 1, 1]))
    image = b.ConvertLayout(image, to="NC4HW4") if blocked else image
    value = Value.constant(made_of, matrix.weight.name)
    names = (matrix.weight.name,) if weight is not None and matrix.weight.name else ()
    made = b.Conv(image, value, bias, strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1), names=names)
    flat = b.ConvertLayout(made, to="NCHW") if blocked else made
    result: Value
    if _is_simple(node):
        result = b.Reshape(flat, np.asarray([d if isinstance(d, int) else -1 for d in y.type.shape]))
    else:
        shape = b.Concat(_as_i32(b, b.Shape(x, end=-1)), np.asarray([outputs], np.int32), axis=0)
        result = b.Reshape(flat, shape)
        result.type = y.type
    result.name, y.name = y.name, f"{y.name}_product" if y.name else ""
    y.replace_all_uses(result)
    node.graph.erase(node)


def _as_i32(b: Builder, shape: Value) -> Value:
    return shape if shape.type.dtype is DType.I32 else b.Cast(shape, to=DType.I32)
