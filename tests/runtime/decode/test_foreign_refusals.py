"""Ops of MNN's files in forms that are not run: refused by name, when the file is loaded or when shapes are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from wire_net import Net

import minnow
from minnow.schema.errors import ModelError, UnsupportedError

DETECTION = {"classCount": 2, "keepTopK": 5, "codeType": 2, "shareLocation": 1}
POST = {"maxDetections": 4, "maxClassesPerDetection": 1, "numClasses": 2, "centerSizeEncoding": [1.0, 1.0, 1.0, 1.0]}
QUERIES = [(1, 5, 4, 8), (1, 5, 2, 8), (1, 5, 2, 8)]
BOXES = [(1, 12), (1, 6), (1, 2, 12)]
FORMS: dict[str, tuple[str, str, dict[str, Any], list[tuple[int, ...]], int, str]] = {
    "own boxes": ("DetectionOutput", "DetectionOutput", DETECTION | {"shareLocation": 0}, BOXES, 1, "each class"),
    "code": ("DetectionOutput", "DetectionOutput", DETECTION | {"codeType": 3}, BOXES, 1, "code 3"),
    "images": ("DetectionOutput", "DetectionOutput", DETECTION, [(2, 12), (2, 6), (1, 2, 12)], 1, "one image"),
    "regular": (
        "DetectionPostProcess", "DetectionPostProcessParam", POST | {"useRegularNMS": True},
        [(1, 3, 4), (1, 3, 3), (3, 4)], 4, "within each class",
    ),
    "sinks": ("Attention", "AttentionParam", {}, [*QUERIES, (5, 5), (4,)], 1, "sinks"),
    "scale": ("Attention", "AttentionParam", {"attnScale": 0.5}, QUERIES, 1, "scale of its own"),
    "number for a mask": ("Attention", "AttentionParam", {}, [*QUERIES, ()], 1, "a mask"),
    "more keys": ("Attention", "AttentionParam", {}, [QUERIES[0], (1, 7, 2, 8), (1, 7, 2, 8)], 1, "7 keys for 5"),
    "volume": ("Interp3D", "Interp", {"resizeType": 2, "outputDepth": 4}, [(1, 1, 2, 2, 2)], 1, "type 2"),
    "steps": (
        "Interp3D", "Interp",
        {"resizeType": 1, "outputDepth": 4, "outputHeight": 4, "outputWidth": 4, "depthScale": 2.0},
        [(1, 1, 2, 2, 2)], 1, "steps of 2",
    ),
    "ratios": (  # each is compared with all before it
        "PriorBox", "PriorBox", {"minSizes": [4.0], "aspectRatios": np.arange(2, 300002, dtype=np.float32)},
        [(1, 1, 2, 2)] * 2, 1, "4096 boxes",
    ),
    "boxes": (
        "PriorBox", "PriorBox", {"minSizes": [4.0]}, [(1, 1, 1 << 10, 1 + (1 << 10)), (1, 1, 2, 2)], 1, "1024 x 1025",
    ),
    "products": ("MatMul", "MatMul", {}, [(2, 2)] * 8, 1, "quantized operands"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_a_form_is_refused(name):
    type, table, main, shapes, n, says = FORMS[name]
    net = Net()
    inputs = [net.input(f"x{i}", shape) for i, shape in enumerate(shapes)]
    net.op(type, inputs, [f"y{i}" for i in range(n)], table, main)
    feeds = {f"x{i}": np.ones(shape, np.float32) for i, shape in enumerate(shapes)}
    with pytest.raises(UnsupportedError, match=says):
        minnow.load(net.bytes("y0")).run(feeds)


def test_tables_of_an_odd_size():
    net = Net()
    shapes = [(5, 32, 1, 1), (5, 16, 1, 1), (1, 5, 1, 3), (1, 5, 1, 3)]
    inputs = [net.input(f"x{i}", shape) for i, shape in enumerate(shapes)]
    net.op("RoPE", inputs, ["y0", "y1"], "RoPEParam", {"num_head": 4, "kv_num_head": 2, "head_dim": 8})
    with pytest.raises(ModelError, match="tables of shape"):
        minnow.load(net.bytes("y0")).run({f"x{i}": np.ones(s, np.float32) for i, s in enumerate(shapes)})
