"""Non-maximum suppression and the step behind detectors, against LiteRT."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers
from tflite_one import Tensor, by_litert, by_us, constant, file_of

F, I32 = np.float32, np.int32


def boxes_of(rng: Any, n: int) -> Any:
    corner = rng.uniform(0, 1, (n, 2))
    return np.concatenate([corner, corner + rng.uniform(0.1, 0.6, (n, 2))], 1).astype(F)


def scalar(value: Any, dtype: Any = F) -> Tensor:
    return Tensor((), dtype, data=np.array(value, dtype))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("limit", [0, 3, 40])
@pytest.mark.parametrize("threshold", [-1.0, 0.4])
@pytest.mark.parametrize("iou", [0.3, 0.5, 1.0])
@pytest.mark.parametrize("sigma", [None, 0.0, 0.5])
def test_suppression(limit: int, threshold: float, iou: float, sigma: float | None, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    boxes, scores = boxes_of(rng, 23), rng.uniform(0, 1, 23).astype(F)
    boxes[7], boxes[9] = boxes[3], boxes[3] + np.array([0, 0, 0.1, 0], F)
    operands = [Tensor((23, 4)), Tensor((23,)), scalar(limit, I32), scalar(iou), scalar(threshold)]
    results = [Tensor((max(limit, 1),), I32), Tensor((), I32)]
    if sigma is not None:
        operands.append(scalar(sigma))
        results.insert(1, Tensor((max(limit, 1),)))
    op = "NON_MAX_SUPPRESSION_V4" if sigma is None else "NON_MAX_SUPPRESSION_V5"
    content = file_of(op, operands, results)
    want = by_litert(content, [boxes, scores], reference=False)
    got = by_us(content, [boxes, scores], tmp_path)
    n = int(want[-1])
    assert int(got[-1]) == n
    for w, g in zip(want[:-1], got[:-1], strict=True):
        assert (w.shape, w.dtype) == (g.shape, g.dtype)
        np.testing.assert_allclose(g[:n], w[:n], rtol=1e-6)
        assert not np.any(g[n:])


@pytest.mark.parametrize("regular", [False, True])
@pytest.mark.parametrize("per_box", [1, 2])
@pytest.mark.parametrize("background", [0, 1])
@pytest.mark.parametrize("threshold", [0.0, 0.55])
def test_postprocess(regular: bool, per_box: int, background: int, threshold: float, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    n, classes, most = 31, 5, 6
    encodings = rng.normal(0, 1, (1, n, 4)).astype(F)
    scores = rng.uniform(0, 1, (1, n, classes + background)).astype(F)
    anchors = np.concatenate([rng.uniform(0, 1, (n, 2)), rng.uniform(0.1, 0.5, (n, 2))], 1).astype(F)
    options = {
        "max_detections": most, "max_classes_per_detection": per_box, "detections_per_class": 3, "num_classes": classes,
        "nms_score_threshold": threshold, "nms_iou_threshold": 0.4, "use_regular_nms": regular, "y_scale": 10.0,
        "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0,
    }  # fmt: skip
    rows = most if regular else most * per_box
    operands = [Tensor((1, n, 4)), Tensor((1, n, classes + background)), constant(anchors)]
    results = [Tensor((1, rows, 4)), Tensor((1, rows)), Tensor((1, rows)), Tensor((1,))]
    content = file_of("TFLite_Detection_PostProcess", operands, results, bytes(flexbuffers.Dumps(options)))
    want = by_litert(content, [encodings, scores], reference=False)
    got = by_us(content, [encodings, scores], tmp_path)
    valid = int(want[3][0])
    assert got[3].tolist() == [valid]
    filled = valid if regular else valid * per_box
    for w, g in zip(want[:3], got[:3], strict=True):
        np.testing.assert_allclose(g[:, :filled], w[:, :filled], rtol=1e-5, atol=1e-6)
        assert not np.any(g[:, filled:])
