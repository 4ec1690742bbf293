"""Products with weights that a source has in few bits, in the form that files have for them."""

from __future__ import annotations

from minnow.optimizer.layout.product import matrix_of, to_convolution
from minnow.optimizer.passes.legalize.after import legalize_epilogue
from minnow.optimizer.rewrite import apply_groups, rules
from minnow.optimizer.rewrite.trace import Trace
from minnow.schema.ir import Graph, QuantizedBlob
from minnow.schema.ir.compressed import reshaped


def place_packed(graph: Graph) -> None:
    """Makes convolutions of one element of products with weights of few bits; the graph is changed."""
    apply_groups(graph, [[rules[legalize_epilogue.name]]], Trace())
    for part in graph.walk():
        for node in list(part):
            if (matrix := matrix_of(node)) is not None and isinstance(matrix.weight.data, QuantizedBlob):
                blob = matrix.weight.data
                if matrix.transposed:
                    to_convolution(node, matrix, reshaped(blob, (*blob.shape, 1, 1)), blocked=False)
