"""Models made by TensorFlow, each through a converted, written and loaded file, against TensorFlow and LiteRT.

What does not pass stands in `not_passing.txt`, by reason. A line there is a claim as well: such a case has to be
refused, to differ, or not to be made by TensorFlow at all, as its section says, and a case that passes has to leave
the list. The list may only shrink. Making the files takes two minutes, once for a state of the declarations: the
everyday tests make an eighth of them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from not_passing import check, read

import minnow
from minnow.schema.errors import ModelError, UnsupportedError
from tf_suite.case import identities, load_all
from tf_suite.generate import cached, in_sample
from tf_suite.judge import KIND_TOLERANCE, difference

LIST = Path(__file__).with_name("not_passing.txt")
ERRORS = {"refused": UnsupportedError, "invalid": ModelError}
OUTCOMES = (*ERRORS, "differs", "not made")
NAMES = [name for name, _, _ in identities(load_all())]

pytestmark = pytest.mark.skipif(
    not (find_spec("tensorflow") and find_spec("ai_edge_litert")), reason="TensorFlow and LiteRT make the models"
)


KNOWN = read(LIST)


@pytest.fixture(scope="session")
def made() -> Callable[[bool], tuple[Path, dict[str, Any]]]:
    """The files and their manifest; of the sample or of all."""
    return cache(lambda sample: cached(sample=sample))


def test_the_list_names_cases_and_reasons():
    check(KNOWN, NAMES, OUTCOMES)


def differences(path: Path, entry: dict[str, Any], tolerance: float, target: Path, level: int) -> list[str]:
    """What is wrong with the outputs of a converted model, over all steps."""
    minnow.convert(path, output=target, optimize=level, verify=False)
    session = minnow.load(target, threads=1)
    arrays = np.load(path.with_suffix(".npz"))
    wrong = []
    for step in sorted({name.partition("/")[0] for name in arrays.files}):
        feed = {n.split("/", 2)[2]: arrays[n] for n in arrays.files if n.startswith(f"{step}/in/")}
        results = session.run(feed)
        for n in (n for n in arrays.files if n.startswith(f"{step}/out/")):
            name = n.split("/", 2)[2]
            if name not in results:
                wrong.append(f"there is no output {name}, only {', '.join(results)}")
            elif text := difference(results[name], arrays[n], tolerance, entry["quanta"].get(name, 0.0)):
                wrong.append(f"step {step}, {name}: {text}")
    return wrong


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if in_sample(n) else pytest.mark.slow) for n in NAMES])
def test_case(name: str, made: Callable[[bool], tuple[Path, dict[str, Any]]], tmp_path: Path):
    folder, manifest = made(in_sample(name))
    outcome, _ = KNOWN.get(name, ("passes", ""))
    entry, kind = manifest[name], name.rpartition(".")[2]
    assert ("not made" in entry) == (outcome == "not made"), entry
    if "not made" in entry:
        return
    tolerance = max(entry["tolerance"], KIND_TOLERANCE.get(kind, 0.0))
    for level in (2, 0) if zlib.crc32(name.encode()) % 5 == 0 else (2,):
        place = folder / entry["file"], entry, tolerance, tmp_path / "model.mnn", level
        if outcome in ERRORS:
            with pytest.raises(ERRORS[outcome]):  # if it passes: take its line out
                differences(*place)
        else:
            wrong = differences(*place)
            assert bool(wrong) == (outcome == "differs"), f"level {level}: {'; '.join(wrong)}"
