"""Layers of Caffe's forks in nets that are wrong or open: what they are refused with, and what they give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from caffe_one import definition, layer, write

import minnow
from minnow.converter import read
from minnow.errors import ModelError, UnsupportedError
from minnow.optimizer import optimize
from minnow.schema.mnn import encode

MAP, IMAGE, REGIONS = (1, 8, 6, 6), (1, 3, 48, 48), (4, 5)
FOUND = ((1, 48), (1, 36), (1, 2, 48))
SSD = "nms_param { nms_threshold: 0.5 top_k: 100 } keep_top_k: 10 code_type: CENTER_SIZE"

WRONG = {
    "normalize of too many scales": ("Normalize", "", [MAP], ModelError, "weights hold 2"),
    "prior boxes of no size": ("PriorBox", "prior_box_param { flip: true }", [MAP, IMAGE], ModelError, "min_size"),
    "prior boxes of a negative size": (
        "PriorBox", "prior_box_param { min_size: -3 }", [MAP, IMAGE], ModelError, "sizes",
    ),
    "prior boxes of two variances": (
        "PriorBox", "prior_box_param { min_size: 3 variance: 1 variance: 2 }", [MAP, IMAGE], ModelError, "variances",
    ),
    "prior boxes with half a step": (
        "PriorBox", "prior_box_param { min_size: 3 step_h: 4 }", [MAP, IMAGE], ModelError, "step",
    ),
    "prior boxes with two steps": (
        "PriorBox", "prior_box_param { min_size: 3 step: 8 step_h: 4 step_w: 4 }", [MAP, IMAGE], ModelError, "all axes",
    ),
    "prior boxes of a vector": ("PriorBox", "prior_box_param { min_size: 3 }", [(1, 8), IMAGE], ModelError, "PriorBox"),
    "prior boxes without end": (
        "PriorBox", "prior_box_param { min_size: 3 }", [(1, 1, 9999, 9999), IMAGE], ModelError, "elements",
    ),
    "detections of no classes": (
        "DetectionOutput", f"detection_output_param {{ num_classes: 0 {SSD} }}", FOUND, ModelError, "0 classes",
    ),
    "detections of the background only": (
        "DetectionOutput", f"detection_output_param {{ num_classes: 1 {SSD} }}", FOUND, ModelError, "1 classes",
    ),
    "detections of other boxes": (
        "DetectionOutput", f"detection_output_param {{ num_classes: 3 {SSD} }}", [(1, 44), *FOUND[1:]], ModelError, "",
    ),
    "detections without classes": ("DetectionOutput", "", FOUND, ModelError, "num_classes"),
    "detections of four bottoms": (
        "DetectionOutput", f"detection_output_param {{ num_classes: 3 {SSD} }}", [*FOUND, (1, 24)], ModelError,
        "4 inputs",
    ),
    "suppression that changes": (
        "DetectionOutput", "detection_output_param { num_classes: 3 nms_param { eta: 0.9 } }", FOUND, UnsupportedError,
        "eta is",
    ),
    "regions without a size": ("ROIPooling", "", [MAP, REGIONS], ModelError, ""),
    "regions of other numbers": (
        "ROIPooling", "roi_pooling_param { pooled_h: 2 pooled_w: 2 }", [MAP, (4, 4)], ModelError, "",
    ),
    "aligned regions of an unknown kind": (
        "ROIAlign", "roi_align_param { pooled_h: 2 pooled_w: 2 }", [MAP, REGIONS], UnsupportedError, "forks of Caffe",
    ),
    "position-sensitive regions of other channels": (
        "PSROIPooling", "psroi_pooling_param { spatial_scale: 1 output_dim: 3 group_size: 2 }", [MAP, REGIONS],
        ModelError, "8 channels",
    ),
    "position-sensitive regions of no bins": (
        "PSROIPooling", "psroi_pooling_param { spatial_scale: 1 output_dim: 8 group_size: 0 }", [MAP, REGIONS],
        ModelError, "0 x 0 bins",
    ),
    "proposals of two images": (
        "Proposal", "", [(2, 18, 6, 6), (2, 36, 6, 6), (2, 3)], UnsupportedError, "more than one image",
    ),
    "proposals of flat anchors": (
        "Proposal", "proposal_param { ratio: 0 }", [(1, 18, 6, 6), (1, 36, 6, 6), (1, 3)], ModelError, "base size 16",
    ),
    "proposals of other anchors": ("Proposal", "", [(1, 16, 6, 6), (1, 32, 6, 6), (1, 3)], ModelError, "9 anchors"),
    "code outside of the file": (
        "Python", 'python_param { module: "mine" layer: "Mine" }', [MAP], UnsupportedError, "outside of the file",
    ),
    "proposals with a setting": (
        "Python",
        "python_param { module: 'rpn.proposal_layer' layer: 'ProposalLayer' param_str: \"'nms': 0.6\" }",
        [(1, 18, 6, 6), (1, 36, 6, 6), (1, 3)], UnsupportedError, "'nms'",
    ),
    "padding before resampling": (
        "Interp", "interp_param { height: 9 width: 9 pad_beg: 1 }", [MAP], ModelError, "crops",
    ),
    "resampling to nothing": ("Interp", "interp_param { height: 9 }", [MAP], ModelError, "size"),
    "shrinking by nothing": ("Interp", "interp_param { shrink_factor: 0 }", [MAP], ModelError, "shrink_factor"),
    "cropped away": ("Interp", "interp_param { zoom_factor: 2 pad_beg: -3 pad_end: -3 }", [MAP], ModelError, ""),
    "repeating half an element": ("Upsample", "upsample_param { scale: 1.5 }", [MAP], UnsupportedError, "1.5"),
    "shuffling by odd groups": ("ShuffleChannel", "shuffle_channel_param { group: 3 }", [MAP], ModelError, "3 groups"),
    "factors of several channels": ("SpatialProduct", "", [MAP, MAP], ModelError, "one channel"),
    "reversed along no axis": ("Reverse", "reverse_param { axis: 4 }", [MAP], ModelError, "axis 4"),
    "cells that do not fit": ("Reorg", "reorg_param { stride: 4 }", [MAP], ModelError, "stride 4"),
    "cells in reverse": ("Reorg", "reorg_param { reverse: true }", [MAP], UnsupportedError, "reverse"),
    "BN of one blob": ("BN", "", [MAP], ModelError, ""),
    "YOLO of other channels": (
        "YoloDetectionOutput", "yolo_detection_output_param { num_classes: 2 num_box: 1 biases: 1 biases: 2 }", [MAP],
        ModelError, "2 classes",
    ),
    "YOLO without biases": (
        "YoloDetectionOutput", "yolo_detection_output_param { num_classes: 3 }", [MAP], ModelError, "0 biases",
    ),
    "YOLO 3 of other bottoms": (
        "Yolov3DetectionOutput", "yolov3_detection_output_param { num_classes: 3 biases: 1 biases: 2 mask: 0 }", [MAP],
        ModelError, "number of inputs",
    ),
}  # fmt: skip
BLOBS = {"Normalize": [np.ones(2)], "BN": [np.ones(8)]}


@pytest.mark.parametrize("name", WRONG)
def test_says_what_is_wrong(name: str, tmp_path: Path):
    type, params, shapes, error, words = WRONG[name]
    inputs = {f"x{i}": shape for i, shape in enumerate(shapes)}
    path = write(tmp_path, definition(inputs, layer(type, params, list(inputs))), {"l": BLOBS.get(type, [])})
    with pytest.raises(error) as caught:
        read(path)
    assert words in str(caught.value) + " ".join(r.reason for r in getattr(caught.value, "refused", ()))


@pytest.mark.parametrize("type", ["Im2seq", "Seq2out", "OCRLSTM", "OCRLSTMQ", "CuDNNLstmForward", "Resize", "MatMul"])
def test_refuses_what_nothing_public_defines(type: str, tmp_path: Path):
    path = write(tmp_path, definition({"x0": MAP}, layer(type)))
    with pytest.raises(UnsupportedError) as caught:
        read(path)
    (refused,) = caught.value.refused
    assert type in refused.reason
    assert refused.hint


def test_detects_in_batches_of_any_size(tmp_path: Path):
    """The batch is stated when the net is run, and images do not touch each other."""
    shapes = dict(zip(("x0", "x1", "x2"), FOUND, strict=True))
    params = f"detection_output_param {{ num_classes: 3 {SSD} }}"
    path = write(tmp_path, definition(shapes, layer("DetectionOutput", params, list(shapes))))
    rng = np.random.default_rng(3)
    corners = np.sort(rng.uniform(0, 1, (12, 2, 2)), axis=1).reshape(1, 1, 48)
    given = {
        "x0": rng.normal(0, 0.5, (3, 48)), "x1": rng.uniform(0, 1, (3, 36)),
        "x2": np.concatenate([corners, np.full((1, 1, 48), 0.1)], 1),
    }  # fmt: skip
    given = {n: a.astype(np.float32) for n, a in given.items()}
    model = read(path, inputs={"x0": ("N", 48), "x1": ("N", 36)})
    optimize(model, 2)
    run = minnow.load(encode(model)).run
    together = run(given)["y"][0, 0]
    for i in range(3):
        alone = run({**given, **{n: given[n][i : i + 1] for n in ("x0", "x1")}})["y"][0, 0]
        own = together[together[:, 0] == i]
        assert len(own) == 10
        np.testing.assert_allclose(own[:, 1:], alone[:, 1:], rtol=1e-5)
