"""Branches of real models that only seem to hang on the input."""

from __future__ import annotations

import numpy as np
import pytest
from e2e.shared_models import SHARED, needs_models

import minnow
from minnow.converter import read
from minnow.optimizer import optimize
from minnow.schema.errors import MinnowError
from minnow.schema.mnn import encode

ort = pytest.importorskip("onnxruntime")

pytestmark = needs_models


CASES = [("silero_vad", 1, True), ("silero_vad_16k_op15", 0, True), ("silero_vad_half", 0, False)]


@pytest.mark.parametrize(("name", "most", "sampled"), CASES)
def test_squeezed_axes_of_speech_detectors(name: str, most: int, sampled: bool) -> None:
    """PyTorch squeezes an axis if it is 1; models in which it must be have no branches for that, and still check it."""
    path = SHARED / "onnx" / "silero_vad" / f"{name}.onnx"
    model = read(str(path))
    assert optimize(model).after.get("If", 0) <= most
    session, reference = minnow.load(encode(model), threads=1), ort.InferenceSession(str(path))
    rng = np.random.default_rng(0)
    for batch, length in ((1, 512), (3, 576), (2, 512)):
        inputs = {"input": rng.standard_normal((batch, length)).astype(np.float32) / 4,
                  "state": rng.standard_normal((2, batch, 128)).astype(np.float32) / 4}  # fmt: skip
        inputs |= {"sr": np.array(16000, np.int64)} if sampled else {}
        wanted = reference.run(None, {i.name: inputs[i.name] for i in reference.get_inputs()})
        got = session.run({n: inputs[n] for n, _ in model.inputs})
        for (output, _), array in zip(model.outputs, wanted, strict=True):
            np.testing.assert_allclose(got[output], array, atol=2e-5)
    long = {**inputs, "input": np.zeros((2, 1000), np.float32)}
    with pytest.raises(MinnowError, match="Squeeze"):
        session.run({n: long[n] for n, _ in model.inputs})
