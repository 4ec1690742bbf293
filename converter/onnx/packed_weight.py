"""Products with weights of few bits, which stay packed in the file: as convolutions, whose weights the format packs."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.converter.onnx.contrib.domain import cast, reshaped
from minnow.converter.operand import constant, rank
from minnow.schema.ir import DType, LazyBlob, PackedBlob, Value
from minnow.schema.ops import Builder

Array = np.ndarray[Any, Any]

_BITS = {DType.I2: 2, DType.U2: 2, DType.I4: 4, DType.U4: 4, DType.I8: 8, DType.U8: 8}


def convolved(b: Builder, x: Value, w: PackedBlob, bias: Value | None) -> Value:
    """x w^T as a convolution of 1 x 1, whose weights the format has packed, with the rows of x as places."""
    n, k = w.shape[:2]
    flat = None if bias is None else b.const(constant(bias, "the bias").reshape(-1).astype(np.float32))
    wide = cast(b, x, DType.F32)
    axes = rank(x, "the input of MatMulNBits")
    # The axes stay as they are where they can: dimensions that are known at run time only need no shape computed.
    if axes == 3:
        rows = wide
    else:
        rows = b.Unsqueeze(wide, axes=(0,)) if axes == 2 else b.Reshape(wide, np.array([1, -1, k]))
    image = b.Unsqueeze(b.Transpose(rows, perm=(0, 2, 1)), axes=(3,))
    y = b.Conv(image, Value.constant(w), flat, strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1))
    rows = b.Transpose(b.Squeeze(y, axes=(3,)), perm=(0, 2, 1))
    if axes == 2:
        rows = b.Squeeze(rows, axes=(0,))
    elif axes != 3:
        rows = reshaped(b, rows, x, n, end=-1)
    return cast(b, rows, x.type.dtype)


def dequantized_product(b: Builder, x: Value, w: Value, *, transposed: bool = False) -> Value | None:
    """x w, or with `transposed` x w^T, where DequantizeLinear makes w of constants and x is a float; else None.

    Where x is a quantized tensor, too, the layer is one of integers.
    """
    packed = None if _is_dequantized(x) else _packed(w, transposed)
    if packed is None or x.type.dtype is not DType.F32 or (x.type.rank or 0) < 2:
        return None
    if x.type.shape is None or x.type.shape[-1] != packed.shape[1]:
        return None
    return convolved(b, x, packed, None)


def _is_dequantized(value: Value) -> bool:
    return value.producer is not None and value.producer.op == "DequantizeLinear"


def _packed(w: Value, transposed: bool) -> PackedBlob | None:
    """The matrix that DequantizeLinear makes, with the inputs of the product along its rows."""
    node = w.producer
    if node is None or not _is_dequantized(w) or w.type.rank != 2 or w.type.dtype is not DType.F32:
        return None
    codes, scales = node.input(0), node.input(1)
    zeros = node.input(2) if node.has_input(2) else None
    if any(v is not None and v.data is None for v in (codes, scales, zeros)):
        return None
    dtype = codes.type.dtype
    bits = _BITS.get(dtype)
    rows, columns = codes.type.shape or (0, 0)
    n, k = (rows, columns) if transposed else (columns, rows)
    along = 1 if transposed else 0  # the axis of the product's inputs
    block = int(node.attrs.get("block_size", 0))
    axis = int(node.attrs.get("axis", 1)) % 2
    if bits is None or not isinstance(n, int) or not isinstance(k, int) or n * k == 0 or k * bits % 8:
        return None
    if block and (axis != along or k % block or scales.type.rank != 2):
        return None
    if not block and scales.type.rank == 1 and axis == along and scales.type.shape != (1,):
        return None  # a scale for each input is no scale of a row
    half = 1 << (bits - 1)
    signed = dtype in (DType.I2, DType.I4, DType.I8)

    def of_rows(value: Value) -> Array:
        array = constant(value).astype(np.float32)
        if block:
            return array if transposed else array.T
        return np.broadcast_to(array.reshape(-1, 1), (n, 1))

    def pack() -> Array:
        numbers = constant(codes).astype(np.int32) + (half if signed else 0)
        parts = (numbers if transposed else numbers.T).astype(np.uint8).reshape(n, -1, 8 // bits)
        shifts = np.arange(0, 8, bits, dtype=np.uint8)
        return np.asarray(np.bitwise_or.reduce(parts << shifts, axis=-1), np.uint8)

    zero = None if zeros is None else of_rows(zeros) + (half if signed else 0)
    if zeros is None and not signed:
        zero = np.zeros((n, k // block if block else 1), np.float32)
    data = LazyBlob(pack, DType.U8, (n, k * bits // 8))
    return PackedBlob(data, bits, np.ascontiguousarray(of_rows(scales)), zero, (n, k, 1, 1))
