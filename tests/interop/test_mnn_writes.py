"""What MNN's converter writes today from cases of the suites, in our engine: see `build` for all of them."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest
from caffe_suite.case import load_all
from caffe_suite.generate import MANIFEST, make

from .build import PYTHON, finish
from .run import run
from .sources import caffe_cases, onnx_cases
from .variants import add

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not PYTHON or not all(map(find_spec, ("cv2", "torch", "onnxruntime"))),
        reason="MINNOW_MNN_PYTHON does not name a Python that has MNN, or a judge is missing",
    ),
]


def outcomes(folder: Path, places: list[Path]) -> Counter[str]:
    """How our engine does with the cases that MNN runs right."""
    with (folder / "cases.jsonl").open("a") as out:
        out.writelines(json.dumps(e) + "\n" for e in finish(places))
    entries = run(folder, folder / "results.jsonl")
    found = Counter(e["outcome"] for e in entries)
    assert set(found) <= {"right", "refused", "error"}, [e for e in entries if e["outcome"] != "right"]
    return found


@pytest.mark.filterwarnings("ignore")
def test_a_sample_of_onnx_cases(tmp_path: Path):
    places = [p for p in onnx_cases(tmp_path / "cases") if zlib.crc32(p.name.encode()) % 24 == 0]
    found = outcomes(tmp_path, places)
    assert found["right"] >= 0.97 * found.total() > 20


def test_a_sample_of_caffe_cases_and_variants(tmp_path: Path):
    made = tmp_path / "made"
    made.mkdir()
    chosen = [c for c in load_all().values() if zlib.crc32(c.name.encode()) % 24 == 0]
    (made / MANIFEST).write_text(json.dumps({c.name: make(c, made) for c in chosen}))
    found = outcomes(tmp_path, list(caffe_cases(tmp_path / "cases", made)))
    assert found["right"] >= 0.97 * found.total() > 5
    places = add(tmp_path, "conv", "fp16|w8|w4block|hqq|external|static")
    found = outcomes(tmp_path, places[:60])
    assert found["right"] == found.total() > 5
