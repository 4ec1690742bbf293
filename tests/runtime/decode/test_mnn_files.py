"""Real files that MNN's own converter wrote: they give what the ONNX models give that they came from."""

from __future__ import annotations

import os

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import numpy as np
import onnxruntime
import pytest
from e2e.shared_models import SHARED, needs_models

import minnow

pytestmark = needs_models
PAIRS = {
    "RFB-320.mnn": "version-RFB-320_without_postprocessing.onnx",
    "slim-320.mnn": "version-slim-320_simplified.onnx",
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", PAIRS)
def test_gives_what_its_source_gives(name, threads):
    session = minnow.load(SHARED / "mnn" / "ultraface" / name, threads=threads)
    assert [str(i) for i in session.inputs] == ["input: float32[1, 3, 240, 320]"]
    assert {o.name: o.shape for o in session.outputs} == {"scores": (1, 4420, 2), "boxes": (1, 4420, 4)}
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    source = onnxruntime.InferenceSession(SHARED / "onnx" / "ultraface" / PAIRS[name], options)
    rng = np.random.default_rng(0)
    for _ in range(2):
        x = rng.standard_normal((1, 3, 240, 320)).astype(np.float32)
        want = dict(zip([o.name for o in source.get_outputs()], source.run(None, {"input": x}), strict=True))
        for output, got in session.run({"input": x}).items():
            np.testing.assert_allclose(got, want[output], rtol=1e-4, atol=5e-5)


def test_a_model_of_integers_finds_the_same_face():
    """In the form of earlier releases of MNN. 3.6.1 cannot run it, so it is compared with the model it was made of."""
    from PIL import Image

    with Image.open(SHARED / "images" / "face.jpg") as image:
        pixels = np.asarray(image.convert("RGB").resize((320, 240)), np.float32)
    x = ((pixels - 127) / 128).transpose(2, 0, 1)[None].copy()
    folder = SHARED / "mnn" / "ultraface"
    exact, rounded = (minnow.load(folder / n).run({"input": x}) for n in ("RFB-320.mnn", "RFB-320-quant-KL-5792.mnn"))
    for name, at_least in (("scores", 0.999), ("boxes", 0.98)):
        a, b = exact[name].reshape(-1), rounded[name].reshape(-1)
        assert a @ b / (np.linalg.norm(a) * np.linalg.norm(b)) > at_least
    best = exact["scores"][0, :, 1].argmax()
    assert exact["scores"][0, best, 1] > 0.99
    assert rounded["scores"][0, best, 1] > 0.99
    np.testing.assert_allclose(rounded["boxes"][0, best], exact["boxes"][0, best], atol=0.4)
