"""Compressed weights of the format, written bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np

RNG = np.random.default_rng(0)


def bits_of(values: np.ndarray, bits: int) -> bytes:
    """The numbers as a stream of bits, most significant first."""
    rows = (values.reshape(-1, 1) >> np.arange(bits - 1, -1, -1)) & 1
    return np.packbits(rows.astype(np.uint8).reshape(-1)).tobytes()


def head(rows: int, length: int, wide: bool) -> bytes:
    return bytes([2]) + np.array([rows, length], np.uint32 if wide else np.uint16).tobytes()


def stream(q: np.ndarray, bits: int, wide: bool, steps: np.ndarray | None = None) -> bytes:
    """Shape, table, indices; with steps the distances between those that are listed, too.

    `q` is [rows, length] in -2^(bits-1)..2^(bits-1)-1.
    """
    half = 1 << (bits - 1)
    table = np.arange(-half, half).astype(np.int8)
    sparse, listed = b"", q
    if steps is not None:
        step_bits = int(steps.max()).bit_length()
        sparse = np.uint32(len(steps)).tobytes() + bytes([step_bits]) + bits_of(steps, step_bits)
        listed = q.reshape(-1)[np.cumsum(steps)]
    size = bytes([len(table) % 256])
    return head(*q.shape, wide) + sparse + size + table.tobytes() + bits_of(listed + half, bits)


def packed(
    q: np.ndarray, bits: int, rows: int, form: str, half: bool, wide: bool = False, steps: np.ndarray | None = None
) -> tuple[dict[str, Any], np.ndarray]:
    """The table of weights whose quanta are q, and what they stand for, rounded to halves where the file is.

    Args:
        form: "symmetric"; "least" and "zero" are the two ways to write rows with a minimum: the quantum that the first
            of the two numbers of a row stands for.
        steps: from each number that is listed to the next one, where not all are.
    """
    least = -(1 << (bits - 1))
    scale = RNG.uniform(0.01, 0.1, rows).astype(np.float16).astype(np.float32)
    at = least if form == "least" else 0
    first = RNG.uniform(-1, 0, rows) + (at - least) * scale
    first = np.zeros(rows) if form == "symmetric" else first.astype(np.float16).astype(np.float32)
    alpha = scale if form == "symmetric" else np.stack([first, scale], 1).reshape(-1)
    table = {
        "type": 1 if steps is None else 2,
        "buffer": np.frombuffer(stream(q, bits, wide, steps), np.int8),
        "aMaxOrBits": bits,
        "aMin": {"symmetric": 0, "least": least, "zero": 1}[form],
        "readType": 0 if form == "symmetric" else rows,
        "quantScale": 1.0,
        "shapeInt32": wide,
    }
    if half:
        table |= {"alphaFp16": alpha.astype(np.float16).view(np.uint16), "scaleStorage": "FP16"}
    else:
        table["alpha"] = alpha.astype(np.float32)
    return table, (q - at) * scale[:, None] + first[:, None]
