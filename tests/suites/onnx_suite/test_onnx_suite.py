"""ONNX's own backend tests, each through a converted, written and loaded file.

What does not pass stands in `not_passing.txt`, by reason. A line there is a claim as well: such a case has to be
refused, or to differ, as its section says, and a case that passes has to leave the list. The list may only shrink.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

# The suite keeps copies of its larger models in a folder of its own, by default in the user's home.
os.environ["ONNX_HOME"] = tempfile.mkdtemp(prefix="minnow-onnx-suite-")

import numpy as np
import pytest
from not_passing import check, read

from minnow.schema.errors import UnsupportedError

# Each of these computes for seconds when it is imported: their cases are made by the tests that run them.
LATE = {"export_averagepool_3d_default", "export_lppool_3d_default", "export_maxpool_3d_default"}
_late: dict[str, Callable[[], None]] = {}


def _exported(cls: type, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> None:
    """Makes the cases of a class of the suite, as the suite does, but not its texts for the documentation."""
    type.__init__(cls, name, bases, members)
    for key in members:
        if key in LATE:
            _late["test_" + key.removeprefix("export_")] = getattr(cls, key)
        elif key.startswith("export"):
            np.random.seed(0)
            getattr(cls, key)()


with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patched:
    warnings.simplefilter("ignore")  # of the generators of the cases: overflows that they mean
    from onnx.backend.test import BackendTest
    from onnx.backend.test.case import base

    import minnow.backend

    patched.setattr(base._Exporter, "__init__", _exported)

    class Candidate(minnow.backend.Backend):
        @classmethod
        def is_compatible(cls, model: Any, device: str = "CPU", **kwargs: Any) -> bool:
            return True  # what it is not compatible with has to be on the list, not to be skipped

    def _made() -> dict[str, Callable[[], None]]:
        return {
            name.removesuffix("_cpu"): getattr(suite(), name)
            for suite in BackendTest(Candidate, __name__).test_cases.values()
            for name in vars(suite)
            if name.startswith("test_") and name.endswith("_cpu")
        }

    CASES = _made()


def _now(name: str) -> Callable[[], None]:
    def run() -> None:
        np.random.seed(0)
        _late[name]()
        _made()[name]()

    return run


assert len(_late) == len(LATE)
assert not _late.keys() & CASES.keys()
CASES = dict(sorted({**CASES, **{name: _now(name) for name in _late}}.items()))

LIST = Path(__file__).with_name("not_passing.txt")
_OUTCOMES: dict[str, Any] = {"refused": UnsupportedError, "differs": (AssertionError, TypeError)}


KNOWN = read(LIST)


def test_the_list_names_cases_and_reasons():
    check(KNOWN, CASES, _OUTCOMES)


@pytest.mark.sampled(6)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CASES)
def test_case(case: str):
    if case not in KNOWN:
        CASES[case]()
        return
    outcome, _ = KNOWN[case]
    with pytest.raises(_OUTCOMES[outcome]):  # if it passes: take its line out
        CASES[case]()
