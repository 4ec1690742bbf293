"""Real Caffe nets, all the way: convert, verify, reproduce the recorded run, know what they see."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mnn_oracle
import numpy as np
import pytest
from e2e.shared_models import SHARED, Converted, RealModel, converter, models, needs_models
from PIL import Image

import minnow
from minnow.converter import read
from minnow.optimizer import optimize
from minnow.runtime.verify.comparison import compare

pytestmark = needs_models

MODELS = models("caffe", ".caffemodel")
Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Converted:
    """Path of the `.mnn` of a net, converted once: what it gives is for the test to judge."""
    return converter(tmp_path_factory.mktemp("converted"), verify=False)


def check(found: Mapping[str, Array], wanted: Mapping[str, Array]) -> None:
    """All results within 1e-4 of their scale."""
    for name, want in wanted.items():
        assert found[name].shape == want.shape
        result = compare(name, found[name], want)
        assert result.passed, str(result)


def photo(name: str, size: tuple[int, int]) -> Array:
    """A picture as [1, 3, height, width], red first, from 0 to 255."""
    image = Image.open(SHARED / "images" / name).convert("RGB").resize(size, Image.Resampling.BILINEAR)
    return np.asarray(image, np.float32).transpose(2, 0, 1)[None]


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_converts_and_verifies(model: RealModel, tmp_path: Path) -> None:
    assert converter(tmp_path)(model).stat().st_size > 0


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_reproduces_the_recorded_run(model: RealModel, threads: int, converted: Converted) -> None:
    given, wanted = model.recording()
    session = minnow.load(converted(model), threads=threads)
    found = session.run(dict(zip((i.name for i in session.inputs), given.values(), strict=True)))
    assert sorted(found) == sorted(wanted)
    check(found, wanted)


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


@pytest.mark.parametrize("level", [0, 1, 3])
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_every_level_gives_the_same(model: RealModel, level: int, tmp_path: Path) -> None:
    given, wanted = model.recording()
    minnow.convert(model.path, output=tmp_path / "m.mnn", optimize=level, verify=False)
    session = minnow.load(tmp_path / "m.mnn", threads=1)
    check(session.run(dict(zip((i.name for i in session.inputs), given.values(), strict=True))), wanted)


@mnn_oracle.needs_mnn
@pytest.mark.parametrize("real", MODELS, ids=str)
def test_mnn_runs_what_is_written(real: RealModel, tmp_path: Path) -> None:
    given, wanted = real.recording()
    model = read(real.path)
    optimize(model, 2)
    inputs = dict(zip((name for name, _ in model.inputs), given.values(), strict=True))
    (answer,) = mnn_oracle.run([mnn_oracle.Job(model, inputs, False)], tmp_path)
    assert answer.outputs is not None, answer.log
    names = [name for name, _ in model.outputs]
    found = {n: got.reshape(wanted[n].shape) for n, got in zip(names, answer.outputs, strict=True)}
    check(found, wanted)


@pytest.mark.parametrize(("file", "label"), [("cat_720p.jpg", "Egyptian cat"), ("pets.jpg", "Boston bull")])
def test_a_classifier_knows_animals(file: str, label: str, converted: Converted) -> None:
    model = next(m for m in MODELS if m.path.stem == "squeezenet_v1.0")
    mean = np.float32([104, 117, 123])[:, None, None]
    session = minnow.load(converted(model))
    scores = session.run({"data": photo(file, (227, 227))[:, ::-1] - mean})["pool_final"].reshape(-1)
    lines = (SHARED / "images" / "imagenet_labels.txt").read_text().splitlines()
    names = {int(line.split(maxsplit=1)[0]): line.split(maxsplit=1)[1] for line in lines}
    # The list of labels begins with the background, which this net does not know.
    assert label in names[int(scores.argmax()) + (len(names) - len(scores))]


@pytest.mark.parametrize(("file", "faces"), [("face.jpg", True), ("owl.jpg", False)])
def test_a_detector_sees_faces(file: str, faces: bool, converted: Converted) -> None:
    model = next(m for m in MODELS if m.path.stem == "RFB-320")
    session = minnow.load(converted(model))
    scores = session.run({"input": (photo(file, (320, 240)) - 127) / 128})["scores"]
    assert (scores[0, :, 1].max() > 0.9) == faces
