"""The nets of the suite in MNN's own runtime: the files we write load there, and give what is expected."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import mnn_oracle
import numpy as np
import pytest
from not_passing import read as read_list
from tf_suite.judge import difference

from caffe_suite.case import CASES, load_all
from caffe_suite.judge import arranged, expected
from caffe_suite.write import write
from minnow.converter import read
from minnow.optimizer import optimize

KNOWN = read_list(Path(__file__).with_name("not_passing.txt"))
FAMILIES = sorted({c.family for c in load_all().values()} - {"recurrent"})
"""Recurrent layers keep their states from run to run, which MNN's files cannot hold."""

pytestmark = pytest.mark.skipif(
    not mnn_oracle.PYTHON or not all(map(find_spec, ("cv2", "torch", "onnxruntime"))),
    reason="MINNOW_MNN_PYTHON does not name a Python that has MNN, or a judge is missing",
)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("family", FAMILIES)
def test_mnn_gives_what_is_expected(family: str, tmp_path: Path):
    cases = [c for c in CASES.values() if c.family == family and c.name not in KNOWN]
    jobs, wanted, chosen = [], [], []
    for case in cases:
        path = write(case, tmp_path)
        model = read(path)
        optimize(model, 2)
        if any("MNN's own runtime" in text for text in model.notices):
            continue  # it has no op for what is computed, and the user is told so
        chosen.append(case)
        jobs.append(mnn_oracle.Job(model, case.arrays()))
        wanted.append(expected(case, path))
    wrong = []
    for case, want, answer in zip(chosen, wanted, mnn_oracle.run(jobs, tmp_path / "jobs"), strict=True):
        if not answer.outputs:
            wrong.append(f"{case.name}: {answer.log}")
            continue
        for (name, right), found in zip(want.items(), answer.outputs, strict=True):
            shaped = arranged(found.reshape(-1, 7)) if case.rows else found.reshape(right.shape)
            if text := difference(shaped.astype(np.float32), arranged(right) if case.rows else right, case.tolerance):
                wrong.append(f"{case.name}, {name}: {text}")
    assert len(chosen) > len(cases) / 3 or family == "yolo"  # which is all suppression
    assert not wrong, "\n".join(wrong)
