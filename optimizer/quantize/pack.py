"""Weights that a source has in few bits, in the forms that files have for them: products, and tables of rows."""

from __future__ import annotations

import numpy as np

from minnow.optimizer.layout.product import matrix_of, to_convolution
from minnow.optimizer.passes.legalize.after import legalize_epilogue
from minnow.optimizer.quantize.expand import look_up
from minnow.optimizer.rewrite import apply_groups, rules
from minnow.optimizer.rewrite.trace import Trace
from minnow.schema.ir import Graph, Node, QuantizedBlob, UnreadBlob
from minnow.schema.ir.compressed import reshaped
from minnow.schema.ops import Builder


def place_packed(graph: Graph) -> None:
    """Gives every node that reads weights of few bits a form in which they stay so; the graph is changed."""
    apply_groups(graph, [[rules[legalize_epilogue.name]]], Trace())
    for part in graph.walk():
        for node in list(part):
            place = 0 if node.op == "Gather" else 1
            blob = node.input(place).data if len(node.inputs) > place and node.has_input(place) else None
            if not isinstance(blob, QuantizedBlob) or node.op == "Conv":
                continue
            if node.op == "Gather" and len(blob.shape) == 2 and node.attrs.get("axis", 0) in (0, -2):
                _place_table(node, blob)
            elif (matrix := matrix_of(node)) is not None and matrix.transposed:
                to_convolution(node, matrix, reshaped(blob, (*blob.shape, 1, 1)), blocked=False)


def _place_table(node: Node, blob: QuantizedBlob) -> None:
    b = Builder(node.graph, node, f"{node.origin} > quantize")  # type: ignore[arg-type]
    rows = look_up(b, node, in_bytes(blob), node.input(0).name)
    rows.name, node.output.name = node.output.name, ""
    node.output.replace_all_uses(rows)
    assert node.graph is not None
    node.graph.erase(node)


def in_bytes(blob: QuantizedBlob) -> QuantizedBlob:
    """The same numbers with codes of 2, 4 or 8 bits, of which a byte holds whole ones."""
    bits = next(b for b in (2, 4, 8) if b >= blob.bits)
    if bits == blob.bits:
        return blob
    shift = 0 if blob.has_low else (1 << (bits - 1)) - (1 << (blob.bits - 1))

    def read() -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        codes, scale, low = blob.parts()
        return codes + np.uint8(shift), scale, low

    half = blob.scale_type.size == 2
    return UnreadBlob(read, blob.groups, bits, blob.shape, half=half, low=blob.has_low)
