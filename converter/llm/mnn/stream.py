"""Weights in the streams of a folder of MNN-LLM, and the rows of its table of tokens, as matrices of few bits."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from minnow.schema.errors import FormatError, UnsupportedError
from minnow.schema.ir import ArrayBlob, Blob, DType, LazyBlob, QuantizedBlob, RoundedBlob, UnreadBlob

Array = npt.NDArray[Any]

_MOST_BITS = 8


def matrix_of(main: Mapping[str, Any], outputs: int, inputs: int) -> Blob:
    """The weights [outputs, inputs] in the table of a convolution of one element.

    Raises:
        FormatError: sizes do not fit. UnsupportedError: they are stored in a way that exporters do not use.
    """
    stored = main.get("quanParameter")
    if stored is None:
        return _floats(main.get("weight"), outputs, inputs)
    buffer = stored.get("buffer")
    data = np.zeros(0, np.uint8) if buffer is None else np.asarray(buffer).view(np.uint8)
    kind = stored.get("type", 0)
    if kind == 3:
        if data.size != 2 * outputs * inputs:
            raise FormatError(f"{data.size} bytes are no {outputs} x {inputs} numbers in float16")
        return halves(data, (outputs, inputs))
    if kind != 1 or stored.get("quantScale", 0.0) not in (0.0, 1.0):
        raise UnsupportedError(f"weights of kind {kind} with a common scale are not read")
    return _codes(stored, data, outputs, inputs)


def _floats(weight: Any, outputs: int, inputs: int) -> Blob:
    if weight is None or np.asarray(weight).size != outputs * inputs:
        raise FormatError(f"a layer has no {outputs} x {inputs} weights")
    return ArrayBlob(np.asarray(weight, np.float32).reshape(outputs, inputs))


def halves(data: Array, shape: tuple[int, ...]) -> Blob:
    """Bytes of float16 as numbers of float32."""
    numbers = LazyBlob(lambda: data.view(np.float16).astype(np.float32), DType.F32, shape)
    return RoundedBlob(numbers, DType.F16)


def _codes(stored: Mapping[str, Any], data: Array, outputs: int, inputs: int) -> QuantizedBlob:
    wide = 4 if stored.get("shapeInt32", False) else 2
    head = 2 + int(data[0] if data.size else 0) * wide
    if data.size < head or not data[0]:
        raise FormatError("packed weights are cut off")
    count = int(data[head - 1]) or 256
    bits = max((count - 1).bit_length(), 1)
    numbers = data[head : head + count].view(np.int8)
    packed = data[head + count :]
    if numbers.size != count or packed.size != -(-outputs * inputs * bits // 8):
        raise FormatError(f"packed weights have {packed.size} bytes, not {outputs} x {inputs} of {bits} bits")
    half = 1 << (bits - 1)
    if count != 2 * half or not np.array_equal(numbers, np.arange(-half, half)):
        raise UnsupportedError("packed weights whose codes stand for other numbers are not read")
    alpha = stored.get("alphaFp16")
    alpha = stored.get("alpha") if alpha is None else np.asarray(alpha).view(np.float16)
    shifted = stored.get("readType", 0) != 0
    least = int(stored.get("aMin", 0)) or -128
    # The offset is that of the least code, or of 0 where the least is not negative.
    zero = -half - least if least < 0 else -half
    return packed_rows(packed, alpha, (outputs, inputs), bits, shifted, zero)


def packed_rows(
    packed: Array, alpha: Any, shape: tuple[int, int], bits: int, shifted: bool, zero: int
) -> QuantizedBlob:
    """A matrix of packed codes.

    Args:
        packed: bytes, the first code in the highest bits.
        alpha: a scale for each group of neighbours, in f32 or f16; with offsets before each, if `shifted`.
        shape: of the matrix. bits: of a code.
        zero: scales between the offset and the number of code 0.

    Raises:
        FormatError: the numbers of scales and codes do not fit.
    """
    found = np.zeros(0, np.float32) if alpha is None else np.asarray(alpha)
    each = 2 if shifted else 1
    count = found.size // each
    if not 1 <= bits <= _MOST_BITS or not count or found.size % each or shape[0] * shape[1] % count or count % shape[0]:
        raise FormatError(f"{found.size} scales do not fit a matrix {shape[0]} x {shape[1]} in {bits} bits")
    length = prod(shape) // count
    exact = not shifted or zero == 0
    half = found.dtype == np.float16 and exact

    def read() -> tuple[Array, Array, Array | None]:
        rows = found if exact else found.astype(np.float32)
        scale = rows[each - 1 :: each]
        low = rows[::2] + np.float32(zero) * scale if shifted and zero else rows[::2] if shifted else None
        return _unpacked(packed, bits, prod(shape)).reshape(count, length), scale, low

    return UnreadBlob(read, (count, length), bits, shape, half=half, low=shifted)


def _unpacked(packed: Array, bits: int, count: int) -> Array:
    if bits == _MOST_BITS:
        return packed[:count]
    if bits == 4:
        return np.stack([packed >> 4, packed & 15], 1).reshape(-1)[:count]
    places = np.unpackbits(packed)[: count * bits].reshape(count, bits)
    weights = (1 << np.arange(bits - 1, -1, -1)).astype(np.uint8)
    found: Array = (places * weights).sum(1, dtype=np.uint8)
    return found
