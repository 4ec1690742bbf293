"""Weights that both graphs of a file have: once in the file, if their bytes are the same."""

from __future__ import annotations

from functools import partial

import numpy as np

from minnow.schema.ir import Blob, DType, Graph, LazyBlob, Value


def sign_weights(graph: Graph) -> None:
    """Makes weights of u8 weights of i8, as other runtimes have them: 128 less, like their zero points.

    Given the same input a layer has the same sums.
    """
    for node in graph:
        # op list: the layers that subtract a zero point, their fourth operand, from weights of 8 bits, their second
        if node.op not in ("QuantizedConv", "QuantizedMatMul", "ConvInteger", "MatMulInteger"):
            continue
        w, zero = node.input(1), node.input(3).array if node.has_input(3) else np.zeros((), np.uint8)
        if w.data is None or w.type.dtype is not DType.U8 or zero is None:
            continue
        signed = LazyBlob(partial(_signed, w.data), DType.I8, tuple(w.data.shape))
        while len(node.inputs) < 4:
            node.append_input(None)
        node.set_input(1, Value.constant(signed, w.name))
        node.set_input(3, Value.constant((zero.astype(np.int16) - 128).astype(np.int8)))


def _signed(blob: Blob) -> np.ndarray[tuple[int, ...], np.dtype[np.int8]]:
    numbers: np.ndarray[tuple[int, ...], np.dtype[np.int8]] = (blob.numpy() ^ np.uint8(128)).view(np.int8)
    return numbers
