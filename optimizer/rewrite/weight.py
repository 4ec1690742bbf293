"""Weights made of other weights when they are written: no pass keeps a second copy of big numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from minnow.schema.ir import Blob, DType, LazyBlob, Node, PackedBlob, Value
from minnow.schema.ir.blob import Array, nbytes


@dataclass(frozen=True)
class TransposedBlob:
    """A matrix on its side. Two of one source are equal, so that a shared weight stays shared."""

    source: Blob

    @property
    def dtype(self) -> DType:
        return self.source.dtype

    @property
    def depth(self) -> int:
        return 1 + getattr(self.source, "depth", 0)

    @property
    def work(self) -> int:
        return nbytes(self.source) + getattr(self.source, "work", 0)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.source.shape)[::-1]

    def numpy(self) -> Array:
        return np.ascontiguousarray(self.source.numpy().T)

    @staticmethod
    def of(value: Value) -> Blob:
        """The blob of a constant matrix on its side."""
        blob = value.data
        assert blob is not None
        return blob.source if isinstance(blob, TransposedBlob) else TransposedBlob(blob)


class ScaledBlob:
    """Weights times a factor, which is broadcast to them; computed in float64 and rounded once.

    Two of one source and factor are equal, so that a shared weight stays shared.
    """

    __slots__ = ("_factor", "_source")

    def __init__(self, source: Blob, factor: Array) -> None:
        self._source, self._factor = source, np.asarray(factor, np.float64)

    @property
    def dtype(self) -> DType:
        return self._source.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._source.shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScaledBlob) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Blob, tuple[int, ...], bytes]:
        return self._source, self._factor.shape, self._factor.tobytes()

    def numpy(self) -> Array:
        return (self._source.numpy().astype(np.float64) * self._factor).astype(self.dtype.numpy)


def scaled(source: Blob, factor: Array) -> Blob:
    """Weights times a factor, which is broadcast to them. Packed ones stay packed under one factor for each row."""
    rows = source.shape[0] if source.shape else 0
    if isinstance(source, PackedBlob) and factor.size == rows == factor.shape[0]:
        return source.scaled(factor.reshape(-1))
    return ScaledBlob(source, factor)


def channel_factors(node: Node) -> tuple[Array, Array] | None:
    """Factor and summand per channel of a BatchNorm or a Scale, in f64; None where they are computed or not finite."""
    arrays = [None if v is None else v.array for v in node.inputs[1:]]
    if any(a is None for a in arrays):
        return None
    scale, bias, *statistics = (np.asarray(a, np.float64) for a in arrays)
    if statistics:
        mean, var = statistics
        with np.errstate(divide="ignore", invalid="ignore"):
            scale = scale / np.sqrt(var + node.attrs.get("epsilon", 1e-5))
            bias = bias - mean * scale
    return (scale, bias) if np.isfinite(scale).all() and np.isfinite(bias).all() else None


def minus_one(like: Value) -> Value:
    """The factor of a node that only changes the sign."""
    return Value.constant(np.array(-1, like.type.dtype.numpy))


_MOST_PRODUCTS = 1 << 32
"""Multiplications that are worth a layer less: some seconds, when the weights are written."""


def chained(inner: Node, outer: Node) -> tuple[Value, Value | None] | str:
    """Weights and bias of one layer for two in a row, of which one takes single places; why not, where it does not go.

    Weights are [out, in, kernel...]. They are multiplied in f64 when they are written, and rounded once.
    """
    first, second = inner.input(1), outer.input(1)
    biases = [node.input(2) if node.has_input(2) else None for node in (inner, outer)]
    a, c = first.data, second.data
    if a is None or c is None or any(v is not None and v.data is None for v in biases):
        return "weights or biases are computed"
    if isinstance(a, PackedBlob) or isinstance(c, PackedBlob):
        return "the weights are packed"
    if len(first.uses) > 1 or len(second.uses) > 1:
        return "others read the weights, so that they would not go away"
    (middle, inputs, *near), (outputs, _, *far) = a.shape, c.shape
    kernel = tuple(max(k, n) for k, n in zip(near, far, strict=True))
    shape = (outputs, inputs, *kernel)
    if math.prod(shape) > math.prod(a.shape) + math.prod(c.shape):
        return "together the weights are more"
    if math.prod(shape) * middle > _MOST_PRODUCTS:
        return "it is much work to multiply the weights"
    sizes = [float(np.abs(blob.numpy()).max(initial=0)) for blob in (a, c)]
    most = float(ml_dtypes.finfo(c.dtype.numpy).max)  # type: ignore[no-untyped-call]
    if not middle * sizes[0] * sizes[1] <= most:
        return "products of weights may leave the range of floats"

    def product() -> Array:
        both = np.tensordot(c.numpy().astype(np.float64), a.numpy().astype(np.float64), (1, 0))
        return np.moveaxis(both, 1 + len(far), 1).reshape(shape).astype(c.dtype.numpy)

    def sums() -> Array:
        old, shift = (
            np.zeros(()) if v is None or v.data is None else v.data.numpy().astype(np.float64) for v in biases
        )
        taps = c.numpy().astype(np.float64).sum(axis=tuple(range(2, 2 + len(far))))
        return np.asarray((taps * old).sum(axis=1) + shift, c.dtype.numpy)

    w = Value.constant(LazyBlob(product, c.dtype, shape), second.name)
    if biases == [None, None]:
        return w, None
    return w, Value.constant(LazyBlob(sums, c.dtype, (outputs,)), "" if biases[1] is None else biases[1].name)
