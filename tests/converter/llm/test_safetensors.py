"""safetensors files: what the package `safetensors` has written, and files that are damaged."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from minnow.converter.llm.safetensors import read_tensors
from minnow.schema.errors import FormatError, UnsupportedError


def test_tensors_are_those_of_safetensors(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    tensors = {
        "a": rng.standard_normal((3, 5)).astype(np.float32),
        "b.weight": rng.standard_normal((7,)).astype(np.float16),
        "c": rng.standard_normal((2, 1, 3)).astype(np.float64),
        "empty": np.zeros((0, 4), np.float32),
        "one": np.array(3.5, np.float32),
        "places": np.arange(4),
    }
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    found = read_tensors(tmp_path / "model.safetensors")
    assert set(found) == set(tensors) - {"places"}
    for name, blob in found.items():
        assert blob.shape == tensors[name].shape
        assert np.array_equal(blob.numpy(), tensors[name].astype(np.float32)), name


def _file(table: Any, data: bytes = b"", size: int | None = None) -> bytes:
    head = table if isinstance(table, bytes) else json.dumps(table).encode()
    return struct.pack("<Q", len(head) if size is None else size) + head + data


def _entry(shape: Any = (2,), offsets: Any = (0, 8), dtype: Any = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "cut off"),
        (b"\x08\0\0", "cut off"),
        (_file({}, size=1 << 63), "cut off"),
        (_file({}, size=3), "cut off"),
        (_file(b"{", bytes(8)), "JSON is invalid"),
        (_file(b"\xff\xff"), "JSON is invalid"),
        (_file(b"[" * 200_000), "JSON is invalid"),
        (_file(b'{"a": 1, "a": 2}'), "there twice|invalid"),
        (_file([1]), "is no table"),
        (_file({"a": 3}), "table of tensors is invalid"),
        (_file({"a": {}}), "shape or place"),
        (_file({"a": _entry(shape=[-2])}, bytes(8)), "shape or place"),
        (_file({"a": _entry(shape=[True])}, bytes(8)), "shape or place"),
        (_file({"a": _entry(shape=[1] * 9)}, bytes(8)), "shape or place"),
        (_file({"a": _entry(shape=[1 << 60, 1 << 60])}, bytes(8)), "shape or place"),
        (_file({"a": _entry(offsets=[0, 8, 8])}, bytes(8)), "shape or place"),
        (_file({"a": _entry(dtype="F33")}, bytes(8)), "unknown type"),
        (_file({"a": _entry(dtype=["F32"])}, bytes(8)), "unknown type"),
        (_file({"a": _entry(offsets=[0, 12])}, bytes(12)), "has 12 bytes"),
        (_file({"a": _entry(offsets=[8, 0])}, bytes(12)), "has -8 bytes"),
        (_file({"a": _entry()}, bytes(7)), "not within the file"),
        (_file({"a": _entry(), "b": _entry(offsets=[4, 12])}, bytes(12)), "overlap"),
    ],
)
def test_damaged_files_are_refused(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=message):
        read_tensors(path)


def test_floats_of_8_bits_are_refused(tmp_path: Path) -> None:
    data = np.zeros(4, ml_dtypes.float8_e4m3fn).tobytes()
    (tmp_path / "m").write_bytes(_file({"w": _entry([4], [0, 4], "F8_E4M3")}, data))
    with pytest.raises(UnsupportedError, match="8 bits"):
        read_tensors(tmp_path / "m")
