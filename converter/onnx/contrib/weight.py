"""Matrix products with weights of 2, 4 or 8 bits (com.microsoft), which stay packed in the file where possible."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.converter.onnx.contrib.domain import cast, contrib, reshaped
from minnow.converter.onnx.packed_weight import convolved
from minnow.converter.operand import constant, rank, static_dim
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import Blob, DType, LazyBlob, PackedBlob, Value, unpack_codes
from minnow.schema.ops import Builder

Array = np.ndarray[Any, Any]


@contrib("MatMulNBits")
def _(b, x, w, scales, zeros=None, group_index=None, bias=None, *, K, N, accuracy_level=0, bits=4, block_size,
      weight_prepacked=0):  # fmt: skip
    if weight_prepacked:
        raise UnsupportedError("weights packed for one kind of accelerator are not supported",
                               hint="export with weight_prepacked=0")  # fmt: skip
    if bits not in (2, 4, 8):
        raise UnsupportedError(f"weights of {bits} bits are not supported", why="supported are 2, 4 and 8 bits")
    if block_size < 16 or block_size & (block_size - 1):
        raise ModelError(f"block_size is {block_size}, but must be a power of 2 from 16 on")
    blocks = -(-K // block_size)
    constant(w, "the weights of MatMulNBits")
    assert w.data is not None
    if w.type.count != N * blocks * block_size * bits // 8:
        raise ModelError(
            f"the weights have the shape {w.type.shape}, which does not fit",
            why=f"N is {N}, K {K}, block_size {block_size}",
        )
    scale = constant(scales, "the scales of MatMulNBits").reshape(N, blocks)
    zero = None if zeros is None else _zeros(zeros, N, blocks, bits)
    if group_index is not None:
        if zero is not None:
            raise UnsupportedError("g_idx together with zero points is not supported",
                                   why="onnxruntime ignores the zero points then")  # fmt: skip
        groups = constant(group_index, "g_idx of MatMulNBits").reshape(-1)[:K].astype(np.int64)
        return _product(b, x, _dense(w.data, bits, scale, zero, groups, N, K), N, bias)
    if K % block_size:
        groups = np.arange(K) // block_size
        return _product(b, x, _dense(w.data, bits, scale, zero, groups, N, K), N, bias)
    return convolved(b, x, PackedBlob(w.data, bits, scale, zero, (N, K, 1, 1)), bias)


def _zeros(zeros: Value, n: int, blocks: int, bits: int) -> Array:
    """The codes of 0 as f32[n, blocks]: packed like the weights, or as numbers."""
    array = constant(zeros, "the zero points of MatMulNBits")
    if array.dtype == np.uint8:
        array = unpack_codes(array.reshape(n, -1), bits)[:, :blocks]
    return array.reshape(n, blocks).astype(np.float32)


def _dense(codes: Blob, bits: int, scale: Array, zero: Array | None, groups: Array, n: int, k: int) -> Blob:
    """The weights [n, k] as floats, each place of a row being of the group that `groups` says."""

    def compute() -> Array:
        numbers = unpack_codes(codes.numpy().reshape(n, -1), bits)[:, :k].astype(np.float32)
        base = np.float32(1 << (bits - 1)) if zero is None else zero[:, groups]
        return (numbers - base) * scale.astype(np.float32)[:, groups]

    return LazyBlob(compute, DType.F32, (n, k))


def _product(b: Builder, x: Value, w: Blob, n: int, bias: Value | None, turned: bool = True) -> Value:
    y = b.MatMul(cast(b, x, DType.F32), Value.constant(w), transpose_b=turned)
    return cast(b, y if bias is None else b.Add(y, cast(b, bias, DType.F32)), x.type.dtype)


_FP4 = np.array([0, 0.0052083333, 0.6666667, 1, 0.33333334, 0.5, 0.16666667, 0.25], np.float32)
_NF4 = np.array(
    [-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
     -0.09105003625154495, 0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
     0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1],
    np.float32,
)  # fmt: skip


@contrib("MatMulBnb4")
def _(b, x, w, largest, *, K, N, block_size, quant_type, training_mode=0, transB=1):
    if quant_type not in (0, 1):
        raise ModelError(f"quant_type is {quant_type}, but must be 0 (FP4) or 1 (NF4)")
    if not transB:
        raise UnsupportedError("MatMulBnb4 with transB=0 is not supported", why="it is for training")
    table = _NF4 if quant_type else np.concatenate([_FP4, -_FP4])
    codes = constant(w, "the weights of MatMulBnb4").reshape(-1)
    scale = constant(largest, "absmax of MatMulBnb4").reshape(-1).astype(np.float32)

    def compute() -> Array:
        # The first of a pair is in the high bits, and blocks go on over the ends of rows.
        pairs = np.stack([codes >> 4, codes & 15], 1).reshape(-1)[: N * K]
        return table[pairs] * np.repeat(scale, block_size)[: N * K]

    return _product(b, x, LazyBlob(compute, DType.F32, (N, K)), N, None)


@contrib("GatherBlockQuantized")
def _(b, table, indices, scales, zeros=None, *, bits=4, block_size=128, gather_axis=0, quantize_axis=1):
    n = rank(table, "the table of GatherBlockQuantized")
    if table.type.dtype is not DType.U8:
        raise UnsupportedError(f"a table of {table.type.dtype} is not supported", why="it must be packed in u8")
    if n != 2 or gather_axis % n != 0 or quantize_axis % n != 1 or bits not in (2, 4, 8):
        raise UnsupportedError("GatherBlockQuantized is supported only for rows quantized in 2, 4 or 8 bits",
                               why=f"rank {n}, gather_axis {gather_axis}, quantize_axis {quantize_axis}")  # fmt: skip
    width = static_dim(table.type, 1, "the table") * (8 // bits)
    blocks = static_dim(scales.type, 1, "the scales")
    numbers = _gathered_codes(b, table, indices, bits, width)
    step = [np.arange(width) // block_size]
    scale = b.Gather(b.Gather(scales, indices), step[0], axis=-1)
    if zeros is None:
        base: Any = float(1 << (bits - 1))
    else:
        packed = static_dim(zeros.type, 1, "the zero points") * (8 // bits)
        codes = _gathered_codes(b, zeros, indices, bits, packed)
        base = b.Gather(codes, step[0], axis=-1)
    if blocks != step[0][-1] + 1:
        raise ModelError(f"{blocks} scales do not fit rows of {width} in blocks of {block_size}")
    numbers = b.Sub(numbers, base)
    return cast(b, b.Mul(numbers, cast(b, scale, DType.F32)), scales.type.dtype)


def _gathered_codes(b: Builder, table: Value, indices: Value, bits: int, width: int) -> Value:
    """Rows of packed codes, as f32 one by one."""
    rows = b.Cast(b.Gather(table, indices), to=DType.I32)
    if bits == 8:
        return b.Cast(rows, to=DType.F32)
    per_byte = 8 // bits
    divisors = np.array([1 << (bits * i) for i in range(per_byte)], np.int32)
    parts = b.Mod(b.FloorDiv(b.Unsqueeze(rows, axes=(-1,)), divisors), np.int32(1 << bits))
    return b.Cast(reshaped(b, parts, indices, width), to=DType.F32)
