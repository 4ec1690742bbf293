"""Real Caffe nets, all the way: convert, verify, reproduce the recorded run, know what they see."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from e2e.shared_models import RealModel, models, needs_models

import minnow
from minnow.runtime.verify.comparison import compare

pytestmark = needs_models

MODELS = models("caffe", ".caffemodel")
Converted = Callable[[RealModel], Path]


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Converted:
    """Path of the verified `.mnn` of a net, converted once."""
    folder = tmp_path_factory.mktemp("converted")

    def convert(model: RealModel) -> Path:
        target = folder / f"{model.path.name}.mnn"
        if not target.exists():
            report = minnow.convert(model.path, output=target)
            assert report.framework == "caffe"
            assert report.verification is not None
            assert report.verification.passed
        return target

    return convert


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_converts_and_verifies(model: RealModel, converted: Converted) -> None:
    assert converted(model).stat().st_size > 0


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_reproduces_the_recorded_run(model: RealModel, threads: int, converted: Converted) -> None:
    given, wanted = model.recording()
    session = minnow.load(converted(model), threads=threads)
    found = session.run(dict(zip((i.name for i in session.inputs), given.values(), strict=True)))
    assert sorted(found) == sorted(wanted)
    for name, want in wanted.items():
        assert found[name].shape == want.shape
        result = compare(name, found[name], want)
        assert result.passed, str(result)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_the_definition_is_as_good_a_name(model: RealModel, converted: Converted, tmp_path: Path) -> None:
    definition = next(
        p for p in model.path.parent.glob("*.prototxt") if p.stem == model.path.stem or "squeeze" in model.path.stem
    )
    report = minnow.convert(definition, output=tmp_path / "m.mnn", weights=model.path, verify=False)
    assert report.nodes_after
    given, _ = model.recording()
    sessions = [minnow.load(path) for path in (converted(model), tmp_path / "m.mnn")]
    inputs = dict(zip((i.name for i in sessions[0].inputs), given.values(), strict=True))
    first, second = (s.run(inputs) for s in sessions)
    for name in first:
        np.testing.assert_array_equal(first[name], second[name])
