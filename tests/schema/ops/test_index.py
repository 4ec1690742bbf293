"""The numpy references of indexing and selecting ops against ONNX, on all their samples."""

from __future__ import annotations

from typing import Any

import pytest
from onnx_oracle import Array, OnnxNode, Row, cases, compare, judgments


def same(name: str, **more: Any) -> Row:
    def row(*operands: Array | None, **attrs: Any) -> OnnxNode:
        given = {k: int(v) if isinstance(v, bool) else v for k, v in attrs.items() if v is not None}
        return OnnxNode(name, operands, given, **more)

    return row


TABLE: dict[str, Row] = {
    **{name: same(name) for name in ["Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND"]},
    **{name: same(name) for name in ["Compress", "NonMaxSuppression"]},
    # Of a scalar there are no coordinates, says the standard; onnxruntime takes it for a vector.
    "NonZero": lambda x: OnnxNode("NonZero", (x,), by_reference=x.ndim == 0),
    "ArgWhere": lambda x: OnnxNode("NonZero", (x,), after=lambda results: [results[0].T], by_reference=x.ndim == 0),
    # The reference mixes up axes when it undoes the sorting.
    "Unique": lambda x, **a: same("Unique", outputs=4, by_onnxruntime=not a["sorted"])(x, **a),
}


@pytest.mark.parametrize(("op", "row", "samples"), cases(TABLE))
def test_reference(op, row, samples):
    for sample in samples:
        compare(op, row, sample, ask=judgments)
