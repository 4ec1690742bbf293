"""Files that releases of MNN's converter wrote, kept as they were: each loads and gives what its source computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import minnow
from minnow.schema.errors import UnsupportedError

from .judge import difference
from .keep import FILES

NAMES = [str(p.relative_to(FILES).with_suffix("")) for p in sorted(FILES.glob("*/*.mnn"))]
TOLERANCE = 1e-3
"""As the corpus has it: what MNN gave was that near, too."""


def wrong(file: Path, data: Path) -> str:
    """What is wrong with the outputs of a file, "" for nothing."""
    arrays = np.load(data)
    got = minnow.load(file, threads=1).run({n[3:]: a for n, a in arrays.items() if n.startswith("in/")})
    rows = data.stem.partition("_")[2].startswith("detection")
    found = []
    for name in (n for n in arrays.files if n.startswith("out/")):
        quantum = arrays[f"quantum/{name[4:]}"] if f"quantum/{name[4:]}" in arrays.files else 0.0
        text = difference(got[name[4:]], arrays[name], TOLERANCE, float(quantum), rows)
        found += [f"{name[4:]}: {text}"] if text else []
    return "; ".join(found)


def test_there_are_files():
    assert len(NAMES) > 100
    assert sum(p.stat().st_size for p in FILES.glob("*/*")) < 400_000


@pytest.mark.parametrize("name", NAMES)
def test_a_file_gives_what_it_gave(name: str):
    assert wrong(FILES / f"{name}.mnn", FILES / f"{name}.npz") == ""


@pytest.mark.parametrize("name", NAMES)
def test_a_file_can_be_optimized_again(name: str, tmp_path: Path):
    """What has no counterpart among our ops goes through as it is."""
    target = tmp_path / "model.mnn"
    refused = {"-static": "fixed shapes", "odd.int8_float": "8-bit tensors and channels last"}
    if reason := next((r for suffix, r in refused.items() if name.endswith(suffix)), ""):
        with pytest.raises(UnsupportedError, match=reason):
            minnow.convert(FILES / f"{name}.mnn", output=target, verify=False)
        assert not target.exists()
        return
    minnow.convert(FILES / f"{name}.mnn", output=target, verify=False)
    assert wrong(target, FILES / f"{name}.npz") == ""
