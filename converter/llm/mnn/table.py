"""The table of tokens in a folder of MNN-LLM: a file of rows in 4, 8 or 16 bits, of which single ones are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from minnow.schema.ir import Blob, DType, QuantizedBlob, RoundedBlob
from minnow.schema.ir.compressed import pack

Array = npt.NDArray[Any]

LAYOUT = ("weight_offset", "alpha_offset", "alpha_size", "quant_bit", "quant_block")
"""The keys of `tie_embeddings`."""
_HALF, _BRAIN = "embeddings_f16.bin", "embeddings_bf16.bin"
_MOST_HALF = 65504.0


@dataclass(frozen=True)
class Table:
    """A table of tokens as a file.

    Attributes:
        name: of the file; empty where the table is among the weights.
        content: its bytes.
        layout: what `tie_embeddings` says of it: offset of the rows, offset and bytes of the scales, bits, and numbers
            with one scale; empty for bfloat16.
        exact: it has the numbers of the source.
        half: the scales are in float16.
    """

    name: str
    content: bytes
    layout: list[int]
    exact: bool = True
    half: bool = False

    def settings(self) -> dict[str, Any] | list[int]:
        """What `tie_embeddings` is: a list, which older runtimes know, too, unless the scales are in float16."""
        return {**dict(zip(LAYOUT, self.layout, strict=True)), "alpha_dtype": "fp16"} if self.half else self.layout

    def among(self, net: Mapping[str, Any], weights: Path) -> Table:
        """The same table as a part of the weights, where a layer has it, too; else the table itself.

        Args:
            net: the graph, whose numbers are in the file `weights`.
        """
        if not self.layout or self.layout[3] > 8:
            return self
        _, size, _, bits, _ = self.layout
        data = np.memmap(weights, np.uint8, mode="r")
        scales = np.frombuffer(self.content, np.float32, offset=size)
        for op in net["oplists"]:
            main = op.get("main") or {}
            stored, place = main.get("quanParameter") or {}, main.get("external")
            # An offset is that of another code here than it is there.
            if place is None or stored.get("type") != 1 or stored.get("aMaxOrBits") != bits or stored.get("readType"):
                continue
            begin, stream, alpha = (int(n) for n in place[:3])
            head, kind = stream - size, np.float16 if stored.get("scaleStorage") == "FP16" else np.float32
            if head <= 0 or alpha != scales.size * np.dtype(kind).itemsize:
                continue
            end = begin + stream
            found = data[end : end + alpha].view(kind).astype(np.float32)
            if np.array_equal(found, scales) and data[begin + head : end].tobytes() == self.content[:size]:
                layout = [begin + head, end, alpha, bits, self.layout[4]]
                return replace(self, name="", content=b"", layout=layout, half=kind is np.float16)
        return self


def table_of(blob: Blob) -> Table:
    """The file for a table [tokens, hidden], with as few roundings as there can be."""
    if isinstance(blob, QuantizedBlob) and blob.shape[1] % blob.groups[1] == 0:
        return _packed(blob)
    if isinstance(blob, RoundedBlob) and blob.stored is DType.BF16:
        return Table(_BRAIN, blob.rounded().tobytes(), [])
    numbers = np.asarray(blob.numpy(), np.float32)
    if np.abs(numbers).max(initial=0) > _MOST_HALF:
        brain = numbers.astype(DType.BF16.numpy)
        return Table(_BRAIN, brain.tobytes(), [], bool(np.array_equal(brain.astype(np.float32), numbers)))
    half = numbers.astype(np.float16)
    return Table(_HALF, half.tobytes(), [0, 0, 0, 16, 0], bool(np.array_equal(half.astype(np.float32), numbers)))


def _packed(blob: QuantizedBlob) -> Table:
    """Codes as they are, in 8 bits unless they have 4 or fewer; scales in float32.

    Without an offset, code 2^(bits - 1) stands for 0; with one, the offset is the number of that code.
    """
    bits, length = (4 if blob.bits <= 4 and blob.groups[1] % 2 == 0 else 8), blob.groups[1]
    codes, scale, low = blob.parts()
    scale = scale.astype(np.float32)
    if low is None and bits != blob.bits:
        low = -np.float32(1 << (blob.bits - 1)) * scale
    rows = pack(codes, bits)
    if low is not None:
        scale = np.stack([low.astype(np.float32) + np.float32(1 << (bits - 1)) * scale, scale], 1)
    scales = np.ascontiguousarray(scale).tobytes()
    return Table(f"embeddings_int{bits}.bin", rows + scales, [0, len(rows), len(scales), bits, length])
