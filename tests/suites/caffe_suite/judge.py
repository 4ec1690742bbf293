"""What comes out of a case: asked of torch, through the case's own function, or of OpenCV, which reads the files.

Regions and suppression, which torch lacks, are asked of onnxruntime, by models of one node.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .case import Case
from .write import write

Array = np.ndarray[Any, Any]


def expected(case: Case, path: Path) -> dict[str, Array]:
    """The outputs of a case whose files are at `path`, by name."""
    if case.instead:
        case = replace(case, layers=case.instead)
        with tempfile.TemporaryDirectory() as folder:
            return by_opencv(case, write(case, Path(folder)))
    if case.judge is None:
        return by_opencv(case, path)
    import torch

    with torch.no_grad():
        given = [torch.from_numpy(a.copy()) for a in case.arrays().values()]
        weights = [torch.from_numpy(a.copy()) for arrays in case.weights() for a in arrays]
        result = case.judge(*given, *weights)
    results = result if isinstance(result, (tuple, list)) else (result,)
    return {n: r.numpy().copy() for n, r in zip(case.outputs, results, strict=True)}


def onnx_node(op: str, inputs: list[Any], **attributes: Any) -> Any:
    """What onnxruntime computes with one operator, from tensors of torch or None to one."""
    import onnxruntime
    import torch
    from onnx import helper

    arrays = {f"i{k}": np.asarray(v) for k, v in enumerate(inputs) if v is not None}
    ports = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in arrays.items()
    ]
    node = helper.make_node(op, [f"i{k}" if v is not None else "" for k, v in enumerate(inputs)], ["o"], **attributes)
    out = [helper.make_empty_tensor_value_info("o")]
    model = helper.make_model(helper.make_graph([node], op, ports, out), opset_imports=[helper.make_opsetid("", 16)])
    model.ir_version = 8
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return torch.from_numpy(session.run(None, arrays)[0])


def arranged(rows: Array) -> Array:
    """Rows of boxes in the order of Caffe: by image, by label, the best one first; without rows of zeros."""
    flat = rows.reshape(-1, rows.shape[-1])
    flat = flat[np.any(flat != 0, axis=1)]
    order = np.lexsort((-flat[:, 2], flat[:, 1], flat[:, 0]))
    return flat[order]


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
