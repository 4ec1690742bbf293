"""Trained TFLite models: from file to engine, beside what LiteRT made of the same inputs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import minnow
from minnow.converter import read
from minnow.optimizer.pipeline import optimize
from minnow.schema.mnn import encode

SHARED = Path(__file__).resolve().parents[4] / "shared" / "models" / "tflite"

# What is recorded, and how many transposes stay: one for an input or output whose channels are the last axis.
FLOATS = {
    "dtln/model_1": 0,
    "hello_world/hello_world_float": 0,
    "mediapipe_face/face_detection_short_range": 5,
    "mediapipe_face/selfie_segmentation": 1,
    "mediapipe_hand/hand_landmark_lite": 1,
    "mediapipe_hand/palm_detection_lite": 5,
    "mnist_lstm/trained_lstm": 0,
    "ultraface_rfb320/version-RFB-320_without_postprocessing": 9,
}
INTEGERS = ("hello_world/hello_world_int8", "micro_speech/audio_preprocessor_int8", "person_detect_int8/person_detect")

pytestmark = pytest.mark.skipif(not SHARED.exists(), reason="the trained models are not here")


def run(name: str, folder: Path) -> tuple[minnow.Report, dict[str, np.ndarray], dict[str, np.ndarray]]:
    source = SHARED / f"{name}.tflite"
    report = minnow.convert(source, output=folder / "m.mnn", verify=False)
    session = minnow.load(folder / "m.mnn", threads=1)
    recorded = dict(np.load(source.parent / "ref" / f"{source.name}.npz"))

    def of(kind: str, name: str, position: int) -> np.ndarray:
        by_name = recorded.get(f"{kind}__{name.replace('/', '|')}")
        return recorded[f"{kind}__{position}"] if by_name is None else by_name

    got = session.run({t.name: of("in", t.name, i) for i, t in enumerate(session.inputs)})
    return report, got, {t.name: of("out", t.name, i) for i, t in enumerate(session.outputs)}


@pytest.mark.parametrize("name", FLOATS)
def test_float_models(name: str, tmp_path: Path) -> None:
    report, got, want = run(name, tmp_path)
    for output, w in want.items():
        assert (got[output].dtype, got[output].shape) == (w.dtype, w.shape)
        np.testing.assert_allclose(got[output], w, rtol=0, atol=1e-4 * np.abs(w).max())
    assert Counter(report.nodes_after)["Transpose"] <= FLOATS[name]


@pytest.mark.parametrize("name", INTEGERS)
def test_models_that_are_exact(name: str, tmp_path: Path) -> None:
    _, got, want = run(name, tmp_path)
    for output, w in want.items():
        np.testing.assert_array_equal(got[output], w)


@pytest.mark.parametrize(
    ("name", "most"),
    [("mobilenet_v2_1.0_224_quant/mobilenet_v2_1.0_224_quant", 16), ("person_detect_int8/person_detect", 4)],
)
def test_float_in_place_of_quanta(name: str, most: int, tmp_path: Path) -> None:
    """On demand all is computed in float: inputs and outputs keep their types, and the best class is the same."""
    source = SHARED / f"{name}.tflite"
    model = read(source, dequantize=True)
    assert {n.op for n in model.graph}.isdisjoint({"ConvInteger", "Requantize", "LookUp"})
    optimize(model)
    recorded = dict(np.load(source.parent / "ref" / f"{source.name}.npz"))
    given, want = (next(v for k, v in recorded.items() if k.startswith(kind)) for kind in ("in__", "out__"))
    (got,) = minnow.load(encode(model), threads=1).run({model.inputs[0][0]: given}).values()
    assert got.dtype == want.dtype
    assert got.argmax() == want.argmax()
    assert np.abs(got.astype(int) - want.astype(int)).max() <= most
