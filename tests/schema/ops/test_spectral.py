"""The numpy references of Fourier transforms and the mel scale against ONNX, on all their samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx_oracle import Array, OnnxNode, Row, cases, compare, judgments, onnx_type

from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, TensorType
from minnow.schema.ops import Arg, get


def dft(x: Array, length: Array | None = None, axis: Array | None = None, **attrs: Any) -> OnnxNode:
    # In doubles, for both judges compute in the type at hand, and onnxruntime not exactly even so: it is asked where
    # the length is a power of two. It crashes without an axis, and does not transform nothing, or back to real numbers.
    at = np.array(-2) if axis is None else axis.reshape(()).astype(np.int64)
    n = x.shape[int(at)] if length is None else int(length.reshape(()))
    plain = x.size and n & (n - 1) == 0 and not (attrs["inverse"] and attrs["onesided"])
    return OnnxNode(
        "DFT",
        (x.astype(np.float64), None if length is None else length.reshape(()), at),
        {k: int(v) for k, v in attrs.items()},
        by_reference=not plain,
        after=lambda results: [r.astype(x.dtype) for r in results],
    )


def stft(signal: Array, step: Array, window: Array | None = None, length: Array | None = None, **attrs: Any) -> Any:
    if signal.shape[1] < (len(window) if window is not None else 0):
        return [np.zeros((signal.shape[0], 0, len(window) // 2 + 1, 2), signal.dtype)]
    hop, n = (None if v is None else v.reshape(()) for v in (step, length))
    return OnnxNode(
        "STFT",
        (signal.astype(np.float64), hop, None if window is None else window.astype(np.float64), n),
        {"onesided": int(attrs["onesided"])},
        by_reference=True,  # onnxruntime wants a length beside the window, and knows powers of two only
        after=lambda results: [r.astype(signal.dtype) for r in results],
    )


def mel(*operands: Array, to: DType) -> OnnxNode:
    code = onnx_type(np.zeros(0, to.numpy))
    return OnnxNode("MelWeightMatrix", operands, {"output_datatype": code}, by_reference=True)


TABLE: dict[str, Row] = {"DFT": dft, "STFT": stft, "MelWeightMatrix": mel}


@pytest.mark.parametrize(("op", "row", "samples"), cases(TABLE))
def test_reference(op, row, samples):
    for sample in samples:
        compare(op, row, sample, ask=judgments)


def _f32(*shape: int | str) -> Arg:
    return Arg(TensorType(DType.F32, shape))


def _int(value: int) -> Arg:
    return Arg(TensorType(DType.I64, ()), np.array(value))


@pytest.mark.parametrize(
    ("op", "args", "message"),
    [
        ("DFT", (_f32(2, 5, 3),), "not 1 .real. or 2"),
        ("DFT", (_f32(2, 5, 1), None, _int(-1)), "real and imaginary"),
        ("DFT", (_f32(2, 5, 1), None, _int(3)), "out of range"),
        ("DFT", (_f32(2, 5, 1), _int(0)), "length of the transform is 0"),
        ("STFT", (_f32(2, 50, 1), _int(0), None, _int(5)), "the step is 0"),
        ("STFT", (_f32(2, 50, 1), _int(5), _f32(10), _int(5)), "differ"),
        ("MelWeightMatrix", (_int(5), _int(0), _int(8000), _f32(), _f32()), "length is 0"),
    ],
)
def test_what_makes_no_sense_is_refused(op, args, message):
    with pytest.raises(ModelError, match=message):
        get(op).infer(args, {}, 1)
