"""The numpy references of movement ops against ONNX, on all their samples."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_oracle import Array, OnnxNode, Row, cases, compare, judgments


def same(name: str) -> Row:
    return lambda *operands, **attrs: OnnxNode(name, operands, attrs)


def split(x: Array, parts: Array | None = None, *, axis: int, sizes: tuple[int, ...]) -> OnnxNode:
    parts = np.array(sizes, np.int64) if parts is None else parts
    return OnnxNode("Split", (x, parts), {"axis": axis}, outputs=len(parts))


def pad(x: Array, pads: Array, value: Array | None = None, *, mode: str) -> OnnxNode | list[Array]:
    if x.ndim == 0:  # neither of the judges can
        return [x]
    # Like numpy, the standard goes on mirroring where an axis is too short; onnxruntime refuses.
    further = mode == "reflect" and pads.max() >= min(x.shape)
    return OnnxNode("Pad", (x, pads.reshape(-1, 2).T.reshape(-1), value), {"mode": mode}, by_reference=further)


def reverse(x: Array, *, axes: tuple[int, ...]) -> OnnxNode:
    n = len(axes)
    far = np.iinfo(np.int64).min
    bounds = [np.full(n, v, np.int64) for v in (-1, far)]
    return OnnxNode("Slice", (x, *bounds, np.array(axes, np.int64), np.full(n, -1, np.int64)))


def trilu(x: Array, k: Array | None = None, *, upper: bool) -> OnnxNode:
    return OnnxNode("Trilu", (x, k), {"upper": int(upper)})


TABLE: dict[str, Row] = {
    **{name: same(name) for name in ("Concat", "Slice", "Tile", "DepthToSpace", "SpaceToDepth", "ReverseSequence")},
    # ONNX has no way to write an empty list of axes.
    "Transpose": lambda x, *, perm: OnnxNode("Transpose", (x,), {"perm": perm} if perm else {}),
    "Split": split,
    "Pad": pad,
    "Reverse": reverse,
    "Trilu": trilu,
}


@pytest.mark.parametrize(("op", "row", "samples"), cases(TABLE))
def test_reference(op, row, samples):
    for sample in samples:
        compare(op, row, sample, ask=judgments)
