"""The types of tensors in GGUF files: numbers one by one, and blocks of numbers of few bits with their scales."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from minnow.schema.ir import DType

Array = npt.NDArray[Any]

_CHUNK = 1 << 22
"""Numbers that are decoded at a time, so that what is in between takes little memory."""


class Parts(NamedTuple):
    """Blocks as codes: number = code * scale + low, or without `low` (code - 2^(bits - 1)) * scale.

    Attributes:
        codes: u8[blocks, length]. scale, low: [blocks] in f16.
    """

    codes: Array
    scale: Array
    low: Array | None


@dataclass(frozen=True)
class BlockType:
    """A type of tensors.

    Attributes:
        number, name: as in the file.
        elements, size: of a block, and its bytes.
        decode: blocks as bytes u8[n, size] -> the numbers f32[n, elements].
        plain: the element type, if the numbers lie there one by one.
        bits: of a code, if blocks of this kind can stay packed.
        length: of the blocks of codes; `elements` if it is 0.
        split: blocks as bytes -> their codes. None: they are of a kind that has no such form itself, and `length`
            numbers get a scale of their own.
        has_low: the codes have a `low`.
    """

    number: int
    name: str
    elements: int
    size: int
    decode: Callable[[Array], Array]
    plain: DType | None = None
    bits: int = 0
    length: int = 0
    split: Callable[[Array], Parts] | None = None
    has_low: bool = False

    @property
    def group(self) -> int:
        """Numbers with one scale, where they stay packed."""
        return self.length or self.elements

    def floats(self, data: Array, shape: tuple[int, ...]) -> Array:
        """All numbers of a tensor, f32, of its bytes u8[...]."""
        made = np.empty(data.size // self.size * self.elements, np.float32)
        for first, blocks in self._chunks(data):
            numbers = self.decode(blocks)
            made[first * self.elements :][: numbers.size] = numbers.reshape(-1)
        return made.reshape(shape)

    def parts(self, data: Array) -> Parts:
        """All blocks of a tensor as codes."""
        count = data.size // self.size * self.elements // self.group
        codes = np.empty((count, self.group), np.uint8)
        scale = np.empty(count, np.float16)
        low = np.empty(count, np.float16) if self.has_low else None
        ratio = self.elements // self.group
        for first, blocks in self._chunks(data):
            made = self.split(blocks) if self.split else _rounded(self.decode(blocks).reshape(-1, self.group))
            at = slice(first * ratio, first * ratio + len(made.codes))
            codes[at], scale[at] = made.codes, made.scale
            if low is not None:
                assert made.low is not None
                low[at] = made.low
        return Parts(codes, scale, low)

    def _chunks(self, data: Array) -> Iterator[tuple[int, Array]]:
        blocks = data.reshape(-1, self.size)
        step = max(_CHUNK // self.elements, 1)
        for first in range(0, len(blocks), step):
            yield first, np.asarray(blocks[first : first + step])


def _half(blocks: Array, at: int) -> Array:
    """The float16 at a place of each block, f16[n]."""
    return np.asarray(np.ascontiguousarray(blocks[:, at : at + 2]).view(np.float16)[:, 0])


def _scale(blocks: Array, at: int) -> Array:
    """The same as f32[n, 1]."""
    return _half(blocks, at).astype(np.float32)[:, None]


def _nibbles(packed: Array) -> Array:
    """The low halves of bytes, then the high ones."""
    return np.concatenate([packed & 15, packed >> 4], axis=1)


def _fields(packed: Array, bits: int) -> Array:
    """u8[n, parts, bytes]: the codes of each byte, those of the lowest bits first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)[:, None]
    return np.asarray((packed[:, None, :] >> shifts) & np.uint8((1 << bits) - 1))


def _numbers(parts: Parts, bits: int) -> Array:
    scale = parts.scale.astype(np.float32)[:, None]
    if parts.low is None:
        return np.asarray((parts.codes.astype(np.float32) - np.float32(1 << (bits - 1))) * scale)
    return np.asarray(parts.codes.astype(np.float32) * scale + parts.low.astype(np.float32)[:, None])


def _simple(number: int, name: str, size: int, bits: int, split: Callable[[Array], Parts], low: bool) -> BlockType:
    """Blocks whose codes and scales are in the file as they are here."""
    elements = 256 if name.startswith("TQ") else 32

    def decode(blocks: Array) -> Array:
        return _numbers(split(blocks), bits)

    return BlockType(number, name, elements, size, decode, bits=bits, split=split, has_low=low)


# ---- blocks of 32 with one scale ---------------------------------------------------------------------------------


def _q4_0(blocks: Array) -> Parts:
    return Parts(_nibbles(blocks[:, 2:]), _half(blocks, 0), None)


def _q4_1(blocks: Array) -> Parts:
    return Parts(_nibbles(blocks[:, 4:]), _half(blocks, 0), _half(blocks, 2))


def _fifth(blocks: Array, at: int) -> Array:
    """Codes of 5 bits: the fifth ones in 4 bytes at a place, the others behind."""
    high = np.unpackbits(blocks[:, at : at + 4], axis=1, bitorder="little")
    return np.asarray(_nibbles(blocks[:, at + 4 :]) | high << 4)


def _q5_0(blocks: Array) -> Parts:
    return Parts(_fifth(blocks, 2), _half(blocks, 0), None)


def _q5_1(blocks: Array) -> Parts:
    return Parts(_fifth(blocks, 4), _half(blocks, 0), _half(blocks, 2))


def _q8_0(blocks: Array) -> Parts:
    return Parts(blocks[:, 2:] ^ np.uint8(128), _half(blocks, 0), None)


_CURVE = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.int16)
"""What the codes of the IQ4 types stand for."""
_CURVE_CODES = (_CURVE + 128).astype(np.uint8)


def _iq4_nl(blocks: Array) -> Parts:
    return Parts(_CURVE_CODES[_nibbles(blocks[:, 2:])], _half(blocks, 0), None)


# ---- blocks of 256, whose parts have scales of few bits ------------------------------------------------


def _two_level(d: Array, scales: Array, codes: Array) -> Array:
    """d * scale * code, with the codes [n, groups, length]."""
    scale = (d * scales.astype(np.float32))[..., None]
    return np.asarray(scale * codes.astype(np.float32)).reshape(len(codes), -1)


def _q2_k_codes(blocks: Array) -> Array:
    packed = blocks[:, 16:80]
    return np.concatenate([_fields(packed[:, i : i + 32], 2) for i in (0, 32)], axis=1).reshape(-1, 16, 16)


def _q2_k_scales(blocks: Array) -> tuple[Array, Array]:
    scales = blocks[:, :16]
    return (
        _scale(blocks, 80) * (scales & 15).astype(np.float32),
        _scale(blocks, 82) * (scales >> 4).astype(np.float32),
    )


def _q2_k(blocks: Array) -> Array:
    return _with_lows(_q2_k_codes(blocks), *_q2_k_scales(blocks))


def _q2_k_parts(blocks: Array) -> Parts:
    return _split_with_lows(_q2_k_codes(blocks), *_q2_k_scales(blocks))


def _q3_k_codes(blocks: Array) -> Array:
    packed = blocks[:, 32:96]
    low = np.concatenate([_fields(packed[:, i : i + 32], 2) for i in (0, 32)], axis=1)
    return np.asarray(low | _fields(blocks[:, :32], 1) << 2).reshape(-1, 16, 16)


def _q3_k_scales(blocks: Array) -> Array:
    """The signed scales times that of the block, f32[n, 16]."""
    packed = blocks[:, 96:108]
    low = np.concatenate([packed[:, :8] & 15, packed[:, :8] >> 4], axis=1)
    high = _fields(packed[:, 8:], 2).reshape(-1, 16)
    return np.asarray(_scale(blocks, 108) * ((low | high << 4).astype(np.int8) - np.int8(32)).astype(np.float32))


def _q3_k(blocks: Array) -> Array:
    codes = _q3_k_codes(blocks).astype(np.float32) - 4
    return np.asarray((_q3_k_scales(blocks)[..., None] * codes).reshape(len(blocks), -1))


def _q3_k_parts(blocks: Array) -> Parts:
    return Parts(_q3_k_codes(blocks).reshape(-1, 16), _to_half(_q3_k_scales(blocks)).reshape(-1), None)


def _scales_and_lows(packed: Array) -> tuple[Array, Array]:
    """8 scales and 8 lows of 6 bits in 12 bytes."""
    a, b, c = packed[:, :4], packed[:, 4:8], packed[:, 8:12]
    scales = np.concatenate([a & 63, (c & 15) | (a >> 6) << 4], axis=1)
    lows = np.concatenate([b & 63, c >> 4 | (b >> 6) << 4], axis=1)
    return scales, lows


def _k_lows(blocks: Array) -> tuple[Array, Array]:
    """Scales and lows of the parts of Q4_K and Q5_K, f32[n, 8] each."""
    scales, lows = _scales_and_lows(blocks[:, 4:16])
    return _scale(blocks, 0) * scales.astype(np.float32), _scale(blocks, 2) * lows.astype(np.float32)


def _q4_k_codes(blocks: Array) -> Array:
    return _fields(blocks[:, 16:144].reshape(-1, 32), 4).reshape(-1, 8, 32)


def _q5_k_codes(blocks: Array) -> Array:
    low = _fields(blocks[:, 48:176].reshape(-1, 32), 4).reshape(-1, 8, 32)
    return np.asarray(low | _fields(blocks[:, 16:48], 1) << 4)


def _with_lows(codes: Array, scales: Array, lows: Array) -> Array:
    return np.asarray((scales[..., None] * codes.astype(np.float32) - lows[..., None]).reshape(len(codes), -1))


def _split_with_lows(codes: Array, scales: Array, lows: Array) -> Parts:
    """One rounding: scales and lows become float16."""
    return Parts(codes.reshape(-1, codes.shape[-1]), _to_half(scales).reshape(-1), _to_half(-lows).reshape(-1))


def _q6_k(blocks: Array) -> Array:
    low, high = blocks[:, :128], blocks[:, 128:192]
    codes = np.concatenate(
        [
            _fields(low[:, 64 * i : 64 * i + 64], 4).reshape(-1, 4, 32) | _fields(high[:, 32 * i : 32 * i + 32], 2) << 4
            for i in (0, 1)
        ],
        axis=1,
    )
    scales = blocks[:, 192:208].view(np.int8)
    return _two_level(_scale(blocks, 208), scales, (codes.astype(np.int8) - 32).reshape(-1, 16, 16))


def _iq4_xs(blocks: Array) -> Array:
    high = np.ascontiguousarray(blocks[:, 2:4]).view(np.uint16)
    above = (high >> np.arange(0, 16, 2, dtype=np.uint16)) & 3
    below = np.stack([blocks[:, 4:8] & 15, blocks[:, 4:8] >> 4], axis=2).reshape(-1, 8)
    scales = (below | above.astype(np.uint8) << 4).astype(np.int8) - 32
    codes = _fields(blocks[:, 8:136].reshape(-1, 16), 4).reshape(-1, 8, 32)
    return _two_level(_scale(blocks, 0), scales, _CURVE[codes])


# ---- blocks of 256 of -1, 0 and 1 ----------------------------------------------------------------------------------


def _tq1_0(blocks: Array) -> Parts:
    """Five numbers of three values in a byte, as the digits of a fraction."""
    powers = np.array([1, 3, 9, 27, 81], np.uint8)[:, None]

    def digits(packed: Array, count: int) -> Array:
        turned = packed[:, None, :] * powers[:count]  # modulo 256
        return ((turned.astype(np.uint16) * 3) >> 8).astype(np.uint8).reshape(len(packed), -1)

    codes = np.concatenate([digits(blocks[:, :32], 5), digits(blocks[:, 32:48], 5), digits(blocks[:, 48:52], 4)], 1)
    return Parts(codes + np.uint8(1), _half(blocks, 52), None)


def _tq2_0(blocks: Array) -> Parts:
    codes = np.concatenate([_fields(blocks[:, i : i + 32], 2).reshape(-1, 128) for i in (0, 32)], axis=1)
    scale = _half(blocks, 64)
    return Parts(codes, scale, -scale)


# ---- numbers one by one --------------------------------------------------------------------------------------------


def _plain(number: int, name: str, dtype: DType) -> BlockType:
    def decode(blocks: Array) -> Array:
        return np.ascontiguousarray(blocks).view(dtype.numpy).astype(np.float32)

    return BlockType(number, name, 1, dtype.size, decode, plain=dtype)


_HALF_MOST = 65504.0


def _to_half(numbers: Array) -> Array:
    return np.asarray(np.clip(numbers, -_HALF_MOST, _HALF_MOST).astype(np.float16))


def _rounded(numbers: Array) -> Parts:
    """8 bits around 0: what the types with other groups become, with less error than they have themselves."""
    scale = _to_half(np.abs(numbers).max(axis=1) / 127)
    divisor = np.where(scale > 0, scale, 1).astype(np.float32)[:, None]
    codes = np.clip(np.rint(numbers / divisor), -127, 127) + 128
    return Parts(codes.astype(np.uint8), scale, None)


_TYPES = (
    _plain(0, "F32", DType.F32),
    _plain(1, "F16", DType.F16),
    _plain(30, "BF16", DType.BF16),
    _plain(28, "F64", DType.F64),
    _simple(2, "Q4_0", 18, 4, _q4_0, low=False),
    _simple(3, "Q4_1", 20, 4, _q4_1, low=True),
    _simple(6, "Q5_0", 22, 5, _q5_0, low=False),
    _simple(7, "Q5_1", 24, 5, _q5_1, low=True),
    _simple(8, "Q8_0", 34, 8, _q8_0, low=False),
    BlockType(10, "Q2_K", 256, 84, _q2_k, bits=2, length=16, has_low=True, split=_q2_k_parts),
    BlockType(11, "Q3_K", 256, 110, _q3_k, bits=3, length=16, split=_q3_k_parts),
    BlockType(12, "Q4_K", 256, 144, lambda x: _with_lows(_q4_k_codes(x), *_k_lows(x)), bits=4, length=32, has_low=True,
              split=lambda x: _split_with_lows(_q4_k_codes(x), *_k_lows(x))),
    BlockType(13, "Q5_K", 256, 176, lambda x: _with_lows(_q5_k_codes(x), *_k_lows(x)), bits=5, length=32, has_low=True,
              split=lambda x: _split_with_lows(_q5_k_codes(x), *_k_lows(x))),
    BlockType(14, "Q6_K", 256, 210, _q6_k, bits=8, length=32),
    _simple(20, "IQ4_NL", 18, 8, _iq4_nl, low=False),
    BlockType(23, "IQ4_XS", 256, 136, _iq4_xs, bits=8, length=32),
    _simple(34, "TQ1_0", 54, 2, _tq1_0, low=False),
    _simple(35, "TQ2_0", 66, 2, _tq2_0, low=True),
)  # fmt: skip

TYPES = {t.number: t for t in _TYPES}
"""The types that are read, by number."""

OTHERS = {
    9: "Q8_1", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 21: "IQ3_S", 22: "IQ2_S",
    24: "I8", 25: "I16", 26: "I32", 27: "I64", 29: "IQ1_M", 39: "MXFP4",
}  # fmt: skip
"""Types that are known and not read, by number."""
