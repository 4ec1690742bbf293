"""Small files with the ops of the format that the engine reads, and that no converter writes now: MNN's, or ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from wire_net import Net

_AXES = {"slopeData": np.ones(3, np.float32), "biasData": np.zeros(3, np.float32)}
_KERNEL = {"common": {"kernelX": 2, "kernelY": 2, "pads": [1, 0, 1, 0]}}
_BOXES = {"minSizes": [4.0], "maxSizes": [9.0], "aspectRatios": [2.0], "variances": [0.1, 0.1, 0.2, 0.2], "offset": 0.5}

Form = tuple[str, str, Mapping[str, Any], int]
"""An op, the table of its parameters and what is in it, and how many outputs it has."""

FORMS: list[Form] = [
    ("Bnll", "", {}, 1),
    ("Copy", "", {}, 1),
    ("Dropout", "", {}, 1),
    ("Exp", "", {}, 1),
    ("Log", "", {}, 1),
    ("DynamicQuant", "", {}, 3),
    ("CumProd", "CumSum", {"exclusive": True}, 1),
    ("CumProd", "Axis", {"axis": 2}, 1),
    ("InstanceNorm", "BatchNorm", {"channels": 3, "epsilon": 1e-3, **_AXES}, 1),
    ("Im2Col", "Convolution2D", _KERNEL, 1),
    ("PriorBox", "PriorBox", _BOXES, 1),
]


def files() -> list[bytes]:
    """One file of each form, whose first input is [1, 3, 4, 4]; all run."""
    made = []
    for op, kind, main, outputs in FORMS:
        net = Net()
        x = net.input("x", (1, 3, 4, 4))
        names = [x, net.input("image", (1, 3, 8, 8))] if op == "PriorBox" else [x]
        made.append(net.bytes(*net.op(op, names, [f"y{i}" for i in range(outputs)], kind, main)))
    net = Net()
    x = net.input("x", (2, 3))
    blob = {"dataType": "DT_FLOAT", "dataFormat": "NCHW", "dims": [3], "float32s": np.ones(3, np.float32)}
    w = net.op("TrainableParam", [], ["w"], "Blob", blob)[0]
    made.append(net.bytes(*net.op("BinaryOp", [x, w], ["y"], "BinaryOp", {"opType": 0})))
    return made
