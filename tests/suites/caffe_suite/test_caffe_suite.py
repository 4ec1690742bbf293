"""Small Caffe nets, each through a converted, written and loaded file, against OpenCV, torch and onnxruntime.

What does not pass stands in `not_passing.txt`, by reason. A line there is a claim as well: such a case has to be
refused, or to differ, as its section says, and a case that passes has to leave the list. The list may only shrink.
"""

from __future__ import annotations

import zlib
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from not_passing import check, read
from tf_suite.judge import difference

import minnow
from caffe_suite.case import CASES, Case, load_all
from caffe_suite.judge import arranged, expected
from caffe_suite.write import write
from minnow.schema.errors import ModelError, UnsupportedError

LIST = Path(__file__).with_name("not_passing.txt")
ERRORS = {"refused": UnsupportedError, "invalid": ModelError}
NAMES = list(load_all())
KNOWN = read(LIST)

pytestmark = pytest.mark.skipif(
    not all(map(find_spec, ("cv2", "torch", "onnxruntime"))), reason="OpenCV, torch and onnxruntime judge"
)


def test_the_list_names_cases_and_reasons():
    check(KNOWN, NAMES, (*ERRORS, "differs"))


def differences(case: Case, folder: Path, level: int) -> list[str]:
    """What is wrong with the outputs of a converted net."""
    path = write(case, folder)
    target = folder / "model.mnn"
    want = expected(case, path)
    minnow.convert(path, output=target, optimize=level, verify=False)
    got = minnow.load(target, threads=1).run(case.arrays())
    wrong = [] if list(got) == list(want) else [f"outputs {list(got)}, expected {list(want)}"]
    for name in set(want) & set(got):
        found, right = got[name], want[name]
        if case.rows:
            # The judge may arrange what it finds in another way; Caffe's is asked for.
            if not np.array_equal(found.reshape(-1, 7), arranged(found)):
                wrong.append(f"{name}: rows in another order")
            found, right = arranged(found), arranged(right)
        if text := difference(found, right, case.tolerance):
            wrong.append(f"{name}: {text}")
    return wrong


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", NAMES)
def test_case(name: str, tmp_path: Path):
    outcome, _ = KNOWN.get(name, ("passes", ""))
    for level in (2, 0) if zlib.crc32(name.encode()) % 5 == 0 else (2,):
        if outcome in ERRORS:
            with pytest.raises(ERRORS[outcome]):  # if it passes: take its line out
                differences(CASES[name], tmp_path, level)
        else:
            wrong = differences(CASES[name], tmp_path, level)
            assert bool(wrong) == (outcome == "differs"), f"level {level}: {'; '.join(wrong)}"
