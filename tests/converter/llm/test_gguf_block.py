"""The types of GGUF's tensors, compared with the package `gguf` on random bytes."""

from __future__ import annotations

import numpy as np
import pytest
from gguf import GGMLQuantizationType
from gguf.quants import dequantize

from minnow.converter.llm.gguf.block import TYPES, BlockType
from minnow.schema.ir import QuantizedBlob

_IDS = [t.name for t in TYPES.values()]


def _random(block: BlockType, count: int) -> np.ndarray:
    """Blocks of random bytes, in which the float16 numbers are finite."""
    rng = np.random.default_rng(block.number)
    data = rng.integers(0, 256, (count, block.size)).astype(np.uint8)
    if block.plain is not None:
        numbers = rng.standard_normal(count).astype(np.float32).astype(block.plain.numpy)
        return numbers.view(np.uint8).reshape(count, block.size)
    for at in _HALVES.get(block.name, (0,)):
        data[:, at : at + 2] = rng.standard_normal((count, 1)).astype(np.float16).view(np.uint8)
    return data


_HALVES = {
    "Q4_1": (0, 2), "Q5_1": (0, 2), "Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,),
    "TQ1_0": (52,), "TQ2_0": (64,),
}  # fmt: skip


@pytest.mark.parametrize("block", TYPES.values(), ids=_IDS)
def test_numbers_are_those_of_gguf(block: BlockType) -> None:
    data = _random(block, 37)
    if block.name == "F64":  # which the package does not have
        want = data.reshape(-1).view(np.float64)
    else:
        want = dequantize(data.reshape(-1), GGMLQuantizationType(block.number)).reshape(-1)
    got = block.floats(data.reshape(-1), (37 * block.elements,))
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("block", [t for t in TYPES.values() if t.bits], ids=[t.name for t in TYPES.values() if t.bits])
def test_packed_numbers_are_the_same(block: BlockType) -> None:
    """Blocks of one scale become codes without loss, others with one rounding."""
    data = _random(block, 41)
    want = block.floats(data.reshape(-1), (41, block.elements))
    parts = block.parts(data.reshape(-1))
    got = QuantizedBlob(parts.codes, block.bits, parts.scale, parts.low, (41, block.elements)).numpy()
    assert parts.codes.max() < 1 << block.bits
    assert (parts.low is not None) == block.has_low
    if block.name in ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "IQ4_NL", "TQ1_0", "TQ2_0"):
        assert np.array_equal(got, want)
    else:
        error = np.abs(got - want).max(axis=1) / np.abs(want).max(axis=1)
        assert error.max() < (0.004 if block.split is None else 0.001)


def test_many_blocks_are_decoded_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    block = next(t for t in TYPES.values() if t.name == "Q4_K")
    data = _random(block, 19).reshape(-1)
    whole, parts = block.floats(data, (19, 256)), block.parts(data)
    monkeypatch.setattr("minnow.converter.llm.gguf.block._CHUNK", 3 * 256)
    assert np.array_equal(block.floats(data, (19, 256)), whole)
    for one, other in zip(block.parts(data), parts, strict=True):
        assert np.array_equal(one, other)
