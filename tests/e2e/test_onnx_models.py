"""Real ONNX models, all the way: convert, verify, reproduce the recorded run, say what they said about known photos."""

from __future__ import annotations

import os
import subprocess
import sys
import wave

import numpy as np
import pytest
from e2e.shared_models import SHARED, RealModel, converter, models, needs_models
from PIL import Image

import minnow
from minnow.runtime.verify.comparison import compare

pytestmark = needs_models

MODELS = models("onnx", ".onnx")
LARGE_PICTURES = {"candy.onnx"}
"""Half a million pixels through a network that keeps all of them: comparing takes half a minute."""


@pytest.fixture(scope="module")
def converted(tmp_path_factory):
    """Path of the `.mnn` of a model, converted once: what it gives is for the test to judge."""
    return converter(tmp_path_factory.mktemp("converted"), verify=False)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "model", [pytest.param(m, marks=pytest.mark.slow if str(m) in LARGE_PICTURES else ()) for m in MODELS], ids=str
)
def test_converts_and_verifies(model, tmp_path):
    assert converter(tmp_path)(model).stat().st_size > 0


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("model", [m for m in MODELS if m.recorded], ids=str)
def test_reproduces_the_recorded_run(model, threads, converted):
    inputs, outputs = model.recording()
    session = minnow.load(converted(model), threads=threads)
    got = session.run(inputs)
    for name, want in outputs.items():
        result = compare(name, got[name], want)
        assert result.passed, str(result)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("level", [0, 1, 3])
@pytest.mark.parametrize("model", [m for m in MODELS if m.recorded], ids=str)
def test_every_level_gives_the_same(model, level, tmp_path):
    inputs, outputs = model.recording()
    minnow.convert(model.path, output=tmp_path / "m.mnn", optimize=level, verify=False)
    got = minnow.load(tmp_path / "m.mnn", threads=1).run(inputs)
    for name, want in outputs.items():
        result = compare(name, got[name], want)
        assert result.passed, str(result)


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_two_conversions_give_the_same_bytes(model, tmp_path):
    for seed in ("1", "2"):
        code = f"import minnow; minnow.convert({str(model.path)!r}, output={str(tmp_path / seed)!r}, verify=False)"
        subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONHASHSEED": seed})
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


def named(name: str) -> RealModel:
    return next(m for m in MODELS if m.path.name == name)


def photo(name: str, size: tuple[int, int]) -> np.ndarray:
    return np.asarray(Image.open(SHARED / "images" / name).convert("RGB").resize(size, Image.Resampling.BILINEAR))


@pytest.mark.parametrize(
    ("file", "label"),
    [
        ("cat_720p.jpg", "Egyptian cat"),
        ("pets.jpg", "whippet"),
        ("image.png", "Samoyed"),
        ("owl.jpg", "prairie chicken"),
    ],
)
def test_squeezenet_names_what_it_sees(file, label, converted):
    model = named("SqueezeNet_fp16.onnx")
    labels = (model.path.parent / "Labels.txt").read_text().splitlines()
    pixels = photo(file, (224, 224))[..., ::-1].transpose(2, 0, 1)[None]
    scores = minnow.load(converted(model)).run({"data_0": pixels.astype(np.float16)})["softmaxout_1"]
    assert label in labels[int(scores.reshape(-1).argmax())]


def overlap(box: np.ndarray, others: np.ndarray) -> np.ndarray:
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    common = np.prod(np.clip(high - low, 0, None), axis=1)
    area = np.prod(box[2:] - box[:2]) + np.prod(others[:, 2:] - others[:, :2], axis=1)
    return common / (area - common)


def faces(scores: np.ndarray, boxes: np.ndarray) -> int:
    """Faces above 0.7 after suppression of those that overlap by 0.3."""
    order = [i for i in np.argsort(-scores) if scores[i] > 0.7]
    kept: list[int] = []
    for i in order:
        if not kept or (overlap(boxes[i], boxes[kept]) <= 0.3).all():
            kept.append(i)
    return len(kept)


def decoded(offsets: np.ndarray) -> np.ndarray:
    """Corners from the raw output of the detector: offsets from the prior boxes of its four feature maps."""
    priors = []
    for stride, sides in ((8, (10, 16, 24)), (16, (32, 48)), (32, (64, 96)), (64, (128, 192, 256))):
        rows, columns = -(-240 // stride), -(-320 // stride)
        for y in range(rows):
            for x in range(columns):
                priors += [((x + 0.5) / columns, (y + 0.5) / rows, side / 320, side / 240) for side in sides]
    prior = np.array(priors)
    center = offsets[:, :2] * 0.1 * prior[:, 2:] + prior[:, :2]
    size = np.exp(offsets[:, 2:] * 0.2) * prior[:, 2:]
    return np.concatenate([center - size / 2, center + size / 2], axis=1)


@pytest.mark.parametrize(
    "name",
    ["version-RFB-320.onnx", "version-RFB-320_without_postprocessing.onnx", "version-slim-320_simplified.onnx"],
)
@pytest.mark.parametrize(
    ("file", "count"), [("face.jpg", 4), ("2.jpg", 4), ("faces_mtcnn_test1.jpg", 2), ("cat_720p.jpg", 0)]
)
def test_ultraface_finds_the_faces(name, file, count, converted):
    pixels = (photo(file, (320, 240)).astype(np.float32) - 127) / 128
    out = minnow.load(converted(named(name))).run({"input": pixels.transpose(2, 0, 1)[None]})
    boxes = out["boxes"][0] if name == "version-RFB-320.onnx" else decoded(out["boxes"][0])
    assert faces(out["scores"][0, :, 1], boxes) == count


def speech(chunks: int) -> np.ndarray:
    with wave.open(str(SHARED / "audio" / "test.wav")) as file:
        assert file.getframerate() == 16000
        samples = np.frombuffer(file.readframes(chunks * 512), np.int16)
    return samples.astype(np.float32) / 32768


def test_the_variants_of_silero_agree(converted):
    chunks = 100
    samples = speech(chunks)
    results = {}
    for name in ("silero_vad", "silero_vad_16k_op15", "silero_vad_op18_ifless"):
        session = minnow.load(converted(named(f"{name}.onnx")))
        state, context = np.zeros((2, 1, 128), np.float32), np.zeros(64, np.float32)
        takes_rate = any(i.name == "sr" for i in session.inputs)
        probabilities = []
        for i in range(chunks):
            chunk = samples[512 * i : 512 * (i + 1)]
            inputs = {"input": np.concatenate([context, chunk])[None], "state": state}
            out = session.run({**inputs, "sr": np.array(16000)} if takes_rate else inputs)
            context, state = chunk[-64:], out["stateN"]
            probabilities.append(float(out["output"][0, 0]))
        results[name] = probabilities
    # The first probabilities as the models' own runtime gave them.
    np.testing.assert_allclose(results["silero_vad"][:4], [0.2083, 0.8179, 0.8912, 0.9964], atol=1e-4)
    for other in list(results.values())[1:]:
        np.testing.assert_allclose(other, results["silero_vad"], atol=1e-4)
