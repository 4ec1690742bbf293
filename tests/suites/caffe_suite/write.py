"""Writes a case as a prototxt file and a caffemodel, the latter byte by byte: no schema has a say in it."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import numpy as np

from .case import INPUTS, Case, Layer

Array = np.ndarray[Any, Any]

PARAMETERS = {
    "InnerProduct": "inner_product", "LRN": "lrn", "MVN": "mvn", "ELU": "elu", "PReLU": "prelu", "ReLU": "relu",
    "BatchNorm": "batch_norm", "TanH": "tanh", "SPP": "spp", "ArgMax": "argmax", "Deconvolution": "convolution",
    "DepthwiseConvolution": "convolution", "ConvolutionDepthwise": "convolution", "DepthwiseConv": "convolution",
    "CuDNNGroupedConvolutionForward": "convolution", "CuDNNLRNCrossChannel": "lrn", "CuDNNBatchNorm": "batch_norm",
    "Normalize": "norm", "PriorBox": "prior_box", "DetectionOutput": "detection_output", "BN": "bn",
    "ROIPooling": "roi_pooling", "ROIAlign": "roi_align", "PSROIPooling": "psroi_pooling", "RNN": "recurrent",
    "LSTM": "recurrent", "Lstm": "lstm", "ShuffleChannel": "shuffle_channel", "Convolution3D": "convolution3d",
    "Pooling3D": "pooling3d", "ReLU6": "relu6", "YoloDetectionOutput": "yolo_detection_output",
    "Yolov3DetectionOutput": "yolov3_detection_output",
    "Upsample": "upsample", "ParameterizedReLU": "prelu", "MatMul": "matmul",
}  # fmt: skip
"""What the parameter message is called where it is not called as the type; without its ending."""

V1 = {
    "Convolution": "CONVOLUTION", "Pooling": "POOLING", "InnerProduct": "INNER_PRODUCT", "ReLU": "RELU", "LRN": "LRN",
    "Concat": "CONCAT", "Softmax": "SOFTMAX", "Dropout": "DROPOUT", "Eltwise": "ELTWISE", "Flatten": "FLATTEN",
    "Power": "POWER", "Sigmoid": "SIGMOID", "TanH": "TANH", "Slice": "SLICE", "Split": "SPLIT", "AbsVal": "ABSVAL",
    "BNLL": "BNLL", "ArgMax": "ARGMAX", "MVN": "MVN", "Threshold": "THRESHOLD", "Exp": "EXP", "Silence": "SILENCE",
    "Deconvolution": "DECONVOLUTION", "Im2col": "IM2COL",
}  # fmt: skip
V1_NUMBERS = {
    "CONCAT": 3, "CONVOLUTION": 4, "INNER_PRODUCT": 14, "DECONVOLUTION": 39, "LRN": 15, "POOLING": 17, "RELU": 18,
}  # fmt: skip
"""Only layers with weights need their number."""


_WHOLE = re.compile(r"\w+_param {|include|exclude")
"""What stands beside the parameter message, or is it."""


# ---- text -----------------------------------------------------------------------------------------------------------


def prototxt(case: Case) -> str:
    """The net as text."""
    lines = ['name: "net"']
    for name, given in zip(INPUTS, case.inputs, strict=False):
        dims = " ".join(f"dim: {d}" for d in given.shape)
        if case.head == "layer":
            lines.append(f'layer {{ name: "{name}" type: "Input" top: "{name}" input_param {{ shape {{ {dims} }} }} }}')
        elif case.head == "shape":
            lines.append(f'input: "{name}" input_shape {{ {dims} }}')
        else:
            lines.append(f'input: "{name}" ' + " ".join(f"input_dim: {d}" for d in given.shape))
    return "\n".join([*lines, *(_text(made, case.form) for made in case.layers)]) + "\n"


def _text(made: Layer, form: str) -> str:
    ends = " ".join([*(f'bottom: "{b}"' for b in made.bottoms), *(f'top: "{t}"' for t in made.tops)])
    if form == "v0":
        return f'layers {{ layer {{ name: "{made.name}" type: "{made.type}" {made.params} }} {ends} }}'
    params = made.params
    if params and not _WHOLE.match(params):
        params = f"{PARAMETERS.get(made.type, made.type.lower())}_param {{ {params} }}"
    if form == "v1":
        return f'layers {{ name: "{made.name}" type: {V1[made.type]} {ends} {params} }}'
    return f'layer {{ name: "{made.name}" type: "{made.type}" {ends} {params} }}'


# ---- bytes ----------------------------------------------------------------------------------------------------------


def _varint(n: int) -> bytes:
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes((*out, n))


def _number(field: int, n: int) -> bytes:
    return _varint(field << 3) + _varint(n)


def _bytes(field: int, content: bytes | str) -> bytes:
    content = content.encode() if isinstance(content, str) else content
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _blob(array: Array, encoding: str) -> bytes:
    if encoding in ("legacy", "scattered"):
        dims = (1,) * (4 - array.ndim) + array.shape
        shape = b"".join(_number(1 + i, d) for i, d in enumerate(dims))
    else:
        shape = _bytes(7, _bytes(1, b"".join(map(_varint, array.shape))))
    if encoding == "double":
        return shape + _bytes(8, array.astype("<f8").tobytes())
    if encoding == "half":
        return shape + _number(10, 2) + _bytes(12, array.astype("<f2").tobytes())
    if encoding == "scattered":  # not packed: a key before every number
        return shape + b"".join(_varint(5 << 3 | 5) + struct.pack("<f", v) for v in array.reshape(-1))
    return shape + _bytes(5, array.astype("<f4").tobytes())


def caffemodel(case: Case) -> bytes:
    """The net's weights."""
    out = _bytes(1, "net")
    for made, arrays in zip(case.layers, case.weights(), strict=True):
        blobs = [_blob(a, made.encoding or ("" if case.form == "layer" else "legacy")) for a in arrays]
        if case.form == "layer":
            ends = b"".join([*(_bytes(3, b) for b in made.bottoms), *(_bytes(4, t) for t in made.tops)])
            body = _bytes(1, made.name) + _bytes(2, made.type) + ends + b"".join(_bytes(7, b) for b in blobs)
            out += _bytes(100, body)
            continue
        ends = b"".join([*(_bytes(2, b) for b in made.bottoms), *(_bytes(3, t) for t in made.tops)])
        if form_is_v1 := case.form == "v1":
            kind = _number(5, V1_NUMBERS.get(V1[made.type], 0)) if blobs else b""
            body = _bytes(4, made.name) + kind + ends + b"".join(_bytes(6, b) for b in blobs)
        else:
            inner = _bytes(1, made.name) + _bytes(2, made.type) + b"".join(_bytes(50, b) for b in blobs)
            body = _bytes(1, inner) + ends
        assert form_is_v1 or case.form == "v0"
        out += _bytes(2, body)
    return out


def write(case: Case, folder: Path) -> Path:
    """Both files; gives the caffemodel's path, the prototxt lies beside it with the same stem."""
    path = folder / f"{case.name}.caffemodel"
    path.write_bytes(caffemodel(case))
    path.with_suffix(".prototxt").write_text(prototxt(case))
    return path
