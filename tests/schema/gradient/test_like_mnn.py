"""The ops that MNN's training differentiates have gradients: `OpGrad::insert` in tools/train/source/grad of MNN 3.6.

Most are read as ops that say so themselves (`Op.mnn`); of those that are not, what computes the same is named.
"""

from __future__ import annotations

import pytest

from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, Graph, TensorType
from minnow.schema.ops import Builder, Op, all_ops, get

# op list: what MNN's training registers a gradient for
DIFFERENTIATED = (
    "BatchMatMul", "BinaryOp", "BroadcastTo", "Concat", "ConvertTensor", "Convolution", "ConvolutionDepthwise",
    "Deconvolution", "DeconvolutionDepthwise", "Eltwise", "Fill", "GatherV2", "GridSample", "Interp", "MatMul",
    "MatrixBandPart", "PReLU", "Permute", "Pooling", "ROIAlign", "ROIPooling", "Raster", "RasterDiff", "ReLU", "ReLU6",
    "Reduction", "Reshape", "Resize", "Scale", "Select", "Selu", "Sigmoid", "Slice", "Softmax", "Squeeze",
    "StridedSlice", "TanH", "Texture", "TopKV2", "Transpose", "UnaryOp", "Unsqueeze", "While", "ZeroGrad",
)  # fmt: skip
# op list: ops of MNN's converter or trainer that no op of ours is written as
SAME = {"MatrixBandPart": "Trilu", "Resize": "Resize", "While": "Loop", "ZeroGrad": "Identity"}
WITHOUT = {"Raster", "RasterDiff", "Texture"}
"""Regions of memory in files of fixed shapes, and two ops for rendering: they are no ops of ours at all."""


def _readers(kind: str) -> list[Op]:
    return [op for op in all_ops() if op.mnn is not None and kind in op.mnn.types]


def _gives_floats(op: Op) -> bool:
    """Whether it computes floats from floats: not a comparison, nor what takes integers only."""
    graph = Graph()
    operands = [graph.add_param(TensorType(DType.F32, (2, 2))) for _ in op.inputs]
    try:
        made = Builder(graph).node(op.name, operands, {})
    except ModelError:
        return False
    return made.outputs[0].type.dtype.is_float


@pytest.mark.parametrize("kind", sorted(set(DIFFERENTIATED) - WITHOUT))
def test_what_mnn_differentiates_has_a_gradient(kind: str) -> None:
    ops = _readers(kind) or [get(SAME[kind])]
    smooth = [op for op in ops if op.gradient_rule is not None]
    assert smooth, "no op that it is read as has a gradient"
    assert [op.name for op in ops if op not in smooth and _gives_floats(op)] == []


def test_the_exceptions_are_some() -> None:
    assert len(DIFFERENTIATED) == 44
    assert [kind for kind in (*SAME, *WITHOUT) if _readers(kind)] == []
