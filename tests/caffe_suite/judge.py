"""What comes out of a case: asked of torch, through the case's own function, or of OpenCV, which reads the files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from .case import Case

Array = np.ndarray[Any, Any]


def expected(case: Case, path: Path) -> dict[str, Array]:
    """The outputs of a case whose files are at `path`, by name."""
    if case.judge is None:
        return by_opencv(case, path)
    import torch

    with torch.no_grad():
        given = [torch.from_numpy(a.copy()) for a in case.arrays().values()]
        weights = [torch.from_numpy(a.copy()) for arrays in case.weights() for a in arrays]
        result = case.judge(*given, *weights)
    results = result if isinstance(result, (tuple, list)) else (result,)
    return {n: r.numpy().copy() for n, r in zip(case.outputs, results, strict=True)}


def by_opencv(case: Case, path: Path) -> dict[str, Array]:
    """What OpenCV computes from the two files."""
    import cv2

    net = cv2.dnn.readNetFromCaffe(str(path.with_suffix(".prototxt")), str(path))
    net.setPreferableBackend(cv2.dnn.DNN_BACKEND_OPENCV)
    for name, array in case.arrays().items():
        net.setInput(array, name)
    last = {top: made for made in case.layers for top in made.tops}
    known = set(net.getLayerNames())
    # It calls some layers by their outputs.
    layers = {name: last[name].name if last[name].name in known else name for name in case.outputs}
    chosen = list(dict.fromkeys(layers.values()))
    found = dict(zip(chosen, net.forwardAndRetrieve(chosen), strict=True))
    return {name: np.array(found[layers[name]][last[name].tops.index(name)]) for name in case.outputs}
