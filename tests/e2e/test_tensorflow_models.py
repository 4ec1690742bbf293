"""Real TFLite and TensorFlow models, all the way: convert, verify, reproduce the recorded run, know what they see."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from e2e.shared_models import SHARED, Converted, RealModel, converter, models, needs_models
from PIL import Image

import minnow
from minnow.runtime.verify.comparison import compare
from minnow.schema.errors import UnsupportedError

pytestmark = needs_models

MODELS = [*models("tflite", ".tflite"), *models("tensorflow", ".pb"), *models("saved_model", "")]
SHAPES = {"gru_frozen.pb": {"X": (1, 784), "keep_prob": ()}}
"""Of inputs whose rank the file does not tell, nor the nodes that read them."""
FACES_ONLY = {"mtcnn.pb", "mtcnn_1.12.pb"}
"""They find nothing in random numbers, and then have no outputs to compare."""
Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Converted:
    """Path of the `.mnn` of a model, converted once: what it gives is for the test to judge."""
    return converter(tmp_path_factory.mktemp("converted"), inputs=SHAPES, verify=False)


@pytest.fixture(scope="module")
def verified(tmp_path_factory: pytest.TempPathFactory) -> Converted:
    """The same, verified."""
    return converter(tmp_path_factory.mktemp("verified"), inputs=SHAPES, on_recording=FACES_ONLY)


def named(name: str) -> RealModel:
    return next(m for m in MODELS if m.path.name == name)


def by_name(arrays: Mapping[str, Array], infos: list[Any]) -> dict[str, Array]:
    """Recorded arrays by our names: a TensorFlow tensor is "node:0", and nameless ones are counted."""
    names = [info.name for info in infos]
    return {n if n in names else names[int(n)] if n.isdigit() else n.removesuffix(":0"): a for n, a in arrays.items()}


@pytest.mark.sampled(10)
@pytest.mark.parametrize(
    "model", [pytest.param(m, marks=[pytest.mark.slow] * (m.path.name in FACES_ONLY)) for m in MODELS], ids=str
)
def test_converts_and_verifies(model: RealModel, verified: Converted) -> None:
    assert verified(model).stat().st_size > 0


def test_a_detector_that_finds_nothing_is_not_said_to_be_right(tmp_path: Path) -> None:
    path = named("mtcnn.pb").path
    found = minnow.convert(path, output=tmp_path / "m.mnn").verification
    assert found is not None
    assert found.verdict == "inconclusive"
    assert {o.name for c in found.cases for o in c.outputs if o.inconclusive} == {"prob", "landmarks", "box"}
    numbers = {name.removesuffix(":0"): array for name, array in named("mtcnn.pb").recording()[0].items()}
    picture = SHARED / "images" / "faces_mtcnn_test1.jpg"
    found = minnow.verify(
        path, tmp_path / "m.mnn", data=picture, inputs={n: a for n, a in numbers.items() if n != "input"}
    )
    assert found.passed, str(found)
    assert found.worst["box"].shape[0] >= 2


def check(name: str, got: Array, want: Array) -> None:
    """Floats within 1e-4 of their scale, integers that stand for real numbers within one, or the same best of them."""
    if want.dtype.kind in "iu" and want.dtype.itemsize == 1:
        assert got.shape == want.shape
        assert got.dtype == want.dtype
        apart = np.abs(got.astype(int) - want).max(initial=0)
        assert apart <= 1 or got.argmax() == want.argmax(), f"{name}: {apart} quanta apart"
        return
    result = compare(name, got, want)
    assert result.passed, str(result)


# What was recorded was computed with other kernels than those of the reference, which round integers otherwise.
ROUNDED_OTHERWISE = {
    "deeplabv3_mnv2_pascal_quant.tflite",
    "movenet_single_pose_lightning_ptq.tflite",
    "model_quant_2.tflite",
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("model", [m for m in MODELS if m.path.name not in ROUNDED_OTHERWISE], ids=str)
def test_reproduces_the_recorded_run(model: RealModel, threads: int, converted: Converted) -> None:
    inputs, outputs = model.recording()
    session = minnow.load(converted(model), threads=threads)
    got = session.run(by_name(inputs, session.inputs))
    for name, want in by_name(outputs, session.outputs).items():
        check(name, got[name], want)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("level", [0, 1, 3])
@pytest.mark.parametrize("model", [m for m in MODELS if m.path.name not in ROUNDED_OTHERWISE], ids=str)
def test_every_level_gives_the_same(model: RealModel, level: int, tmp_path: Path) -> None:
    inputs, outputs = model.recording()
    minnow.convert(model.path, output=tmp_path / "m.mnn", optimize=level, verify=False)
    session = minnow.load(tmp_path / "m.mnn", threads=1)
    got = session.run(by_name(inputs, session.inputs))
    for name, want in by_name(outputs, session.outputs).items():
        check(name, got[name], want)


def photo(name: str, size: tuple[int, int]) -> Array:
    image = Image.open(SHARED / "images" / name).convert("RGB")
    return np.asarray(image.resize(size, Image.Resampling.BILINEAR))[None]


def only(session: Any, array: Array) -> Array:
    """What a model of one input and output gives."""
    return session.run({session.inputs[0].name: array})[session.outputs[0].name]


@pytest.mark.parametrize(("file", "label"), [("cat_720p.jpg", "cat"), ("pets.jpg", "terrier")])
def test_an_image_net_classifier_knows_animals(file: str, label: str, converted: Converted) -> None:
    model = named("mobilenet_v2_1.0_224_quant.tflite")
    session = minnow.load(converted(model))
    scores = only(session, photo(file, (224, 224)))
    lines = (model.path.parent / "imagenet_labels.txt").read_text().splitlines()
    names = {int(line.split(maxsplit=1)[0]): line.split(maxsplit=1)[1] for line in lines}
    assert any(label in names[int(i)] for i in scores[0].argsort()[-3:])


@pytest.mark.slow
def test_a_segmentation_finds_cats_and_dogs(converted: Converted) -> None:
    model = named("deeplabv3_mnv2_pascal_quant.tflite")
    session = minnow.load(converted(model))
    classes = only(session, photo("pets.jpg", (513, 513)))
    labels = (model.path.parent / "pascal_voc_segmentation_labels.txt").read_text().split()
    seen = {labels[i] for i, n in enumerate(np.bincount(classes.reshape(-1), minlength=21)) if n > 5000}
    assert seen & {"cat", "dog"}


def test_a_segmentation_agrees_with_the_recorded_one(converted: Converted) -> None:
    model = named("deeplabv3_mnv2_pascal_quant.tflite")
    inputs, outputs = model.recording()
    got = minnow.load(converted(model)).run(inputs)
    assert np.mean(got["ArgMax"] == outputs["ArgMax"]) > 0.95


@pytest.mark.parametrize(("file", "person"), [("person.bmp", True), ("no_person.bmp", False)])
def test_a_person_is_seen(file: str, person: bool, converted: Converted) -> None:
    model = named("person_detect.tflite")
    grey = np.asarray(Image.open(model.path.parent / file).convert("L"))[None, :, :, None]
    scores = only(minnow.load(converted(model)), grey.view(np.int8))[0]
    assert (scores[1] > scores[0]) == person


@pytest.mark.parametrize("x", [0.0, 1.0, 2.5, 4.0, 6.0])
def test_a_sine_is_one(x: float, converted: Converted) -> None:
    session = minnow.load(converted(named("hello_world_float.tflite")))
    assert abs(only(session, np.array([[x]], np.float32)).item() - np.sin(x)) < 0.15


def test_a_model_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    for name in ("hello_world_int8.tflite", "pnet.pb"):
        whole = named(name).path.read_bytes()
        for part in (0.2, 0.5, 0.9):
            cut = tmp_path / name
            cut.write_bytes(whole[: int(len(whole) * part)])
            with pytest.raises((minnow.errors.FormatError, minnow.errors.ModelError, UnsupportedError)):
                minnow.convert(cut, output=tmp_path / "m.mnn", verify=False)
            assert not (tmp_path / "m.mnn").exists()
