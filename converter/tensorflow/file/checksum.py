"""CRC-32C (Castagnoli), which guards every block and tensor in checkpoint files."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_POLYNOMIAL = 0x82F63B78
_MAX_LANES = 4096
_LEAST = 256  # bytes in a lane that make up for joining it to the others


def _table() -> Array:
    """What two bytes make of the register."""
    table = np.arange(1 << 16, dtype=np.uint32)
    for _ in range(16):
        table = (table >> 1) ^ np.where(table & 1, np.uint32(_POLYNOMIAL), np.uint32(0))
    return table


_WORDS = _table()


def crc32c(data: bytes | Array) -> int:
    """The checksum of bytes, u8[n]."""
    array = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else data.reshape(-1).view(np.uint8)
    return _after_zeros(0xFFFFFFFF, len(array)) ^ _register(array) ^ 0xFFFFFFFF


def mask(crc: int) -> int:
    """The form in which files hold a checksum of data that may itself hold checksums."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _register(array: Array) -> int:
    """The register after the bytes, from 0 on. Zeros in front change nothing: they fill up the first lane."""
    lanes = 1
    while lanes < _MAX_LANES and len(array) >= 2 * _LEAST * lanes:
        lanes *= 2
    head = len(array) % (2 * lanes)
    first = 0
    if head:
        padded = np.zeros(-(-head // 2) * 2, np.uint8)
        padded[len(padded) - head :] = array[:head]
        for word in padded.view("<u2").tolist():
            first = int(_WORDS[(first ^ word) & 0xFFFF]) ^ first >> 16
    rest = array[head:]
    if not len(rest):
        return first
    words = np.ascontiguousarray(rest).view("<u2").reshape(lanes, -1)
    state = np.zeros(lanes, np.uint32)
    for column in words.T:
        state = _WORDS[(state ^ column) & 0xFFFF] ^ state >> np.uint32(16)
    shift = _zeros(len(rest) // lanes)
    while len(state) > 1:
        state = _apply(shift, state[0::2]) ^ state[1::2]
        shift = _apply(shift, shift)
    return int(state[0]) ^ (_after_zeros(first, len(rest)) if first else 0)


def _zeros(count: int) -> Array:
    """What `count` bytes of zero make of the register: u32[32], the result of each bit alone."""
    result = np.uint32(1) << np.arange(32, dtype=np.uint32)
    for i in range(count.bit_length()):
        if count >> i & 1:
            result = _apply(_power(i), result)
    return result


@cache
def _power(i: int) -> Array:
    """The same for 2^i bytes."""
    if i:
        return _apply(_power(i - 1), _power(i - 1))
    one = np.uint32(1) << np.arange(32, dtype=np.uint32)
    for _ in range(8):
        one = (one >> 1) ^ np.where(one & 1, np.uint32(_POLYNOMIAL), np.uint32(0))
    return one


def _apply(matrix: Array, state: Array) -> Array:
    """The registers, each multiplied by the matrix."""
    bits = state[:, None] >> np.arange(32, dtype=np.uint32) & np.uint32(1)
    return np.asarray(np.bitwise_xor.reduce(bits * matrix, axis=1))


def _after_zeros(state: int, count: int) -> int:
    """A register after `count` bytes of zero."""
    registers = np.array([state], np.uint32)
    for i in range(count.bit_length()):
        if count >> i & 1:
            registers = _apply(_power(i), registers)
    return int(registers[0])
