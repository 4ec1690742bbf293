"""Weights that both graphs of a file have: once in the file, if their bytes are the same."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from minnow.schema.ir import Blob, DType, Graph, LazyBlob, Node, QuantizedBlob, RoundedBlob, TurnedBlob, Value
from minnow.schema.ops import Builder

Floats = np.ndarray[Any, np.dtype[np.float32]]


class ExpandedBlob(LazyBlob):
    """Many small integers as floats: constants for the rules, but not in the file."""

    __slots__ = ("stored",)

    def __init__(self, stored: Blob) -> None:
        super().__init__(partial(_floats, stored), DType.F32, tuple(stored.shape), [stored])
        self.stored = stored


def _floats(blob: Blob) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return blob.numpy().astype(np.float32)


LEAST_STORED = 4096
"""Fewer numbers are not worth a node."""


def keep_small(graph: Graph) -> None:
    """Has the file hold the integers of such constants: a Cast, which is computed when the model is loaded, makes
    floats of them where the reader takes a computed operand."""
    for node in list(graph):
        # op list: what weights of integers are read by, and needs no constant for its form in the file
        if node.op not in ("MatMul", "Mul", "Sub", "Add"):
            continue
        for i, value in enumerate(node.inputs):
            if value is None or not isinstance(value.data, ExpandedBlob):
                continue
            b = Builder(graph, node, node.origin)
            node.set_input(i, b.node("Cast", [Value.constant(value.data.stored, value.name)], {"to": DType.F32}).output)


def pack_weights(graph: Graph) -> None:
    """Has the file hold weights of convolutions that are integers of 8 bits times a scale as such: of a layer that
    MNN's runtime computes with floats the file has the same floats in a fourth of the bytes."""
    known: dict[int, Blob] = {}
    for node in graph:
        # op list: what has packed weights in the format, with a scale for each of its first dimension
        if node.op != "Conv":
            continue
        w = node.input(1)
        if w.data is None or w.type.dtype is not DType.F32 or (w.type.count or 0) < LEAST_STORED:
            continue
        if (made := known.get(id(w.data)) or _packed(w.data)) is not None:
            known[id(w.data)] = made
            node.set_input(1, Value.constant(made, w.name))


def _packed(blob: Blob) -> QuantizedBlob | None:
    if isinstance(blob, (QuantizedBlob, RoundedBlob)):
        return None
    numbers = blob.numpy()
    rows = np.asarray(numbers.reshape(numbers.shape[0], -1), np.float32)
    if _scales(rows[:1]) is None or (scale := _scales(rows)) is None:
        return None
    codes = np.rint(rows / scale[:, None]) + np.float32(128)
    return QuantizedBlob(codes.astype(np.uint8), 8, scale, None, numbers.shape)


_MOST = (127, 128, *range(126, 63, -1))
"""The largest magnitudes of integers that need 8 bits, the usual one first."""


def _scales(rows: Floats) -> Floats | None:
    """A scale for each row, of which all of its numbers are exact multiples by -128 .. 127; None if one has none."""
    largest = np.abs(rows).max(1)
    if not np.isfinite(largest).all():
        return None
    found = np.ones(len(rows), np.float32)
    left = np.flatnonzero(largest)
    for most in _MOST:
        for toward in (None, np.inf, 0):  # the quotient is rounded, and its neighbours may be the scale
            scale = largest[left] / np.float32(most)
            if toward is not None:
                scale = np.nextafter(scale, np.float32(toward))
            one = np.where(scale > 0, scale, np.float32(1))[:, None]
            codes = np.rint(rows[left] / one)
            exact = ((codes >= -128) & (codes <= 127) & (codes * one == rows[left])).all(1)
            found[left[exact]] = one[exact, 0]
            left = left[~exact]
            if not left.size:
                return found
    return None


def share_weights(graph: Graph, turned: Sequence[Blob]) -> None:
    """Has the file hold weights as the second graph has them.

    Those of u8 become i8: 128 less, like their zero points. Given the same input a layer has the same sums.

    Args:
        turned: weights of products, which are convolutions in the second graph: there they lie on their side.
    """
    on_their_side = {id(blob) for blob in turned}
    for node in graph:
        # op list: the layers that subtract a zero point, their fourth operand, from weights of 8 bits, their second
        if node.op not in ("QuantizedConv", "QuantizedMatMul", "ConvInteger", "MatMulInteger"):
            continue
        w = node.input(1)
        if w.data is None:
            continue
        is_turned = id(w.data) in on_their_side
        _sign(node)
        w = node.input(1)
        if is_turned and w.data is not None:
            stored = LazyBlob(partial(_on_its_side, w.data), w.type.dtype, tuple(w.data.shape)[::-1])
            node.set_input(1, Value.constant(TurnedBlob(stored), w.name))


def _on_its_side(blob: Blob) -> np.ndarray[tuple[int, ...], np.dtype[np.int8]]:
    return np.ascontiguousarray(blob.numpy().T)


def _sign(node: Node) -> None:
    w, zero = node.input(1), node.input(3).array if node.has_input(3) else np.zeros((), np.uint8)
    if w.data is None or w.type.dtype is not DType.U8 or zero is None:
        return
    while len(node.inputs) < 4:
        node.append_input(None)
    node.set_input(1, Value.constant(signed(w.data), w.name))
    node.set_input(3, Value.constant((zero.astype(np.int16) - 128).astype(np.int8)))


def signed(blob: Blob) -> Blob:
    """Numbers of u8, less 128, as i8."""
    return LazyBlob(partial(_signed, blob), DType.I8, tuple(blob.shape))


def _signed(blob: Blob) -> np.ndarray[tuple[int, ...], np.dtype[np.int8]]:
    numbers: np.ndarray[tuple[int, ...], np.dtype[np.int8]] = (blob.numpy() ^ np.uint8(128)).view(np.int8)
    return numbers
