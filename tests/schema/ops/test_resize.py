"""The numpy references of interpolating ops against ONNX, on all their samples."""

from __future__ import annotations

from typing import Any

import pytest
from onnx_oracle import Array, OnnxNode, Row, cases, compare, judgments


def given(**attrs: Any) -> dict[str, Any]:
    return {k: int(v) if isinstance(v, bool) else v for k, v in attrs.items() if v is not None}


def resize(x: Array, *operands: Array | None, coordinate_mode: str, cubic_coeff: float, keep_aspect: str, **attrs: Any):
    names = {"coordinate_transformation_mode": coordinate_mode, "cubic_coeff_a": cubic_coeff,
             "keep_aspect_ratio_policy": keep_aspect}  # fmt: skip
    # The reference computes in float64, where 10 * 0.7f is less than 7 and a nearest element another one, and takes the
    # extents in "align_corners" with their fractions; runtimes compute in float32, and in whole elements.
    by_scales = len(operands) == 2
    return OnnxNode("Resize", (x, *operands), given(**names, **attrs), by_onnxruntime=by_scales)


def grid_sample(x: Array, grid: Array, *, padding: str, **attrs: Any) -> OnnxNode:
    # The reference clips the place itself, where "border" repeats the outermost elements to sample from.
    wrong = attrs["mode"] == "cubic" and padding == "border"
    return OnnxNode("GridSample", (x, grid), given(padding_mode=padding, **attrs), by_onnxruntime=wrong)


def roi_align(*operands: Array, coordinate_mode: str, **attrs: Any) -> OnnxNode:
    return OnnxNode("RoiAlign", operands, given(coordinate_transformation_mode=coordinate_mode, **attrs), opset=16)


def max_roi_pool(*operands: Array, height: int, width: int, scale: float) -> OnnxNode:
    return OnnxNode("MaxRoiPool", operands, {"pooled_shape": (height, width), "spatial_scale": scale}, opset=21)


TABLE: dict[str, Row] = {
    "Resize": resize,
    "GridSample": grid_sample,
    "RoiAlign": roi_align,
    "MaxRoiPool": max_roi_pool,
}


@pytest.mark.parametrize(("op", "row", "samples"), cases(TABLE))
def test_reference(op, row, samples):
    for sample in samples:
        compare(op, row, sample, rtol=2e-5, ask=judgments)
