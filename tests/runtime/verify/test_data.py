"""Files of arrays that are given to verify or run on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from minnow.runtime.verify.data import read_npz
from minnow.schema.errors import FormatError

CONTENTS = {
    "empty": b"",
    "picture": b"\xff\xd8\xff\xe0\x00\x10JFIF",
    "cut off": b"PK\x03\x04",
    "pickle": b"\x80\x04}\x94.",
}


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_what_is_no_npz_file_is_refused_without_numpys_advice_to_unpickle_it(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"not an \.npz file") as refused:
        read_npz(path)
    assert "numpy.savez" in refused.value.hint
    assert "pickle" not in str(refused.value)


def test_objects_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.array([{}], dtype=object))
    with pytest.raises(FormatError, match=r"not an \.npz file"):
        read_npz(tmp_path / "x.npz")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="No such file") as refused:
        read_npz(tmp_path / "x.npz")
    assert refused.value.where == str(tmp_path / "x.npz")
